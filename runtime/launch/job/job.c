#include "runtime/launch/job/job.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/parse.h"
#include "runtime/launch/job/ways.h"

enum {
    NODES_MAX = 100000,
    PORT_MAX = 65535,
    POD_ELASTIC_MS = 5000,
};

const char *const rt_mode_name[RT_MODE_COUNT] = {
    [RT_MODE_COLLECTIVE] = "collective", [RT_MODE_PS] = "ps", [RT_MODE_RPC] = "rpc"};

struct env {
    rt_plan_getenv_fn get;
    void *arg;
};

/* "": not set, or empty. */
static const char *env_get(const struct env *e, enum co_var var) {
    const char *value = e->get(e->arg, co_contract[var].name);
    return value ? value : "";
}

/* The first of the two that was given; an option's newer and its older name. */
static enum rt_option either(const struct rt_options *o, enum rt_option one, enum rt_option two) {
    return rt_option_has(o, two) && rt_option_given(o, two) ? two : one;
}

/* ---- what kind of job -------------------------------------------------------------------- */

static bool any_given(const struct rt_options *o, const enum rt_option *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (rt_option_given(o, ids[i]) && rt_option_has(o, ids[i])) {
            return true;
        }
    }
    return false;
}

static bool asks_for_ps(const struct rt_options *o) {
    static const enum rt_option ids[] = {RT_OPT_SERVER_NUM, RT_OPT_SERVERS, RT_OPT_TRAINER_NUM,
        RT_OPT_TRAINERS, RT_OPT_WORKER_NUM, RT_OPT_WORKERS, RT_OPT_HETER_WORKER_NUM,
        RT_OPT_HETER_WORKERS};
    return any_given(o, ids, CO_ARRAY_LEN(ids));
}

/* An environment that is a process's of a job with servers: paddle-operator's pods have it. */
static bool is_given(const struct rt_options *o, const struct env *e) {
    const char *mode = o->text[RT_OPT_RUN_MODE];
    return (!mode || strncmp(mode, "ps", 2) == 0) && !asks_for_ps(o) &&
           *env_get(e, CO_VAR_PSERVERS) && *env_get(e, CO_VAR_TRAINING_ROLE);
}

static enum rt_mode mode_of(const struct rt_options *o, bool given) {
    const char *mode = o->text[RT_OPT_RUN_MODE];
    if (given || asks_for_ps(o) || (mode && strncmp(mode, "ps", 2) == 0)) {
        return RT_MODE_PS;
    }
    return mode && strcmp(mode, "rpc") == 0 ? RT_MODE_RPC : RT_MODE_COLLECTIVE;
}

/* A pod that the operator made for an elastic job, and whose command leaves the rest to it. */
static bool is_elastic_pod(const struct rt_options *o, const struct env *e) {
    return *env_get(e, CO_VAR_ELASTIC_JOB_ID) && *env_get(e, CO_VAR_ELASTIC_NP) &&
           !rt_option_given(o, RT_OPT_NNODES) && !rt_option_given(o, RT_OPT_NP);
}

/* Jobs that share an etcd are kept apart by it. */
static const char *job_id(const struct rt_options *o, const struct env *e) {
    const char *elastic = env_get(e, CO_VAR_ELASTIC_JOB_ID);
    return *elastic && !rt_option_given(o, RT_OPT_JOB_ID) ? elastic : o->text[RT_OPT_JOB_ID];
}

static int parse_nodes(struct rt_job *j, const struct env *e, struct co_err *err) {
    enum rt_option id = either(j->options, RT_OPT_NNODES, RT_OPT_NP);
    const char *text = j->options->text[id];
    const char *what = rt_option_rows[id].name;
    if (is_elastic_pod(j->options, e)) {
        text = env_get(e, CO_VAR_ELASTIC_NP);
        what = co_contract[CO_VAR_ELASTIC_NP].name;
    }
    CO_AUTOFREE char *min = co_xstrndup(text, strcspn(text, ":"));
    const char *max = strchr(text, ':');
    int64_t a = 0, b = 0;
    int r = co_parse_i64(what, min, 1, NODES_MAX, &a, err);
    r = r || !max ? r : co_parse_i64(what, max + 1, a, NODES_MAX, &b, err);
    j->nodes_min = (int)a;
    j->nodes_max = (int)(max ? b : a);
    j->elastic = max;
    if (!r && j->options->text[RT_OPT_SCRIPT] &&
        strcmp(j->options->text[RT_OPT_SCRIPT], "run_check") == 0 && j->nodes_max < 2) {
        j->nodes_min = j->nodes_max = 2; /* as Paddle has it */
    }
    return r;
}

