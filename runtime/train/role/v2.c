/* Translates PADDLE_INIT_*, the environment of 0.8 to 0.12, into variables of the contract. */
#include "common/parse.h"
#include "runtime/train/role/environment.h"

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

static int read_or(const struct role_environment *e, enum co_var var, uint32_t otherwise,
    uint32_t *ret, struct co_err *err) {
    int r = role_read_number(e, var, ret, err);
    if (r == CO_NOTFOUND) {
        *ret = otherwise;
        return 0;
    }
    return r;
}

static int servers(
    const struct role_environment *e, struct role_endpoints *ret, struct co_err *err) {
    struct hosts h = {.servers = ret};
    uint32_t dense = 0, sparse = 0;
    CO_TRY(read_or(e, CO_VAR_INIT_PORT, CO_V2_PORT, &h.port, err));
    CO_TRY(read_or(e, CO_VAR_INIT_PORTS_NUM, 1, &dense, err));
    CO_TRY(read_or(e, CO_VAR_INIT_PORTS_NUM_FOR_SPARSE, 0, &sparse, err));
    h.ports = dense + sparse;
    if (h.port + h.ports > 65536) {
        return co_err_set(err, CO_INVALID, "%s is \"%u\", expected room for %u ports above it",
            co_contract[CO_VAR_INIT_PORT].name, h.port, h.ports);
    }
    CO_AUTOFREE char *list = role_read_list(e, CO_VAR_INIT_PSERVERS);
    CO_TRY(co_contract_check(CO_VAR_INIT_PSERVERS, list, err));
    return co_contract_list(CO_VAR_INIT_PSERVERS, list, add_host, &h, err);
}

int role_v2_load(const struct role_environment *e, struct role_v2 *ret, struct co_err *err) {
    struct role_v2 v = {0};
    CO_TRY(read_or(e, CO_VAR_INIT_NUM_GRADIENT_SERVERS, 1, &v.n_workers, err));
    CO_TRY(read_or(e, CO_VAR_INIT_TRAINER_ID, 0, &v.index, err));
    if (v.index >= v.n_workers) {
        return co_err_set(err, CO_INVALID, "%s is \"%u\", expected less than %s %u",
            co_contract[CO_VAR_INIT_TRAINER_ID].name, v.index,
            co_contract[CO_VAR_INIT_NUM_GRADIENT_SERVERS].name, v.n_workers);
    }
    int r = servers(e, &v.servers, err);
    if (r) {
        role_endpoints_done(&v.servers);
        return r;
    }
    *ret = v;
    return 0;
}
