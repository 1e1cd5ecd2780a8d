/* The load estimate: a moving average of latency ratios, and a best latency that ages slowly. */
#include "operator/control/load.h"

enum {
    MEMORY = 8,           /* the moving average covers about so many answers */
    STALE_MS = 10 * 1000, /* after so long without an answer the ratio means nothing */
    QUIET = 2,            /* ratios up to this are noise, not load */
    /* The best latency to begin with: that of an idle server.  An operator that starts in the
     * middle of a burst would otherwise learn from its first answers that slow is normal. */
    TYPICAL_MS = 10,
    /* Servers move and get webhooks, so the best latency grows by a factor of e in so long. */
    AGE_MS = 10 * 1000 * 1000,
    AGE_STEP_MS = 60 * 1000, /* growth per answer is capped: a pause says nothing about latency */
};

static bool is_stale(const struct ctl_load *l, int64_t now) {
    return !l->noted_ms || now - l->noted_ms > STALE_MS;
}

static void grow_old(struct ctl_load *l, int64_t now) {
    int64_t ms = l->noted_ms ? now - l->noted_ms : 0;
    double by = 1 + (double)(ms < AGE_STEP_MS ? ms : AGE_STEP_MS) / AGE_MS;
    for (enum ctl_load_kind k = 0; k < CTL_LOAD_KINDS; k++) {
        l->best_ms[k] = l->best_ms[k] > 0 ? l->best_ms[k] * by : TYPICAL_MS;
    }
}

void ctl_load_note(struct ctl_load *l, enum ctl_load_kind kind, int64_t took_ms, int64_t now) {
    double took = took_ms > 1 ? (double)took_ms : 1; /* the clock's resolution is 1 ms */
    double *best = &l->best_ms[kind];
    if (is_stale(l, now)) {
        l->ratio = 1;
    }
    grow_old(l, now);
    *best = *best < took ? *best : took;
    l->ratio += (took / *best - l->ratio) / MEMORY;
    l->noted_ms = now;
}

double ctl_load_ratio(const struct ctl_load *l, int64_t now) {
    return is_stale(l, now) ? 1 : l->ratio;
}

bool ctl_load_is_quiet(const struct ctl_load *l, int64_t now) {
    return ctl_load_ratio(l, now) <= QUIET;
}

int64_t ctl_load_stretch(const struct ctl_load *l, int64_t now, int64_t ms, int64_t most_ms) {
    double longer = (double)ms * ctl_load_ratio(l, now) / QUIET;
    return longer < (double)ms ? ms : longer > (double)most_ms ? most_ms : (int64_t)longer;
}

size_t ctl_load_share(
    const struct ctl_load *l, int64_t now, size_t least, size_t few, size_t many) {
    size_t share = (size_t)((double)many / ctl_load_ratio(l, now));
    return is_stale(l, now) ? few : share < least ? least : share;
}
