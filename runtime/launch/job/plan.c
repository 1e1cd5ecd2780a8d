#include "runtime/launch/job/plan.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/parse.h"

enum { ENDPOINTS_MAX = 1 << 20 };

static const struct {
    const char *key, *log, *log_2_3, *name;
} seats[RL_SEAT_COUNT] = {
    [RL_SEAT_SERVER] = {"servers", "serverlog", "ps.", "server"},
    [RL_SEAT_TRAINER] = {"trainers", "workerlog", "trainer.", "worker"},
    [RL_SEAT_HETER] = {"heters", "heterlog", "heter.", "heter worker"},
};

void rl_process_name(const struct rl_process *p, char *ret_text, size_t size) {
    (void)snprintf(ret_text, size, "%s %zu", seats[p->seat].name, p->index);
}

/* ---- endpoints of all -------------------------------------------------------------------- */

static void add_process(struct rl_plan *p, enum rl_seat seat, size_t index) {
    size_t local = 0;
    for (size_t i = 0; i < p->n; i++) {
        local += p->process[i].seat == seat;
    }
    p->process = co_xrealloc(p->process, p->n + 1, sizeof(*p->process));
    p->process[p->n++] = (struct rl_process){.seat = seat, .local = local, .index = index};
}

static int add_endpoint(struct rl_plan *p, enum rl_seat seat, const char *text, bool own,
    const char *what, struct co_err *err) {
    struct co_hostport hp;
    int r = co_parse_hostport(what, text, &hp, err);
    if (!r && p->endpoints[seat].n == ENDPOINTS_MAX) {
        r = co_err_set(err, CO_NORESOURCE, "more than %d endpoints", (int)ENDPOINTS_MAX);
    }
    if (!r) {
        if (own) {
            add_process(p, seat, p->endpoints[seat].n);
        }
        rl_list_add(&p->endpoints[seat], text);
    }
    return r;
}

static int from_lists(const struct rl_job *j, struct rl_plan *p, struct co_err *err) {
    int r = 0;
    for (int s = 0; s < RL_SEAT_COUNT; s++) {
        for (size_t i = 0; i < j->seats[s].n && !r; i++) {
            struct co_hostport hp;
            const char *text = j->seats[s].item[i];
            bool own =
                co_parse_hostport("endpoint", text, &hp, NULL) == 0 && strcmp(hp.host, j->ip) == 0;
            r = add_endpoint(p, (enum rl_seat)s, text, own, seats[s].key, err);
        }
    }
    p->stages = j->stages;
    p->n_nodes = j->hosts.n;
    return r;
}

/* Port i of a host whose first port is `first`. */
static int from_ports(const struct rl_job *j, struct rl_plan *p, size_t host, const char *name,
    int64_t first, struct co_err *err) {
    int r = 0;
    for (size_t i = 0; i < j->n[RL_SEAT_TRAINER] && !r; i++) {
        char text[CO_HOST_MAX + 10];
        co_hostport_format(name, (unsigned)(first + (int64_t)i), text, sizeof(text));
        r = add_endpoint(p, RL_SEAT_TRAINER, text, (int)host == j->rank, "endpoint", err);
    }
    return r;
}

static int from_ips(const struct rl_job *j, struct rl_plan *p, struct co_err *err) {
    int r = 0;
    for (size_t h = 0; h < j->hosts.n && !r; h++) {
        r = from_ports(j, p, h, j->hosts.item[h], j->options->number[RL_OPT_START_PORT], err);
    }
    p->n_nodes = j->hosts.n;
    return r;
}

/* Ranks go host by host: a child's rank is its node's times the processes of a node. */
static int from_endpoints(const struct rl_job *j, struct rl_plan *p, struct co_err *err) {
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
                    : add_endpoint(p, RL_SEAT_TRAINER, text, (int)h == j->rank, "endpoint", err);
        }
    }
    p->n_nodes = j->hosts.n;
    return r;
}

/* ---- from what the nodes told ------------------------------------------------------------ */

static int node_seats(
    struct rl_plan *p, const json_t *list, enum rl_seat seat, bool own, struct co_err *err) {
    int r = 0;
    for (size_t i = 0; i < json_array_size(list) && !r; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        r = add_endpoint(p, seat, text ? text : "", own, seats[seat].key, err);
    }
    return r;
}

