/* A shard's counters, written by its thread and read by the metrics page without locks. */
#include "runtime/train/ps/shard/counters.h"

/* Which operation of the metrics a frame kind counts as; all others are METER_OP_OTHER. */
static const struct {
    enum rpc_frame_kind kind;
    enum meter_op op;
} kinds[] = {
    {RPC_FRAME_PULL_SPARSE, METER_OP_PULL},
    {RPC_FRAME_PULL_DENSE, METER_OP_PULL},
    {RPC_FRAME_PUSH_SPARSE, METER_OP_PUSH},
    {RPC_FRAME_PUSH_CLICKS, METER_OP_PUSH},
    {RPC_FRAME_PUSH_DENSE, METER_OP_PUSH},
    {RPC_FRAME_XCHG_DENSE, METER_OP_EXCHANGE},
    {RPC_FRAME_STEP, METER_OP_STEP},
    {RPC_FRAME_TICK, METER_OP_STEP},
};

static enum meter_op shard_of(uint8_t kind) {
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        if (kinds[i].kind == kind) {
            return kinds[i].op;
        }
    }
    return METER_OP_OTHER;
}

void shard_meter_did(struct shard_meter *m, const struct rpc_frame_head *request,
    size_t answer_bytes, int64_t begin) {
    if (begin == 0) {
        return;
    }
    enum meter_op op = shard_of(request->kind);
    meter_took(&m->took[op], meter_clock() - begin);
    meter_count(&m->values[op], request->count);
    meter_count(&m->bytes[METER_BYTES_RECEIVED], RPC_FRAME_HEAD + request->bytes);
    meter_count(&m->bytes[METER_BYTES_SENT], RPC_FRAME_HEAD + answer_bytes);
}

static void put(atomic_uint_fast64_t *to, uint64_t v) {
    atomic_store_explicit(to, v, memory_order_relaxed);
}

void shard_meter_turn(struct shard_meter *m, size_t queue) {
    if (!meter_on()) {
        return;
    }
    put(&m->queue, queue);
    for (uint32_t i = 0; i < m->of->config.n_tables; i++) {
        const struct shard_table *t = &m->of->tables[i];
        uint64_t cold = t->cold ? t->cold->rows : 0;
        put(&m->tables[i].rows, cold + (t->rows ? table_store_rows(t->rows) : 0));
        put(&m->tables[i].bytes, t->rows ? table_store_bytes(t->rows) : 0);
        put(&m->tables[i].nonfinite, t->nonfinite);
        put(&m->tables[i].late, t->late);
    }
}

static void fill(void *arg) {
    const struct shard_meter *m = arg;
    const struct shard_config *c = &m->of->config;
    for (size_t op = 0; op < METER_OPS; op++) {
        meter_fill_times(METER_M_REQUEST_SECONDS, op, &m->took[op]);
        meter_fill(METER_M_IDS, op, (double)meter_read(&m->values[op]));
    }
    for (size_t i = 0; i < METER_DIRECTIONS; i++) {
        meter_fill(METER_M_BYTES, i, (double)meter_read(&m->bytes[i]));
    }
    meter_fill(METER_M_QUEUE, 0, (double)meter_read(&m->queue));
    for (uint32_t i = 0; i < c->n_tables; i++) {
        const struct shard_meter_table *t = &m->tables[i];
        size_t series = meter_fill_table(c->tables[i].name);
        meter_fill(METER_M_ROWS, series, (double)meter_read(&t->rows));
        meter_fill(METER_M_TABLE_BYTES, series, (double)meter_read(&t->bytes));
        meter_fill(METER_M_NONFINITE, series, (double)meter_read(&t->nonfinite));
        meter_fill(METER_M_LATE, series, (double)meter_read(&t->late));
    }
}

void shard_meter_open(struct shard_meter *m, const struct shard_tables *tables) {
    m->of = tables;
    m->tables = co_xcalloc(tables->config.n_tables + 1UL, sizeof(*m->tables));
    m->source = (struct meter_source){.fill = fill, .arg = m};
    meter_attach(&m->source);
}

void shard_meter_close(struct shard_meter *m) {
    if (m->of) {
        meter_detach(&m->source);
        free(m->tables);
    }
}
