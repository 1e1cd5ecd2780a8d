/* How a program ends a wait of its own thread: it is asked now and then whether it wants to
 * (rt_interrupt).  A wait
 *
 *     int64_t ask_ms = co_interrupt_next();
 *     while (...) {
 *         ... waits until what it waits for, its deadline, or ask_ms ...
 *         if (co_interrupted(&ask_ms)) -> CO_CANCELED
 *     }
 *
 * State is of the thread.  Where nobody has said what to ask, all this costs no call. */
#pragma once

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum { CO_INTERRUPT_MS = 50 }; /* rt.h says so, too */

/* NULL: this thread's waits run to their end.  Once it has said true, all waits of the thread end,
 * and it is not asked again, until the next co_interrupt_set. */
void co_interrupt_set(bool (*check)(void));
/* When this thread is to ask next; INT64_MAX: never. */
int64_t co_interrupt_next(void);
/* Asks, if it is time to, and says when it is time again.  The caller holds no lock. */
bool co_interrupted(int64_t *ask_ms);
/* As poll, until end_ms, INT64_MAX: without one.  Returns how many are ready; 0: none at end_ms, or
 * the wait is to end, as co_interrupted(ask_ms) says then.  Parts of a wait that are shorter than
 * CO_INTERRUPT_MS have one ask_ms between them. */
int co_interrupt_poll(struct pollfd *fds, size_t n, int64_t end_ms, int64_t *ask_ms);
/* Waits for a condition (co_cond_init) until end_ms, INT64_MAX: without one, or *ask_ms.  The
 * caller holds the lock, which is released while the program is asked.  True: the wait is to end.
 */
bool co_interrupt_wait(pthread_cond_t *c, pthread_mutex_t *m, int64_t end_ms, int64_t *ask_ms);
/* CO_CANCELED. */
int co_interrupt_error(const char *what, struct co_err *err);
