/* Decides on a node's part of a job: mode, master, processes, devices, ports.  address_lists.c
 * reads the lists of addresses.  See job.h. */
#include "runtime/launch/job/job.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/parse.h"
#include "runtime/launch/job/address_lists.h"
#include "runtime/launch/job/torchrun.h"

enum {
    NODES_MAX = 100000,
    PORT_MAX = 65535,
    CLOUD_PORT = 6170,     /* the old launcher's default in PaddleCloud */
    POD_ELASTIC_MS = 5000, /* upper limit of --elastic_timeout in pods, see set_elastic */
};

const char *const job_mode_name[JOB_MODE_COUNT] = {
    [JOB_MODE_COLLECTIVE] = "collective", [JOB_MODE_PS] = "ps", [JOB_MODE_RPC] = "rpc"};

struct env {
    options_plan_getenv_fn get;
    void *arg;
};

/* Returns "" when the variable is not set. */
static const char *env_get(const struct env *e, enum co_var var) {
    const char *value = e->get(e->arg, co_contract[var].name);
    return value ? value : "";
}

/* An option may have a newer (one) and an older (two) row: returns the row that was given. */
static enum options_option pick_option(
    const struct options *o, enum options_option one, enum options_option two) {
    return options_option_has(o, two) && options_option_given(o, two) ? two : one;
}

/* ---- what kind of job -------------------------------------------------------------------- */

static bool any_given(const struct options *o, const enum options_option *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (options_option_given(o, ids[i]) && options_option_has(o, ids[i])) {
            return true;
        }
    }
    return false;
}

static bool asks_for_ps(const struct options *o) {
    static const enum options_option ids[] = {OPTIONS_OPT_SERVER_NUM, OPTIONS_OPT_SERVERS,
        OPTIONS_OPT_TRAINER_NUM, OPTIONS_OPT_TRAINERS, OPTIONS_OPT_WORKER_NUM, OPTIONS_OPT_WORKERS,
        OPTIONS_OPT_HETER_WORKER_NUM, OPTIONS_OPT_HETER_WORKERS};
    return any_given(o, ids, CO_ARRAY_LEN(ids));
}

/* --run_mode ps or ps-heter */
static bool is_ps(const char *mode) {
    return mode && strncmp(mode, "ps", 2) == 0;
}

/* Whether the environment already describes one process of a job with parameter servers, as in pods
 * of paddle-operator. */
static bool is_given(const struct options *o, const struct env *e) {
    const char *mode = o->text[OPTIONS_OPT_RUN_MODE];
    return (!mode || is_ps(mode)) && !asks_for_ps(o) && *env_get(e, CO_VAR_PSERVERS) &&
           *env_get(e, CO_VAR_TRAINING_ROLE);
}

static enum job_mode mode_of(const struct options *o, bool given) {
    const char *mode = o->text[OPTIONS_OPT_RUN_MODE];
    if (given || asks_for_ps(o) || is_ps(mode)) {
        return JOB_MODE_PS;
    }
    return mode && strcmp(mode, "rpc") == 0 ? JOB_MODE_RPC : JOB_MODE_COLLECTIVE;
}

/* Whether this is a pod that the operator made for an elastic job, and the command does not give
 * the number of nodes itself. */
static bool is_elastic_pod(const struct options *o, const struct env *e) {
    return *env_get(e, CO_VAR_ELASTIC_JOB_ID) && *env_get(e, CO_VAR_ELASTIC_NP) &&
           !options_option_given(o, OPTIONS_OPT_NNODES) && !options_option_given(o, OPTIONS_OPT_NP);
}

/* Whether the three are there that make a job elastic for Paddle from 2.2 on, also when the number
 * of nodes is fixed: one that is lost is replaced by one at another address. */
static bool is_elastic_by_etcd(const struct options *o, const struct env *e) {
    const bool np = options_option_given(o, OPTIONS_OPT_NP) || *env_get(e, CO_VAR_ELASTIC_NP);
    const bool id =
        options_option_given(o, OPTIONS_OPT_JOB_ID) || *env_get(e, CO_VAR_ELASTIC_JOB_ID);
    return options_option_has(o, OPTIONS_OPT_ELASTIC_SERVER) && np && id;
}

