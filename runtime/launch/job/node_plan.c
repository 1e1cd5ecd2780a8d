/* Computes endpoints, ranks, command and logs of a node's processes.  variables.c has their
 * environment.  See node_plan.h. */
#include "runtime/launch/job/node_plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/parse.h"
#include "runtime/launch/job/tuner.h"

enum { ENDPOINTS_MAX = 1 << 20 };

static const struct {
    const char *list, *log, *log_2_3, *name;
} role_rows[JOB_ROLE_COUNT] = {
    [JOB_ROLE_SERVER] = {"servers", "serverlog", "ps.", "server"},
    [JOB_ROLE_TRAINER] = {"trainers", "workerlog", "trainer.", "worker"},
    [JOB_ROLE_HETER] = {"heters", "heterlog", "heter.", "heter worker"},
};

void job_process_name(const struct job_process *p, char *ret_text, size_t size) {
    if (p->tuner) {
        (void)snprintf(ret_text, size, "tuner");
    } else {
        (void)snprintf(ret_text, size, "%s %zu", role_rows[p->role].name, p->index);
    }
}

/* ---- endpoints of all nodes -------------------------------------------------------------- */

static void add_process(struct job_plan *p, enum job_role role, size_t index) {
    size_t local = 0;
    for (size_t i = 0; i < p->n; i++) {
        local += p->process[i].role == role;
    }
    p->process = co_xrealloc(p->process, p->n + 1, sizeof(*p->process));
    p->process[p->n++] = (struct job_process){.role = role, .local = local, .index = index};
}

static int add_endpoint(struct job_plan *p, enum job_role role, const char *text, bool own,
    const char *what, struct co_err *err) {
    struct co_hostport hp;
    CO_TRY(co_parse_hostport(what, text, &hp, err));
    if (p->endpoints[role].n == ENDPOINTS_MAX) {
        return co_err_set(err, CO_NORESOURCE, "more than %d endpoints", (int)ENDPOINTS_MAX);
    }
    if (own) {
        add_process(p, role, p->endpoints[role].n);
    }
    options_list_add(&p->endpoints[role], text);
    return 0;
}

static int add_endpoints(struct job_plan *p, enum job_role role, const struct options_list *l,
    bool own, struct co_err *err) {
    for (size_t i = 0; i < l->n; i++) {
        CO_TRY(add_endpoint(p, role, l->item[i], own, role_rows[role].list, err));
    }
    return 0;
}

static int from_lists(const struct job *j, struct job_plan *p, struct co_err *err) {
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        for (size_t i = 0; i < j->listed[s].n; i++) {
            struct co_hostport hp;
            const char *text = j->listed[s].item[i];
            bool own =
                co_parse_hostport("endpoint", text, &hp, NULL) == 0 && strcmp(hp.host, j->ip) == 0;
            CO_TRY(add_endpoint(p, (enum job_role)s, text, own, role_rows[s].list, err));
        }
    }
    p->stages = j->stages;
    p->n_nodes = j->hosts.n;
    for (size_t h = 0; h < j->hosts.n; h++) {
        p->node = strcmp(j->hosts.item[h], j->ip) == 0 ? h : p->node;
    }
    return 0;
}

/* The processes of one host use ports from `first` on. */
static int from_ports(const struct job *j, struct job_plan *p, size_t host, const char *name,
    int64_t first, struct co_err *err) {
    for (size_t i = 0; i < j->n[JOB_ROLE_TRAINER]; i++) {
        char text[CO_HOST_MAX + 10];
        co_hostport_format(name, (unsigned)(first + (int64_t)i), text, sizeof(text));
        CO_TRY(add_endpoint(p, JOB_ROLE_TRAINER, text, (int)host == j->rank, "endpoint", err));
    }
    return 0;
}

static int from_ips(const struct job *j, struct job_plan *p, struct co_err *err) {
    for (size_t h = 0; h < j->hosts.n; h++) {
        CO_TRY(from_ports(j, p, h, j->hosts.item[h], j->first_port, err));
    }
    p->n_nodes = j->hosts.n;
    return 0;
}

