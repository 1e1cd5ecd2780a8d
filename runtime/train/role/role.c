/* Reads the env contract into a topology, variable by variable, with the tolerance and the
 * strictness that Paddle has. */
#include "runtime/train/role/role.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/log.h"
#include "common/parse.h"

static const char *from_process(void *arg, const char *name) {
    (void)arg;
    return co_contract_getenv_of(name);
}

static void warn_of_link(void *arg, const char *name, const char *value) {
    (void)arg;
    co_log_warn("ignored: this is what Kubernetes says of a Service by that name, and no setting",
        CO_S("variable", name), CO_S("value", value));
}

/* Once: a program may read its role many times. */
static void warn_of_links(void) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned)) {
        co_contract_links(environ, warn_of_link, NULL);
    }
}

/* Once, too.  Paddle takes such jobs, by one of both numbers; an operator may have changed one. */
static void warn_of_number(const struct role_environment *e, const struct role_topology *t) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    uint32_t n = 0;
    if (t->trainers.n == 0 || role_read_number(e, CO_VAR_TRAINERS_NUM, &n, NULL) ||
        n == t->trainers.n || atomic_flag_test_and_set(&warned)) {
        return;
    }
    co_log_warn("PADDLE_TRAINERS_NUM is not the number of PADDLE_TRAINER_ENDPOINTS, expected both "
                "to be that of the job's trainers",
        CO_I("trainers_num", n), CO_I("trainer_endpoints", t->trainers.n),
        CO_I("trainers", t->n_workers));
}

/* ---- lists ----------------------------------------------------------------------------- */

/* Addresses by value, names without regard to case; brackets do not count. */
static bool same_host(const char *a, const char *b) {
    struct in6_addr x, y;
    if (inet_pton(AF_INET6, a, &x) == 1 && inet_pton(AF_INET6, b, &y) == 1) {
        return memcmp(&x, &y, sizeof(x)) == 0;
    }
    return strcasecmp(a, b) == 0;
}

static void strip_brackets(char *host) {
    size_t n = strlen(host);
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        memmove(host, host + 1, n - 2);
        host[n - 2] = '\0';
    }
}

/* This process's index in the list, by POD_IP and PADDLE_PORT. paddle-operator 0.3.3 to 0.3.5 give
 * no port or a wrong one; then PADDLE_TRAINER_ID is the index if the host there is POD_IP. */
static int find_self(const struct role_environment *e, enum co_var var,
    const struct role_endpoints *l, uint32_t *ret_index, struct co_err *err) {
    const char *list = co_contract[var].name;
    CO_AUTOFREE char *host = role_read_text(e, CO_VAR_POD_IP);
    CO_AUTOFREE char *port = role_read_text(e, CO_VAR_PORT);
    if (!host) {
        return role_read_not_set(CO_VAR_POD_IP, "", err);
    }
    strip_brackets(host);
    CO_TRY(co_contract_check(CO_VAR_POD_IP, host, err));
    uint32_t id = UINT32_MAX;
    (void)role_read_number(e, CO_VAR_TRAINER_ID, &id, NULL);
    int64_t p = -1;
    int port_bad = port ? co_parse_i64(co_contract[CO_VAR_PORT].name, port, 1, 65535, &p, err) : 0;
    bool by_id = false;
    for (uint32_t i = 0; i < l->n; i++) {
        struct co_hostport hp;
        if (co_parse_hostport(list, l->item[i], &hp, NULL) || !same_host(hp.host, host)) {
            continue;
        }
        if (hp.port == p) {
            *ret_index = i;
            return 0;
        }
        by_id |= i == id;
    }
    if (by_id) {
        *ret_index = id;
        return 0;
    }
    if (!port) {
        return role_read_not_set(CO_VAR_PORT, "", err);
    }
    return port_bad ? port_bad
                    : co_err_set(err, CO_INVALID,
                          "%s:%s is \"%.100s:%s\", expected one of %s: \"%.300s%s\"",
                          co_contract[CO_VAR_POD_IP].name, co_contract[CO_VAR_PORT].name, host,
                          port, list, l->item[0], l->n > 1 ? ",..." : "");
}

