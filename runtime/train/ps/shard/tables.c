/* All tables of a shard: dispatches a frame to its table, and applies the steps of sync mode. */
#include "runtime/train/ps/shard/tables.h"

#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/shard/part.h"

/* ---- making and freeing ---- */

int shard_tables_init(
    struct shard_tables *t, const struct shard_config *config, struct co_err *err) {
    memset(t, 0, sizeof(*t));
    t->config = *config;
    t->tables = co_xcalloc(config->n_tables, sizeof(*t->tables));
    for (uint32_t i = 0; i < config->n_tables; i++) {
        struct shard_table *st = &t->tables[i];
        st->table = &config->tables[i];
        st->index = i;
        st->mode = st->table->spec.mode ? st->table->spec.mode : config->mode;
        st->warned = co_xcalloc(config->trainers, sizeof(bool));
        shard_rate_init(st);
        if (st->table->spec.kind == RT_DENSE) {
            int rc = shard_dense_init(t, st, err);
            if (rc < 0) {
                shard_tables_done(t);
                return rc;
            }
        }
    }
    for (uint32_t i = 0; i < config->n_tables; i++) {
        struct shard_table *st = &t->tables[i];
        if (st->table->spec.kind == RT_SPARSE) {
            int rc = shard_sparse_init(t, st, err);
            if (rc < 0) {
                shard_tables_done(t);
                return rc;
            }
        }
    }
    return 0;
}

void shard_tables_watch(struct shard_tables *t, struct shard_snapshot *snapshot) {
    for (uint32_t i = 0; i < t->config.n_tables; i++) {
        t->tables[i].snapshot = snapshot;
        shard_cold_watch(&t->tables[i]);
    }
}

void shard_tables_done(struct shard_tables *t) {
    for (uint32_t i = 0; t->tables && i < t->config.n_tables; i++) {
        struct shard_table *st = &t->tables[i];
        shard_dense_done(st);
        free(st->warned);
        shard_sparse_done(st);
    }
    free(t->tables);
    t->tables = NULL;
    table_budget_give(t->config.budget, t->dense_bytes);
    t->dense_bytes = 0;
}

/* ---- dense and sparse ---- */

static int do_stat(const struct shard_table *st, struct rpc_frame **ret, struct co_err *err) {
    uint64_t rows = st->n_blocks > 0, bytes = 0;
    for (uint32_t i = 0; i < st->n_blocks; i++) {
        bytes += (st->blocks[i].n + st->blocks[i].n_state) * sizeof(float);
    }
    if (st->rows) {
        rows = table_store_rows(st->rows);
        bytes = table_store_bytes(st->rows);
    }
    uint64_t cold = st->cold ? st->cold->rows : 0;
    const uint64_t numbers[RPC_FRAME_STAT_NUMBERS] = {rows + cold, bytes, st->pulls, st->pushes,
        st->nonfinite, st->late, cold, st->cold ? table_cold_bytes(st->cold) : 0};
    CO_TRY(rpc_frame_new(RPC_FRAME_STAT | RPC_FRAME_ANSWER, sizeof(numbers), ret, err));
    for (size_t i = 0; i < CO_ARRAY_LEN(numbers); i++) {
        (*ret)->head.count = RPC_FRAME_STAT_NUMBERS;
        co_put_u64((*ret)->payload + 8 * i, numbers[i]);
    }
    return 0;
}

int shard_tables_do(struct shard_tables *t, uint32_t trainer, const struct rpc_frame *f,
    struct rpc_frame **ret_answer, struct co_err *err) {
    *ret_answer = NULL;
    t->kind = f->head.kind;
    if (f->head.table >= t->config.n_tables) {
        return co_err_set(err, CO_INVALID, "%s: there is no table %u",
            rpc_frame_kind_name(f->head.kind), f->head.table);
    }
    struct shard_table *st = &t->tables[f->head.table];
    enum rt_table_kind want = RT_DENSE;
    switch (f->head.kind) {
    case RPC_FRAME_STAT:
        return do_stat(st, ret_answer, err);
    case RPC_FRAME_GET_RATE:
    case RPC_FRAME_SET_RATE:
    case RPC_FRAME_SET_STEPS:
    case RPC_FRAME_TICK:
        return shard_rate_do(t, st, f, ret_answer, err);
    case RPC_FRAME_PULL_SPARSE:
    case RPC_FRAME_PUSH_SPARSE:
    case RPC_FRAME_PUSH_CLICKS:
    case RPC_FRAME_SHRINK:
    case RPC_FRAME_SCAN_SPARSE:
    case RPC_FRAME_RESTORE_SPARSE:
        want = RT_SPARSE;
        break;
    case RPC_FRAME_PULL_DENSE:
    case RPC_FRAME_PUSH_DENSE:
    case RPC_FRAME_XCHG_DENSE:
    case RPC_FRAME_PUT_DENSE:
    case RPC_FRAME_GET_DENSE:
    case RPC_FRAME_RESTORE_DENSE:
        break;
    default:
        return co_err_set(err, CO_INVALID, "frame kind %u is not for a shard", f->head.kind);
    }
    if (st->table->spec.kind != want) {
        return co_err_set(err, CO_INVALID, "%s: table \"%s\" is %s",
            rpc_frame_kind_name(f->head.kind), st->table->name,
            want == RT_DENSE ? "sparse" : "dense");
    }
    return want == RT_DENSE ? shard_dense_do(t, st, trainer, f, ret_answer, err)
                            : shard_sparse_do(t, st, trainer, f, ret_answer, err);
}

/* ---- sync steps ---- */

void shard_tables_settle(struct shard_tables *t) {
    for (uint32_t i = 0; i < t->config.n_tables; i++) {
        shard_dense_settle(&t->tables[i]);
    }
}

int shard_tables_step(struct shard_tables *t, uint32_t n, struct co_err *err) {
    int rc = 0;
    for (uint32_t i = 0; i < t->config.n_tables; i++) {
        struct shard_table *st = &t->tables[i];
        uint32_t by = st->optim.rule->adds ? 1 : n;
        shard_dense_step(st, by);
        if (st->sums) {
            int one = shard_sparse_step(st, by, rc == 0 ? err : NULL);
            rc = rc == 0 ? one : rc;
        }
        st->large = false;
    }
    shard_rates_step(t);
    return rc;
}