/* Ranks are assigned host by host: the first process of a node has the node's rank times the number
 * of processes per node. */
static int from_endpoints(const struct job *j, struct job_plan *p, struct co_err *err) {
    const bool one_a_node = j->endpoints.n == j->hosts.n;
    int r = 0;
    for (size_t h = 0; h < j->hosts.n && !r; h++) {
        for (size_t i = 0; i < j->endpoints.n && !r; i++) {
            const char *text = j->endpoints.item[i];
            struct co_hostport hp;
            r = co_parse_hostport("PADDLE_TRAINER_ENDPOINTS", text, &hp, err);
            if (r || strcmp(hp.host, j->hosts.item[h]) != 0) {
                continue;
            }
            r = one_a_node
                    ? from_ports(j, p, h, hp.host, hp.port, err)
                    : add_endpoint(p, JOB_ROLE_TRAINER, text, (int)h == j->rank, "endpoint", err);
        }
    }
    p->n_nodes = j->hosts.n;
    return r;
}

/* Numbers run through all nodes, for each kind of process, and for each stage of heterogeneous
 * workers. */
static int from_offers(
    const struct job_offer *offers, size_t n, size_t self, struct job_plan *p, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        CO_TRY(add_endpoints(
            p, JOB_ROLE_SERVER, &offers[i].endpoints[JOB_ROLE_SERVER], i == self, err));
        p->stages.n = offers[i].stages.n > p->stages.n ? offers[i].stages.n : p->stages.n;
    }
    for (size_t i = 0; i < n; i++) {
        CO_TRY(add_endpoints(
            p, JOB_ROLE_TRAINER, &offers[i].endpoints[JOB_ROLE_TRAINER], i == self, err));
    }
    for (size_t stage = 0; stage < p->stages.n; stage++) {
        const size_t before = p->endpoints[JOB_ROLE_HETER].n;
        for (size_t i = 0; i < n; i++) {
            const struct options_list part =
                job_stages_part(&offers[i].stages, &offers[i].endpoints[JOB_ROLE_HETER], stage);
            CO_TRY(add_endpoints(p, JOB_ROLE_HETER, &part, i == self, err));
        }
        p->stages.size[stage] = p->endpoints[JOB_ROLE_HETER].n - before;
    }
    p->n_nodes = n;
    p->node = self;
    return 0;
}

/* ---- the plan ---------------------------------------------------------------------------- */

static void add_command(const struct job *j, struct options_list *ret) {
    const struct options *o = j->options;
    const char *script = o->script[0];
    const char *dot = strrchr(script, '.');
    if (strcmp(script, "run_check") == 0) {
        static const char *const words[] = {"-u", "-m", "paddle.distributed.launch.plugins.test"};
        options_list_add(ret, j->node->python);
        for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
            options_list_add(ret, words[i]);
        }
    } else {
        if (dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".pyxes") == 0)) {
            options_list_add(ret, j->node->python);
        }
        if (dot && strcmp(dot, ".py") == 0) {
            options_list_add(ret, "-u");
        }
        options_list_add(ret, script);
    }
    for (int i = 1; i < o->n_script; i++) {
        options_list_add(ret, o->script[i]);
    }
}

char *job_id_in_paths(const struct job *j) {
    char *id = co_xstrdup(j->id);
    bool leaves = strstr(id, "../") != NULL;
    for (char *c = id; *c; c++) {
        *c = (leaves && *c == '/') || (unsigned char)*c < ' ' || *c == 127 ? '_' : *c;
    }
    return id;
}

static char *log_name(const struct job *j, const struct job_process *p) {
    if (j->format == OPTIONS_FORMAT_2_3) {
        CO_AUTOFREE char *id = job_id_in_paths(j);
        return co_xasprintf("%s.%s.%s%zu.log", id, j->node->pod,
            j->mode == JOB_MODE_PS ? role_rows[p->role].log_2_3 : "", p->local);
    }
    return co_xasprintf(
        "%s.%zu", role_rows[p->role].log, j->mode == JOB_MODE_RPC ? p->index : p->local);
}