/* ---- roles ----------------------------------------------------------------------------- */

static const struct {
    const char *word;
    enum role role;
} role_words[] = {
    {"PSERVER", ROLE_SERVER},
    {"TRAINER", ROLE_WORKER},
    {"HETER", ROLE_HETER},
    {"HETER_TRAINER", ROLE_HETER},
    {"COORDINATOR", ROLE_COORDINATOR},
};

static enum role role_of(const char *word) {
    for (size_t i = 0; i < CO_ARRAY_LEN(role_words); i++) {
        if (co_streq(role_words[i].word, word)) {
            return role_words[i].role;
        }
    }
    return ROLE_COUNT;
}

/* The first of three variables that is set. Launchers set the second one, too. */
static int ps_role(const struct role_environment *e, enum role *ret, struct co_err *err) {
    static const enum co_var vars[] = {
        CO_VAR_TRAINING_ROLE, CO_VAR_ROLE, CO_VAR_PADDLE_TRAINING_ROLE};
    for (size_t i = 0; i < CO_ARRAY_LEN(vars); i++) {
        CO_AUTOFREE char *word = role_read_text(e, vars[i]);
        if (word) {
            *ret = role_of(word);
            int r = co_contract_check(vars[i], word, err);
            return r || *ret != ROLE_COUNT
                       ? r
                       : co_err_set(err, CO_UNSUPPORTED, "%s is \"%s\", which is no role here",
                             co_contract[vars[i]].name, word);
        }
    }
    return role_read_not_set(CO_VAR_TRAINING_ROLE, "", err);
}

static int worker_index(
    const struct role_environment *e, struct role_topology *t, struct co_err *err) {
    const char *name = co_contract[CO_VAR_TRAINER_ID].name;
    int r = role_read_number(e, CO_VAR_TRAINER_ID, &t->index, err);
    if (r == CO_NOTFOUND) {
        if (t->training != ROLE_TRAINING_PS) {
            return 0; /* a trainer without an id is number 0, as in Paddle */
        }
        return role_read_not_set(CO_VAR_TRAINER_ID, "", err);
    }
    if (!r && t->index >= t->n_workers) {
        const char *of = t->training == ROLE_TRAINING_PS ? co_contract[CO_VAR_TRAINERS_NUM].name
                                                         : "the number of trainer endpoints,";
        return co_err_set(err, CO_INVALID, "%s is \"%u\", expected less than %s %u", name, t->index,
            of, t->n_workers);
    }
    return r;
}

static int heter_index(
    const struct role_environment *e, struct role_topology *t, struct co_err *err) {
    if (t->heters.n) {
        return find_self(e, CO_VAR_HETER_ENDPOINTS, &t->heters, &t->index, err);
    }
    int r = role_read_number(e, CO_VAR_TRAINER_ID, &t->index, err);
    return r == CO_NOTFOUND ? role_read_not_set(CO_VAR_HETER_ENDPOINTS, "", err) : r;
}

/* The endpoint of a process that is no server. In parameter server jobs a wrong one is ignored,
 * since Paddle does not use it there. */
static int own_endpoint(
    const struct role_environment *e, struct role_topology *t, struct co_err *err) {
    const struct role_endpoints *l = t->role == ROLE_HETER ? &t->heters : &t->trainers;
    CO_AUTOFREE char *current = role_read_text(e, CO_VAR_CURRENT_ENDPOINT);
    if (current && t->role == ROLE_WORKER) {
        int r = co_contract_check(CO_VAR_CURRENT_ENDPOINT, current, err);
        if (!r) {
            t->endpoint = co_steal_ptr(current);
        } else if (t->training == ROLE_TRAINING_COLLECTIVE) {
            return r;
        }
    }
    bool mine = t->role == ROLE_HETER || l->n == t->n_workers;
    if (!t->endpoint && mine && t->index < l->n) {
        struct co_hostport hp;
        if (!co_parse_hostport("endpoint", l->item[t->index], &hp, NULL)) {
            t->endpoint = co_xstrdup(l->item[t->index]);
        }
    }
    return 0;
}

