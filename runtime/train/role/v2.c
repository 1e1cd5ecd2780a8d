/* Translates PADDLE_INIT_*, the environment of 0.8 to 0.12, into variables of the contract. */
#include "runtime/train/role/environment.h"

#include "common/parse.h"

enum { SERVERS_MAX = 65536 };

bool role_v2_is_set(const struct role_environment *e) {
    CO_AUTOFREE char *s = role_read_list(e, CO_VAR_INIT_PSERVERS);
    return s && *s;
}

struct hosts {
    struct role_endpoints *servers;
    uint32_t port, ports;
};

static int add_host(void *arg, size_t index, const char *host, struct co_err *err) {
    const struct hosts *h = arg;
    char text[CO_HOST_MAX + 10];
    (void)index;
    if (h->servers->n + h->ports > SERVERS_MAX) {
        return co_err_set(err, CO_INVALID, "%s times ports are more than %d servers",
            co_contract[CO_VAR_INIT_PSERVERS].name, (int)SERVERS_MAX);
    }
    for (uint32_t i = 0; i < h->ports; i++) {
        co_hostport_format(host, h->port + i, text, sizeof(text));
        role_endpoints_add(h->servers, text);
    }
    return 0;
}

static int servers(
    const struct role_environment *e, struct role_endpoints *ret, struct co_err *err) {
    struct hosts h = {.servers = ret};
    uint32_t dense = 0, sparse = 0;
    const struct {
        enum co_var var;
        uint32_t *to, def;
    } rows[] = {
        {CO_VAR_INIT_PORT, &h.port, CO_V2_PORT},
        {CO_VAR_INIT_PORTS_NUM, &dense, 1},
        {CO_VAR_INIT_PORTS_NUM_FOR_SPARSE, &sparse, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int r = role_read_number(e, rows[i].var, rows[i].to, err);
        if (r == CO_NOTFOUND) {
            *rows[i].to = rows[i].def;
        } else if (r) {
            return r;
        }
    }
    h.ports = dense + sparse;
    if (h.port + h.ports > 65536) {
        return co_err_set(err, CO_INVALID, "%s is \"%u\", expected room for %u ports above it",
            co_contract[CO_VAR_INIT_PORT].name, h.port, h.ports);
    }
    CO_AUTOFREE char *list = role_read_list(e, CO_VAR_INIT_PSERVERS);
    int r = co_contract_check(CO_VAR_INIT_PSERVERS, list, err);
    return r ? r : co_contract_list(CO_VAR_INIT_PSERVERS, list, add_host, &h, err);
}

int role_v2_load(const struct role_environment *e, struct role_v2 *ret, struct co_err *err) {
    struct role_v2 v = {.n_workers = 1};
    int r = role_read_number(e, CO_VAR_INIT_NUM_GRADIENT_SERVERS, &v.n_workers, err);
    r = r == CO_NOTFOUND ? 0 : r;
    r = r ? r : role_read_number(e, CO_VAR_INIT_TRAINER_ID, &v.index, err);
    r = r == CO_NOTFOUND ? 0 : r;
    if (!r && v.index >= v.n_workers) {
        r = co_err_set(err, CO_INVALID, "%s is \"%u\", expected less than %s %u",
            co_contract[CO_VAR_INIT_TRAINER_ID].name, v.index,
            co_contract[CO_VAR_INIT_NUM_GRADIENT_SERVERS].name, v.n_workers);
    }
    r = r ? r : servers(e, &v.servers, err);
    if (r) {
        role_endpoints_done(&v.servers);
        return r;
    }
    *ret = v;
    return 0;
}
