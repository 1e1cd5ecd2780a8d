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
#include "runtime/legacy/init/v2.h"

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
static int find_self(const struct rt_read *e, enum co_var var, const struct rt_endpoints *l,
    uint32_t *ret_index, struct co_err *err) {
    const char *list = co_contract[var].name;
    CO_AUTOFREE char *host = rt_read_text(e, CO_VAR_POD_IP);
    CO_AUTOFREE char *port = rt_read_text(e, CO_VAR_PORT);
    if (!host) {
        return rt_read_not_set(CO_VAR_POD_IP, "", err);
    }
    strip_brackets(host);
    int r = co_contract_check(CO_VAR_POD_IP, host, err);
    if (r) {
        return r;
    }
    uint32_t id = UINT32_MAX;
    (void)rt_read_number(e, CO_VAR_TRAINER_ID, &id, NULL);
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
        return rt_read_not_set(CO_VAR_PORT, "", err);
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
    enum rt_role role;
} role_words[] = {
    {"PSERVER", RT_ROLE_SERVER},
    {"TRAINER", RT_ROLE_WORKER},
    {"HETER", RT_ROLE_HETER},
    {"HETER_TRAINER", RT_ROLE_HETER},
    {"COORDINATOR", RT_ROLE_COORDINATOR},
};

static enum rt_role role_of(const char *word) {
    for (size_t i = 0; i < CO_ARRAY_LEN(role_words); i++) {
        if (co_streq(role_words[i].word, word)) {
            return role_words[i].role;
        }
    }
    return RT_ROLE_COUNT;
}

/* The first of three variables that is set. Launchers set the second one, too. */
static int ps_role(const struct rt_read *e, enum rt_role *ret, struct co_err *err) {
    static const enum co_var vars[] = {
        CO_VAR_TRAINING_ROLE, CO_VAR_ROLE, CO_VAR_PADDLE_TRAINING_ROLE};
    for (size_t i = 0; i < CO_ARRAY_LEN(vars); i++) {
        CO_AUTOFREE char *word = rt_read_text(e, vars[i]);
        if (word) {
            *ret = role_of(word);
            int r = co_contract_check(vars[i], word, err);
            return r || *ret != RT_ROLE_COUNT
                       ? r
                       : co_err_set(err, CO_UNSUPPORTED, "%s is \"%s\", which is no role here",
                             co_contract[vars[i]].name, word);
        }
    }
    return rt_read_not_set(CO_VAR_TRAINING_ROLE, "", err);
}

static int worker_index(const struct rt_read *e, struct rt_topology *t, struct co_err *err) {
    const char *name = co_contract[CO_VAR_TRAINER_ID].name;
    int r = rt_read_number(e, CO_VAR_TRAINER_ID, &t->index, err);
    if (r == CO_NOTFOUND) {
        if (t->training != RT_TRAINING_PS) {
            return 0; /* a trainer without an id is number 0, as in Paddle */
        }
        return rt_read_not_set(CO_VAR_TRAINER_ID, "", err);
    }
    if (!r && t->index >= t->n_workers) {
        const char *of = t->training == RT_TRAINING_PS ? co_contract[CO_VAR_TRAINERS_NUM].name
                                                       : "the number of trainer endpoints,";
        return co_err_set(err, CO_INVALID, "%s is \"%u\", expected less than %s %u", name, t->index,
            of, t->n_workers);
    }
    return r;
}

static int heter_index(const struct rt_read *e, struct rt_topology *t, struct co_err *err) {
    if (t->heters.n) {
        return find_self(e, CO_VAR_HETER_ENDPOINTS, &t->heters, &t->index, err);
    }
    int r = rt_read_number(e, CO_VAR_TRAINER_ID, &t->index, err);
    return r == CO_NOTFOUND ? rt_read_not_set(CO_VAR_HETER_ENDPOINTS, "", err) : r;
}

/* The endpoint of a process that is no server. In parameter server jobs a wrong one is ignored,
 * since Paddle does not use it there. */
static int own_endpoint(const struct rt_read *e, struct rt_topology *t, struct co_err *err) {
    const struct rt_endpoints *l = t->role == RT_ROLE_HETER ? &t->heters : &t->trainers;
    CO_AUTOFREE char *current = rt_read_text(e, CO_VAR_CURRENT_ENDPOINT);
    if (current && t->role == RT_ROLE_WORKER) {
        int r = co_contract_check(CO_VAR_CURRENT_ENDPOINT, current, err);
        if (!r) {
            t->endpoint = co_steal_ptr(current);
        } else if (t->training == RT_TRAINING_COLLECTIVE) {
            return r;
        }
    }
    bool mine = t->role == RT_ROLE_HETER || l->n == t->n_workers;
    if (!t->endpoint && mine && t->index < l->n) {
        struct co_hostport hp;
        if (!co_parse_hostport("endpoint", l->item[t->index], &hp, NULL)) {
            t->endpoint = co_xstrdup(l->item[t->index]);
        }
    }
    return 0;
}

