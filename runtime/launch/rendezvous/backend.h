/* What the files behind rendezvous.h share.  rdzv.c is the front end: it has the public functions,
 * the callbacks and the deadline.  kv.c and etcd.c are the back ends (struct rdzv_backend). */
#pragma once

#include "runtime/launch/rendezvous/rendezvous.h"

/* The front end keeps the state and drops callbacks that do not fit it, so a back end may simply
 * report what it sees. */
enum rdzv_state {
    RDZV_MEETING, /* waiting for the other nodes */
    RDZV_MET,     /* a round runs */
    RDZV_CHANGED, /* the round has ended; the launcher stops its workers */
    RDZV_LEAVING, /* rdzv_leave was called; only `gone` may follow */
    RDZV_ENDED    /* `ended` was called; nothing may follow */
};

struct rdzv_backend {
    CO_MUST_CHECK int (*start)(struct rdzv *m, void **ret_backend, struct co_err *err);
    void (*again)(void *backend); /* the state is MEETING again */
    void (*restart)(void *backend, const char *why);
    void (*done)(void *backend);
    void (*leave)(void *backend, int code, const char *why); /* must call rdzv_gone soon */
    void (*free)(void *backend);
    /* What it waits for: for the log lines during the wait and the error at the deadline. */
    const char *(*describe)(void *backend);
};

extern const struct rdzv_backend rdzv_kv, rdzv_etcd;

struct rdzv {
    struct co_loop *loop;
    struct rdzv_options options; /* strings owned, defaults filled in */
    struct rdzv_fns fns;
    void *arg;
    const struct rdzv_backend *backend;
    void *with; /* the back end's own data */
    enum rdzv_state state;
    struct co_timer *deadline;
    struct co_timer *progress; /* next log line about the wait: present and missing nodes */
    int64_t progress_ms;       /* pause before it */
    int64_t since_ms;          /* when the wait began */
    int64_t noted_ms;          /* when the last log line was written */
    struct rdzv_roster roster;
    struct rdzv_peer *peers; /* owned; its strings are in text */
    char *text;              /* owned */
    void (*gone)(void *arg);
};

/* Called by a back end, on the loop.  Each may end in rdzv_close, which frees the back end: it
 * must return at once afterwards. */
void rdzv_note(struct rdzv *m, bool warn, const char *line);
/* Copies names and values. */
void rdzv_met(
    struct rdzv *m, const struct rdzv_peer *peers, size_t n, size_t self, int round, bool watched);
void rdzv_changed(struct rdzv *m, const char *why);
void rdzv_all_done(struct rdzv *m);
void rdzv_overdue(struct rdzv *m, const char *why);
void rdzv_end(struct rdzv *m, int code, const char *why);
void rdzv_gone(struct rdzv *m);
/* The last that a back end reports: `gone` of a node that leaves, else the end with that error. */
void rdzv_finish(struct rdzv *m, const struct co_err *over);
