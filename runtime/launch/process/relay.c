/* A pipe from a child's stderr to this process's.  See relay.h. */
#include "runtime/launch/process/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "runtime/launch/process/output.h"

enum {
    LAST_READS = 32, /* of a pipe whose child has ended: more than a pipe holds */
    WAIT_MS = 1000,  /* for a reader, at the end */
};

struct proc_relay {
    int in, child_end; /* of the pipe; -1: closed */
    int to;            /* where it goes: a non-blocking description of our own, or the caller's */
    bool own_to;
    struct co_poll *in_poll, *to_poll; /* to_poll: with own_to */
    /* Read, and not written yet.  At most PIPE_BUF bytes, so that the lines of several children do
     * not mix inside of a write. */
    char held[PIPE_BUF];
    size_t n_held, n_written;
    struct proc_tail tail;
};

/* False: the stream takes no more now. */
static bool drain(struct proc_relay *r) {
    while (r->n_written < r->n_held) {
        ssize_t n = write(r->to, r->held + r->n_written, r->n_held - r->n_written);
        if (n >= 0) {
            r->n_written += (size_t)n;
        } else if (errno == EAGAIN) {
            return false;
        } else if (errno != EINTR) {
            break; /* it has no reader; the tail has it */
        }
    }
    r->n_held = r->n_written = 0;
    return true;
}

static void end_pipe(struct proc_relay *r) {
    co_poll_free(co_steal_ptr(r->in_poll));
    co_closep(&r->in);
    r->in = -1;
}

/* False: nothing is there now, or ever again. */
static bool fill(struct proc_relay *r) {
    /* no wait: the descriptor is non-blocking */
    ssize_t n = read(r->in, r->held, sizeof(r->held));
    if (n > 0) {
        r->n_held = (size_t)n;
        proc_tail_add(&r->tail, r->held, r->n_held);
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        end_pipe(r);
    }
    return false;
}

/* Reads from the child only when what was read before is written. */
static void choose_events(struct proc_relay *r, bool flows) {
    if (r->in_poll) {
        co_poll_set(r->in_poll, flows ? CO_POLL_IN : 0);
    }
    if (r->to_poll) {
        co_poll_set(r->to_poll, flows ? 0 : CO_POLL_OUT);
    }
}

static void pipe_readable(void *arg, int events) {
    struct proc_relay *r = arg;
    (void)events;
    choose_events(r, !fill(r) || drain(r));
}

static void stream_writable(void *arg, int events) {
    struct proc_relay *r = arg;
    (void)events;
    choose_events(r, drain(r));
}

void proc_relay_finish(struct proc_relay *r) {
    for (int i = 0; i < LAST_READS; i++) {
        struct pollfd p = {.fd = r->to, .events = POLLOUT};
        if (!drain(r) && poll(&p, 1, WAIT_MS) == 0) {
            return; /* the rest when it can be written, if this process still runs then */
        }
        if (!r->n_held && (r->in < 0 || !fill(r))) {
            return;
        }
    }
}

int proc_relay_fd(const struct proc_relay *r) {
    return r->child_end;
}

void proc_relay_started(struct proc_relay *r) {
    co_closep(&r->child_end);
    r->child_end = -1;
}

const struct proc_tail *proc_relay_tail(const struct proc_relay *r) {
    return &r->tail;
}

int proc_relay_new(struct co_loop *l, int to, struct proc_relay **ret, struct co_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return co_err_errno(err, errno, "pipe");
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK); /* of this end alone: the child's blocks */
    CO_CLEANUP(proc_relay_freep) struct proc_relay *r = co_xcalloc(1, sizeof(*r));
    r->in = ends[0];
    r->child_end = ends[1];
    r->to = proc_output_reopen(to);
    r->own_to = r->to >= 0;
    if (r->own_to && co_poll_new(l, r->to, stream_writable, r, &r->to_poll, NULL)) {
        co_close(r->to); /* /dev/null cannot be polled, nor does it block */
        r->own_to = false;
    }
    r->to = r->own_to ? r->to : to;
    CO_TRY(co_poll_new(l, r->in, pipe_readable, r, &r->in_poll, err));
    choose_events(r, true);
    *ret = co_steal_ptr(r);
    return 0;
}

void proc_relay_free(struct proc_relay *r) {
    if (!r) {
        return;
    }
    end_pipe(r);
    co_poll_free(r->to_poll);
    co_closep(&r->child_end);
    if (r->own_to) {
        co_close(r->to);
    }
    free(r);
}
