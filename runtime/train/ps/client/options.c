/* Reads the options of servers and clients from arguments, environment and defaults.  The contract
 * (common/contract.h) has the names, words and limits of the variables. */
#include "runtime/train/ps/client/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/contract.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/parse.h"
#include "common/spare.h"
#include "runtime/net/handshake.h"
#include "runtime/train/ps/client/strategy.h"
#include "runtime/train/ps/glog.h"

enum { SHARDS_MAX = 64, SHARDS_DEFAULT_MAX = 16, QUEUE_DEFAULT = 16 };

static int read_positive(int64_t *ms, const char *name, const char *text, struct co_err *err) {
    CO_TRY(co_parse_duration(name, text, ms, err));
    if (*ms <= 0) {
        return co_err_set(err, CO_INVALID, "%s: \"%s\" is not a time above 0", name, text);
    }
    return 0;
}

/* A duration ("30s", "1m30s"), unless the program gave one. */
static int from_env(int64_t *ms, enum co_var var, int64_t def, struct co_err *err) {
    const char *name = co_contract[var].name;
    const char *text = co_contract_getenv(var);
    if (*ms > 0) {
        return 0;
    }
    if (text && *text) {
        return read_positive(ms, name, text, err);
    }
    *ms = def;
    return 0;
}

/* How long to wait for a lost peer.  Below 0: not at all; in the environment that is 0s, as a field
 * that is 0 means the default. */
static int read_return(int64_t *ms, int64_t lease_ms, struct co_err *err) {
    const char *name = co_contract[CO_VAR_PS_RETURN].name;
    const char *text = co_contract_getenv(CO_VAR_PS_RETURN);
    if (*ms != 0) {
        return 0;
    }
    *ms = lease_ms;
    int rc = text && *text ? co_parse_duration(name, text, ms, err) : 0;
    if (rc == 0 && *ms < 0) {
        return co_err_set(err, CO_INVALID, "%s: \"%s\" is below 0", name, text);
    }
    *ms = *ms == 0 ? -1 : *ms;
    return rc;
}

/* The number of a variable's word, unless the program gave one.  1 is the first word and the
 * default. */
static int read_word(unsigned *word, enum co_var var, struct co_err *err) {
    const struct co_contract_row *row = &co_contract[var];
    const char *text = co_contract_getenv(var);
    if (*word != 0 || !text || !*text) {
        *word = *word ? *word : 1;
        return 0;
    }
    unsigned index;
    CO_TRY(co_parse_word(row->name, text, row->words, false, &index, err));
    *word = index + 1;
    return 0;
}

/* A number, unless the program gave one. */
static int number_from_env(uint64_t *n, enum co_var var, uint64_t def, struct co_err *err) {
    const struct co_contract_row *row = &co_contract[var];
    const char *text = co_contract_getenv(var);
    int64_t v = 0;
    if (*n > 0) {
        return 0;
    }
    int rc = text && *text ? co_parse_i64(row->name, text, row->min, row->max, &v, err) : 0;
    *n = v > 0 ? (uint64_t)v : def;
    return rc;
}

static const char *text_from_env(const char *said, enum co_var var) {
    const char *text = co_contract_getenv(var);
    return said ? said : text ? text : "";
}

static int read_checkpoints(struct rt_client_options *o, struct co_err *err) {
    uint64_t deltas = o->checkpoint_deltas, keep = o->checkpoint_keep;
    o->checkpoint_dir = text_from_env(o->checkpoint_dir, CO_VAR_PS_CHECKPOINT_DIR);
    CO_TRY(number_from_env(&o->checkpoint_steps, CO_VAR_PS_CHECKPOINT_STEPS, 0, err));
    CO_TRY(from_env(&o->checkpoint_ms, CO_VAR_PS_CHECKPOINT_INTERVAL,
        o->checkpoint_steps ? 0 : PSC_CHECKPOINT_MS, err));
    CO_TRY(number_from_env(&deltas, CO_VAR_PS_CHECKPOINT_DELTAS, PSC_CHECKPOINT_DELTAS, err));
    CO_TRY(number_from_env(&keep, CO_VAR_PS_CHECKPOINT_KEEP, PSC_CHECKPOINT_KEEP, err));
    o->checkpoint_deltas = (uint32_t)deltas;
    o->checkpoint_keep = (uint32_t)keep;
    return 0;
}

