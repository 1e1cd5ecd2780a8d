/* The group, and what the files of this folder offer each other.  A "call" is one collective
 * operation, or one send or receive.
 *
 *     group.c    opens and closes groups         calls.c    checks a call, chooses its path
 *     form.c     connects the ranks, using       work.c     queue and thread of started calls
 *                door.c (accepts), join.c        monitor.c  thread that watches the other ranks
 *                (connects), hello.c (who),      wait.c     deadlines and failures
 *                address.c (finds them)
 *     shm.c      memory shared on a machine      shm_reduce.c, shm_move.c: calls inside a machine
 *     arena.c    rt_group_alloc                  sub.c, shrink.c, grow.c   of some ranks, without
 *                                                dead, with new ranks
 *     message.c  bytes between two ranks, over pipe_shm.c or pipe_tcp.c
 *     msg_all_reduce.c, msg_reduce.c, msg_move.c: algorithms made of messages; algorithms.c picks
 * one hier.c     calls over several machines gpu.c      calls on GPU buffers, by runtime/train/nccl
 *     nested.c   forms a group from another one, for these
 *     vote.c     how survivors agree on who is dead, for shrink.c
 *     agree.c    whether all ranks make the same calls
 *
 * Threads: calls run in the caller's thread, or in that of work.c while started calls are pending.
 * One thread at a time may call (coll_group_enter), and none in a forked child.
 * The monitor's thread reads the control connections.  They share only fields that are _Atomic or
 * guarded by `m`. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/fork.h"
#include "common/mem.h"
#include "runtime/net/net_stream.h"
#include "runtime/rt.h"
#include "runtime/train/coll/agree.h"
#include "runtime/train/coll/hello.h"
#include "runtime/train/coll/monitor.h"
#include "runtime/train/coll/reduce.h"
#include "runtime/train/coll/shm.h"
#include "runtime/train/coll/use.h"

enum { COLL_NOT_LOCAL = UINT32_MAX, COLL_ADDRESS_MAX = 300 };
/* How long what a rank sent before it left may be on its way; over a network, without a byte of it.
 * There a lost packet is sent again after .2 s, .4 s and so on. */
enum { COLL_LEFT_MS = 1000, COLL_LEFT_NET_MS = 10000 };

enum { COLL_LIST_TEXT = 160 };
/* A list of ranks that rt_group_sub makes a group of; sub.c. */
struct coll_list {
    uint64_t count;            /* of such lists with both ranks, this one included */
    uint64_t id;               /* of its group */
    char text[COLL_LIST_TEXT]; /* "sub of ranks 0, 1, 2, tag 9" */
};

/* nested.c: why a rank could not form a group. */
enum { COLL_UNABLE_TEXT = 400 };
struct coll_unable {
    uint64_t key; /* of the group, for these two ranks; 0: none */
    int code;
    char text[COLL_UNABLE_TEXT];
};

struct coll_peer {
    struct net_stream control;     /* this rank's own has none */
    struct sockaddr_storage known; /* address.c: inherited; AF_UNSPEC: none */
    struct net_stream lanes[COLL_LANES_MAX];
    unsigned char node[COLL_NODE_BYTES];
    uint32_t local;              /* index among the ranks of this machine, or COLL_NOT_LOCAL */
    uint32_t unread;             /* bytes in `message`; only the monitor uses both */
    unsigned char *message;      /* owned; a partly received control message */
    _Atomic bool left;           /* it closed its group */
    _Atomic bool gone;           /* its control connection ended */
    _Atomic int64_t answered_ms; /* when the last ping that it has answered was sent */
    _Atomic int64_t asked_ms;    /* when it was last asked about its calls */
    _Atomic uint64_t begun;      /* at its last pong: the number of its last call of all ranks */
    _Atomic uint64_t sent, received; /* bytes of messages to it, from it */
    unsigned char *goodbye;          /* owned, under m; NULL: none.  Its last calls, as it left */
    uint32_t goodbye_bytes;
    bool has_memory; /* form.c: it has received the descriptor of the shared memory */
    /* For sub.c, under m: */
    bool listed;           /* it is in g->list */
    uint64_t list_count;   /* lists of this rank so far that had it */
    struct coll_list list; /* the last that it sent */
    /* For nested.c, under m: */
    uint64_t formed;           /* groups that it and this rank began to form together */
    struct coll_unable unable; /* the last that it could not form */
    bool out;                  /* of a group that shrinks: it cannot form the smaller one */
    /* For vote.c, under m: its last vote about which ranks are dead. */
    uint32_t round;      /* of that vote; 0: it has not voted */
    unsigned char *dead; /* owned, one bit a rank */
};