static const char *own_ip(const struct rt_job *j) {
    const char *host = j->options->text[RT_OPT_HOST];
    struct in6_addr v6;
    bool is_v6 = host && inet_pton(AF_INET6, host, &v6) == 1;
    return host && (is_v6 || strchr(host, '.')) ? host : j->node->ip;
}

/* ---- processes of this node -------------------------------------------------------------- */

/* kubeflow's operator tells servers PADDLE_SERVER_NUM and trainers PADDLE_TRAINER_NUM: who is
 * told the one is none of the other. */
static size_t count_of(const struct rt_options *o, enum rt_option mine, enum rt_option other) {
    if (o->number[mine] >= 0) {
        return (size_t)o->number[mine];
    }
    return o->origin[other] == RT_FROM_ENVIRONMENT && o->number[other] > 0 ? 0 : 1;
}

static int count_ps(struct rt_job *j, struct co_err *err) {
    const struct rt_options *o = j->options;
    enum rt_option trainers = either(o, RT_OPT_TRAINER_NUM, RT_OPT_WORKER_NUM);
    j->n[RT_SEAT_SERVER] = count_of(o, RT_OPT_SERVER_NUM, trainers);
    j->n[RT_SEAT_TRAINER] = count_of(o, trainers, RT_OPT_SERVER_NUM);
    if (rt_option_has(o, RT_OPT_HETER_WORKER_NUM)) {
        int r = rt_stages_parse(
            "--heter_worker_num", o->text[RT_OPT_HETER_WORKER_NUM], &j->stages, err);
        if (r) {
            return r;
        }
    }
    j->n[RT_SEAT_HETER] = rt_stages_workers(&j->stages);
    bool alone = j->way == RT_WAY_ALONE;
    if (alone && (j->n[RT_SEAT_SERVER] == 0 || j->n[RT_SEAT_TRAINER] == 0)) {
        return co_err_set(err, CO_INVALID,
            "%zu servers and %zu trainers on the only node: expected at least one of each",
            j->n[RT_SEAT_SERVER], j->n[RT_SEAT_TRAINER]);
    }
    if (rt_job_processes(j) == 0) {
        return co_err_set(err, CO_INVALID, "neither servers nor trainers on this node");
    }
    j->n_ports = rt_job_processes(j) + 1;
    return 0;
}

static int select_devices(struct rt_job *j, struct co_err *err) {
    const struct rt_list *visible = &j->node->visible;
    struct rt_list asked = {0};
    rt_list_split(&asked, j->options->text[RT_OPT_DEVICES] ? j->options->text[RT_OPT_DEVICES] : "");
    int r = 0;
    for (size_t i = 0; i < (asked.n ? asked.n : visible->n) && !r; i++) {
        size_t at = 0;
        while (asked.n && at < visible->n && strcmp(visible->item[at], asked.item[i]) != 0) {
            at++;
        }
        if (asked.n && visible->n && at == visible->n) {
            CO_AUTOFREE char *list = rt_list_join(visible, ",");
            r = co_err_set(err, CO_INVALID, "Device not found %s from %s for setting %s",
                asked.item[i], j->options->text[RT_OPT_DEVICES], list);
        } else if (asked.n && !visible->n) {
            rt_list_add(&j->devices, asked.item[i]);
        } else {
            rt_list_add_own(&j->devices, co_xasprintf("%zu", asked.n ? at : i));
        }
    }
    rt_list_done(&asked);
    return r;
}

static int count_trainers(struct rt_job *j, struct co_err *err) {
    int r = select_devices(j, err);
    int64_t asked = j->options->number[RT_OPT_NPROC_PER_NODE];
    size_t n = asked > 0 ? (size_t)asked : j->devices.n ? j->devices.n : 1;
    if (!r && j->devices.n && n > j->devices.n) {
        return co_err_set(err, CO_INVALID,
            "nproc_per_node is %zu, but there are %zu devices: expected one for each process", n,
            j->devices.n);
    }
    j->n[RT_SEAT_TRAINER] = n;
    j->n_ports = j->way == RT_WAY_ALONE || j->way == RT_WAY_MEET ? n + 1 : 0;
    return r;
}

/* Endpoints in the environment: one a node, whose ports go on, or one a process. */
static int check_endpoints(struct rt_job *j, const struct env *e, struct co_err *err) {
    const size_t n = j->n[RT_SEAT_TRAINER];
    const char *span = env_get(e, CO_VAR_PORTS_NUM);
    int64_t ports = CO_PORT_SPAN;
    if (*span && co_parse_i64(co_contract[CO_VAR_PORTS_NUM].name, span, 1, PORT_MAX, &ports, err)) {
        return err ? err->code : CO_INVALID;
    }
    if (j->endpoints.n == j->hosts.n * n || (j->endpoints.n == j->hosts.n && (int64_t)n <= ports)) {
        return 0;
    }
    return co_err_set(err, CO_INVALID,
        "%zu endpoints in the environment for %zu nodes of %zu processes: expected one a node with "
        "%zu ports, or one a process",
        j->endpoints.n, j->hosts.n, n, n);
}

