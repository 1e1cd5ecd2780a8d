/* The threads that oneDNN computes with, for our own loops, too: its OpenMP library's.  A pool of
 * our own would compete with them for the same cores.  Where oneDNN was built without OpenMP
 * everything runs in the calling thread.  Called from one thread. */
#pragma once

#include <stddef.h>

/* Sets how many threads oneDNN and rn_team_run use from now on. */
void rn_team_set(size_t threads);
size_t rn_team_size(void);

/* Calls fn(arg, 0, count) to fn(arg, count - 1, count), each in its thread, and returns when all
 * have returned.  count is rn_team_size or less. */
typedef void (*rn_team_fn)(void *arg, size_t index, size_t count);
void rn_team_run(rn_team_fn fn, void *arg);

/* Part `index` of `count` equal parts of n things: begins at *ret_begin, returns its end. */
static inline size_t rn_team_part(size_t n, size_t index, size_t count, size_t *ret_begin) {
    *ret_begin = n * index / count;
    return n * (index + 1) / count;
}