struct coll_hall; /* door.c */

/* The listening socket of an endpoint.  All groups of the endpoint form through it, several at a
 * time if several threads do: each accepts for all, and hands over what is for another group. */
struct coll_door {
    int fd;
    char *endpoint; /* owned */
    pthread_mutex_t m;
    struct coll_hall *halls; /* guarded by m; of the groups that accept now */
    _Atomic uint32_t refs;
};

/* The time that all waits of one call have together.  A limit on each wait would not do: a slow
 * rank that sends a little now and then could hold the call for ever.  Start with zeroes; the time
 * runs from the first check. */
struct coll_patience {
    const struct rt_coll *call; /* NULL in tests */
    bool uncounted; /* a send or receive whose bytes nobody counts: whether it is in vain is unknown
                     */
    int64_t begun_ms;
    int64_t asked_ms;   /* when all ranks were last asked for a sign of life; 0: not yet */
    int64_t checked_ms; /* the last check */
    int64_t survey_ms;  /* when all were asked how far they are; 0: nobody waits for the answers */
    int64_t
        agree_ms;    /* how long the call may last until coll_monitor_ask is next; 0: the default */
    int64_t warn_ms; /* the same until the next warning */
    uint32_t left;   /* the rank that is known to have closed its group */
    int64_t left_ms; /* when that was noticed, and nothing has moved since; 0: no such rank */
    int64_t ask_ms;  /* when the program is asked whether it ends the call; 0: see interrupt.h */
};

/* What a rank sends the others about a failure. */
struct coll_failure_report {
    enum coll_word word;
    bool notify; /* now */
    const unsigned char *more;
    uint32_t bytes; /* of more; NULL: the message itself */
    int code;       /* another code for the others, and the rank that they blame; 0: the same */
    uint32_t rank;
};

struct rt_group {
    struct co_fork fork;
    _Atomic bool busy; /* a thread is in a call */
    uint32_t rank, size;
    char **endpoints;   /* owned, by rank */
    char *name, *token; /* owned */
    char *waits_for;    /* owned; NULL: no words of the program's own */
    uint64_t job, id;   /* hashes.  A hello of another job is refused; one of another group of
                           the same job is asked to come later */
    bool encrypt;       /* connections */
    enum rt_transport transport;
    int64_t call_ms, form_ms;
    uint32_t lanes;
    uint64_t children; /* how many groups were split from this one; makes their ids differ */
    struct coll_door *door;
    struct coll_peer *peers; /* owned, by rank */
    unsigned char node[COLL_NODE_BYTES];
    const struct coll_kernels *kernels;

    uint32_t local, n_local; /* index of this rank on its machine; number of ranks there */
    uint32_t *locals;        /* owned [n_local]: the ranks of this machine */
    uint32_t n_nodes;
    uint32_t *all;       /* owned [size]: 0, 1, 2, ... */
    bool even;           /* all machines have n_local ranks */
    uint32_t *leaders;   /* owned [n_nodes]: the first rank of each machine, ascending */
    uint32_t *share;     /* owned [n_nodes]; if even: the rank with index `local` of each machine */
    struct coll_shm shm; /* base NULL: n_local is 1 */
    struct coll_arena *arena;
    int device;              /* see gpu.h */
    struct coll_gpu *gpu;    /* gpu.c; NULL: all buffers are in main memory */
    struct coll_calls calls; /* agree.c */
    unsigned char *scratch;  /* owned; message.c: received pieces that wait to be reduced */

