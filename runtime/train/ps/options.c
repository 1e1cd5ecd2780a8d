#include "runtime/train/ps/options.h"

#include <stdlib.h>
#include <string.h>

#include "common/contract.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/train/ps/limits.h"

enum { SHARDS_MAX = 64, SHARDS_DEFAULT_MAX = 16 };

static int read_positive(int64_t *ms, const char *name, const char *text, struct co_err *err) {
    int rc = co_parse_duration(name, text, ms, err);
    if (rc == 0 && *ms <= 0) {
        return co_err_set(err, CO_INVALID, "%s: '%s' is not a time above 0", name, text);
    }
    return rc;
}

/* A duration ("30s", "1m30s"), when the program did not say one. */
static int from_env(int64_t *ms, enum co_var var, int64_t def, struct co_err *err) {
    const char *name = co_contract[var].name;
    const char *text = getenv(name);
    if (*ms > 0) {
        return 0;
    }
    if (text && *text) {
        return read_positive(ms, name, text, err);
    }
    *ms = def;
    return 0;
}

static int read_nonfinite(enum rt_nonfinite *o, struct co_err *err) {
    const struct co_contract_row *row = &co_contract[CO_VAR_PS_NONFINITE];
    const char *text = getenv(row->name);
    if (*o != RT_NONFINITE_UNSET) {
        return 0;
    }
    *o = RT_NONFINITE_REFUSE;
    if (!text || !*text) {
        return 0;
    }
    for (int i = 0; row->words[i]; i++) {
        if (strcmp(text, row->words[i]) == 0) {
            *o = (enum rt_nonfinite)(RT_NONFINITE_REFUSE + i);
            return 0;
        }
    }
    return co_err_set(
        err, CO_INVALID, "%s: '%s' is not one of refuse, skip, allow", row->name, text);
}

int rt_options_server(struct rt_server_options *o, struct co_err *err) {
    int rc = from_env(&o->lease_ms, CO_VAR_PS_LEASE, RT_LEASE_MS, err);
    rc = rc < 0 ? rc : from_env(&o->start_timeout_ms, CO_VAR_PS_START_TIMEOUT, RT_START_MS, err);
    const char *shards = getenv(co_contract[CO_VAR_PS_SHARDS].name);
    if (rc == 0 && o->shards == 0 && shards && *shards) {
        int64_t n;
        rc = co_parse_i64(co_contract[CO_VAR_PS_SHARDS].name, shards, 1, SHARDS_MAX, &n, err);
        o->shards = rc == 0 ? (uint32_t)n : 0;
    }
    rc = rc < 0 ? rc : read_nonfinite(&o->nonfinite, err);
    if (o->shards == 0) {
        uint32_t cores = rt_limit_cpus("");
        o->shards = cores < 4 ? 1 : cores > 2 * SHARDS_DEFAULT_MAX ? SHARDS_DEFAULT_MAX : cores / 2;
    }
    if (o->memory_max == 0) {
        o->memory_max = rt_limit_memory("") / 4 * 3;
    }
    return rc;
}

int rt_options_client(struct rt_client_options *o, struct co_err *err) {
    /* Paddle's own variable, in milliseconds, when ours is not there. */
    const char *deadline = getenv(co_contract[CO_VAR_RPC_DEADLINE].name);
    int rc = 0;
    if (o->call_timeout_ms <= 0 && deadline && *deadline &&
        !getenv(co_contract[CO_VAR_PS_CALL_TIMEOUT].name)) {
        rc = co_parse_i64(co_contract[CO_VAR_RPC_DEADLINE].name, deadline, 1, INT64_C(1) << 40,
            &o->call_timeout_ms, err);
    }
    rc = rc < 0 ? rc : from_env(&o->call_timeout_ms, CO_VAR_PS_CALL_TIMEOUT, RT_CALL_MS, err);
    rc = rc < 0 ? rc : from_env(&o->start_timeout_ms, CO_VAR_PS_START_TIMEOUT, RT_START_MS, err);
    rc = rc < 0 ? rc
                : from_env(&o->barrier_timeout_ms, CO_VAR_PS_BARRIER_TIMEOUT, RT_BARRIER_MS, err);
    rc = rc < 0 ? rc : from_env(&o->lease_ms, CO_VAR_PS_LEASE, RT_LEASE_MS, err);
    o->dense_merge_max = o->dense_merge_max ? o->dense_merge_max : 4;
    return rc;
}

const char *rt_options_token(void) {
    const char *token = getenv(co_contract[CO_VAR_JOB_TOKEN].name);
    return token ? token : "";
}