/* ---- all of it --------------------------------------------------------------------------- */

static int one_list(const struct rt_options *o, enum rt_option trainers, struct co_err *err) {
    bool servers = rt_option_has(o, RT_OPT_SERVERS);
    return co_err_set(err, CO_INVALID,
        "--%s without --%s: expected both lists, or --server_num and --trainer_num",
        servers ? "servers" : rt_option_rows[trainers].name,
        servers ? rt_option_rows[trainers].name : "servers");
}

static int plan_ps(struct rt_job *j, struct co_err *err) {
    const struct rt_options *o = j->options;
    if (rt_option_has(o, RT_OPT_HETER_DEVICES)) {
        rt_list_split_at(&j->heter_devices, o->text[RT_OPT_HETER_DEVICES], ';');
    }
    enum rt_option trainers = either(o, RT_OPT_TRAINERS, RT_OPT_WORKERS);
    bool has_servers = rt_option_has(o, RT_OPT_SERVERS), has_trainers = rt_option_has(o, trainers);
    if (has_servers != has_trainers) {
        return one_list(o, trainers, err);
    }
    if (has_servers) {
        return rt_way_lists(j, trainers, err);
    }
    if (rt_option_has(o, RT_OPT_HETER_WORKERS)) {
        return co_err_set(err, CO_INVALID,
            "--heter_workers without --servers and --trainers: expected all three lists, or "
            "--heter_worker_num");
    }
    return count_ps(j, err);
}

static int plan_collective(struct rt_job *j, const struct env *e, struct co_err *err) {
    static const char other[] = "DISTRIBUTED_TRAINER_ENDPOINTS";
    const char *name = co_contract[CO_VAR_TRAINER_ENDPOINTS].name;
    const char *endpoints = env_get(e, CO_VAR_TRAINER_ENDPOINTS);
    if (!*endpoints && e->get(e->arg, other)) {
        name = other;
        endpoints = e->get(e->arg, other);
    }
    int r = 0;
    /* An elastic job's nodes come and go; the list in its environment is that of one moment. */
    if (*endpoints && !j->elastic) {
        r = rt_way_endpoints(j, name, endpoints, err);
    } else if (!j->master && rt_option_has(j->options, RT_OPT_IPS) &&
               rt_option_given(j->options, RT_OPT_IPS)) {
        r = rt_way_ips(j, err);
    }
    r = r ? r : count_trainers(j, err);
    return r || j->way != RT_WAY_ENDPOINTS ? r : check_endpoints(j, e, err);
}

static void given(struct rt_job *j, const struct env *e) {
    const char *role = env_get(e, CO_VAR_TRAINING_ROLE);
    j->way = RT_WAY_GIVEN;
    j->n[strcmp(role, "PSERVER") == 0 ? RT_SEAT_SERVER
         : strncmp(role, "HETER", 5)  ? RT_SEAT_TRAINER
                                      : RT_SEAT_HETER] = 1;
    j->nodes_min = j->nodes_max = 1;
}

/* Pods with names are counted by them: where worker 3 is "j-worker-3" or "j-worker-3.j", the first
 * of all, which no scaling removes, is "j-worker-0" or "j-worker-0.j".  NULL: it has no name. */
static char *first_worker(const struct env *e) {
    const char *name = env_get(e, CO_VAR_POD_IP);
    CO_AUTOFREE char *own = co_xasprintf("-worker-%s", env_get(e, CO_VAR_TRAINER_ID));
    const size_t pod = strcspn(name, "."), tail = strlen(own);
    if (pod <= tail || strncmp(name + pod - tail, own, tail) != 0) {
        return NULL;
    }
    return co_xasprintf("%.*s-worker-0%s:%d", (int)(pod - tail), name, name + pod, CO_PORT_BASE);
}

/* What Kubernetes tells pods of the Service paddle-elastic-etcd in their namespace; NULL: there was
 * none when this one started. */
static char *elastic_etcd(const struct env *e) {
    const char *host = e->get(e->arg, "PADDLE_ELASTIC_ETCD_SERVICE_HOST");
    const char *port = e->get(e->arg, "PADDLE_ELASTIC_ETCD_SERVICE_PORT");
    if (!host || !*host || !port || !*port) {
        return NULL;
    }
    return co_xasprintf(strchr(host, ':') ? "etcd://[%s]:%s" : "etcd://%s:%s", host, port);
}

