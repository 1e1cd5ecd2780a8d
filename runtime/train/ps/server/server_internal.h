/* What the files of a parameter server share: server.c (start and stop), session.c (trainers'
 * connections), admit.c (hello and begin), barrier.c, pace.c (staleness), watch.c (leases, the end
 * of the job), doors.c (data lanes), checkpoint.c and server_metrics.c.
 *
 * All functions run on the rpc's thread unless a comment says otherwise. */
#pragma once

#include <pthread.h>

#include "common/parse.h"
#include "runtime/net/net.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/server/members.h"
#include "runtime/train/ps/server/server.h"
#include "runtime/train/ps/shard/saver.h"
#include "runtime/train/ps/shard/shard.h"

/*     NEW --hello--> JOINED --begin--> BEGUN     from all of these: --an error--> REFUSED
 *                      ^-- goes back ----'
 */
enum pss_session_state {
    PSS_SESSION_NEW,     /* no hello of it was accepted yet */
    PSS_SESSION_JOINED,  /* its hello was accepted, or the job went back to a checkpoint */
    PSS_SESSION_BEGUN,   /* its begin was accepted: it may send frames for shards */
    PSS_SESSION_REFUSED, /* an error was sent to it, and its stream ends */
};

/* A connection.  Its hello says which trainer it belongs to. */
struct pss_session {
    struct pss_server *server;
    struct rpc_stream *stream; /* borrowed; on_close frees the session */
    int64_t since_ms;
    uint32_t trainer; /* PSS_NOBODY before hello */
    enum pss_session_state state;
    uint64_t key; /* its data lanes must present it; 0: not made yet */
    struct pss_session *next, *prev;
};

#define PSS_NOBODY UINT32_MAX

/* Which data lanes of a trainer are accepted (doors.c). */
struct pss_door {
    uint64_t key;              /* a lane must present it; 0: none is accepted */
    struct rpc_stream *stream; /* counted: the lanes belong to it */
};

struct pss_server {
    struct pss_server_config config; /* strings owned */
    char **list; /* owned, [config.servers]: endpoints of the job's servers; NULL: not known */
    struct rpc *rpc;
    uint16_t port;
    char address[CO_HOST_MAX + 10]; /* that it listens on */
    int listen_fd;                  /* until the rpc has it; -1: none */
    int fd;                         /* eventfd: readable when the job is over */

    uint64_t incarnation; /* of this server */
    atomic_bool stopping; /* pss_server_stop has begun: a closed connection is no lost trainer */

    /* From rpc_accept to rpc_close, only the rpc's thread changes what follows, except for doors,
     * load and the atomics. */
    uint64_t era;       /* how often the job went back to a checkpoint */
    uint64_t at;        /* number of the checkpoint that the tables come from; 0: none */
    uint64_t at_step;   /* of this job, at which that was made */
    uint64_t at_origin; /* its step in the manifest less at_step */
    bool ending; /* a trainer came that has finished on other servers: this one was restarted */
    bool begun;  /* a trainer has sent begin since this server was started */
    struct pss_members members;
    struct pss_session *sessions;
    enum rt_mode mode;
    uint32_t backup; /* sync: a step waits for all trainers but this many */
    struct ps_table *tables;
    uint32_t n_tables;
    struct table_budget budget;  /* config.memory_max, of all shards */
    struct ckpt_chain *restored; /* the checkpoint to start from; NULL: tables start empty */
    struct table_rocks *rocks;   /* of all shards, in config.cold_dir; NULL: none */
    struct ckpt_claim *claim;    /* of checkpoint_dir, until the saver has it; NULL: none */
    struct shard_saver *saver;   /* of all shards; NULL before the first hello */
    struct shard **shards;       /* [config.shards], NULL before the first hello */
    /* Guards doors.  The front door's thread uses shards, too, when it holds this lock and has seen
     * a valid key: keys are made after the shards. */
    pthread_mutex_t doors_m;
    struct pss_door *doors; /* by trainer */
    int64_t ticked_ms;      /* the last tick; 0: none yet */
    int64_t said_ms;        /* when the log last said which trainers are missing */
    int64_t first_ms;       /* first hello; 0: none yet */
    int64_t left_ms;        /* when a trainer last finished, gave up or was away */
    uint32_t unsaid;        /* members that have finished, which the others do not know yet */
    bool over;              /* result is decided */
    atomic_bool trained;    /* it is: all trainers have finished.  Any thread */
    int64_t over_ms;
    bool signaled;    /* fd was written */
    uint64_t refused; /* peers, all of them */
    struct net_log_limit refusals;
    struct meter_source meter;
    /* written at each tick; threads that read metrics use them */
    atomic_uint_fast64_t trainers[PSS_MEMBER_STATES], apart, step;
    struct co_err result;
    pthread_mutex_t load_m;
    struct co_err load; /* guarded by load_m: why a shard could not load a checkpoint */
};