int psc_options_server(struct rt_server_options *o, struct co_err *err) {
    CO_TRY(CO_SPARE_CHECK(o, "rt_server_options", err));
    CO_TRY(from_env(&o->lease_ms, CO_VAR_PS_LEASE, PSC_LEASE_MS, err));
    CO_TRY(read_return(&o->return_ms, o->lease_ms, err));
    CO_TRY(from_env(&o->start_timeout_ms, CO_VAR_PS_START_TIMEOUT, PSC_START_MS, err));
    const char *shards = co_contract_getenv(CO_VAR_PS_SHARDS);
    if (o->shards == 0 && shards && *shards) {
        int64_t n;
        CO_TRY(co_parse_i64(co_contract[CO_VAR_PS_SHARDS].name, shards, 1, SHARDS_MAX, &n, err));
        o->shards = (uint32_t)n;
    }
    unsigned word = o->nonfinite;
    CO_TRY(read_word(&word, CO_VAR_PS_NONFINITE, err));
    o->nonfinite = (enum rt_nonfinite)word;
    o->checkpoint_dir = text_from_env(o->checkpoint_dir, CO_VAR_PS_CHECKPOINT_DIR);
    o->cold_dir = text_from_env(o->cold_dir, CO_VAR_PS_COLD_DIR);
    struct co_err unread = {0};
    if (o->shards == 0) {
        uint32_t cores = co_limit_cpus("", &unread);
        o->shards = cores < 4 ? 1 : cores > 2 * SHARDS_DEFAULT_MAX ? SHARDS_DEFAULT_MAX : cores / 2;
    }
    if (o->memory_max == 0) {
        o->memory_max = co_limit_memory("", &unread) / 4 * 3;
    }
    if (unread.code) {
        ps_log_warn("a limit of this container cannot be read and counts as none: %s", unread.msg);
    }
    return 0;
}

int psc_options_client(struct rt_client_options *o, struct co_err *err) {
    /* Paddle's own variable, in milliseconds, is used if ours is not set. */
    const char *deadline = co_contract_getenv(CO_VAR_RPC_DEADLINE);
    CO_TRY(CO_SPARE_CHECK(o, "rt_client_options", err));
    if (o->call_timeout_ms <= 0 && deadline && *deadline &&
        !co_contract_getenv(CO_VAR_PS_CALL_TIMEOUT)) {
        CO_TRY(co_parse_i64(co_contract[CO_VAR_RPC_DEADLINE].name, deadline, 1, INT64_C(1) << 40,
            &o->call_timeout_ms, err));
    }
    CO_TRY(from_env(&o->call_timeout_ms, CO_VAR_PS_CALL_TIMEOUT, PSC_CALL_MS, err));
    CO_TRY(from_env(&o->start_timeout_ms, CO_VAR_PS_START_TIMEOUT, PSC_START_MS, err));
    CO_TRY(from_env(&o->barrier_timeout_ms, CO_VAR_PS_BARRIER_TIMEOUT, PSC_BARRIER_MS, err));
    CO_TRY(from_env(&o->lease_ms, CO_VAR_PS_LEASE, PSC_LEASE_MS, err));
    unsigned word = o->transport;
    CO_TRY(read_word(&word, CO_VAR_PS_TRANSPORT, err));
    o->transport = (enum rt_ps_transport)word;
    CO_TRY(read_return(&o->return_ms, o->lease_ms, err));
    CO_TRY(psc_strategy_fill(o, err));
    o->mode = o->mode ? o->mode : RT_ASYNC;
    if (o->mode > RT_GEO || o->mode < RT_MODE_UNSET) {
        return co_err_set(err, CO_INVALID,
            "mode %d is unknown, expected RT_ASYNC, RT_SYNC or RT_GEO", (int)o->mode);
    }
    if (o->backup > 0 && o->mode != RT_SYNC) {
        return co_err_set(err, CO_INVALID, "backup workers are for sync mode");
    }
    o->merge_max = o->merge_max ? o->merge_max : 1;
    if (o->merge_max > 1 && o->queue_max == 0) {
        o->queue_max = QUEUE_DEFAULT;
    }
    /* Pushes wait in the queue to be merged, so it must have room for merge_max. */
    o->queue_max = o->queue_max && o->queue_max < o->merge_max ? o->merge_max : o->queue_max;
    o->send_threads = o->send_threads ? o->send_threads : 5;
    o->recv_after = o->recv_after ? o->recv_after : 1;
    o->k_steps = o->k_steps ? o->k_steps : 100;
    o->dense_merge_max = o->dense_merge_max ? o->dense_merge_max
                         : o->merge_max > 1 ? o->merge_max
                                            : 4;
    return read_checkpoints(o, err);
}

const char *psc_options_token(void) {
    const char *token = co_contract_getenv(CO_VAR_JOB_TOKEN);
    return token ? token : "";
}

const char *psc_options_encrypt_text(void) {
    return co_contract_getenv(CO_VAR_JOB_ENCRYPT);
}

int psc_options_encrypt(
    enum rt_encrypt said, const char *text, const char *token, bool *ret, struct co_err *err) {
    if (said != RT_ENCRYPT_UNSET) {
        text = said == RT_ENCRYPT_YES ? "1" : "0";
    }
    return net_encrypt_parse(text, token, ret, err);
}
