/* A group of processes and the stages of its end.  See children.h. */
#include "runtime/launch/process/children.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STRAYS_MS = 2000, /* between SIGTERM and SIGKILL for strays */
    LOST_MS = 2000,   /* after SIGKILL: a process that is still there then cannot be killed */
};

struct group_process {
    pid_t pid;
    bool running;
};

struct proc_children {
    struct co_loop *loop;
    struct proc_children_fns fns;
    void *arg;
    struct group_process *member;
    size_t n, n_running;
    bool started;
    bool leaves_nothing;
    /* The stages, in order; some may be skipped:
     *   RUNS         members run and were not asked to end
     *   TERM         members got SIGTERM; `timer` is their grace time
     *   KILL         members got SIGKILL
     *   STRAYS       no member is left; strays got SIGTERM
     *   STRAYS_KILL  strays got SIGKILL
     *   EMPTY        no process is left; `empty` was called */
    enum child_stage { RUNS, TERM, KILL, STRAYS, STRAYS_KILL, EMPTY } stage;
    struct co_timer *timer;
    int64_t deadline; /* of the timer, while TERM */
    int64_t left_ms;  /* until then, while members are paused */
    struct co_signal *child;
};

void proc_children_signal_one(struct proc_children *g, size_t i, int signo) {
    if (i < g->n && g->member[i].running) {
        (void)kill(-g->member[i].pid, signo);
    }
}

void proc_children_signal(struct proc_children *g, int signo) {
    for (size_t i = 0; i < g->n; i++) {
        proc_children_signal_one(g, i, signo);
    }
}

static void set_stage(struct proc_children *g, enum child_stage stage, int64_t timer_ms) {
    g->stage = stage;
    g->deadline = co_now_ms() + timer_ms;
    if (stage == KILL || stage == STRAYS_KILL) { /* the kernel needs its time, as we do to see it */
        co_timer_start_awake(g->timer, timer_ms);
    } else {
        co_timer_start(g->timer, timer_ms);
    }
}

static void finish_children(struct proc_children *g, size_t n_lost) {
    co_timer_stop(g->timer);
    g->stage = EMPTY;
    for (size_t i = 0; i < g->n; i++) { /* a lost process that ends later is not reported */
        g->member[i].running = false;
    }
    g->n_running = 0;
    g->fns.empty(g->arg, n_lost);
}

/* Whether this process has no children at all. */
static bool is_alone(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

static void time_is_up(void *arg) {
    struct proc_children *g = arg;
    switch (g->stage) {
    case TERM:
        g->fns.killing(g->arg, g->n_running, false);
        set_stage(g, KILL, LOST_MS);
        proc_children_signal(g, SIGKILL);
        break;
    case STRAYS:
        g->fns.killing(g->arg, proc_children_kill(0), true);
        set_stage(g, STRAYS_KILL, LOST_MS);
        (void)proc_children_kill(SIGKILL);
        break;
    case KILL:
    case STRAYS_KILL:
        finish_children(g, proc_children_kill(SIGKILL));
        break;
    case RUNS:
    case EMPTY:
        break;
    }
}

/* Called when no member is left. */
static void end_strays(struct proc_children *g) {
    if (is_alone()) {
        finish_children(g, 0);
    } else if (g->stage < STRAYS && g->leaves_nothing) {
        set_stage(g, STRAYS_KILL, LOST_MS);
        (void)proc_children_kill(SIGKILL);
    } else if (g->stage < STRAYS) {
        set_stage(g, STRAYS, STRAYS_MS);
        (void)proc_children_kill(SIGTERM);
    }
}

static struct group_process *find_member(struct proc_children *g, pid_t pid) {
    for (size_t i = 0; i < g->n; i++) {
        if (g->member[i].pid == pid && g->member[i].running) {
            return &g->member[i];
        }
    }
    return NULL;
}

static void child_changed(void *arg, int signo) {
    struct proc_children *g = arg;
    (void)signo;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct group_process *m = find_member(g, pid);
        if (m) {
            m->running = false;
            g->n_running--;
            (void)kill(-pid, g->leaves_nothing ? SIGKILL : SIGTERM);
            g->fns.ended(g->arg, (size_t)(m - g->member), status);
        } else if (g->stage == STRAYS_KILL) {
            (void)proc_children_kill(SIGKILL); /* its children have become ours */
        }
    }
    if (g->started && g->n_running == 0 && g->stage != EMPTY) {
        end_strays(g);
    }
}

int proc_children_new(struct co_loop *l, const struct proc_children_fns *fns, void *arg,
    struct proc_children **ret, struct co_err *err) {
    CO_CLEANUP(proc_children_freep) struct proc_children *g = co_xcalloc(1, sizeof(*g));
    *g = (struct proc_children){.loop = l, .fns = *fns, .arg = arg};
    (void)signal(SIGCHLD, SIG_DFL); /* if it was ignored, waitpid would get no exit codes */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    g->timer = co_timer_new(l, time_is_up, g);
    CO_TRY(co_signal_new(l, SIGCHLD, child_changed, g, &g->child, err));
    *ret = co_steal_ptr(g);
    return 0;
}

void proc_children_free(struct proc_children *g) {
    if (!g) {
        return;
    }
    proc_children_signal(g, SIGKILL);
    co_timer_free(g->timer);
    co_signal_free(g->child);
    free(g->member);
    free(g);
}

void proc_children_leave_nothing(struct proc_children *g) {
    g->leaves_nothing = true;
}

int proc_children_start(
    struct proc_children *g, const struct proc_spawn *spawn, struct co_err *err) {
    pid_t pid = 0;
    CO_TRY(proc_spawn(spawn, &pid, err));
    g->member = co_xrealloc(g->member, g->n + 1, sizeof(*g->member));
    g->member[g->n++] = (struct group_process){.pid = pid, .running = true};
    g->n_running++;
    return 0;
}

int proc_children_again(
    struct proc_children *g, size_t i, const struct proc_spawn *spawn, struct co_err *err) {
    assert(i < g->n && !g->member[i].running && g->stage == RUNS);
    CO_TRY(proc_spawn(spawn, &g->member[i].pid, err));
    g->member[i].running = true;
    g->n_running++;
    return 0;
}

static void none_started(void *arg) {
    struct proc_children *g = arg;
    if (g->n_running == 0 && g->stage != EMPTY) {
        end_strays(g);
    }
}

void proc_children_started(struct proc_children *g) {
    g->started = true;
    if (g->n_running == 0) {
        co_loop_post(g->loop, none_started, g);
    }
}

void proc_children_stop(struct proc_children *g, int64_t grace_ms) {
    if (g->stage == RUNS) {
        set_stage(g, TERM, grace_ms);
        proc_children_signal(g, SIGTERM);
    } else if (g->stage == TERM && co_now_ms() + grace_ms < g->deadline) {
        set_stage(g, TERM, grace_ms);
    }
}

void proc_children_pause(struct proc_children *g, bool on) {
    if (on) {
        g->left_ms = g->deadline - co_now_ms();
    }
    proc_children_signal(g, on ? SIGSTOP : SIGCONT);
    if (!on && g->stage == TERM) {
        set_stage(g, TERM, g->left_ms);
    }
}

size_t proc_children_running(const struct proc_children *g) {
    return g->n_running;
}

void proc_children_clear(struct proc_children *g) {
    g->n = g->n_running = 0;
    g->started = false;
    g->stage = RUNS;
}