static int load_ps(const struct role_environment *e, struct role_topology *t, struct co_err *err) {
    t->training = ROLE_TRAINING_PS;
    CO_TRY(ps_role(e, &t->role, err));
    /* Paddle's parameter servers ignore this list, so errors in it are ignored, too. */
    (void)role_read_endpoints(e, CO_VAR_TRAINER_ENDPOINTS, false, &t->trainers, NULL);
    int r = role_read_number(e, CO_VAR_TRAINERS_NUM, &t->n_workers, err);
    if (r == CO_NOTFOUND && t->trainers.n) {
        t->n_workers = t->trainers.n;
    } else if (r) {
        return r == CO_NOTFOUND ? role_read_not_set(CO_VAR_TRAINERS_NUM, "", err) : r;
    }
    switch (t->role) {
    case ROLE_SERVER:
        CO_TRY(find_self(e, CO_VAR_PSERVERS, &t->servers, &t->index, err));
        t->endpoint = co_xstrdup(t->servers.item[t->index]);
        return 0;
    case ROLE_WORKER:
        CO_TRY(worker_index(e, t, err));
        break;
    case ROLE_HETER:
        CO_TRY(heter_index(e, t, err));
        break;
    case ROLE_COORDINATOR:
    case ROLE_COUNT:
    default:
        break;
    }
    return own_endpoint(e, t, err);
}

static int load_collective(
    const struct role_environment *e, struct role_topology *t, struct co_err *err) {
    CO_AUTOFREE char *role = role_read_text(e, CO_VAR_TRAINING_ROLE);
    if (role && role_of(role) == ROLE_SERVER) {
        return role_read_not_set(CO_VAR_PSERVERS, ", but TRAINING_ROLE is \"PSERVER\"", err);
    }
    if (role && role_of(role) == ROLE_HETER) {
        t->role = ROLE_HETER;
    } else {
        CO_AUTOFREE char *other = role_read_text(e, CO_VAR_PADDLE_TRAINING_ROLE);
        if (other && role_of(other) != ROLE_WORKER) {
            return co_err_set(err, CO_INVALID,
                "%s is \"%.100s\", expected \"TRAINER\", as %s is not set",
                co_contract[CO_VAR_PADDLE_TRAINING_ROLE].name, other,
                co_contract[CO_VAR_PSERVERS].name);
        }
    }
    CO_TRY(role_read_endpoints(e, CO_VAR_TRAINER_ENDPOINTS, true, &t->trainers, err));
    t->n_workers = t->trainers.n ? t->trainers.n : 1;
    if (t->trainers.n == 0 && t->role == ROLE_WORKER) {
        t->training = ROLE_TRAINING_ALONE; /* even with an id other than 0, as in Paddle */
        int r = role_read_number(e, CO_VAR_TRAINERS_NUM, &t->n_named, err);
        return r == CO_NOTFOUND ? 0 : r; /* one that is no number names none */
    }
    t->training = ROLE_TRAINING_COLLECTIVE;
    CO_TRY(t->role == ROLE_HETER ? heter_index(e, t, err) : worker_index(e, t, err));
    return own_endpoint(e, t, err);
}

/* ---- the rest -------------------------------------------------------------------------- */

/* Bad values mean off: Paddle looks at them only when gloo starts. */
static void load_gloo(const struct role_environment *e, struct role_gloo *g) {
    uint32_t with = 0, how = 0;
    (void)role_read_number(e, CO_VAR_WITH_GLOO, &with, NULL);
    g->workers = with == 1 || with == 2;
    g->servers = with == 2;
    CO_AUTOFREE char *rendezvous = role_read_text(e, CO_VAR_GLOO_RENDEZVOUS);
    if (rendezvous && !co_contract_check(CO_VAR_GLOO_RENDEZVOUS, rendezvous, NULL)) {
        how = (uint32_t)(rendezvous[0] - '0');
    }
    g->rendezvous = (int)how;
    CO_AUTOFREE char *http = role_read_text(e, CO_VAR_GLOO_HTTP_ENDPOINT);
    if (http && !co_contract_check(CO_VAR_GLOO_HTTP_ENDPOINT, http, NULL)) {
        g->http_endpoint = co_steal_ptr(http);
    }
}