static int check_plan(const struct job *j, const struct job_plan *p, struct co_err *err) {
    if (j->mode == JOB_MODE_PS && p->endpoints[JOB_ROLE_SERVER].n == 0) {
        return co_err_set(err, CO_INVALID, "no node of the job has a parameter server");
    }
    if (j->mode == JOB_MODE_PS && p->endpoints[JOB_ROLE_TRAINER].n == 0) {
        return co_err_set(err, CO_INVALID, "no node of the job has a trainer");
    }
    for (size_t i = 0; i < p->stages.n && p->endpoints[JOB_ROLE_HETER].n; i++) {
        if (p->stages.size[i] == 0) {
            return co_err_set(err, CO_INVALID,
                "stage %zu has no worker: expected heterogeneous workers in every stage",
                i + JOB_STAGE_FIRST);
        }
        if (j->heter_devices.n && i >= j->heter_devices.n) {
            return co_err_set(err, CO_INVALID,
                "--heter_devices is \"%.100s\", but there is a stage %zu: expected a device for "
                "each, \"cpu;gpu\"",
                j->options->text[OPTIONS_OPT_HETER_DEVICES], i + JOB_STAGE_FIRST);
        }
    }
    return 0;
}

static char *find_master(const struct job_plan *p, const struct job_offer *offers, size_t n) {
    const struct options_list *trainers = &p->endpoints[JOB_ROLE_TRAINER];
    return n ? co_xstrdup(offers[0].candidate) : trainers->n ? co_xstrdup(trainers->item[0]) : NULL;
}

/* The port that was asked for; else one that is free on server 0's node. */
static int64_t find_gloo_port(const struct job *j, const struct job_offer *offers, size_t n) {
    const int64_t asked = j->options->number[OPTIONS_OPT_HTTP_PORT];
    for (size_t i = 0; i < n && asked <= 0; i++) {
        if (offers[i].endpoints[JOB_ROLE_SERVER].n) {
            return offers[i].gloo_port;
        }
    }
    return asked > 0 ? asked : j->options->number[OPTIONS_OPT_GLOO_PORT];
}

/* Gloo's rendezvous is on server 0's host. */
static char *find_gloo(
    const struct job *j, const struct job_plan *p, const struct job_offer *offers, size_t n) {
    const struct options_list *servers = &p->endpoints[JOB_ROLE_SERVER];
    struct co_hostport hp = {.port = 0};
    char text[CO_HOST_MAX + 10];
    assert(servers->n > 0);                                          /* by check_plan */
    (void)!co_parse_hostport("server", servers->item[0], &hp, NULL); /* by add_endpoint */
    co_hostport_format(hp.host, (unsigned)find_gloo_port(j, offers, n), text, sizeof(text));
    return co_xstrdup(text);
}

static int find_endpoints(const struct job *j, const struct job_offer *offers, size_t n,
    size_t self, struct job_plan *p, struct co_err *err) {
    switch (j->discovery) {
    case JOB_DISCOVERY_ALONE:
    case JOB_DISCOVERY_MEET:
        return from_offers(offers, n, self, p, err);
    case JOB_DISCOVERY_LISTS:
        return from_lists(j, p, err);
    case JOB_DISCOVERY_IPS:
        return from_ips(j, p, err);
    case JOB_DISCOVERY_ENDPOINTS:
        return from_endpoints(j, p, err);
    case JOB_DISCOVERY_GIVEN:
        break;
    }
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        if (j->n[s]) {
            add_process(p, (enum job_role)s, j->rank > 0 ? (size_t)j->rank : 0);
        }
    }
    return 0;
}

/* Distinguishes the nodes of a job, also on one machine, and those of different jobs by their
 * hosts.  The names that paddle-operator gives to pods do so by themselves: "train-worker-1".  The
 * index of an elastic node may change in each round, so its folder has the name that the launcher
 * keeps. */
