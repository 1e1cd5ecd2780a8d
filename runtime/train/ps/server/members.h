/* The trainers of a job as one server sees them: their states, and the barrier.
 *
 *     ABSENT --hello--> ALIVE --stream closed or lease over--> AWAY --return_ms over--> LOST
 *                         ^                                      |                       |
 *                         +--------------- hello ----------------+-----------------------+
 *     from all of these: --finish--> FINISHED
 *
 * A trainer that gives up is LOST at once.  With return_ms 0 so is one whose connection breaks.
 *
 * No I/O: the caller sends what has to be sent.  Belongs to the rpc's thread. */
#pragma once

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/rpc.h"

/* Room for what pss_members_refused says. */
enum { PSS_REFUSED_MAX = 300 };

enum pss_member_state {
    PSS_MEMBER_ABSENT,   /* never said hello */
    PSS_MEMBER_ALIVE,    /* said hello; its stream is open and its lease runs */
    PSS_MEMBER_AWAY,     /* its stream closed or its lease ran out; may return until until_ms */
    PSS_MEMBER_LOST,     /* nothing waits for it; it may still return */
    PSS_MEMBER_FINISHED, /* said finish, or others said so of it; the last state */
    PSS_MEMBER_STATES,
};

/* How far a trainer is, when staleness is bounded (pace.c).  `done` counts the trainer's own steps,
 * from 0 in each incarnation.  For the job it has completed base + done steps. */
struct pss_pace {
    int64_t base;
    uint64_t done;
    bool uncounted;              /* a new incarnation that has not reported a step yet */
    uint64_t ahead;              /* how many steps it may be ahead of the slowest trainer */
    int64_t until_ms;            /* when its wait ends; 0: it does not wait */
    struct rpc_frame_head asked; /* head of the request that waits */
};

struct pss_member {
    enum pss_member_state state;
    uint64_t incarnation;      /* of the last hello; 0: none yet */
    struct rpc_stream *stream; /* counted; ALIVE and FINISHED until it closes */
    int64_t received_ms;
    int64_t until_ms;      /* AWAY */
    int64_t rival_ms;      /* when another process first asked for this id; 0: none did */
    int64_t rival_last_ms; /* when it last did */
    char peer[128];
    char cause[400];   /* AWAY, LOST: why */
    char refused[240]; /* not here: why its last hello was refused; "": none was */
    bool unsaid;       /* FINISHED: the other trainers do not know it yet */
    bool parted;       /* FINISHED: it has the answer to its finish and will not reconnect */
    bool waits;        /* at the barrier; it asks again after a broken connection */
    struct rpc_frame_head barrier; /* head of that request */
    bool asks;                     /* that request is not answered yet */
    int64_t ask_until_ms;          /* then the answer says for whom it waits; 0: never */
    uint64_t steps;                /* sync: the last step for which it has sent STEP */
    bool ended;                    /* it makes no more steps */
    struct pss_pace pace;
};

struct pss_members {
    struct pss_member *all; /* [n] */
    uint32_t n;
    uint64_t barriers;  /* completed */
    char stranger[240]; /* who was refused before it said which trainer it is, and why; "": none */
};

void pss_members_init(struct pss_members *m, uint32_t n);
void pss_members_done(struct pss_members *m);

/* Only other trainers said that it has finished; it has never connected here. */
static inline bool pss_member_is_hearsay(const struct pss_member *m) {
    return m->state == PSS_MEMBER_FINISHED && m->incarnation == 0;
}

/* True while a finished trainer may still connect to send its finish: only others have reported it,
 * or its connection broke before it had the answer. */
static inline bool pss_member_may_return(const struct pss_member *m) {
    return m->state == PSS_MEMBER_FINISHED && !m->parted;
}

/* The only function that changes a state.  Asserts that the move is legal. */
void pss_member_set(struct pss_members *m, uint32_t i, enum pss_member_state to);

uint32_t pss_members_in(const struct pss_members *m, enum pss_member_state state);
/* Whether all trainers that can still come to the barrier are there, and at least one is. */
bool pss_members_barrier_full(const struct pss_members *m);
/* Sync: detects a deadlock.  CO_INVALID, with the trainers' places: some trainers are in a step
 * that waits for more than `backup` others, and those are at the barrier or lost. */
CO_MUST_CHECK int pss_members_check_order(
    const struct pss_members *m, uint32_t backup, struct co_err *err);
/* "trainer 1 (127.0.0.1:4711) lost: connection closed, ..." */
void pss_member_describe(
    const struct pss_members *m, uint32_t i, int64_t now_ms, char *ret_text, size_t size);
/* Lists those for whom that step waits, 0: the barrier: "trainer 1 (not here yet), 3
 * (127.0.0.1:4711)"; cut with "...".  False: it waits for nobody. */
bool pss_members_late(const struct pss_members *m, uint64_t step, char *ret_text, size_t size);
/* The hello of that trainer was refused, or, if there is no such trainer, a connection from `peer`;
 * not NULL. */
void pss_members_refuse(
    struct pss_members *m, uint32_t i, const char *peer, const struct co_err *why);
/* For the end of a message about trainers that are awaited: "; trainer 2 was refused: ...", or a
 * connection that may be one of theirs, or nothing. */
void pss_members_refused(const struct pss_members *m, char *ret_text, size_t size);
/* Lists the trainers in that state: "1, 3, 4"; cut with "...". */
void pss_members_list(
    const struct pss_members *m, enum pss_member_state state, char *ret_text, size_t size);
