/* A server's own metrics: trainers by state, memory, steps, and how many steps trainers are apart.
 * The rpc's thread stores them at each tick.  `fill` runs on the thread that reads metrics. */
#include "runtime/train/ps/server/internal.h"

static void fill(void *arg) {
    struct rt_server *s = arg;
    for (size_t i = 0; i < RT_MEMBER_STATES; i++) {
        rt_meter_fill(RT_M_TRAINERS, i, (double)rt_meter_read(&s->trainers[i]));
    }
    rt_meter_fill(RT_M_MEMORY, 0, (double)atomic_load(&s->budget.used));
    rt_meter_fill(RT_M_MEMORY_MAX, 0, (double)s->budget.max);
    rt_meter_fill_most(RT_M_STALENESS, 0, (double)rt_meter_read(&s->apart));
    rt_meter_fill_most(RT_M_STEP, 0, (double)rt_meter_read(&s->step));
}

void rt_server_meter_open(struct rt_server *s) {
    s->meter = (struct rt_meter_source){.fill = fill, .arg = s};
    rt_meter_attach(&s->meter);
}

void rt_server_meter_tick(struct rt_server *s) {
    if (!rt_meter_on()) {
        return;
    }
    for (uint32_t i = 0; i < RT_MEMBER_STATES; i++) {
        atomic_store_explicit(&s->trainers[i], rt_members_in(&s->members, i), memory_order_relaxed);
    }
    atomic_store_explicit(&s->apart, rt_server_apart(s), memory_order_relaxed);
    /* No first shard: it could not start, and the job is over. */
    if (s->shards && s->shards[0] && s->mode == RT_SYNC) {
        atomic_store_explicit(&s->step, rt_shard_step(s->shards[0]), memory_order_relaxed);
    }
}