    pthread_t monitor;
    bool monitored;
    int epoll, wake, alarm; /* alarm: an eventfd, readable once the group has failed */
    _Atomic int failed;     /* an enum co_code, or 0 */
    pthread_mutex_t m;      /* guards sending on control connections, and from here to `agreed` */
    pthread_cond_t changed; /* the monitor wakes vote.c */
    struct co_err why;
    struct coll_failure_report report; /* of this failure; more: `report_text` */
    unsigned char report_text[COLL_WORD_MAX];
    uint32_t failed_rank;       /* size: no rank in particular */
    struct rt_group *child;     /* a group that is being formed from this one, or NULL */
    uint32_t *places;           /* owned [size]: nested.c; each rank's in the child */
    bool shrinks;               /* groups are formed from it although it has failed */
    bool has_list;              /* sub.c: the child is of `list` */
    struct coll_list list;      /* without a count */
    uint64_t list_calls;        /* begun before it; UINT64_MAX: there may be more */
    const unsigned char *votes; /* vote.c: this rank's last vote; NULL: it has not voted */
    uint32_t agreed_round;      /* vote.c: the last round that ended with an agreement, */
    unsigned char *agreed;      /* owned: and which ranks are dead by it, one bit a rank */

    uint32_t missing, lanes_here;  /* form.c: connections yet to come; lanes that have come */
    int memory_fd;                 /* form.c */
    struct coll_queue *queue;      /* work.c; NULL until the first call is started */
    struct coll_patience patience; /* of the current call; only its thread uses it */
};

/* form.c: connects to all ranks, finds those on this machine, and maps the memory they share. */
CO_MUST_CHECK int coll_group_form(struct rt_group *g, int64_t deadline_ms, struct co_err *err);
/* group.c: a group of some ranks of g.  Fails if one of them dies meanwhile. */
CO_MUST_CHECK int coll_group_derive(struct rt_group *g, const uint32_t *ranks, uint32_t n,
    uint64_t id, int64_t deadline_ms, struct rt_group **ret, struct co_err *err);
CO_DEFINE_CLEANUP(struct rt_group *, rt_group_close)
/* Begins and ends what one thread at a time may do with a group.  CO_INVALID: another thread is in
 * a call, which breaks the group on all ranks, as it is no longer known which call is which; or the
 * process is a forked child of the one that opened the group. */
int coll_group_refuse(struct rt_group *g, const char *what, struct co_err *err);
static inline int coll_group_enter(struct rt_group *g, const char *what, struct co_err *err) {
    bool refused = g->fork.forked || atomic_exchange_explicit(&g->busy, true, memory_order_acquire);
    return __builtin_expect(refused, 0) ? coll_group_refuse(g, what, err) : 0;
}
static inline void coll_group_leave(struct rt_group *g) {
    atomic_store_explicit(&g->busy, false, memory_order_release);
}
/* What rt_group_open does by itself.  from: a group that the caller is in, or NULL.  The new group
 * listens at the door of `from`. */
CO_MUST_CHECK int coll_group_prepare(struct rt_group *from, const struct rt_job *job,
    const struct rt_group_options *options, struct rt_group **ret_group, struct co_err *err);
/* The rest: waits for the others. */
CO_MUST_CHECK int coll_group_start(struct rt_group *g, int64_t deadline_ms, struct co_err *err);
/* nested.c: the same for a group that g makes.  It fails to form if one of the ranks of g dies
 * meanwhile, or cannot form it.  meet: returns when all its ranks have formed it. */
CO_MUST_CHECK int coll_child_start(
    struct rt_group *g, struct rt_group *child, int64_t deadline_ms, bool meet, struct co_err *err);
/* For the monitor: a rank could not form a group. */
void coll_unable_receive(struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n);
/* A rank of g has died.  A group that is being formed from g and contains the rank fails.  Call
 * under g->m. */
void coll_group_lose_child(struct rt_group *g, uint32_t rank);
uint64_t coll_hash_more(uint64_t h, const void *data, size_t len);

/* A group that is being formed from g, which has failed, fails as well; unless that was the loss of
 * a rank that is not in it.  Call under g->m. */
void coll_group_fail_child(struct rt_group *g);