/* Nodes come and go, so that a list of addresses in the environment would soon be wrong. */
static bool is_elastic(const struct job *j, const struct env *e) {
    return j->elastic || is_elastic_pod(j->options, e) || is_elastic_by_etcd(j->options, e);
}

/* The job's ID keeps jobs apart that share an etcd. */
static const char *job_id(const struct options *o, const struct env *e) {
    const char *elastic = env_get(e, CO_VAR_ELASTIC_JOB_ID);
    return *elastic && !options_option_given(o, OPTIONS_OPT_JOB_ID) ? elastic
                                                                    : o->text[OPTIONS_OPT_JOB_ID];
}

static int parse_nodes(struct job *j, const struct env *e, struct co_err *err) {
    enum options_option id = pick_option(j->options, OPTIONS_OPT_NNODES, OPTIONS_OPT_NP);
    const bool by_env = j->options->origin[id] == OPTIONS_FROM_ENVIRONMENT;
    const char *text = j->options->text[id];
    const char *what = by_env ? options_option_rows[id].env : options_option_rows[id].name;
    if (is_elastic_pod(j->options, e)) {
        text = env_get(e, CO_VAR_ELASTIC_NP);
        what = co_contract[CO_VAR_ELASTIC_NP].name;
    }
    CO_AUTOFREE char *min = co_xstrndup(text, strcspn(text, ":"));
    const char *max = strchr(text, ':');
    int64_t a = 0, b = 0;
    if (co_parse_i64(what, min, 1, NODES_MAX, &a, NULL) ||
        (max && co_parse_i64(what, max + 1, 1, NODES_MAX, &b, NULL))) {
        return co_err_set(err, CO_INVALID,
            "%s is \"%.100s\", expected the number of nodes, N or MIN:MAX, from 1 to %d", what,
            text, (int)NODES_MAX);
    }
    if (max && a > b) {
        return co_err_set(err, CO_INVALID,
            "%s is \"%.100s\": MIN %" PRId64 " is above MAX %" PRId64, what, text, a, b);
    }
    j->nodes_min = (int)a;
    j->nodes_max = (int)(max ? b : a);
    j->elastic = max;
    if (j->options->text[OPTIONS_OPT_SCRIPT] &&
        strcmp(j->options->text[OPTIONS_OPT_SCRIPT], "run_check") == 0 && j->nodes_max < 2) {
        j->nodes_min = j->nodes_max = 2; /* as in Paddle's launcher */
    }
    return 0;
}

/* The address of --host, which the caller frees; NULL: it is none. */
static char *own_ip(const struct job *j) {
    const char *given = j->options->text[OPTIONS_OPT_HOST];
    CO_AUTOFREE char *host = job_host_bare(given ? given : "");
    struct in6_addr v6;
    bool is_v6 = inet_pton(AF_INET6, host, &v6) == 1;
    return is_v6 || strchr(host, '.') ? co_steal_ptr(host) : NULL;
}

/* ---- processes of this node -------------------------------------------------------------- */

/* The number of servers or trainers on this node.  Kubeflow's operator sets PADDLE_SERVER_NUM only
 * on servers and PADDLE_TRAINER_NUM only on trainers: a node with just the other variable has none
 * of this kind. */
static size_t count_of(
    const struct options *o, enum options_option mine, enum options_option other) {
    if (o->number[mine] >= 0) {
        return (size_t)o->number[mine];
    }
    return o->origin[other] == OPTIONS_FROM_ENVIRONMENT && o->number[other] > 0 ? 0 : 1;
}

