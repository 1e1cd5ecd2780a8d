#include "operator/kube/clock.h"

#include "common/loop.h"

#include <stdatomic.h>

enum {
    SLACK_MS = 3000,  /* a slower reply says little of the time */
    SLOW_IN_A_ROW = 8 /* so many mean that the server's clock was set back */
};

#define UNKNOWN INT64_MIN

/* Server's time less monotonic time: the largest bound of those that replies gave.  A stamp is at
 * most as old as its reply, so each gives a lower bound, the fastest the best. */
static _Atomic int64_t offset_ms = UNKNOWN;
static _Atomic int slow; /* in a row */

void op_kube_clock_heard(int64_t stamp) {
    int64_t bound = stamp * 1000 - co_now_ms();
    int64_t offset = atomic_load(&offset_ms);
    bool better = offset == UNKNOWN || bound > offset;
    bool late = !better && bound <= offset - SLACK_MS;
    if (late && atomic_fetch_add(&slow, 1) + 1 < SLOW_IN_A_ROW) {
        return;
    }
    if (better || late) {
        atomic_store(&offset_ms, bound);
    }
    atomic_store(&slow, 0);
}

int64_t op_kube_clock_ms(void) {
    int64_t offset = atomic_load(&offset_ms);
    return offset == UNKNOWN ? co_wall_ms() : co_now_ms() + offset;
}

int64_t op_kube_clock_seconds(void) {
    return op_kube_clock_ms() / 1000;
}

void op_kube_clock_forget(void) {
    atomic_store(&offset_ms, UNKNOWN);
    atomic_store(&slow, 0);
}
