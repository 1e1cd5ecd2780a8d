/* Counts the requests to end (signals.h). */
#include "runtime/launch/process/signals.h"

#include <signal.h>
#include <stddef.h>

#include "common/mem.h"

static void signaled(void *arg, int signo) {
    struct proc_signals *s = arg;
    int n = co_stops_note(&s->stops, co_now_ms());
    if (n > 0) {
        s->stop(s->arg, signo, n);
    }
}

int proc_signals_take(struct proc_signals *s, struct co_loop *loop, struct co_err *err) {
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};
    struct co_signal *one = NULL; /* the loop frees them */
    for (size_t i = 0; i < CO_ARRAY_LEN(signals); i++) {
        bool nohup = signals[i] == SIGHUP && co_signal_ignored(SIGHUP);
        if (!nohup) {
            CO_TRY(co_signal_new(loop, signals[i], signaled, s, &one, err));
        }
    }
    return 0;
}