static int load_ps(const struct rt_read *e, struct rt_topology *t, struct co_err *err) {
    t->training = RT_TRAINING_PS;
    int r = ps_role(e, &t->role, err);
    if (r) {
        return r;
    }
    /* Paddle's parameter servers ignore this list, so errors in it are ignored, too. */
    (void)rt_read_endpoints(e, CO_VAR_TRAINER_ENDPOINTS, false, &t->trainers, NULL);
    r = rt_read_number(e, CO_VAR_TRAINERS_NUM, &t->n_workers, err);
    if (r == CO_NOTFOUND && t->trainers.n) {
        t->n_workers = t->trainers.n;
        r = 0;
    }
    if (r) {
        return r == CO_NOTFOUND ? rt_read_not_set(CO_VAR_TRAINERS_NUM, "", err) : r;
    }
    switch (t->role) {
    case RT_ROLE_SERVER:
        r = find_self(e, CO_VAR_PSERVERS, &t->servers, &t->index, err);
        if (!r) {
            t->endpoint = co_xstrdup(t->servers.item[t->index]);
        }
        return r;
    case RT_ROLE_WORKER:
        r = worker_index(e, t, err);
        break;
    case RT_ROLE_HETER:
        r = heter_index(e, t, err);
        break;
    case RT_ROLE_COORDINATOR:
    case RT_ROLE_COUNT:
    default:
        break;
    }
    return r ? r : own_endpoint(e, t, err);
}

static int load_collective(const struct rt_read *e, struct rt_topology *t, struct co_err *err) {
    CO_AUTOFREE char *role = rt_read_text(e, CO_VAR_TRAINING_ROLE);
    if (role && role_of(role) == RT_ROLE_SERVER) {
        return rt_read_not_set(CO_VAR_PSERVERS, ", but TRAINING_ROLE is \"PSERVER\"", err);
    }
    if (role && role_of(role) == RT_ROLE_HETER) {
        t->role = RT_ROLE_HETER;
    } else {
        CO_AUTOFREE char *other = rt_read_text(e, CO_VAR_PADDLE_TRAINING_ROLE);
        if (other && role_of(other) != RT_ROLE_WORKER) {
            return co_err_set(err, CO_INVALID,
                "%s is \"%.100s\", expected \"TRAINER\", as %s is not set",
                co_contract[CO_VAR_PADDLE_TRAINING_ROLE].name, other,
                co_contract[CO_VAR_PSERVERS].name);
        }
    }
    int r = rt_read_endpoints(e, CO_VAR_TRAINER_ENDPOINTS, true, &t->trainers, err);
    if (r) {
        return r;
    }
    t->n_workers = t->trainers.n ? t->trainers.n : 1;
    if (t->trainers.n == 0 && t->role == RT_ROLE_WORKER) {
        t->training = RT_TRAINING_ALONE; /* even with an id other than 0, as in Paddle */
        (void)rt_read_number(e, CO_VAR_TRAINERS_NUM, &t->n_named, NULL);
        return 0;
    }
    t->training = RT_TRAINING_COLLECTIVE;
    r = t->role == RT_ROLE_HETER ? heter_index(e, t, err) : worker_index(e, t, err);
    return r ? r : own_endpoint(e, t, err);
}

/* ---- the rest -------------------------------------------------------------------------- */

/* Bad values mean off: Paddle looks at them only when gloo starts. */
static void load_gloo(const struct rt_read *e, struct rt_gloo *g) {
    uint32_t with = 0, how = 0;
    (void)rt_read_number(e, CO_VAR_WITH_GLOO, &with, NULL);
    g->workers = with == 1 || with == 2;
    g->servers = with == 2;
    CO_AUTOFREE char *rendezvous = rt_read_text(e, CO_VAR_GLOO_RENDEZVOUS);
    if (rendezvous && !co_contract_check(CO_VAR_GLOO_RENDEZVOUS, rendezvous, NULL)) {
        how = (uint32_t)(rendezvous[0] - '0');
    }
    g->rendezvous = (int)how;
    CO_AUTOFREE char *http = rt_read_text(e, CO_VAR_GLOO_HTTP_ENDPOINT);
    if (http && !co_contract_check(CO_VAR_GLOO_HTTP_ENDPOINT, http, NULL)) {
        g->http_endpoint = co_steal_ptr(http);
    }
}

