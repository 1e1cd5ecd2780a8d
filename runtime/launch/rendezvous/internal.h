/* What the files behind rendezvous.h share.  rdzv.c is the front end: it has the public functions,
 * the callbacks and the deadline.  kv.c and etcd.c are the back ends (struct rl_rdzv_way). */
#pragma once

#include "runtime/launch/rendezvous/rendezvous.h"

/* The front end keeps the state and drops callbacks that do not fit it, so a back end may simply
 * report what it sees. */
enum rl_rdzv_state {
    RL_RDZV_MEETING, /* waiting for the other nodes */
    RL_RDZV_MET,     /* a round runs */
    RL_RDZV_CHANGED, /* the round has ended; the launcher stops its workers */
    RL_RDZV_LEAVING, /* rl_rdzv_leave was called; only `gone` may follow */
    RL_RDZV_ENDED    /* `ended` was called; nothing may follow */
};

struct rl_rdzv_way {
    CO_MUST_CHECK int (*start)(struct rl_rdzv *m, void **ret_way, struct co_err *err);
    void (*again)(void *way); /* the state is MEETING again; options.value may be new */
    void (*restart)(void *way, const char *why);
    void (*done)(void *way);
    void (*leave)(void *way, int code, const char *why); /* must call rl_rdzv_gone soon */
    void (*free)(void *way);
    /* What it waits for: for the log lines during the wait and the error at the deadline. */
    const char *(*story)(void *way);
};

extern const struct rl_rdzv_way rl_rdzv_kv, rl_rdzv_etcd;

struct rl_rdzv {
    struct co_loop *loop;
    struct rl_rdzv_options options; /* strings owned, defaults filled in */
    struct rl_rdzv_fns fns;
    void *arg;
    const struct rl_rdzv_way *way;
    void *with; /* the back end's own data */
    enum rl_rdzv_state state;
    struct co_timer *deadline;
    struct co_timer *progress; /* next log line about the wait: present and missing nodes */
    int64_t progress_ms;       /* pause before it */
    int64_t since_ms;          /* when the wait began */
    int64_t noted_ms;          /* when the last log line was written */
    struct rl_rdzv_roster roster;
    struct rl_rdzv_peer *peers; /* owned; its strings are in text */
    char *text;                 /* owned */
    void (*gone)(void *arg);
};

/* Called by a back end, on the loop.  Each may end in rl_rdzv_close, which frees the back end: it
 * must return at once afterwards. */
void rl_rdzv_note(struct rl_rdzv *m, bool warn, const char *line);
/* Copies names and values. */
void rl_rdzv_met(struct rl_rdzv *m, const struct rl_rdzv_peer *peers, size_t n, size_t self,
    int round, bool watched);
void rl_rdzv_changed(struct rl_rdzv *m, const char *why);
void rl_rdzv_all_done(struct rl_rdzv *m);
void rl_rdzv_end(struct rl_rdzv *m, int code, const char *why);
void rl_rdzv_gone(struct rl_rdzv *m);