/* Heterogeneous workers are told by stage, where there are some. */
static int node_stage(
    struct rl_plan *p, const json_t *o, size_t stage, bool own, struct co_err *err) {
    json_t *stages = NULL;
    int r = co_json_get(o, seats[RL_SEAT_HETER].key, JSON_ARRAY, &stages, err);
    if (r) {
        return r == CO_NOTFOUND ? 0 : r;
    }
    const size_t n = json_array_size(stages);
    if (n > RL_STAGES_MAX) {
        return co_err_set(
            err, CO_INVALID, "%zu stages, expected at most %d", n, (int)RL_STAGES_MAX);
    }
    p->stages.n = n > p->stages.n ? n : p->stages.n;
    const size_t before = p->endpoints[RL_SEAT_HETER].n;
    r = node_seats(p, json_array_get(stages, stage), RL_SEAT_HETER, own, err);
    p->stages.size[stage] += p->endpoints[RL_SEAT_HETER].n - before;
    return r;
}

/* Gloo meets on server 0's host, at the port that its node keeps free. */
static int node_ps(const struct rl_job *j, struct rl_plan *p, const json_t *o, enum rl_seat seat,
    bool own, struct co_err *err) {
    const bool before = p->endpoints[RL_SEAT_SERVER].n;
    json_t *list = NULL;
    int r = co_json_get(o, seats[seat].key, JSON_ARRAY, &list, err);
    r = r ? r : node_seats(p, list, seat, own, err);
    if (r || seat != RL_SEAT_SERVER || before || !p->endpoints[RL_SEAT_SERVER].n) {
        return r;
    }
    int64_t port = j->options->number[RL_OPT_HTTP_PORT];
    r = port > 0 ? 0 : co_json_get_i64(o, "gloo_port", 1, 65535, &port, err);
    struct co_hostport hp = {.port = 0};
    r = r ? r : co_parse_hostport("servers", p->endpoints[seat].item[0], &hp, err);
    if (!r) {
        char text[CO_HOST_MAX + 10];
        co_hostport_format(hp.host, (unsigned)port, text, sizeof(text));
        p->gloo = co_xstrdup(text);
    }
    return r;
}

static int node_collective(struct rl_plan *p, const json_t *o, bool own, struct co_err *err) {
    const char *candidate = NULL, *endpoints = NULL;
    int r = co_json_get_str(o, "candidate", &candidate, err);
    r = r ? r : co_json_get_str(o, "endpoints", &endpoints, err);
    if (r) {
        return r;
    }
    if (!p->master) {
        p->master = co_xstrdup(candidate);
    }
    struct rl_list l = {0};
    rl_list_split(&l, endpoints);
    for (size_t i = 0; i < l.n && !r; i++) {
        r = add_endpoint(p, RL_SEAT_TRAINER, l.item[i], own, "endpoints", err);
    }
    rl_list_done(&l);
    return r;
}

static int from_values(const struct rl_job *j, const char *const *values, size_t n, size_t self,
    struct rl_plan *p, struct co_err *err) {
    /* Turn by turn, because indices go through all nodes: servers, trainers, then stages. */
    size_t turns = j->mode == RL_MODE_PS ? RL_SEAT_HETER + 1 : 1;
    int r = 0;
    for (size_t turn = 0; turn < turns; turn++) {
        for (size_t i = 0; i < n && !r; i++) {
            const bool own = i == self;
            CO_AUTOJSON json_t *o = NULL;
            r = co_json_parse(values[i], strlen(values[i]), &o, err);
            r = r                       ? r
                : j->mode != RL_MODE_PS ? node_collective(p, o, own, err)
                : turn < RL_SEAT_HETER  ? node_ps(j, p, o, (enum rl_seat)turn, own, err)
                                        : node_stage(p, o, turn - RL_SEAT_HETER, own, err);
            if (r) {
                (void)co_err_wrap(err,
                    "node %zu told \"%.200s\", expected what a launcher in mode %s tells", i,
                    values[i], rl_mode_name[j->mode]);
                r = CO_INVALID;
            }
        }
        turns = p->stages.n ? RL_SEAT_HETER + p->stages.n : turns;
    }
    p->n_nodes = n;
    p->node = self;
    return r;
}

/* ---- the plan ---------------------------------------------------------------------------- */

static void command(const struct rl_job *j, struct rl_list *ret) {
    const struct rl_options *o = j->options;
    const char *script = o->script[0];
    const char *dot = strrchr(script, '.');
    if (strcmp(script, "run_check") == 0) {
        static const char *const words[] = {"-u", "-m", "paddle.distributed.launch.plugins.test"};
        rl_list_add(ret, j->node->python);
        for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
            rl_list_add(ret, words[i]);
        }
    } else {
        if (dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".pyxes") == 0)) {
            rl_list_add(ret, j->node->python);
        }
        if (dot && strcmp(dot, ".py") == 0) {
            rl_list_add(ret, "-u");
        }
        rl_list_add(ret, script);
    }
    for (int i = 1; i < o->n_script; i++) {
        rl_list_add(ret, o->script[i]);
    }
}