static char *job_name(const struct role_environment *e) {
    static const enum co_var vars[] = {CO_VAR_JOB_ID, CO_VAR_ELASTIC_JOB_ID, CO_VAR_SYS_JOB_ID};
    for (size_t i = 0; i < CO_ARRAY_LEN(vars); i++) {
        CO_AUTOFREE char *s = role_read_text(e, vars[i]);
        if (s && *s) {
            return co_steal_ptr(s);
        }
    }
    return co_xstrdup("");
}

/* Only heter trainers need these endpoints, so other roles accept any text here. */
static int heter_endpoints(
    const struct role_environment *e, bool check, struct role_endpoints *ret, struct co_err *err) {
    int r = role_read_endpoints(e, CO_VAR_HETER_ENDPOINTS, check, ret, err);
    if (!r && ret->n == 0) {
        r = role_read_endpoints(e, CO_VAR_HETER_TRAINERS, check, ret, err);
    }
    return check ? r : 0;
}

static int load_v2(const struct role_environment *e, struct role_topology *t, struct co_err *err) {
    struct role_v2 v;
    CO_TRY(role_v2_load(e, &v, err));
    t->training = ROLE_TRAINING_PS;
    t->role = ROLE_WORKER;
    t->index = v.index;
    t->n_workers = v.n_workers;
    t->servers = v.servers;
    return 0;
}

int role_topology_load(
    role_getenv_fn get, void *arg, struct role_topology **ret, struct co_err *err) {
    struct role_environment e = {.get = get ? get : from_process, .arg = arg};
    CO_CLEANUP(role_topology_freep) struct role_topology *t = co_xcalloc(1, sizeof(*t));
    CO_AUTOFREE char *servers = role_read_list(&e, CO_VAR_PSERVERS);
    CO_AUTOFREE char *word = role_read_text(&e, CO_VAR_TRAINING_ROLE);
    enum role role = word ? role_of(word) : ROLE_WORKER;
    if (!get) {
        warn_of_links();
    }
    if (role == ROLE_SERVER && servers && !*servers) {
        CO_TRY(co_contract_check(CO_VAR_PSERVERS, servers, err));
    }
    CO_TRY(role_read_endpoints(&e, CO_VAR_PSERVERS, true, &t->servers, err));
    CO_TRY(heter_endpoints(&e, role == ROLE_HETER, &t->heters, err));
    if (t->servers.n == 0 && role_v2_is_set(&e)) {
        CO_TRY(load_v2(&e, t, err));
    } else {
        CO_TRY(t->servers.n ? load_ps(&e, t, err) : load_collective(&e, t, err));
    }
    warn_of_number(&e, t);
    load_gloo(&e, &t->gloo);
    t->job = job_name(&e);
    *ret = co_steal_ptr(t);
    return 0;
}

void role_topology_free(struct role_topology *t) {
    if (t) {
        role_endpoints_done(&t->servers);
        role_endpoints_done(&t->trainers);
        role_endpoints_done(&t->heters);
        free(t->endpoint);
        free(t->job);
        free(t->gloo.http_endpoint);
        free(t);
    }
}

uint32_t role_topology_count(const struct role_topology *t, enum role role) {
    switch (role) {
    case ROLE_WORKER:
        return t->n_workers;
    case ROLE_SERVER:
        return t->servers.n;
    case ROLE_HETER:
        return t->heters.n;
    case ROLE_COORDINATOR:
    case ROLE_COUNT:
    default:
        return 0;
    }
}

const char *role_name(enum role role) {
    static const char *const names[ROLE_COUNT] = {
        [ROLE_WORKER] = "worker",
        [ROLE_SERVER] = "server",
        [ROLE_HETER] = "heter trainer",
        [ROLE_COORDINATOR] = "coordinator",
    };
    return role < ROLE_COUNT ? names[role] : "?";
}

const char *role_training_name(enum role_training training) {
    static const char *const names[ROLE_TRAINING_COUNT] = {
        [ROLE_TRAINING_ALONE] = "alone",
        [ROLE_TRAINING_PS] = "parameter server",
        [ROLE_TRAINING_COLLECTIVE] = "collective",
    };
    return training < ROLE_TRAINING_COUNT ? names[training] : "?";
}