/* sub.c, for the monitor: a rank sent its list; has left; */
void coll_list_receive(struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n);
void coll_list_left(struct rt_group *g, uint32_t rank);
/* is in a call of all ranks, the one with the number `last`.  True: the group has failed, because
 * the rank has not made the group that this rank waits for in rt_group_sub. */
bool coll_list_compare(
    struct rt_group *g, uint32_t from, uint64_t last, const struct coll_said *call);

/* door.c */
CO_MUST_CHECK int coll_door_open(const char *endpoint, struct coll_door **ret, struct co_err *err);
struct coll_door *coll_door_ref(struct coll_door *d);
void coll_door_unref(struct coll_door *d); /* NULL allowed */
/* Accepts connections at fd until *missing is 0.  Unless fd is a unix socket, it is the door's,
 * where other threads may accept for their groups at the same time.  `look` may refuse a hello
 * before its sender has proven that it knows the token; `take` gets the connection once it has, and
 * owns it if it returns true.  A unix socket is not encrypted.  CO_TIMEOUT: which ranks did not
 * come, and who was refused last. */
/* When a rank has waited for so long, it logs for whom; then after twice the time. */
enum { COLL_WARN_MS = 10 * 1000 };
struct coll_accept {
    struct rt_group *g;
    int fd;
    bool local; /* a unix socket */
    uint32_t *missing;
    enum net_refusal (*look)(struct rt_group *g, const struct coll_hello *h);
    bool (*take)(struct rt_group *g, const struct coll_hello *h, struct net_stream *s);
    /* Of which ranks a connection is missing, for messages. */
    bool (*lacks)(const struct rt_group *g, const struct coll_peer *p);
};
CO_MUST_CHECK int coll_accept_run(
    const struct coll_accept *a, int64_t deadline_ms, struct co_err *err);

/* pipe_tcp.c: sets the options of a new connection; both sides call it. */
void coll_tcp_tune(int fd);
/* Everything that came over the connection has been read, and the other side has closed it. */
bool coll_tcp_ended(int fd);

/* join.c: connects to rank `to` and exchanges proofs; retries until the deadline.  address: of a
 * unix socket; NULL: use the rank's endpoint. */
struct sockaddr_un;
CO_MUST_CHECK int coll_join(struct rt_group *g, uint32_t to, enum coll_purpose purpose,
    uint8_t lane, const struct sockaddr_un *address, size_t address_bytes, int64_t deadline_ms,
    struct net_stream *ret, struct co_err *err);
/* Sends or receives exactly n bytes.  CO_PEERLOST: the connection has ended, or the group has
 * failed; CO_INVALID: the bytes were changed in transit; CO_TIMEOUT: the deadline has passed. */
CO_MUST_CHECK int coll_move_all(
    struct rt_group *g, struct net_stream *s, void *data, size_t n, bool out, int64_t end_ms);
/* Waits until fd is ready (-1: for no descriptor), the group has failed, or end_ms has come.  The
 * group fails if the program ends the wait. */
void coll_wait_fd(struct rt_group *g, int fd, short events, int64_t end_ms);
/* The program has ended a wait of a group that forms: it fails.  CO_CANCELED. */
int coll_form_end(struct rt_group *g);

/* monitor.c */
CO_MUST_CHECK int coll_monitor_start(struct rt_group *g, struct co_err *err);
void coll_monitor_stop(struct rt_group *g); /* notifies the other ranks that this one has left */
/* Asks all ranks for a sign of life, and how far they are. */
void coll_monitor_ping(struct rt_group *g);
/* Asks a rank whether it makes the same calls; see coll_question_write. */
void coll_monitor_ask(struct rt_group *g, const struct rt_coll *c, uint32_t rank);
/* wait.c.  Marks the group as failed because of a rank (size: of no rank in particular).  Only the
 * first failure of a group is kept; with `notify` it is sent to all other ranks.  Returns the code
 * that is kept. */
int coll_group_fail(struct rt_group *g, int code, uint32_t rank, bool notify, const char *fmt, ...)
    CO_PRINTF(5, 6);
/* The same, with what is sent to other ranks: now, or only when this rank closes the group.  It
 * must say so then, as its goodbye may come before the word of the rank that has noticed the
 * failure. */
