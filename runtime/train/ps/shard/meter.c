/* A shard's counters, written by its thread and read by the metrics page without locks. */
#include "runtime/train/ps/shard/meter.h"

/* Which operation of the metrics a frame kind counts as; all others are RT_OP_OTHER. */
static const struct {
    enum rt_frame_kind kind;
    enum rt_meter_op op;
} kinds[] = {
    {RT_FRAME_PULL_SPARSE, RT_OP_PULL},
    {RT_FRAME_PULL_DENSE, RT_OP_PULL},
    {RT_FRAME_PUSH_SPARSE, RT_OP_PUSH},
    {RT_FRAME_PUSH_CLICKS, RT_OP_PUSH},
    {RT_FRAME_PUSH_DENSE, RT_OP_PUSH},
    {RT_FRAME_XCHG_DENSE, RT_OP_EXCHANGE},
    {RT_FRAME_STEP, RT_OP_STEP},
    {RT_FRAME_TICK, RT_OP_STEP},
};

static enum rt_meter_op op_of(uint8_t kind) {
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        if (kinds[i].kind == kind) {
            return kinds[i].op;
        }
    }
    return RT_OP_OTHER;
}

void rt_shard_meter_did(struct rt_shard_meter *m, const struct rt_frame_head *request,
    size_t answer_bytes, int64_t begin) {
    if (begin == 0) {
        return;
    }
    enum rt_meter_op op = op_of(request->kind);
    rt_meter_took(&m->took[op], rt_meter_clock() - begin);
    rt_meter_count(&m->values[op], request->count);
    rt_meter_count(&m->bytes[RT_BYTES_RECEIVED], RT_FRAME_HEAD + request->bytes);
    rt_meter_count(&m->bytes[RT_BYTES_SENT], RT_FRAME_HEAD + answer_bytes);
}

static void put(atomic_uint_fast64_t *to, uint64_t v) {
    atomic_store_explicit(to, v, memory_order_relaxed);
}

void rt_shard_meter_turn(struct rt_shard_meter *m, size_t queue) {
    if (!rt_meter_on()) {
        return;
    }
    put(&m->queue, queue);
    for (uint32_t i = 0; i < m->of->config.n_tables; i++) {
        const struct rt_shard_table *t = &m->of->tables[i];
        uint64_t cold = t->cold ? t->cold->rows : 0;
        put(&m->tables[i].rows, cold + (t->rows ? rt_store_rows(t->rows) : 0));
        put(&m->tables[i].bytes, t->rows ? rt_store_bytes(t->rows) : 0);
        put(&m->tables[i].nonfinite, t->nonfinite);
        put(&m->tables[i].late, t->late);
    }
}

static void fill(void *arg) {
    const struct rt_shard_meter *m = arg;
    const struct rt_shard_config *c = &m->of->config;
    for (size_t op = 0; op < RT_METER_OPS; op++) {
        rt_meter_fill_times(RT_M_REQUEST_SECONDS, op, &m->took[op]);
        rt_meter_fill(RT_M_IDS, op, (double)rt_meter_read(&m->values[op]));
    }
    for (size_t i = 0; i < RT_DIRECTIONS; i++) {
        rt_meter_fill(RT_M_BYTES, i, (double)rt_meter_read(&m->bytes[i]));
    }
    rt_meter_fill(RT_M_QUEUE, 0, (double)rt_meter_read(&m->queue));
    for (uint32_t i = 0; i < c->n_tables; i++) {
        const struct rt_shard_meter_table *t = &m->tables[i];
        size_t series = rt_meter_fill_table(c->tables[i].name);
        rt_meter_fill(RT_M_ROWS, series, (double)rt_meter_read(&t->rows));
        rt_meter_fill(RT_M_TABLE_BYTES, series, (double)rt_meter_read(&t->bytes));
        rt_meter_fill(RT_M_NONFINITE, series, (double)rt_meter_read(&t->nonfinite));
        rt_meter_fill(RT_M_LATE, series, (double)rt_meter_read(&t->late));
    }
}

void rt_shard_meter_open(struct rt_shard_meter *m, const struct rt_shard_tables *tables) {
    m->of = tables;
    m->tables = co_xcalloc(tables->config.n_tables + 1UL, sizeof(*m->tables));
    m->source = (struct rt_meter_source){.fill = fill, .arg = m};
    rt_meter_attach(&m->source);
}

void rt_shard_meter_close(struct rt_shard_meter *m) {
    if (m->of) {
        rt_meter_detach(&m->source);
        free(m->tables);
    }
}
