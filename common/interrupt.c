/* The question of each thread, and when it is asked. */
#include "common/interrupt.h"

#include <errno.h>

#include "common/clock.h"
#include "common/thread.h"

static _Thread_local bool (*check)(void);
static _Thread_local bool ended; /* it has said so */

void co_interrupt_set(bool (*asked)(void)) {
    check = asked;
    ended = false;
}

int64_t co_interrupt_next(void) {
    return !check ? INT64_MAX : co_now_ms() + (ended ? 0 : CO_INTERRUPT_MS);
}

bool co_interrupted(int64_t *ask_ms) {
    if (!check || (!ended && co_now_ms() < *ask_ms)) {
        return false;
    }
    /* It may make calls, and set another check for these. */
    ended = ended || check();
    *ask_ms = co_interrupt_next(); /* the answer may have taken long */
    return ended;
}

int co_interrupt_poll(struct pollfd *fds, size_t n, int64_t end_ms, int64_t *ask_ms) {
    for (;;) {
        int64_t until_ms = end_ms < *ask_ms ? end_ms : *ask_ms;
        int64_t ms = until_ms == INT64_MAX ? -1 : co_poll_ms(until_ms - co_now_ms());
        int ready = poll(fds, n, (int)ms); /* no deadline: the caller says why there is none */
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return ready > 0 ? ready : 0;
        }
        if (co_interrupted(ask_ms) || (ready == 0 && co_now_ms() >= end_ms)) {
            return 0;
        }
    }
}

bool co_interrupt_wait(pthread_cond_t *c, pthread_mutex_t *m, int64_t end_ms, int64_t *ask_ms) {
    int64_t until_ms = end_ms < *ask_ms ? end_ms : *ask_ms;
    if (until_ms == INT64_MAX) {
        /* no deadline: the caller says why there is none */
        pthread_cond_wait(c, m);
        return false;
    }
    if (co_cond_wait_until(c, m, until_ms) || co_now_ms() < *ask_ms) {
        return false;
    }
    pthread_mutex_unlock(m);
    bool ends = co_interrupted(ask_ms);
    pthread_mutex_lock(m);
    return ends;
}

int co_interrupt_error(const char *what, struct co_err *err) {
    return co_err_set(err, CO_CANCELED, "%s: the program has ended the wait, as by Ctrl-C", what);
}