static char *job_name(const struct rt_read *e) {
    static const enum co_var vars[] = {CO_VAR_JOB_ID, CO_VAR_ELASTIC_JOB_ID, CO_VAR_SYS_JOB_ID};
    for (size_t i = 0; i < CO_ARRAY_LEN(vars); i++) {
        CO_AUTOFREE char *s = rt_read_text(e, vars[i]);
        if (s && *s) {
            return co_steal_ptr(s);
        }
    }
    return co_xstrdup("");
}

/* Only heter trainers need these endpoints, so other roles accept any text here. */
static int heter_endpoints(
    const struct rt_read *e, bool check, struct rt_endpoints *ret, struct co_err *err) {
    int r = rt_read_endpoints(e, CO_VAR_HETER_ENDPOINTS, check, ret, err);
    if (!r && ret->n == 0) {
        r = rt_read_endpoints(e, CO_VAR_HETER_TRAINERS, check, ret, err);
    }
    return check ? r : 0;
}

static int load_v2(const struct rt_read *e, struct rt_topology *t, struct co_err *err) {
    struct rt_v2 v;
    int r = rt_v2_load(e, &v, err);
    if (r) {
        return r;
    }
    t->training = RT_TRAINING_PS;
    t->role = RT_ROLE_WORKER;
    t->index = v.index;
    t->n_workers = v.n_workers;
    t->servers = v.servers;
    return 0;
}

int rt_topology_load(rt_getenv_fn get, void *arg, struct rt_topology **ret, struct co_err *err) {
    struct rt_read e = {.get = get ? get : from_process, .arg = arg};
    CO_CLEANUP(rt_topology_freep) struct rt_topology *t = co_xcalloc(1, sizeof(*t));
    CO_AUTOFREE char *servers = rt_read_list(&e, CO_VAR_PSERVERS);
    CO_AUTOFREE char *word = rt_read_text(&e, CO_VAR_TRAINING_ROLE);
    enum rt_role role = word ? role_of(word) : RT_ROLE_WORKER;
    int r = 0;
    if (!get) {
        warn_of_links();
    }
    if (role == RT_ROLE_SERVER && servers && !*servers) {
        r = co_contract_check(CO_VAR_PSERVERS, servers, err);
    }
    r = r ? r : rt_read_endpoints(&e, CO_VAR_PSERVERS, true, &t->servers, err);
    r = r ? r : heter_endpoints(&e, role == RT_ROLE_HETER, &t->heters, err);
    if (!r && t->servers.n == 0 && rt_v2_is_set(&e)) {
        r = load_v2(&e, t, err);
    } else if (!r) {
        r = t->servers.n ? load_ps(&e, t, err) : load_collective(&e, t, err);
    }
    if (r) {
        return r;
    }
    load_gloo(&e, &t->gloo);
    t->job = job_name(&e);
    *ret = co_steal_ptr(t);
    return 0;
}

void rt_topology_free(struct rt_topology *t) {
    if (t) {
        rt_endpoints_done(&t->servers);
        rt_endpoints_done(&t->trainers);
        rt_endpoints_done(&t->heters);
        free(t->endpoint);
        free(t->job);
        free(t->gloo.http_endpoint);
        free(t);
    }
}

uint32_t rt_topology_count(const struct rt_topology *t, enum rt_role role) {
    switch (role) {
    case RT_ROLE_WORKER:
        return t->n_workers;
    case RT_ROLE_SERVER:
        return t->servers.n;
    case RT_ROLE_HETER:
        return t->heters.n;
    case RT_ROLE_COORDINATOR:
    case RT_ROLE_COUNT:
    default:
        return 0;
    }
}

const char *rt_role_name(enum rt_role role) {
    static const char *const names[RT_ROLE_COUNT] = {
        [RT_ROLE_WORKER] = "worker",
        [RT_ROLE_SERVER] = "server",
        [RT_ROLE_HETER] = "heter trainer",
        [RT_ROLE_COORDINATOR] = "coordinator",
    };
    return role < RT_ROLE_COUNT ? names[role] : "?";
}

const char *rt_training_name(enum rt_training training) {
    static const char *const names[RT_TRAINING_COUNT] = {
        [RT_TRAINING_ALONE] = "alone",
        [RT_TRAINING_PS] = "parameter server",
        [RT_TRAINING_COLLECTIVE] = "collective",
    };
    return training < RT_TRAINING_COUNT ? names[training] : "?";
}