static char *own_folder(const struct job *j, const struct job_plan *p) {
    static const char *const roles[JOB_ROLE_COUNT] = {
        [JOB_ROLE_SERVER] = "ps-", [JOB_ROLE_TRAINER] = "worker-", [JOB_ROLE_HETER] = "heter-"};
    const bool given = j->discovery == JOB_DISCOVERY_GIVEN;
    const char *host = j->node->host ? j->node->host : "node";
    const size_t index = j->rank >= 0 ? (size_t)j->rank : p->node;
    CO_AUTOFREE char *mark =
        j->elastic && j->rank < 0
            ? co_xasprintf("-%s", j->node->pod)
            : co_xasprintf("-%s%zu", given ? roles[p->process[0].role] : "", index);
    bool marked = (j->node->in_pod && j->rank < 0 && !given) || co_ends_with(host, mark);
    return co_xasprintf("%s%s", host, marked ? "" : mark);
}

static char *find_log_dir(const struct job *j, const struct job_plan *p) {
    const char *dir = j->options->text[OPTIONS_OPT_LOG_DIR];
    const bool several =
        j->discovery == JOB_DISCOVERY_GIVEN || j->discovery == JOB_DISCOVERY_MEET || p->n_nodes > 1;
    if (!*dir || !(several || j->node->in_pod)) {
        return co_xstrdup(dir);
    }
    CO_AUTOFREE char *own = own_folder(j, p);
    return co_xasprintf("%s/%s", dir, own);
}

int job_plan_make(const struct job *j, const struct job_offer *offers, size_t n, size_t self,
    const char *scratch, struct job_plan *ret, struct co_err *err) {
    CO_CLEANUP(job_plan_done)
    struct job_plan p = {.n_nodes = 1, .node = j->rank > 0 ? (size_t)j->rank : 0};
    const bool given = j->discovery == JOB_DISCOVERY_GIVEN;
    CO_TRY(find_endpoints(j, offers, n, self, &p, err));
    if (!given) {
        CO_TRY(check_plan(j, &p, err));
    }
    if (!given && j->mode == JOB_MODE_PS) {
        p.gloo = find_gloo(j, &p, offers, n);
    } else if (!given) {
        p.master = find_master(&p, offers, n);
    }
    add_command(j, &p.command);
    p.log_dir = find_log_dir(j, &p);
    for (size_t i = 0; i < p.n; i++) {
        p.process[i].log = log_name(j, &p.process[i]);
        job_plan_variables(j, &p, scratch, &p.process[i]);
    }
    *ret = p;
    p = (struct job_plan){0};
    return 0;
}

/* A trainer of a job of its own, which knows how large the other one is going to be. */
void job_tuner_plan(const struct job *j, uint16_t port, struct job_plan *ret) {
    struct job_plan p = {.n_nodes = 1, .node = j->rank > 0 ? (size_t)j->rank : 0};
    CO_AUTOFREE char *endpoint = co_xasprintf("127.0.0.1:%u", port);
    CO_AUTOFREE char *size = co_xasprintf("%zu", (size_t)j->nodes_min * j->n[JOB_ROLE_TRAINER]);
    options_list_add(&p.endpoints[JOB_ROLE_TRAINER], endpoint);
    add_process(&p, JOB_ROLE_TRAINER, 0);
    p.process[0].tuner = true;
    p.process[0].log = co_xstrdup("tuner.log");
    p.master = co_xstrdup(endpoint);
    p.log_dir = find_log_dir(j, &p);
    add_command(j, &p.command);
    job_plan_variables(j, &p, NULL, &p.process[0]);
    job_env_set(&p.process[0].set, co_contract[CO_VAR_GLOBAL_SIZE].name, size);
    job_env_set(&p.process[0].set, co_contract[CO_VAR_SELECTED_GPUS].name, "0");
    *ret = p;
}

void job_plan_done(struct job_plan *p) {
    for (size_t i = 0; i < p->n; i++) {
        job_env_done(&p->process[i].set);
        free(p->process[i].log);
    }
    free(p->process);
    options_list_done(&p->command);
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        options_list_done(&p->endpoints[s]);
    }
    free(p->master);
    free(p->gloo);
    free(p->log_dir);
    *p = (struct job_plan){0};
}
