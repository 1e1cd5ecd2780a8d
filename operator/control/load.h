/* An estimate of the API server's load: how many times longer its answers to our writes take now
 * than they took at best.
 *
 * It is a ratio, so that neither a distant server nor a slow webhook counts as load.  The higher it
 * is, the longer low-priority work (events, status counters) is delayed.  Owned by the loop's
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Latencies are compared within one kind of request only. */
enum ctl_load_kind {
    CTL_LOAD_CREATE, /* of a pod */
    CTL_LOAD_STATUS, /* a status write */
    CTL_LOAD_KINDS
};

/* Zeroed = nothing known. */
struct ctl_load {
    double best_ms[CTL_LOAD_KINDS]; /* best latency; 0: no answer so far */
    double ratio;                   /* moving average of latency / best latency */
    int64_t noted_ms;               /* monotonic: the last answer */
};

/* A request has succeeded after so long, its time in our queue included; now: monotonic ms. */
void ctl_load_note(struct ctl_load *l, enum ctl_load_kind kind, int64_t took_ms, int64_t now);
/* 1 when there is no load, or nothing has been written for a while. */
double ctl_load_ratio(const struct ctl_load *l, int64_t now);
bool ctl_load_is_quiet(const struct ctl_load *l, int64_t now);
/* A delay of ms without load, stretched by the load to at most most_ms. */
int64_t ctl_load_stretch(const struct ctl_load *l, int64_t now, int64_t ms, int64_t most_ms);
/* A concurrency limit: `many` without load, divided by the ratio, at least `least`; `few` as long
 * as nothing is known. */
size_t ctl_load_share(const struct ctl_load *l, int64_t now, size_t least, size_t few, size_t many);