int coll_group_fail_as(struct rt_group *g, int code, uint32_t rank,
    const struct coll_failure_report *t, const char *fmt, ...) CO_PRINTF(5, 6);
void coll_group_notify(struct rt_group *g); /* what was or is to be sent; call under g->m */
int coll_group_why(struct rt_group *g, struct co_err *err); /* the code; fills *err if negative */
/* Fail the group because a rank: has closed its group; */
int coll_group_left(struct rt_group *g, uint32_t rank);
/* is alive, but has not done its part of the call c in time.  If others have not even begun the
 * call, those are blamed. */
int coll_group_late(struct rt_group *g, const struct rt_coll *c, uint32_t rank);
/* has not answered since it was asked for a sign of life at asked_ms.  0: all have answered, but
 * for those that have left. */
int coll_group_silent(struct rt_group *g, int64_t asked_ms);
/* Whether all ranks that have not left have given a sign of life since then. */
bool coll_group_answers(const struct rt_group *g, int64_t since_ms);

/* Negative: the group has failed, also because the program wants to end this thread's wait. */
int coll_patience_fails(struct rt_group *g, struct coll_patience *p, int64_t now);
/* One check at the time `now`: asks all ranks for a sign of life when half of the time has passed.
 * True: most_ms have passed, and the ranks have had time to answer since p->asked_ms. */
bool coll_patience_over(struct rt_group *g, struct coll_patience *p, int64_t now, int64_t most_ms);
/* What is due while this rank waits for `rank`: asks it whether it makes the same call, and logs
 * for whom all wait. */
void coll_patience_turn(struct rt_group *g, struct coll_patience *p, uint32_t rank);
/* To be called while nothing moves. 0: wait on for `rank`; else the group has failed.  now: as of
 * co_now_ms.
 * The caller must look for what it waits for between two checks: the rank may have done its part
 * just before it left, or while this rank was stopped. */
int coll_patience_check(struct rt_group *g, struct coll_patience *p, uint32_t rank, int64_t now);
/* The same while data moves.  Its limit is an eighth longer, because this rank itself may be the
 * slow one: then a rank that waits for it should be the first to report that. */
int coll_deadline_check(struct rt_group *g, struct coll_patience *p, uint32_t rank, int64_t now);

/* hier.c: for ranks on several machines, and for calls that have no path in shared memory. */
int coll_hier_make(struct rt_group *g, const struct rt_coll *c);

/* work.c */
bool coll_queue_busy(const struct rt_group *g);
void coll_queue_stop(struct rt_group *g);
/* In a forked child, where its thread is not: frees what it can. */
void coll_queue_forget(struct rt_group *g);
/* Like rt_coll_start, for a call that was checked, by a thread that has entered. */
CO_MUST_CHECK int coll_queue_add(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err);
/* calls.c */
CO_MUST_CHECK int coll_call_check(
    const struct rt_group *g, const struct rt_coll *c, struct co_err *err);
/* What a call of each kind needs.  peer: root names the other rank.  moves: it has data.  apart: it
 * cannot be in place, as a part comes before all have gone out that it would replace. */
struct coll_needs {
    const char *name;
    bool moves, reduces, rooted, to_root, peer, counts, out_counts, apart;
};
extern const struct coll_needs coll_kinds[RT_KINDS];
/* use: as of use.h; sized: its calls differ in size. */
struct coll_use_name {
    const char *text;
    bool sized;
};
/* NULL: the op of a program's own call. */
const struct coll_use_name *coll_use_name(enum rt_kind kind, unsigned op);
/* As its caller knows it. */
const char *coll_call_name(const struct rt_coll *c);
/* Like rt_coll_run and rt_coll_start, for a call that was checked. */
CO_MUST_CHECK int coll_call_run(struct rt_group *g, const struct rt_coll *call, struct co_err *err);
CO_MUST_CHECK int coll_call_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err);
/* Makes the call in this thread. */
int coll_call_make(struct rt_group *g, const struct rt_coll *call);
/* The same for buffers in main memory, whatever the group's device is. */
int coll_call_host(struct rt_group *g, const struct rt_coll *call);