/* session.c: the callbacks of the rpc. */
extern const struct rpc_ops pss_session_ops;
/* The only function that changes a session's state; asserts that the move is legal. */
void pss_session_set(struct pss_session *se, enum pss_session_state to);
/* Whether this is its trainer's present connection: not given up, not replaced by a later one. */
bool pss_session_is_current(const struct pss_session *se);
/* The same, and the trainer is ALIVE. */
bool pss_session_is_alive(const struct pss_session *se);
/* Answers a control message without a payload. */
CO_MUST_CHECK int pss_session_answer(struct rpc_stream *stream, uint64_t seq, struct co_err *err);
/* The trainer has finished, as it says itself or others do. */
void pss_server_finish(struct pss_server *s, uint32_t trainer);
/* Notifies the trainers of those that have finished since the last time.  If this server is
 * restarted, it learns that from them. */
void pss_server_send_finished(struct pss_server *s);

/* admit.c: a trainer says who it is, and gets a welcome; it has those of all servers, and begins.
 * Before begin it sends only hello and ping. */
CO_MUST_CHECK int pss_session_hello(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Hello *h, struct co_err *err);
CO_MUST_CHECK int pss_session_begin(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Begin *b, struct co_err *err);

/* doors.c: accepts data lanes of the trainer from now on, if they present *ret_key. */
CO_MUST_CHECK int pss_server_open_door(struct pss_server *s, uint32_t trainer,
    struct rpc_stream *stream, uint64_t *ret_key, struct co_err *err);
/* Accepts no more lanes of that connection. */
void pss_server_close_door(struct pss_server *s, uint32_t trainer, const struct rpc_stream *stream);
/* The callback on_lane of rpc_ops, on the front door's thread. */
int pss_server_on_lane(
    void *server, struct rpc_lane *lane, const struct rpc_pass *pass, struct co_err *err);

/* server.c: bytes of requests and answers of all trainers that may be in memory at a time, where
 * they use gRPC.  They are beside memory_max: at most an eighth of it. */
size_t pss_server_window(const struct pss_server *s);
/* server.c: copies the list, config.servers entries. */
void pss_server_set_list(struct pss_server *s, const char *const *list);

/* checkpoint.c: sets s->restored to the newest checkpoint in dir that is not damaged, or leaves it
 * NULL if none was ever completed.  CO_DAMAGED: all are.  Other errors: one cannot be read.  Called
 * before other threads know s. */
CO_MUST_CHECK int pss_server_find_restored(
    struct pss_server *s, const char *dir, struct co_err *err);
/* CO_EXISTS: another job writes checkpoints into checkpoint_dir.  Before other threads know s. */
CO_MUST_CHECK int pss_server_claim(struct pss_server *s, struct co_err *err);
/* Called once tables, index and mode are known. */
void pss_server_make_saver(struct pss_server *s);

