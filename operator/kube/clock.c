/* The API server's clock: the offset between its Date headers and our monotonic clock. */
#include "operator/kube/clock.h"

#include <stdatomic.h>

#include "common/loop.h"

enum {
    SLACK_MS = 3000,  /* a reply that is later than this was slow, so it is ignored */
    SLOW_IN_A_ROW = 8 /* unless there are so many: then the server's clock was set back */
};

#define UNKNOWN INT64_MIN

/* The server's time minus monotonic time.  A Date header is older than the moment its reply
 * arrives, so each reply gives a lower bound of the offset.  The fastest reply gives the largest
 * and best one, which is kept. */
static _Atomic int64_t offset_ms = UNKNOWN;
static _Atomic int slow; /* slow replies in a row */

void kube_clock_observe(int64_t stamp) {
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

int64_t kube_clock_ms(void) {
    int64_t offset = atomic_load(&offset_ms);
    return offset == UNKNOWN ? co_wall_ms() : co_now_ms() + offset;
}

int64_t kube_clock_seconds(void) {
    return kube_clock_ms() / 1000;
}

void kube_clock_forget(void) {
    atomic_store(&offset_ms, UNKNOWN);
    atomic_store(&slow, 0);
}