static int count_ps(struct job *j, struct co_err *err) {
    const struct options *o = j->options;
    enum options_option trainers = pick_option(o, OPTIONS_OPT_TRAINER_NUM, OPTIONS_OPT_WORKER_NUM);
    j->n[JOB_ROLE_SERVER] = count_of(o, OPTIONS_OPT_SERVER_NUM, trainers);
    j->n[JOB_ROLE_TRAINER] = count_of(o, trainers, OPTIONS_OPT_SERVER_NUM);
    if (options_option_has(o, OPTIONS_OPT_HETER_WORKER_NUM)) {
        CO_TRY(job_stages_parse(
            "--heter_worker_num", o->text[OPTIONS_OPT_HETER_WORKER_NUM], &j->stages, err));
    }
    j->n[JOB_ROLE_HETER] = job_stages_workers(&j->stages);
    j->n_ports = job_processes(j) + 1;
    bool alone = j->discovery == JOB_DISCOVERY_ALONE;
    if (alone && (j->n[JOB_ROLE_SERVER] == 0 || j->n[JOB_ROLE_TRAINER] == 0)) {
        return co_err_set(err, CO_INVALID,
            "%zu servers and %zu trainers on the only node: expected at least one of each",
            j->n[JOB_ROLE_SERVER], j->n[JOB_ROLE_TRAINER]);
    }
    if (job_processes(j) == 0) {
        return co_err_set(err, CO_INVALID, "neither servers nor trainers on this node");
    }
    return 0;
}

/* Checks the form of --devices on a machine without devices, where they cannot be compared. */
static int check_devices(const char *text, struct co_err *err) {
    for (const char *p = text; *text; p++) {
        size_t digits = strspn(p, "0123456789");
        p += digits;
        if (digits == 0 || (*p && *p != ',')) {
            return co_err_set(err, CO_INVALID,
                "devices are \"%.100s\", expected their numbers, joined by commas", text);
        }
        if (!*p) {
            break;
        }
    }
    return 0;
}

/* Converts the asked devices into numbers among the visible ones, which is what programs expect. */
static int select_devices(struct job *j, struct co_err *err) {
    const struct options_list *visible = &j->node->visible;
    const char *text =
        j->options->text[OPTIONS_OPT_DEVICES] ? j->options->text[OPTIONS_OPT_DEVICES] : "";
    CO_CLEANUP(options_list_done) struct options_list asked = {0};
    if (!visible->n) {
        CO_TRY(check_devices(text, err));
    }
    options_list_split(&asked, text);
    for (size_t i = 0; i < asked.n; i++) {
        size_t at = 0;
        while (at < visible->n && strcmp(visible->item[at], asked.item[i]) != 0) {
            at++;
        }
        if (visible->n && at == visible->n) {
            CO_AUTOFREE char *list = options_list_join(visible, ",");
            return co_err_set(err, CO_INVALID, "Device not found %s from %s for setting %s",
                asked.item[i], text, list);
        }
        options_list_add_own(
            &j->devices, visible->n ? co_xasprintf("%zu", at) : co_xstrdup(asked.item[i]));
    }
    for (size_t i = 0; asked.n == 0 && i < visible->n; i++) {
        options_list_add_own(&j->devices, co_xasprintf("%zu", i));
    }
    return 0;
}

static int count_trainers(struct job *j, struct co_err *err) {
    CO_TRY(select_devices(j, err));
    int64_t asked = j->options->number[OPTIONS_OPT_NPROC_PER_NODE];
    size_t n = asked > 0 ? (size_t)asked : j->devices.n ? j->devices.n : 1;
    if (j->devices.n && n > j->devices.n) {
        return co_err_set(err, CO_INVALID,
            "nproc_per_node is %zu, but there are %zu devices: expected one for each process", n,
            j->devices.n);
    }
    j->n[JOB_ROLE_TRAINER] = n;
    j->n_ports =
        j->discovery == JOB_DISCOVERY_ALONE || j->discovery == JOB_DISCOVERY_MEET ? n + 1 : 0;
    return 0;
}

/* Checks the number of endpoints in the environment: one per process, or one per node, whose
 * further processes use the following ports. */
