/* Numbers of a table: statistics, learning rates, steps. */
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/client/client_internal.h"

/* ---- statistics ---- */

static int take_stat(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    (void)p;
    struct rt_table_stat *st = call->arg;
    uint64_t *const numbers[RPC_FRAME_STAT_NUMBERS] = {&st->rows, &st->bytes, &st->pulls,
        &st->pushes, &st->nonfinite, &st->late, &st->rows_cold, &st->bytes_cold};
    if (a->head.bytes != 8 * RPC_FRAME_STAT_NUMBERS) {
        return co_err_set(
            err, CO_INVALID, "%u bytes for %d numbers", a->head.bytes, RPC_FRAME_STAT_NUMBERS);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(numbers); i++) {
        *numbers[i] += co_get_u64(a->payload + 8 * i);
    }
    return 0;
}

int rt_stat(struct rt_client *c, uint32_t table, struct rt_table_stat *ret, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    if (table >= c->n_tables) {
        return co_err_set(err, CO_INVALID, "there is no table %u", table);
    }
    struct rt_call *call = psc_shards_call(c, "stat", RPC_FRAME_STAT, table, 0);
    struct rt_table_stat sum = {0};
    call->arg = &sum;
    call->take = take_stat;
    call->reads = true;
    psc_call_start(call);
    CO_TRY(psc_call_wait(call, c->options.call_timeout_ms, err));
    sum.rows = c->tables[table].spec.kind == RT_DENSE ? 1 : sum.rows;
    *ret = sum;
    return 0;
}

/* ---- learning rates ---- */

static int take_rate(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    (void)p;
    uint64_t numbers[RPC_FRAME_RATE_NUMBERS];
    if (a->head.bytes != sizeof(numbers)) {
        return co_err_set(err, CO_INVALID, "%u bytes for a rate", a->head.bytes);
    }
    for (size_t i = 0; i < RPC_FRAME_RATE_NUMBERS; i++) {
        numbers[i] = co_get_u64(a->payload + 8 * i);
    }
    struct rt_rate *rate = call->arg;
    memcpy(&rate->lr, &numbers[0], sizeof(rate->lr));
    rate->steps = numbers[1];
    memcpy(&rate->now, &numbers[2], sizeof(rate->now));
    return 0;
}

static int check_table(struct rt_client *c, uint32_t table, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    return table < c->n_tables ? 0 : co_err_set(err, CO_INVALID, "there is no table %u", table);
}

/* All shards have the same rate, so only one is asked. */
int rt_get_rate(struct rt_client *c, uint32_t table, struct rt_rate *ret, struct co_err *err) {
    const struct rpc_frame_head head = {.kind = RPC_FRAME_GET_RATE, .table = (uint16_t)table};
    struct rt_rate rate = {0};
    CO_TRY(check_table(c, table, err));
    struct rt_call *call = psc_call_new(c, "get rate", &c->tables[table], 1);
    call->take = take_rate;
    call->reads = true;
    call->arg = &rate;
    psc_call_part(call, 0, 0, &head, 8 * RPC_FRAME_RATE_NUMBERS);
    psc_call_start(call);
    CO_TRY(psc_call_wait(call, c->options.call_timeout_ms, err));
    *ret = rate;
    return 0;
}

static int send_shards(struct rt_client *c, const char *what, uint8_t kind, uint32_t table,
    uint64_t aux, struct co_err *err) {
    struct rt_call *call = psc_shards_call(c, what, kind, table, aux);
    psc_call_start(call);
    return psc_call_wait(call, c->options.call_timeout_ms, err);
}

void psc_rates_forget(struct rt_client *c) {
    for (uint32_t i = 0; i < c->n_tables; i++) {
        atomic_store(&c->rates[i], UINT64_MAX);
    }
}

bool psc_rate_set(const struct rt_client *c, uint32_t table, double *ret_lr) {
    uint64_t bits = atomic_load(&c->rates[table]);
    memcpy(ret_lr, &bits, sizeof(bits));
    return bits != UINT64_MAX;
}

int rt_set_rate(struct rt_client *c, uint32_t table, double lr, struct co_err *err) {
    CO_TRY(check_table(c, table, err));
    struct optim checked = c->tables[table].optim;
    int rc = optim_set(&checked, "lr", lr, err);
    if (rc < 0) {
        return co_err_wrap(err, "table \"%s\"", c->tables[table].name);
    }
    uint64_t bits;
    memcpy(&bits, &lr, sizeof(bits));
    CO_TRY(send_shards(c, "set rate", RPC_FRAME_SET_RATE, table, bits, err));
    atomic_store(&c->rates[table], bits);
    return 0;
}

int psc_client_set_steps(struct rt_client *c, uint32_t table, uint64_t steps, struct co_err *err) {
    return send_shards(c, "set steps", RPC_FRAME_SET_STEPS, table, steps, err);
}
