/* Threads that take no signals, and conditions whose deadlines are by co_now_ms. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread.  Signals are for the program's own threads, so it has all of them blocked.
 * Returns 0 or an errno. */
int co_thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg);

void co_cond_init(pthread_cond_t *c);
/* Waits until the condition is signalled, as pthread_cond_wait.  False: end_ms has passed. */
bool co_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t end_ms);
