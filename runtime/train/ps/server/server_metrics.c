/* A server's own metrics: trainers by state, memory, steps, and how many steps trainers are apart.
 * The rpc's thread stores them at each tick.  `fill` runs on the thread that reads metrics. */
#include "runtime/train/ps/server/server_internal.h"

static void fill(void *arg) {
    struct pss_server *s = arg;
    for (size_t i = 0; i < PSS_MEMBER_STATES; i++) {
        meter_fill(METER_M_TRAINERS, i, (double)meter_read(&s->trainers[i]));
    }
    meter_fill(METER_M_MEMORY, 0, (double)atomic_load(&s->budget.used));
    meter_fill(METER_M_MEMORY_MAX, 0, (double)s->budget.max);
    meter_fill_most(METER_M_STALENESS, 0, (double)meter_read(&s->apart));
    meter_fill_most(METER_M_STEP, 0, (double)meter_read(&s->step));
}

void pss_server_meter_open(struct pss_server *s) {
    s->meter = (struct meter_source){.fill = fill, .arg = s};
    meter_attach(&s->meter);
}

void pss_server_meter_tick(struct pss_server *s) {
    if (!meter_on()) {
        return;
    }
    for (uint32_t i = 0; i < PSS_MEMBER_STATES; i++) {
        atomic_store_explicit(
            &s->trainers[i], pss_members_in(&s->members, i), memory_order_relaxed);
    }
    atomic_store_explicit(&s->apart, pss_server_apart(s), memory_order_relaxed);
    /* No first shard: it could not start, and the job is over. */
    if (s->shards && s->shards[0] && s->mode == RT_SYNC) {
        atomic_store_explicit(&s->step, shard_step(s->shards[0]), memory_order_relaxed);
    }
}
