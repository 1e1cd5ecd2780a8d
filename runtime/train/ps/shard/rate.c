/* Learning rates of a shard's tables.
 *
 *     lr     the spec's, or what rt_set_rate has set since
 *     steps  sync: completed steps; async: shard_steps calls of all trainers / number of trainers
 *     rate   the table's schedule, of both; all updates until the next step use it
 */
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/shard/part.h"

/* Updates the rate.  Not in geo mode: there trainers apply rule and rate, and the server only adds
 * the differences that they send. */
static void follow(struct shard_table *st) {
    if (st->mode == RT_GEO) {
        return;
    }
    st->optim.hyper[OPTIM_LR] = (float)optim_schedule_rate(&st->table->rates, st->lr, st->steps);
}

void shard_rate_init(struct shard_table *st) {
    st->optim = st->table->optim;
    st->lr = (double)st->optim.hyper[OPTIM_LR];
    st->steps = 0;
    follow(st);
}

void shard_rate_set(struct shard_table *st, uint64_t steps, double lr) {
    st->steps = steps;
    st->lr = lr;
    follow(st);
}

void shard_rates_step(struct shard_tables *t) {
    for (uint32_t i = 0; i < t->config.n_tables; i++) {
        t->tables[i].steps++;
        follow(&t->tables[i]);
    }
}

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static int get_rate(const struct shard_table *st, struct rpc_frame **ret, struct co_err *err) {
    const uint64_t numbers[RPC_FRAME_RATE_NUMBERS] = {
        bits_of(st->lr), st->steps, bits_of((double)st->optim.hyper[OPTIM_LR])};
    CO_TRY(rpc_frame_new(RPC_FRAME_GET_RATE | RPC_FRAME_ANSWER, sizeof(numbers), ret, err));
    for (size_t i = 0; i < RPC_FRAME_RATE_NUMBERS; i++) {
        (*ret)->head.count = RPC_FRAME_RATE_NUMBERS;
        co_put_u64((*ret)->payload + 8 * i, numbers[i]);
    }
    return 0;
}

static int set_rate(struct shard_table *st, uint64_t bits, struct co_err *err) {
    double lr;
    if (st->mode == RT_GEO) {
        return co_err_set(err, CO_INVALID,
            "table \"%s\" is in geo mode: its learning rate is the trainers'", st->table->name);
    }
    memcpy(&lr, &bits, sizeof(lr));
    struct optim checked = st->optim;
    int rc = optim_set(&checked, "lr", lr, err);
    if (rc < 0) {
        return co_err_wrap(err, "table \"%s\"", st->table->name);
    }
    st->lr = lr;
    follow(st);
    return 0;
}

static int tick(struct shard_tables *t, struct co_err *err) {
    if (t->config.mode == RT_SYNC) {
        return co_err_set(err, CO_INVALID, "tick: this job is synchronous");
    }
    if (++t->ticks >= t->config.trainers) {
        t->ticks = 0;
        shard_rates_step(t);
    }
    return 0;
}

int shard_rate_do(struct shard_tables *t, struct shard_table *st, const struct rpc_frame *f,
    struct rpc_frame **ret, struct co_err *err) {
    switch (f->head.kind) {
    case RPC_FRAME_GET_RATE:
        return get_rate(st, ret, err);
    case RPC_FRAME_SET_RATE:
        return set_rate(st, f->head.aux, err);
    case RPC_FRAME_SET_STEPS:
        st->steps = f->head.aux;
        follow(st);
        return 0;
    default: /* RPC_FRAME_TICK */
        return tick(t, err);
    }
}
