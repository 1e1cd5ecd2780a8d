/* The trainers of a job as one server sees them: a table of states, and the barrier.
 * No I/O: the server sends what the caller's functions say.  Belongs to the rpc's thread. */
#pragma once

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/rpc.h"

enum rt_member_state {
    RT_MEMBER_ABSENT,   /* never said hello */
    RT_MEMBER_ALIVE,    /* said hello; its stream is open and its lease runs */
    RT_MEMBER_LOST,     /* async: stream closed or lease ran out; may come back */
    RT_MEMBER_FINISHED, /* said finish; the last state */
};

struct rt_member {
    enum rt_member_state state;
    struct rt_stream *stream; /* counted; ALIVE and FINISHED until it closes */
    int64_t heard_ms;
    int64_t rival_ms; /* another connection asked for its id first, and last; 0: none did */
    int64_t rival_last_ms;
    char peer[128];
    char cause[400]; /* LOST: why */
    bool waits;      /* at the barrier, with: */
    struct rt_frame_head barrier;
    uint64_t steps; /* sync: the last one it has said */
};

struct rt_members {
    struct rt_member *all; /* [n] */
    uint32_t n;
    uint64_t barriers; /* completed */
};

void rt_members_init(struct rt_members *m, uint32_t n);
void rt_members_done(struct rt_members *m);

/* The only function that changes a state. */
void rt_member_set(struct rt_members *m, uint32_t i, enum rt_member_state to);

uint32_t rt_members_in(const struct rt_members *m, enum rt_member_state state);
/* Everybody who can still come to the barrier is there, and somebody is. */
bool rt_members_barrier_full(const struct rt_members *m);
/* Sync.  CO_INVALID, and who is where, when some are at the barrier and others in a step that
 * waits for those: no message to come could let either go on. */
CO_MUST_CHECK int rt_members_check_order(const struct rt_members *m, struct co_err *err);
/* "trainer 1 (127.0.0.1:4711) lost: connection closed, last heard 0.2 s ago" */
void rt_member_describe(
    const struct rt_members *m, uint32_t i, int64_t now_ms, char *ret_text, size_t size);
/* "1, 3, 4" of those in that state; cut with "..." */
void rt_members_list(
    const struct rt_members *m, enum rt_member_state state, char *ret_text, size_t size);