static int check_endpoints(struct job *j, const struct env *e, struct co_err *err) {
    const size_t n = j->n[JOB_ROLE_TRAINER];
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

static int one_list(const struct options *o, enum options_option trainers, struct co_err *err) {
    bool servers = options_option_has(o, OPTIONS_OPT_SERVERS);
    return co_err_set(err, CO_INVALID,
        "--%s without --%s: expected both lists, or --server_num and --trainer_num",
        servers ? "servers" : options_option_rows[trainers].name,
        servers ? options_option_rows[trainers].name : "servers");
}

static int plan_ps(struct job *j, struct co_err *err) {
    const struct options *o = j->options;
    if (options_option_has(o, OPTIONS_OPT_HETER_DEVICES)) {
        options_list_split_at(&j->heter_devices, o->text[OPTIONS_OPT_HETER_DEVICES], ';');
    }
    enum options_option trainers = pick_option(o, OPTIONS_OPT_TRAINERS, OPTIONS_OPT_WORKERS);
    bool has_servers = options_option_has(o, OPTIONS_OPT_SERVERS),
         has_trainers = options_option_has(o, trainers);
    if (has_servers != has_trainers) {
        return one_list(o, trainers, err);
    }
    if (has_servers) {
        return job_discovery_lists(j, trainers, err);
    }
    if (options_option_has(o, OPTIONS_OPT_HETER_WORKERS)) {
        return co_err_set(err, CO_INVALID,
            "--heter_workers without --servers and --trainers: expected all three lists, or "
            "--heter_worker_num");
    }
    return count_ps(j, err);
}

/* Whether the environment is that of a PaddleCloud job.  Only Paddle's old launcher reads it. */
static bool is_cloud(const struct job *j, const struct env *e) {
    static const enum co_var variables[] = {
        CO_VAR_TRAINERS, CO_VAR_POD_IP, CO_VAR_TRAINER_ID, CO_VAR_PORTS_NUM};
    const char *trainers = env_get(e, CO_VAR_TRAINERS_NUM);
    bool is = j->format == OPTIONS_FORMAT_2_0 && *trainers && strcmp(trainers, "1") != 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(variables) && is; i++) {
        is = *env_get(e, variables[i]);
    }
    return is;
}

static int plan_cloud(struct job *j, const struct env *e, struct co_err *err) {
    const char *name = co_contract[CO_VAR_TRAINERS].name, *text = env_get(e, CO_VAR_TRAINERS);
    const char *ips = j->options->text[OPTIONS_OPT_IPS];
    if (options_option_given(j->options, OPTIONS_OPT_IPS) && strcmp(ips, text) != 0) {
        options_list_add_own(
            &j->notes, co_xasprintf("WARNING --ips %s is ignored: %s in the environment is %s", ips,
                           name, text));
    }
    return job_discovery_ips(j, name, text, err);
}

/* Leaves *ret as it is where the variable is not set. */
static int read_ports(const struct env *e, enum co_var var, int64_t *ret, struct co_err *err) {
    const char *text = env_get(e, var);
    return *text ? co_parse_i64(co_contract[var].name, text, 1, PORT_MAX, ret, err) : 0;
}

/* The first port of every node in a list of addresses.  The old launcher has no option for it: it
 * reads variables, and in PaddleCloud uses the cloud's ports if there are enough of them. */
static int find_first_port(struct job *j, const struct env *e, bool cloud, struct co_err *err) {
    j->first_port = j->options->number[OPTIONS_OPT_START_PORT];
    if (j->format != OPTIONS_FORMAT_2_0 ||
        options_option_given(j->options, OPTIONS_OPT_START_PORT)) {
        return 0;
    }
    j->first_port = cloud ? CLOUD_PORT : j->first_port;
    CO_TRY(read_ports(e, CO_VAR_FIRST_PORT, &j->first_port, err));
    if (!cloud) {
        return 0;
    }
    int64_t ports = 0;
    CO_TRY(read_ports(e, CO_VAR_PORTS_NUM, &ports, err));
    if (j->hosts.n > 1 && ports >= (int64_t)j->n[JOB_ROLE_TRAINER]) {
        CO_TRY(read_ports(e, CO_VAR_PORT, &j->first_port, err));
    }
    return 0;
}

static int plan_collective(struct job *j, const struct env *e, struct co_err *err) {
    static const char other[] = "DISTRIBUTED_TRAINER_ENDPOINTS";
    const char *name = co_contract[CO_VAR_TRAINER_ENDPOINTS].name;
    const char *endpoints = env_get(e, CO_VAR_TRAINER_ENDPOINTS);
    if (!*endpoints && e->get(e->arg, other)) {
        name = other;
        endpoints = e->get(e->arg, other);
    }
    const bool cloud = is_cloud(j, e);
    if (*endpoints && !is_elastic(j, e)) {
        CO_TRY(job_discovery_endpoints(j, name, endpoints, err));
    } else if (!j->master && cloud) {
        CO_TRY(plan_cloud(j, e, err));
    } else if (!j->master && options_option_has(j->options, OPTIONS_OPT_IPS) &&
               options_option_given(j->options, OPTIONS_OPT_IPS)) {
        CO_TRY(job_discovery_ips(j, "--ips", j->options->text[OPTIONS_OPT_IPS], err));
    }
    CO_TRY(count_trainers(j, err));
    if (j->discovery == JOB_DISCOVERY_IPS) {
        CO_TRY(find_first_port(j, e, cloud, err));
    }
    return j->discovery == JOB_DISCOVERY_ENDPOINTS ? check_endpoints(j, e, err) : 0;
}

