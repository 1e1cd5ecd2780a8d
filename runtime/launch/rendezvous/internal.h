/* What the ways to meet share: rdzv.c has the face and the deadline, kv.c and etcd.c the ways. */
#pragma once

#include "runtime/launch/rendezvous/rendezvous.h"

/* Which callbacks a way may still make is kept by the face: a way says what it sees. */
enum rl_rdzv_state {
    RL_RDZV_MEETING,
    RL_RDZV_MET,
    RL_RDZV_CHANGED, /* workers are being stopped */
    RL_RDZV_LEAVING,
    RL_RDZV_ENDED
};

struct rl_rdzv_way {
    CO_MUST_CHECK int (*start)(struct rl_rdzv *m, void **ret_way, struct co_err *err);
    void (*again)(void *way); /* state is MEETING, options.value the new one */
    void (*restart)(void *way, const char *why);
    void (*done)(void *way);
    void (*leave)(void *way, int code, const char *why); /* then rl_rdzv_gone, soon */
    void (*free)(void *way);
    /* How far it came: for the line at the deadline. */
    const char *(*story)(void *way);
};

extern const struct rl_rdzv_way rl_rdzv_kv, rl_rdzv_etcd;

struct rl_rdzv {
    struct co_loop *loop;
    struct rl_rdzv_options options; /* strings owned, defaults filled in */
    struct rl_rdzv_fns fns;
    void *arg;
    const struct rl_rdzv_way *way;
    void *with; /* the way's own */
    enum rl_rdzv_state state;
    struct co_timer *deadline;
    struct rl_rdzv_roster roster;
    struct rl_rdzv_peer *peers; /* owned, and the text behind it */
    char *text;
    void (*gone)(void *arg);
};

/* From a way, on the loop.  Each may end in rl_rdzv_close: return at once after it. */
void rl_rdzv_note(struct rl_rdzv *m, bool warn, const char *line);
/* Copies names and values. */
void rl_rdzv_met(struct rl_rdzv *m, const struct rl_rdzv_peer *peers, size_t n, size_t self,
    int round, bool watched);
void rl_rdzv_changed(struct rl_rdzv *m, const char *why);
void rl_rdzv_all_done(struct rl_rdzv *m);
void rl_rdzv_end(struct rl_rdzv *m, int code, const char *why);
void rl_rdzv_gone(struct rl_rdzv *m);