/* barrier.c: the trainer is at the barrier. */
CO_MUST_CHECK int pss_session_barrier(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Barrier *b, struct co_err *err);
/* barrier.c: a trainer in a step asks for whom the step waits; the answer is an error that names
 * them, or none. */
CO_MUST_CHECK int pss_session_late(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Late *l, struct co_err *err);
/* Answers all trainers at the barrier if it is full. */
void pss_server_barrier(struct pss_server *s);
/* A restarted server learns how many barriers the job has completed. */
void pss_server_note_barriers(struct pss_server *s, uint64_t n);
/* Answers those who asked for whom they wait, when their time is over. */
void pss_server_barrier_say(struct pss_server *s, int64_t now);
/* Sync: fails the job if trainers wait for each other, some in a step and some at a
 * barrier. */
void pss_server_check_order(struct pss_server *s);

/* checkpoint.c: has all shards load the checkpoint that a begin names, which was made at its step
 * (sync), and notifies the trainers. If a shard cannot load it, pss_server_check_load ends the job.
 */
CO_MUST_CHECK int pss_server_go_back(struct pss_server *s, const Rpc__Begin *b, struct co_err *err);

/* checkpoint.c: the callback loaded of shard_config, on a shard's thread. */
void pss_server_loaded(void *server, const struct co_err *why);
/* checkpoint.c: ends the job if a shard could not load a checkpoint.  When the server is
 * started again, it tries again, or finds another checkpoint. */
void pss_server_check_load(struct pss_server *s);

/* server_metrics.c: attaches this server's metrics, and updates them at each tick. */
void pss_server_meter_open(struct pss_server *s);
void pss_server_meter_tick(struct pss_server *s);

/* pace.c: steps between the fastest and the slowest trainer that trains; 0: trainers do not report
 * their steps. */
uint64_t pss_server_apart(const struct pss_server *s);
/* pace.c: handles a pace message: a trainer reports its step, and may wait for slower ones. */
CO_MUST_CHECK int pss_server_pace(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Pace *p, struct co_err *err);
/* A new incarnation of a trainer starts at the step of the slowest trainer. */
void pss_server_pace_join(struct pss_server *s, uint32_t trainer);
/* Answers trainers that need not wait any more.  When the wait time of another one is over, sends
 * it an error that names the slowest trainer. */
void pss_server_pace_check(struct pss_server *s, int64_t now);

/* watch.c */
void pss_server_tick(void *arg); /* for rpc_ops.on_tick */
/* The trainer's connection broke or its lease ran out.  Waits for the trainer to return
 * (return_ms), or counts it as lost at once. */
void pss_server_miss(struct pss_server *s, uint32_t trainer, const char *cause);
/* The trainer has left and said that it will return at once. */
void pss_server_expect(struct pss_server *s, uint32_t trainer);
/* Counts the trainer as lost.  Sync: more lost trainers than `backup` fail the job.  Else the
 * others continue without it. */
void pss_server_lose(struct pss_server *s, uint32_t trainer, const char *cause);
/* Ends the job if all trainers have finished.  Notes when only lost ones have not. */
void pss_server_check_end(struct pss_server *s);
/* Decides the job's result (code 0: success).  Sends a failure to all trainers and ends their
 * streams. */
void pss_server_over(struct pss_server *s, const struct co_err *result);
/* Counts a refused peer and logs it, but not within a minute of the last one: a later line then
 * says how many there were. */
void pss_server_say_refused(struct pss_server *s, const char *peer, const struct co_err *why);
/* Makes pss_server_wait return once the job is over and trainers have closed their connections. */
void pss_server_notify(struct pss_server *s);

#define pss_server_say(s, ...)                                                                     \
    do {                                                                                           \
        if (!(s)->config.quiet) {                                                                  \
            ps_log_info(__VA_ARGS__);                                                              \
        }                                                                                          \
    } while (0)