static void take_given_process(struct job *j, const struct env *e) {
    const char *role = env_get(e, CO_VAR_TRAINING_ROLE);
    j->discovery = JOB_DISCOVERY_GIVEN;
    j->n[strcmp(role, "PSERVER") == 0 ? JOB_ROLE_SERVER
         : strncmp(role, "HETER", 5)  ? JOB_ROLE_TRAINER
                                      : JOB_ROLE_HETER] = 1;
    j->nodes_min = j->nodes_max = 1;
}

/* The address of worker 0, derived from this pod's name: when worker 3 is "j-worker-3" or
 * "j-worker-3.j", worker 0 is "j-worker-0" or "j-worker-0.j".  Worker 0 is a good master, as
 * scaling never removes it.  NULL: this pod has no name, only an IP address. */
static char *first_worker(const struct env *e) {
    const char *name = env_get(e, CO_VAR_POD_IP);
    CO_AUTOFREE char *own = co_xasprintf("-worker-%s", env_get(e, CO_VAR_TRAINER_ID));
    const size_t pod = strcspn(name, "."), tail = strlen(own);
    if (pod <= tail || strncmp(name + pod - tail, own, tail) != 0) {
        return NULL;
    }
    return co_xasprintf("%.*s-worker-0%s:%d", (int)(pod - tail), name, name + pod, CO_PORT_BASE);
}

/* The etcd behind the Service paddle-elastic-etcd, from the variables that Kubernetes sets in pods
 * of its namespace.  NULL: there was no such Service when this pod started. */
static char *elastic_etcd(const struct env *e) {
    const char *host = e->get(e->arg, co_contract[CO_VAR_ELASTIC_ETCD_HOST].name);
    const char *port = e->get(e->arg, co_contract[CO_VAR_ELASTIC_ETCD_PORT].name);
    if (!host || !*host || !port || !*port) {
        return NULL;
    }
    return co_xasprintf(strchr(host, ':') ? "etcd://[%s]:%s" : "etcd://%s:%s", host, port);
}

