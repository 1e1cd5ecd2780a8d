/* What the ways to meet share: rdzv.c has the face and the deadline, kv.c and etcd.c the ways. */
#pragma once

#include "runtime/launch/rendezvous/rendezvous.h"

/* Which callbacks a way may still make is kept by the face: a way says what it sees. */
enum rt_rdzv_state {
    RT_RDZV_MEETING,
    RT_RDZV_MET,
    RT_RDZV_CHANGED, /* workers are being stopped */
    RT_RDZV_LEAVING,
    RT_RDZV_ENDED
};

struct rt_rdzv_way {
    CO_MUST_CHECK int (*start)(struct rt_rdzv *m, void **ret_way, struct co_err *err);
    void (*again)(void *way); /* state is MEETING, options.value the new one */
    void (*restart)(void *way, const char *why);
    void (*done)(void *way);
    void (*leave)(void *way, int code, const char *why); /* then rt_rdzv_gone, soon */
    void (*free)(void *way);
    /* How far it came: for the line at the deadline. */
    const char *(*story)(void *way);
};

extern const struct rt_rdzv_way rt_rdzv_kv, rt_rdzv_etcd;

struct rt_rdzv {
    struct co_loop *loop;
    struct rt_rdzv_options options; /* strings owned, defaults filled in */
    struct rt_rdzv_fns fns;
    void *arg;
    const struct rt_rdzv_way *way;
    void *with; /* the way's own */
    enum rt_rdzv_state state;
    struct co_timer *deadline;
    struct rt_rdzv_roster roster;
    struct rt_rdzv_peer *peers; /* owned, and the text behind it */
    char *text;
    void (*gone)(void *arg);
};

/* From a way, on the loop.  Each may end in rt_rdzv_close: return at once after it. */
void rt_rdzv_note(struct rt_rdzv *m, bool warn, const char *line);
/* Copies names and values. */
void rt_rdzv_met(struct rt_rdzv *m, const struct rt_rdzv_peer *peers, size_t n, size_t self,
    int round, bool watched);
void rt_rdzv_changed(struct rt_rdzv *m, const char *why);
void rt_rdzv_all_done(struct rt_rdzv *m);
void rt_rdzv_end(struct rt_rdzv *m, int code, const char *why);
void rt_rdzv_gone(struct rt_rdzv *m);
