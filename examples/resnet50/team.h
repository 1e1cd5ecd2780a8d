/* Runs our own loops on the threads of oneDNN's OpenMP library.  A thread pool of our own would
 * compete with them for the same cores.  If oneDNN was built without OpenMP, everything runs in the
 * calling thread.  Call it from one thread. */
#pragma once

#include <stddef.h>

/* Sets how many threads oneDNN and rn_team_run use from now on. */
void rn_team_set(size_t threads);
size_t rn_team_size(void);

/* Calls fn(arg, 0, count) to fn(arg, count - 1, count), each in a thread of its own, and returns
 * when all have returned.  count is at most rn_team_size. */
typedef void (*rn_team_fn)(void *arg, size_t index, size_t count);
void rn_team_run(rn_team_fn fn, void *arg);

/* Part `index` of `count` equal parts of n things: begins at *ret_begin, returns its end. */
static inline size_t rn_team_part(size_t n, size_t index, size_t count, size_t *ret_begin) {
    *ret_begin = n * index / count;
    return n * (index + 1) / count;
}