static int find_master(struct job *j, const struct env *e, struct co_err *err) {
    const struct options *o = j->options;
    static const char http[] = "http://"; /* Paddle's documents have it; it means host:port */
    if (options_option_has(o, OPTIONS_OPT_MASTER)) {
        const char *master = o->text[OPTIONS_OPT_MASTER];
        bool url = strncmp(master, http, strlen(http)) == 0;
        const char *place = url ? master + strlen(http) : master;
        size_t n = strlen(place);
        n -= url && n && place[n - 1] == '/';
        j->master = j->held = co_xasprintf("%.*s", (int)n, place);
        return 0;
    }
    if (options_option_has(o, OPTIONS_OPT_ELASTIC_SERVER)) {
        j->held = co_xasprintf("etcd://%s", o->text[OPTIONS_OPT_ELASTIC_SERVER]);
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

/* In a pod of an elastic job two defaults differ.  The operator starts pods only when all of them
 * have addresses, so waiting longer than POD_ELASTIC_MS for a missing one is useless.  And level 1:
 * processes restart inside their pods, which keep their ranks. */
static void set_elastic(struct job *j, const struct env *e) {
    const struct options *o = j->options;
    j->level = (int)o->number[OPTIONS_OPT_ELASTIC_LEVEL];
    const int64_t seconds = o->number[OPTIONS_OPT_ELASTIC_TIMEOUT];
    j->elastic_ms = seconds ? seconds * 1000 : 1; /* 0 would be the rendezvous' own choice */
    if ((is_elastic_pod(o, e) || is_elastic_by_etcd(o, e)) &&
        !options_option_given(o, OPTIONS_OPT_ELASTIC_LEVEL)) {
        j->level = 1;
    }
    if (is_elastic_pod(o, e)) {
        j->elastic_ms = j->elastic_ms < POD_ELASTIC_MS ? j->elastic_ms : POD_ELASTIC_MS;
    }
}

/* Log lines of Paddle's launcher about the options. */
static void add_notes(struct job *j) {
    const struct options *o = j->options;
    if (co_streq(o->text[OPTIONS_OPT_SCRIPT], "run_check")) {
        options_list_add(&j->notes, "INFO Paddle Distributed Test begin...");
    }
    if (j->ip != j->node->ip) {
        options_list_add_own(&j->notes, co_xasprintf("WARNING Host ip reset to %s", j->ip));
    }
    if (j->master && co_is_etcd(j->master) &&
        strcmp(j->id, options_option_rows[OPTIONS_OPT_JOB_ID].def) == 0) {
        options_list_add(
            &j->notes, "WARNING Using default job name may cause conflict, add --job_id in args");
    }
}

/* Decides whether nodes must prove the job's token at the rendezvous. */
static int take_token(struct job *j, const struct env *e, struct co_err *err) {
    const char *token = env_get(e, CO_VAR_JOB_TOKEN);
    const bool asked = j->options->number[OPTIONS_OPT_REQUIRE_TOKEN] == 1;
    const bool etcd = j->master && co_is_etcd(j->master);
    if (asked && !*token) {
        return co_err_set(err, CO_INVALID,
            "--require_token without a token: expected PADDLE_JOB_TOKEN, the same secret on all "
            "nodes");
    }
    if (j->discovery == JOB_DISCOVERY_MEET && asked && etcd) {
        options_list_add(&j->notes,
            "WARNING --require_token has no effect with an etcd, which has users and TLS of its "
            "own: PADDLE_ETCD_USER, PADDLE_ETCD_CA");
    } else if (j->discovery == JOB_DISCOVERY_MEET && asked) {
        j->token = token;
    } else if (j->discovery == JOB_DISCOVERY_MEET && *token && !etcd) {
        options_list_add(&j->notes,
            "WARNING The rendezvous is open to anybody who reaches its port: PADDLE_JOB_TOKEN is "
            "asked for there only with --require_token on all nodes");
    }
    return 0;
}

int job_plan(const struct options *options, const struct job_node *node, options_plan_getenv_fn get,
    void *arg, struct job *ret, struct co_err *err) {
    const struct env e = {.get = get, .arg = arg};
    CO_CLEANUP(job_done)
    struct job j = {.options = options,
        .node = node,
        .format = options->format,
        .id = job_id(options, &e),
        .rank = (int)options->number[OPTIONS_OPT_RANK]};
    const bool is_process = is_given(options, &e);
    j.mode = mode_of(options, is_process);
    j.held_ip = own_ip(&j);
    j.ip = j.held_ip ? j.held_ip : node->ip;
    set_elastic(&j, &e);
    CO_TRY(find_master(&j, &e, err));
    CO_TRY(parse_nodes(&j, &e, err));
    j.discovery = j.nodes_max > 1 || j.elastic ? JOB_DISCOVERY_MEET : JOB_DISCOVERY_ALONE;
    add_notes(&j);
    if (is_process) {
        take_given_process(&j, &e);
    } else {
        CO_TRY(j.mode == JOB_MODE_PS           ? plan_ps(&j, err)
               : j.mode == JOB_MODE_COLLECTIVE ? plan_collective(&j, &e, err)
                                               : count_trainers(&j, err));
    }
    CO_TRY(take_token(&j, &e, err));
    job_torchrun_check(&j, get, arg);
    *ret = j;
    j = (struct job){0};
    return 0;
}

void job_done(struct job *j) {
    options_list_done(&j->devices);
    options_list_done(&j->endpoints);
    options_list_done(&j->hosts);
    options_list_done(&j->heter_devices);
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        options_list_done(&j->listed[s]);
    }
    options_list_done(&j->notes);
    free(j->held);
    free(j->held_ip);
}

size_t job_processes(const struct job *j) {
    return j->n[JOB_ROLE_SERVER] + j->n[JOB_ROLE_TRAINER] + j->n[JOB_ROLE_HETER];
}
