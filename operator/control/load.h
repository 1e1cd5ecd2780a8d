/* How hard the API server has to work: how many times longer its answers to our writes take now
 * than they took at best.
 *
 * A ratio, so that neither a long way to the server nor a slow webhook counts as load.  What can
 * wait does so the longer, the higher it is.  Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is compared with its own kind only. */
enum op_load_kind {
    OP_LOAD_CREATE, /* of a pod */
    OP_LOAD_STATUS, /* a status write */
    OP_LOAD_KINDS
};

/* Zeroed = nothing known. */
struct op_load {
    double best_ms[OP_LOAD_KINDS]; /* 0: no answer so far */
    double ratio;                  /* of the answers of late */
    int64_t noted_ms;              /* monotonic: the last answer */
};

/* An answer that was good took so long, waiting for its turn included; now: monotonic ms. */
void op_load_note(struct op_load *l, enum op_load_kind kind, int64_t took_ms, int64_t now);
/* 1: none, or nothing was written for a while. */
double op_load_ratio(const struct op_load *l, int64_t now);
bool op_load_is_quiet(const struct op_load *l, int64_t now);
/* How long something waits that would wait for ms: up to most_ms. */
int64_t op_load_stretch(const struct op_load *l, int64_t now, int64_t ms, int64_t most_ms);
/* How many of something that are many at once, at best: least when there is load, and few as long
 * as nothing is known. */
size_t op_load_share(const struct op_load *l, int64_t now, size_t least, size_t few, size_t many);