static char *log_name(const struct rl_job *j, const struct rl_process *p) {
    if (j->format == RL_FORMAT_2_3) {
        return co_xasprintf("%s.%s.%s%zu.log", j->id, j->node->pod,
            j->mode == RL_MODE_PS ? seats[p->seat].log_2_3 : "", p->local);
    }
    return co_xasprintf("%s.%zu", seats[p->seat].log, j->mode == RL_MODE_RPC ? p->index : p->local);
}

static int check(const struct rl_job *j, const struct rl_plan *p, struct co_err *err) {
    if (j->mode == RL_MODE_PS && p->endpoints[RL_SEAT_SERVER].n == 0) {
        return co_err_set(err, CO_INVALID, "no node of the job has a parameter server");
    }
    if (j->mode == RL_MODE_PS && p->endpoints[RL_SEAT_TRAINER].n == 0) {
        return co_err_set(err, CO_INVALID, "no node of the job has a trainer");
    }
    for (size_t i = 0; i < p->stages.n && p->endpoints[RL_SEAT_HETER].n; i++) {
        if (p->stages.size[i] == 0) {
            return co_err_set(err, CO_INVALID,
                "stage %zu has no worker: expected heterogeneous workers in every stage",
                i + RL_STAGE_FIRST);
        }
        if (j->heter_devices.n && i >= j->heter_devices.n) {
            return co_err_set(err, CO_INVALID,
                "--heter_devices is \"%.100s\", but there is a stage %zu: expected a device for "
                "each, \"cpu;gpu\"",
                j->options->text[RL_OPT_HETER_DEVICES], i + RL_STAGE_FIRST);
        }
    }
    return 0;
}

/* What the ways without a rendezvous leave open. */
static int complete(const struct rl_job *j, struct rl_plan *p, struct co_err *err) {
    int r = check(j, p, err);
    if (r) {
        return r;
    }
    if (!p->master && p->endpoints[RL_SEAT_TRAINER].n && j->mode != RL_MODE_PS) {
        p->master = co_xstrdup(p->endpoints[RL_SEAT_TRAINER].item[0]);
    }
    if (!p->gloo && j->mode == RL_MODE_PS && p->endpoints[RL_SEAT_SERVER].n) {
        const struct rl_options *o = j->options;
        int64_t http = o->number[RL_OPT_HTTP_PORT];
        struct co_hostport hp = {.port = 0};
        char text[CO_HOST_MAX + 10];
        r = co_parse_hostport("servers", p->endpoints[RL_SEAT_SERVER].item[0], &hp, err);
        co_hostport_format(
            hp.host, (unsigned)(http > 0 ? http : o->number[RL_OPT_GLOO_PORT]), text, sizeof(text));
        p->gloo = co_xstrdup(text);
    }
    return r;
}

static int endpoints(const struct rl_job *j, const char *const *values, size_t n, size_t self,
    struct rl_plan *p, struct co_err *err) {
    switch (j->way) {
    case RL_WAY_ALONE:
    case RL_WAY_MEET:
        return from_values(j, values, n, self, p, err);
    case RL_WAY_LISTS:
        return from_lists(j, p, err);
    case RL_WAY_IPS:
        return from_ips(j, p, err);
    case RL_WAY_ENDPOINTS:
        return from_endpoints(j, p, err);
    case RL_WAY_GIVEN:
        break;
    }
    for (int s = 0; s < RL_SEAT_COUNT; s++) {
        if (j->n[s]) {
            add_process(p, (enum rl_seat)s, j->rank > 0 ? (size_t)j->rank : 0);
        }
    }
    return 0;
}

int rl_plan_make(const struct rl_job *j, const char *const *values, size_t n, size_t self,
    const char *scratch, struct rl_plan *ret, struct co_err *err) {
    struct rl_plan p = {.n_nodes = 1, .node = j->rank > 0 ? (size_t)j->rank : 0};
    int r = endpoints(j, values, n, self, &p, err);
    r = r || j->way == RL_WAY_GIVEN ? r : complete(j, &p, err);
    if (r) {
        rl_plan_done(&p);
        return r;
    }
    command(j, &p.command);
    for (size_t i = 0; i < p.n; i++) {
        p.process[i].log = log_name(j, &p.process[i]);
        rl_plan_variables(j, &p, scratch, &p.process[i]);
    }
    *ret = p;
    return 0;
}

void rl_plan_done(struct rl_plan *p) {
    for (size_t i = 0; i < p->n; i++) {
        rl_env_done(&p->process[i].set);
        free(p->process[i].log);
    }
    free(p->process);
    rl_list_done(&p->command);
    for (int s = 0; s < RL_SEAT_COUNT; s++) {
        rl_list_done(&p->endpoints[s]);
    }
    free(p->master);
    free(p->gloo);
    *p = (struct rl_plan){0};
}