static int find_master(struct rt_job *j, const struct env *e, struct co_err *err) {
    const struct rt_options *o = j->options;
    if (rt_option_has(o, RT_OPT_MASTER)) {
        j->master = o->text[RT_OPT_MASTER];
        return 0;
    }
    if (rt_option_has(o, RT_OPT_ELASTIC_SERVER)) {
        j->held = co_xasprintf("etcd://%s", o->text[RT_OPT_ELASTIC_SERVER]);
    } else if (is_elastic_pod(o, e)) {
        j->held = first_worker(e);
        j->held = j->held ? j->held : elastic_etcd(e);
        if (!j->held) {
            return co_err_set(err, CO_INVALID,
                "a pod of an elastic job without a name (POD_IP is \"%.60s\"): expected "
                "spec.intranet Service or DNS, where all meet at worker 0, a Service "
                "paddle-elastic-etcd in the namespace, or --master",
                env_get(e, CO_VAR_POD_IP));
        }
    }
    j->master = j->held;
    return 0;
}

/* The operator lets pods start when all there are have addresses: who is not here soon after that
 * will not be for long.  What fails starts again inside the pods, which keep their places. */
static void set_elastic(struct rt_job *j, const struct env *e) {
    const struct rt_options *o = j->options;
    j->level = (int)o->number[RT_OPT_ELASTIC_LEVEL];
    const int64_t seconds = o->number[RT_OPT_ELASTIC_TIMEOUT];
    j->elastic_ms = seconds ? seconds * 1000 : 1; /* 0 would be the rendezvous' own choice */
    if (is_elastic_pod(o, e)) {
        j->level = rt_option_given(o, RT_OPT_ELASTIC_LEVEL) ? j->level : 1;
        j->elastic_ms = j->elastic_ms < POD_ELASTIC_MS ? j->elastic_ms : POD_ELASTIC_MS;
    }
}

/* What Paddle's launcher says of the options themselves. */
static void add_notes(struct rt_job *j) {
    const struct rt_options *o = j->options;
    if (co_streq(o->text[RT_OPT_SCRIPT], "run_check")) {
        rt_list_add(&j->notes, "INFO Paddle Distributed Test begin...");
    }
    if (j->ip != j->node->ip) {
        rt_list_add_own(&j->notes, co_xasprintf("WARNING Host ip reset to %s", j->ip));
    }
    if (j->master && strncmp(j->master, "etcd", 4) == 0 &&
        strcmp(j->id, rt_option_rows[RT_OPT_JOB_ID].def) == 0) {
        rt_list_add(
            &j->notes, "WARNING Using default job name may cause conflict, add --job_id in args");
    }
}

int rt_job_plan(const struct rt_options *options, const struct rt_node *node, rt_plan_getenv_fn get,
    void *arg, struct rt_job *ret, struct co_err *err) {
    const struct env e = {.get = get, .arg = arg};
    struct rt_job j = {.options = options,
        .node = node,
        .format = options->format,
        .id = job_id(options, &e),
        .rank = (int)options->number[RT_OPT_RANK]};
    const bool is_process = is_given(options, &e);
    j.mode = mode_of(options, is_process);
    j.ip = own_ip(&j);
    set_elastic(&j, &e);
    int r = find_master(&j, &e, err);
    r = r ? r : parse_nodes(&j, &e, err);
    j.way = j.nodes_max > 1 || j.elastic ? RT_WAY_MEET : RT_WAY_ALONE;
    add_notes(&j);
    if (!r && is_process) {
        given(&j, &e);
    } else if (!r) {
        r = j.mode == RT_MODE_PS           ? plan_ps(&j, err)
            : j.mode == RT_MODE_COLLECTIVE ? plan_collective(&j, &e, err)
                                           : count_trainers(&j, err);
    }
    if (r) {
        rt_job_done(&j);
        return r;
    }
    *ret = j;
    return 0;
}

void rt_job_done(struct rt_job *j) {
    rt_list_done(&j->devices);
    rt_list_done(&j->endpoints);
    rt_list_done(&j->hosts);
    rt_list_done(&j->heter_devices);
    for (int s = 0; s < RT_SEAT_COUNT; s++) {
        rt_list_done(&j->seats[s]);
    }
    rt_list_done(&j->notes);
    free(j->held);
}

size_t rt_job_processes(const struct rt_job *j) {
    return j->n[RT_SEAT_SERVER] + j->n[RT_SEAT_TRAINER] + j->n[RT_SEAT_HETER];
}
