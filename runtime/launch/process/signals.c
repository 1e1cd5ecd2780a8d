/* Counts the requests to end, and stops this process with its children.  See signals.h. */
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

/* Returns after SIGCONT.  Where no shell could send that, as in a container's first process, the
 * kernel does not let SIGTSTP stop this process, and all continue at once. */
static void suspended(void *arg, int signo) {
    struct proc_signals *s = arg;
    struct sigaction own;
    s->pause(s->arg, true);
    if (sigaction(signo, &(struct sigaction){.sa_handler = SIG_DFL}, &own) == 0) {
        (void)raise(signo);
        (void)sigaction(signo, &own, NULL);
    }
    s->pause(s->arg, false);
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
    return co_signal_ignored(SIGTSTP) ? 0 : co_signal_new(loop, SIGTSTP, suspended, s, &one, err);
}
