/* libpaddlert: the calls by which a training program takes part in a parameter-server job.
 *
 *     rt_init(&job, &err)                      what is this process? (environment, as in Paddle)
 *     if (rt_is_server(job)) {
 *         rt_server_run(job, NULL, &err);      until all trainers have finished
 *     } else {
 *         rt_client_open(job, &options, tables, n, &c, &err);   waits for the servers
 *         rt_init_dense(c, 0, w, &err);        all workers get worker 0's values
 *         each step:
 *             rt_pull_sparse(c, 1, ids, n_ids, rows, &err);
 *             ... forward and backward ...
 *             rt_push_sparse(c, 1, ids, n_ids, row_gradients, &err);
 *             rt_exchange_dense(c, 0, gradient, w, &err);
 *             rt_step(c, &err);                sync: waits for the others; async: returns at once
 *         if (rt_is_first_worker(job)) rt_save(c, dir, &err);
 *         rt_finish(c, &err);
 *     }
 *
 * Values are IEEE 754 binary32, row-major; an id is any uint64.  Times are in milliseconds.  A
 * fallible function returns 0 or a negative enum co_code and describes the cause in *err
 * (common/err.h).  CO_INVALID: the environment or an argument must change (programs usually exit
 * with 2).  CO_TIMEOUT and CO_PEERLOST name the endpoint or the trainer.  Nothing here exits or
 * installs signal handlers, and nothing but pipe_command starts a process.  A child that a program
 * forks (a data loader's) cannot use clients, groups and readers of samples that its parent opened:
 * each call is CO_INVALID, and closing them says no goodbye for the parent.  Fork before the first
 * rt_server_run.
 *
 * Compiled programs keep working with every later libpaddlert.so.1: functions (runtime/exports),
 * the numbers of enums, and structs with their fields and sizes stay.  A later option takes the
 * place of `spare`, which must be 0; 0 is the default of every later option, too.  A library older
 * than the header refuses an option that it does not know with CO_UNSUPPORTED.  In what a call
 * returns, spare is 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- this process's place in its job ------------------------------------------------------ */

struct rt_job; /* immutable after rt_init; any thread */

/* Reads the environment (TRAINING_ROLE, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM,
 * PADDLE_TRAINER_ID, POD_IP, PADDLE_PORT, ...).  Without any of these, the process is worker 0 of 1
 * with no servers, and the tables live inside the process.  CO_INVALID names the variable, its
 * value, and what was expected.  A standard stream that is closed is opened as /dev/null: nothing
 * that is printed goes into a connection. */
CO_MUST_CHECK int rt_init(struct rt_job **ret_job, struct co_err *err);
/* The same from a list of "NAME=value" that ends with NULL, instead of the environment:
 *     {"TRAINING_ROLE=TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:8001",
 *      "PADDLE_TRAINERS_NUM=2", "PADDLE_TRAINER_ID=0", "PADDLE_JOB_TOKEN=secret", NULL}
 * The strings are copied.  The token and PADDLE_JOB_ENCRYPT come from the list.  Other options of
 * servers and clients that are 0 still come from the environment. */
CO_MUST_CHECK int rt_init_list(
    const char *const *variables, struct rt_job **ret_job, struct co_err *err);
void rt_done(struct rt_job *job); /* NULL allowed; after everything opened with it is closed */

/* The role of this process, and the number of workers and servers.  Without any of the variables:
 * worker 0 of 1, no server. */
bool rt_is_server(const struct rt_job *job);
bool rt_is_worker(const struct rt_job *job);
bool rt_is_first_worker(const struct rt_job *job);
uint32_t rt_worker_index(const struct rt_job *job); /* 0 .. rt_worker_num - 1 */
uint32_t rt_worker_num(const struct rt_job *job);
/* As rt_worker_num, or a larger PADDLE_TRAINERS_NUM: without a list of servers or trainers a
 * program is worker 0 of 1, whatever that says, as in Paddle.  Groups are refused then. */
uint32_t rt_worker_num_named(const struct rt_job *job);
uint32_t rt_server_index(const struct rt_job *job);
uint32_t rt_server_num(const struct rt_job *job);                     /* 0: not distributed */
const char *rt_server_endpoint(const struct rt_job *job, uint32_t i); /* borrowed, "host:port" */
/* Entry i of PADDLE_TRAINER_ENDPOINTS; NULL: the variable is not set.  Borrowed. */
const char *rt_worker_endpoint(const struct rt_job *job, uint32_t i);
const char *rt_job_name(const struct rt_job *job); /* borrowed; "" without one */
/* The job's secret, "" without one; and whether its processes encrypt what they say to each other,
 * as PADDLE_JOB_ENCRYPT has it, NULL if it is not set.  Of rt_init_list, or the environment;
 * borrowed. */
const char *rt_job_token(const struct rt_job *job);
const char *rt_job_encrypt(const struct rt_job *job);

/* Reports a number about the training: "loss", "auc", "examples_per_second", ...  It becomes a
 * metric of the process (PADDLERT_METRICS: paddlert_reported{name="loss"}) and a curve in
 * TensorBoard (PADDLERT_TENSORBOARD: a directory).  name: 1..63 of [A-Za-z0-9_.:/-]; at most 64
 * names.  Cheap; without either variable it does almost nothing.  Any thread; fork before the first
 * call.  Write errors are logged on stderr. */
void rt_report(const struct rt_job *job, uint64_t step, const char *name, double value);

/* For a program whose language handles signals itself, as Python does.  `check` is called in this
 * thread about every 50 ms while a call of this thread waits for others: at the first
 * such moment, not before; never with a lock of the library held, so it may make calls.  If it
 * returns true, the call ends with CO_CANCELED; so do later ones that wait, without a question,
 * until rt_interrupt is called again.  NULL: calls of this thread wait to their end (the default).
 * Each thread has its own; a forked child's is that of the thread that forked.
 *
 * After CO_CANCELED nothing of the caller's memory is in use, but as said here, and
 *
 *     pulls, rt_barrier, rt_flush, rt_save, rt_stat: the client works, the call may be repeated
 *     rt_step in sync mode: the client works, and its next rt_step waits for the same step; until
 *         then the w of its exchanges is in use
 *     a push or exchange that waited for room: the client works, nothing was pushed
 *     other calls of a client: how far they came is unknown, so that it can only be closed
 *     calls of a group, rt_work_wait: the group is given up, as by rt_group_abort
 *     rt_client_open, rt_group_open: nothing is open
 *     rt_data_next: nothing is lost, the call may be repeated
 *     rt_server_run: the server has ended, as by rt_server_end */
void rt_interrupt(bool (*check)(void));

/* ---- server ------------------------------------------------------------------------------- */

/* How a server treats NaN and infinite values in gradients and in what rt_init_dense brings.  What
 * rt_load brings had been in a server: "skip" leaves it out, "refuse" takes it.  In geo mode a
 * trainer's own copy follows the same rule. */
enum rt_nonfinite {
    RT_NONFINITE_UNSET,  /* the value of PADDLE_PS_NONFINITE; refuse */
    RT_NONFINITE_REFUSE, /* the call fails with CO_INVALID: table, id or index, trainer */
    RT_NONFINITE_SKIP,   /* sparse: the row is skipped; dense: the value counts as 0 */
    RT_NONFINITE_ALLOW,
};

/* Whether trainers and servers, or the ranks of a group, encrypt their connections: TLS 1.3 with
 * keys derived from the job's token.  All processes of a job must agree; a peer with another
 * setting is refused. */
enum rt_encrypt {
    RT_ENCRYPT_UNSET, /* the value of PADDLE_JOB_ENCRYPT; no */
    RT_ENCRYPT_NO,
    RT_ENCRYPT_YES, /* CO_INVALID without a token */
};

/* A field that is 0 is read from the environment (names in parentheses), or has the default given
 * here. */
struct rt_server_options {
    int64_t lease_ms;         /* a trainer silent for longer is lost (PADDLE_PS_LEASE); 30 s */
    int64_t start_timeout_ms; /* first trainer to last one (PADDLE_PS_START_TIMEOUT); 600 s */
    int64_t return_ms;        /* how long to wait for a lost trainer to return (PADDLE_PS_RETURN);
                                 lease_ms.  Below 0: not at all */
    uint32_t shards;     /* worker threads (PADDLE_PS_SHARDS); half the cores of the machine or the
                            container (cgroup), 1 .. 16 */
    uint64_t memory_max; /* bytes of all tables together; three quarters of the machine's or the
                            container's memory.  A push that would exceed it fails with
                            CO_NORESOURCE (rt_push_sparse says which part of it is kept).  Requests
                            and answers in flight over gRPC take up to an eighth of it, 64 MiB at
                            most, besides */
    enum rt_nonfinite nonfinite;
    const char *checkpoint_dir; /* the server writes checkpoints only in and below this directory
                                   (PADDLE_PS_CHECKPOINT_DIR); NULL, "": wherever a trainer asks */
    const char *cold_dir; /* sparse rows that do not fit in memory_max are kept on disk, in this
                             server's own directory below this one (PADDLE_PS_COLD_DIR); NULL, "":
                             all rows are in memory */
    bool handle_signals;  /* SIGTERM and SIGINT end the server with CO_CANCELED */
    enum rt_encrypt encrypt;
    uint64_t spare[8];
};

/* Serves until every trainer has finished, then returns 0.  Prints "Server listening on <addr>
 * selected port: <port>" on stderr once trainers can connect.  Raises the soft limit of open files
 * to the hard one.
 * When a trainer's connection breaks, or the trainer is silent for longer than its lease, the
 * server logs that at once and waits for the trainer to return (return_ms).  A trainer that
 * returns, as the same process or a new one, continues where it was ("resuming after a restart"
 * below).
 * CO_PEERLOST: a trainer was lost; the message says which one, its address, and when it last sent
 * data.  Sync: it did not return in time, or gave up; all other trainers are notified.  Async:
 * training continues without it, and it may still return under its id.  Then rt_load, rt_init_dense
 * and rt_barrier do not repeat what the job did together up to its last completed barrier.  When
 * the others have finished, it has return_ms once more.
 * CO_TIMEOUT: some trainers never connected.  CO_UNAVAILABLE: the address is in use. */
CO_MUST_CHECK int rt_server_run(
    const struct rt_job *job, const struct rt_server_options *options, struct co_err *err);
/* Ends this job's rt_server_run with CO_CANCELED, the running one or else the next one: for a
 * server that runs on a thread of the program.  Any thread.  A forked child ends one of its own. */
void rt_server_end(const struct rt_job *job);
/* Whether this job's rt_server_run has begun to accept trainers.  Its port says less: the server
 * has that before it looks for a checkpoint, which may fail.  Any thread. */
bool rt_server_accepts(const struct rt_job *job);

/* How a table is trained (docs/modes.md). */
enum rt_mode {
    RT_MODE_UNSET, /* a table: the client's mode; a client: PADDLE_PS_STRATEGY's, or async */
    RT_ASYNC,      /* every push is applied at once */
    RT_SYNC,       /* a step's pushes are averaged over the trainers and applied once */
    RT_GEO,        /* trainers train their own copies and exchange differences */
};

/* ---- tables ------------------------------------------------------------------------------- */

enum rt_table_kind {
    RT_DENSE,  /* one flat vector of `size` floats */
    RT_SPARSE, /* rows of `dim` floats by uint64 id, created by their first push */
};

/* Every trainer passes the same specs in the same order; servers refuse a trainer whose specs
 * differ.  Calls name a table by its index in the list, from 0. */
struct rt_table_spec {
    const char *name; /* 1..63 of [A-Za-z0-9_.-]; names the files in checkpoints */
    enum rt_table_kind kind;
    uint64_t size; /* dense: number of floats */
    uint32_t dim;  /* sparse: floats in a row, 1..65536 */
    /* "sgd:lr=0.1", "adagrad:lr=0.05,epsilon=1e-6", ... (docs/rules.md).  With "sum" the gradients
     * of a synchronous step are summed, not averaged. */
    const char *optimizer;
    /* Sparse: the first value of a row.  It is a pure function of (seed, id, index in the row), so
     * it is the same for any number of servers: "zero", "constant:value=1", "uniform:min=-1,max=1",
     * "normal:mean=0,std=0.01", "truncated_normal:...", "xavier:..." (docs/rules.md).  Dense tables
     * start at zero; see rt_init_dense. */
    const char *init;
    uint64_t seed;
    /* Unset: the client's.  RT_SYNC needs a client in sync mode; other modes can be mixed. */
    enum rt_mode mode;
    /* Learning rate schedule: "cosine:steps=10000,warmup=500", ... (docs/rules.md); NULL or "":
     * constant.  It turns the optimizer's lr into the rate of a step.  Steps counted: in sync mode,
     * completed steps; in async mode, all trainers' rt_step calls divided by the number of
     * trainers; in geo mode, this trainer's steps. */
    const char *schedule;
    /* Sparse: the type in which values are stored: "f32" (NULL), "f16" or "bf16".  Optimizer state
     * is f32, and updates are computed in f32.  Their result is rounded up or down at random; the
     * nearer neighbour is more likely.  Rounding to nearest would lose every update smaller than
     * half a unit in the last place (1/512 of a value in bf16).  First values and what rt_load
     * brings are rounded to nearest, so a saved value is restored unchanged.  A value beyond the
     * type's range (f16: 65504) becomes the largest, not infinite. */
    const char *storage;
    /* The type in which values and gradients travel, with the same words, rounded to nearest.
     * Servers still store and update in f32 (or in `storage`), and checkpoints hold that.  Dense in
     * bf16: half the bytes per step, and trainers compute with values of 8 bits.  A value beyond
     * the type's range arrives as the largest, and so does a change in geo mode, the rest of which
     * goes with later ones.  In f16 a gradient above 65504 becomes infinite, and one below 6e-8
     * becomes 0.
     * "int8", for dense tables in sync mode: a byte per value, and two bytes per 64 values for
     * their scale.  Gradients travel so, and what each step changes of the values.  What rounding
     * leaves of a gradient is added to this trainer's next one (error feedback), and of a change to
     * the next change.  NaN or Inf in a gradient counts for its 64 values.  All that rt_pull_dense
     * reads, and values without data lanes, are f32.  A trainer keeps two more copies of the table,
     * a server one and a quarter. */
    const char *wire;
    /* Sparse: when an id gets a row.  NULL: with its first push.  "count:n=10",
     * "probability:p=0.1", "show_click:threshold=10" (runtime/train/table/policy.h).  Until then
     * its pushes are only counted, in fixed memory (8 MiB per shard), and it reads as zeros, in a
     * saved model, too.  These counts are in no checkpoint: a server that is started again counts
     * from 0. */
    const char *admit;
    /* Sparse: which rows are evicted.  NULL: none.  "ttl:seconds=86400", "ttl:steps=10000",
     * "lfu:capacity=1000000" (rows of the whole table; counts decay),
     * "ctr:delete_threshold=0.8,..." (by rt_shrink).  An id whose row was evicted is like one that
     * never had a row. */
    const char *evict;
    uint64_t spare[8];
};

/* Computes the initial row of an id, dim floats, without a server. */
CO_MUST_CHECK int rt_table_init_row(
    const struct rt_table_spec *spec, uint64_t id, float *ret_row, struct co_err *err);

/* ---- trainer ------------------------------------------------------------------------------ */

/* Which connections carry rows and gradients; membership and barriers always use gRPC. */
enum rt_ps_transport {
    RT_PS_UNSET, /* the value of PADDLE_PS_TRANSPORT; lanes */
    RT_PS_LANES, /* one TCP connection to each shard of each server */
    RT_PS_GRPC,
};

/* A field that is 0 is read from the environment (names in parentheses; FLAGS_communicator_*), then
 * from the file that PADDLE_PS_STRATEGY names (docs/modes.md), then has the default given here. */
struct rt_client_options {
    enum rt_mode mode; /* the same for all trainers, and so is: */
    /* Sync: the number of slowest trainers that a step does not wait for.  A step is applied when
     * all others that are still training have ended it.  Gradients that arrive later are dropped
     * and counted (rt_stat).  This many trainers may also be lost. */
    uint32_t backup;
    int64_t start_timeout_ms;   /* waiting for servers (PADDLE_PS_START_TIMEOUT); 600 s */
    int64_t call_timeout_ms;    /* pull, push, ... (PADDLE_PS_CALL_TIMEOUT, FLAGS_rpc_deadline);
                                   180 s.  Restarts whenever a part of the call, at most 4 MiB, is
                                   done */
    int64_t barrier_timeout_ms; /* barriers, and steps in sync mode; 600 s */
    int64_t lease_ms;           /* a server silent for longer is lost (PADDLE_PS_LEASE); 30 s */
    /* Async rt_push_sparse: up to this many waiting pushes to a table are merged into one (equal
     * ids are summed); 0 or 1: each push is sent by itself. */
    uint32_t merge_max;
    /* Async rt_push_sparse: how many pushes to a table may wait, as copies, before the call blocks;
     * 0: none wait; when merging, 16, but at least merge_max. */
    uint32_t queue_max;
    int64_t send_wait_ms;  /* how long a push waits for others to be merged with; 0: not at all */
    uint32_t send_threads; /* threads that merge and send, at most one per table; 0: 5 */
    bool merge_mean;       /* merged gradients, dense ones too, are averaged, not summed */
    /* Async rt_exchange_dense: new values come only with every n-th gradient, n = this; 0: 1. */
    uint32_t recv_after;
    /* Async: how many steps this trainer may be ahead of the slowest one; beyond that rt_step
     * waits, and logs that it does; 0: no limit. */
    uint32_t staleness;
    /* Geo: steps between two exchanges of the copies; 0: 100. */
    uint32_t k_steps;
    int64_t return_ms; /* how long to wait for a lost server to return (PADDLE_PS_RETURN); lease_ms.
                          Below 0: not at all */
    /* Async rt_exchange_dense: while an exchange is in flight, the gradients of at most this many
     * steps wait, summed; 0: 4.  1: every step is sent by itself. */
    uint32_t dense_merge_max;
    enum rt_ps_transport transport;
    /* Checkpoints while training (rt_checkpoint): worker 0's rt_step begins one whenever this many
     * of its steps, or this much time, have passed since the last one.  It is written in the
     * background. */
    const char *checkpoint_dir; /* borrowed until rt_client_open returns
                                   (PADDLE_PS_CHECKPOINT_DIR); NULL, "": none */
    uint64_t checkpoint_steps;  /* steps from one to the next (PADDLE_PS_CHECKPOINT_STEPS) */
    int64_t checkpoint_ms;      /* time from one to the next (PADDLE_PS_CHECKPOINT_INTERVAL); 600 s
                                   if neither is set */
    uint32_t checkpoint_deltas; /* deltas between two full ones (PADDLE_PS_CHECKPOINT_DELTAS); 9 */
    uint32_t checkpoint_keep;   /* full ones to keep (PADDLE_PS_CHECKPOINT_KEEP); 2 */
    enum rt_encrypt encrypt;
    uint64_t spare[8];
};

struct rt_client; /* any thread may call; rt_finish: one; rt_step, rt_barrier, rt_no_more: one at a
                     time, beside another one they are CO_INVALID */

/* Connects to all servers and creates the tables there.  While servers are not ready, it prints
 * Paddle's two lines ("server not ready, wait 3 sec to retry..." / "not ready endpoints:[...]") on
 * stderr every 3 s, and less and less often why.  options NULL: all defaults.  specs are copied.
 * CO_TIMEOUT names the endpoints that are not ready.  CO_PERMISSION: a server refused this trainer
 * (other job, wrong token, other tables, id already in use).  CO_INVALID: only one of the two
 * encrypts. */
CO_MUST_CHECK int rt_client_open(const struct rt_job *job, const struct rt_client_options *options,
    const struct rt_table_spec *specs, size_t n_specs, struct rt_client **ret_client,
    struct co_err *err);

/* The mode that options, environment or PADDLE_PS_STRATEGY gave, or async. */
enum rt_mode rt_client_mode(const struct rt_client *c);

/* Leaves without finishing: servers treat this trainer as lost.  NULL allowed. */
void rt_client_close(struct rt_client *c);

/* Sends what is still queued, reports to the servers that this trainer has finished, and closes.
 * Frees c, also on failure. */
CO_MUST_CHECK int rt_finish(struct rt_client *c, struct co_err *err);

/* Collective: every worker calls it once per dense table before training.  Worker 0's values (size
 * floats) become the table.  The call is a barrier; all return with the table's values in `values`.
 */
CO_MUST_CHECK int rt_init_dense(
    struct rt_client *c, uint32_t table, float *values, struct co_err *err);

/* Reads the whole vector into ret_w (size floats).  Blocks. */
CO_MUST_CHECK int rt_pull_dense(
    struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err);

/* Queues a copy of a gradient (size floats) and returns before it is applied.  Blocks only while
 * too much is in flight.  A failure is returned by this or a later call.  If servers refuse a push
 * (CO_INVALID: NaN or Inf; CO_NORESOURCE: memory; others: tables that are being restored), one
 * later push, step, flush or barrier, or rt_finish, returns that, and the client still works:
 * rt_save saves what it has without that push. */
CO_MUST_CHECK int rt_push_dense(
    struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err);

/* Push and pull in one call: the way to train a dense table.
 * Sync: pushes.  The next rt_step writes the new values to w, which must stay valid until then.
 * Async: queues the gradient (a copy, summed with earlier ones that still wait) and writes the
 * newest values that have arrived to w, so w is a few steps old.  Blocks only while dense_merge_max
 * gradients wait.  One thread per table.
 * Geo: applies the table's rule to this trainer's copy, and writes the copy to w. */
CO_MUST_CHECK int rt_exchange_dense(
    struct rt_client *c, uint32_t table, const float *gradient, float *w, struct co_err *err);

/* Row i of ret_rows [n][dim] is the row of ids[i]; ids may repeat.  A row that does not exist reads
 * as its initial value.  Blocks.  Geo: reads this trainer's copy, until rt_no_more. */
CO_MUST_CHECK int rt_pull_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct co_err *err);

/* Several pulls, of one or many tables, with the result of one after another.  All requests for a
 * shard travel together, and so do its answers.  n up to RT_PULLS_MAX. */
#define RT_PULLS_MAX 256
struct rt_pull {
    uint32_t table;
    const uint64_t *ids; /* [n] */
    size_t n;
    float *ret_rows; /* [n][dim] */
};
CO_MUST_CHECK int rt_pull_sparse_many(
    struct rt_client *c, const struct rt_pull *pulls, size_t n, struct co_err *err);

/* gradients [n][dim]; those of equal ids are summed.  Otherwise like rt_push_dense.
 * A push with a NaN or Inf that the servers refuse (PADDLE_PS_NONFINITE) has no effect at all.
 * When memory runs out, a part of a large push may be applied: it travels in frames of about 256
 * KiB, each with rows of one shard.  A frame is applied as a whole or not at all, and the frames
 * before it stay applied.  The error names server and table. */
CO_MUST_CHECK int rt_push_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, struct co_err *err);

/* A pull in two halves, so that the next batch's rows travel while this batch is computed.  ids are
 * copied.  ret_rows must stay valid until rt_wait, which frees the call and must be called once for
 * each. */
struct rt_call;
CO_MUST_CHECK int rt_pull_sparse_start(struct rt_client *c, uint32_t table, const uint64_t *ids,
    size_t n, float *ret_rows, struct rt_call **ret_call, struct co_err *err);
CO_MUST_CHECK int rt_wait(struct rt_call *call, struct co_err *err);

/* Like rt_push_sparse, with numbers of shows and clicks, one per row (summed for equal ids); admit
 * show_click and evict ctr count them; elsewhere they count nothing.  In rt_push_sparse each row of
 * a call counts as one show. CO_INVALID, and nothing is pushed: a number is not within 0..1e9.
 * CO_UNSUPPORTED: a table in geo mode, whose pushes end in this trainer's copy. */
CO_MUST_CHECK int rt_push_sparse_clicks(struct rt_client *c, uint32_t table, const uint64_t *ids,
    size_t n, const float *gradients, const float *shows, const float *clicks, struct co_err *err);

/* Evicts at once all rows of a table that its evict policy no longer keeps (ttl and lfu otherwise
 * evict a few with each push).  ctr: counts decay first, so call it once a day, for example.
 * Training continues meanwhile.  CO_INVALID: the table has no evict policy. */
CO_MUST_CHECK int rt_shrink(
    struct rt_client *c, uint32_t table, uint64_t *ret_erased, struct co_err *err);

/* Ends this trainer's step.  Sync: waits until all trainers that have more data have ended the
 * step.  Their gradients are averaged (sum over trainers / number of trainers, also for rows that
 * only some pushed to) and applied, and the w of rt_exchange_dense is refreshed.  Trainers may have
 * different numbers of steps: one without more data calls rt_no_more or rt_finish.  Async: returns
 * at once, but with a bound on staleness it may wait for the slowest trainer.  Geo: every k_steps
 * steps this trainer's changes start to travel, and the others' changes arrive with one of the next
 * steps.  CO_INVALID, at once and on all trainers: this trainer is in a step and another one at a
 * barrier, or the other way round, so that each would wait for the other.  The message says who is
 * where. */
CO_MUST_CHECK int rt_step(struct rt_client *c, struct co_err *err);

/* This trainer has no more data.  What it pushed since its last rt_step is dropped (sync), the
 * others' steps no longer wait for it, and it must not step or push again.  It may pull, save and
 * join barriers.  Geo: reads return the servers' values from now on.  A second call does nothing.
 */
CO_MUST_CHECK int rt_no_more(struct rt_client *c, struct co_err *err);

/* A table's learning rate. */
struct rt_rate {
    double lr;      /* the optimizer's, or the one that rt_set_rate set */
    uint64_t steps; /* steps that the table's schedule has counted */
    double now;     /* rate of the next updates: the schedule applied to both */
};
CO_MUST_CHECK int rt_get_rate(
    struct rt_client *c, uint32_t table, struct rt_rate *ret, struct co_err *err);

/* Changes lr while training continues; the schedule keeps its position and uses the new lr.  Any
 * one trainer calls it, and the last call wins.  Blocks until all servers have it.  Sync: valid
 * from the step that this trainer ends next, for all trainers' gradients.  Async: valid after what
 * this trainer pushed before the call, and before what it pushes afterwards.
 * rt_save and rt_load keep it.  Async: a server that is restarted has the rate of its checkpoint,
 * and the schedule's position, until this trainer has reconnected (a fraction of a second), and
 * then this rate again; once the trainer has finished or was restarted, itself, the checkpoint's.
 * CO_INVALID: a table in geo mode, where the rate is in the trainers;
 * lr is negative, above 1e30, not a number, or so small that it is 0 as a float. */
CO_MUST_CHECK int rt_set_rate(struct rt_client *c, uint32_t table, double lr, struct co_err *err);

/* Blocks until the servers have applied all earlier pushes and exchanges of this trainer. */
CO_MUST_CHECK int rt_flush(struct rt_client *c, struct co_err *err);

/* Blocks until every trainer that has not finished has called it (implies rt_flush). */
CO_MUST_CHECK int rt_barrier(struct rt_client *c, struct co_err *err);

/* ---- resuming after a restart --------------------------------------------------------------
 *
 * A trainer that is restarted (by Kubernetes, for example) continues where it was:
 *
 *     rt_client_open(...)
 *     rt_init_dense(...)                       no barrier again: reads the current values
 *     rt_resume(c, position, size, &place, &err)
 *     if (place.bytes) move the reader to `position`
 *     each step:
 *         ... pull, forward, backward, push, exchange ...
 *         rt_keep(c, position, bytes, &err)    the reader's position now
 *         rt_step(c, &err)
 *
 * Sync: in the step in which it was lost, the servers wait for it (PADDLE_PS_RETURN).  It repeats
 * that step; what it had pushed in it counts once, if it pushes the same things in the same order.
 * What it had pushed to async tables is applied already, and counts again if it is repeated.
 * Async: the others continue; it repeats what it did since its last rt_keep.
 *
 * A restarted server loads the newest complete checkpoint (PADDLE_PS_CHECKPOINT_DIR, on a file
 * system that all servers share); without one the job fails, unless it had not begun: sync, no step
 * and no barrier complete, nothing loaded.  What was trained since that
 * checkpoint is lost, at most one checkpoint interval.  Async: trainers continue at once and log
 * it.  Sync: all servers go back to that checkpoint, and calls of all trainers fail with CO_GONE.
 * The program then calls rt_resume, reads its dense values again (rt_pull_dense), and continues
 * from place.step with what it had kept there; if rt_init_dense returned CO_GONE, it calls that
 * again first.  A trainer that has finished does not return: the others repeat those steps without
 * it, and what it had pushed in them is lost. */

enum { RT_KEEP_MAX = 64 << 10 };

struct rt_place {
    uint64_t step; /* rt_step calls that this trainer has completed; 0: it begins */
    uint64_t kept; /* the step after which the kept bytes were stored; sync: usually the same */
    size_t bytes;  /* size of the kept bytes; 0: nothing was kept */
};

/* Stores up to RT_KEEP_MAX bytes with the servers, for the step that the next rt_step ends.  The
 * bytes are copied.  Returns at once; they are stored when that step is done.  The servers keep the
 * last two. */
CO_MUST_CHECK int rt_keep(struct rt_client *c, const void *data, size_t bytes, struct co_err *err);
/* Says where this trainer continues, and returns what was kept there (ret_data has room for size
 * bytes).  After CO_GONE it also joins all servers again; no other thread may use c meanwhile. */
CO_MUST_CHECK int rt_resume(struct rt_client *c, void *ret_data, size_t size,
    struct rt_place *ret_place, struct co_err *err);

/* ---- checkpoints -------------------------------------------------------------------------- */

/* Writes all tables with their optimizer state below directory dir of the caller's machine; creates
 * dir.  One trainer calls it.  In async mode the others may continue (each row is then as it was at
 * some moment of the save); in sync mode they should wait in a barrier.  The new checkpoint
 * replaces an earlier one in dir only when it is complete and synced; a failure, or a kill at any
 * moment, leaves the earlier one usable.  If one that is there cannot be read, the save fails.
 * CO_EXISTS: another save to dir has not ended; of two, neither would be whole.  CO_INVALID: dir
 * has a MANIFEST of something else, as of a checkpoint that servers wrote; it stays. */
CO_MUST_CHECK int rt_save(struct rt_client *c, const char *dir, struct co_err *err);

/* Before hours of training: whether files can be written to dir, which rt_save will create.  Leaves
 * nothing behind.  The error names dir and what kept us. */
CO_MUST_CHECK int rt_save_check(const char *dir, struct co_err *err);

/* Which rows of tables with evict "ctr:..." are saved; their counts are saved as they are after the
 * save.  Other tables are saved whole.  The numbers are Paddle's. */
enum rt_save_mode {
    RT_SAVE_ALL,
    RT_SAVE_DELTA, /* rows with a score of base_threshold, and of delta_threshold since they were
                      last saved, that were pushed to within delta_keep_days; resets their
                      delta_score to 0 */
    RT_SAVE_BASE,  /* the same without the condition on the delta score */
    RT_SAVE_DAY,   /* all rows; then every row counts one more day without a push */
    RT_SAVE_MODES,
};
CO_MUST_CHECK int rt_save_as(
    struct rt_client *c, const char *dir, enum rt_save_mode mode, struct co_err *err);

/* Loads a checkpoint's values and optimizer state into the tables of the same names; the number of
 * servers may differ from when it was saved.  Rows that are not in the checkpoint are erased; but
 * one of RT_SAVE_DELTA adds its rows to those that are there.  One trainer calls it, before or
 * instead of rt_init_dense by all, with a barrier after it.  CO_NOTFOUND: no checkpoint in dir.
 * CO_DAMAGED names a file that is truncated or corrupt, CO_INVALID the table that does not fit, and
 * how, or that dir has what rt_restore loads.  Any other code: dir or a file in it could not be
 * read, so nobody knows what it has; err says why.  After an error the tables are as before, unless
 * err says that they are loaded in part: a server had no memory, was lost, or was restarted
 * (CO_CONFLICT).  Then this client's calls that use tables, and rt_finish, fail with
 * CO_UNAVAILABLE until rt_load or rt_restore succeeds.
 * A server that is restarted begins with the newest checkpoint in PADDLE_PS_CHECKPOINT_DIR; in
 * async mode it alone.  One from before the load mixes two models there, and no error says so.
 * Worker 0 makes one in its next steps, if its options ask for checkpoints; otherwise call
 * rt_checkpoint after a load, and after an rt_restore from another directory. */
CO_MUST_CHECK int rt_load(struct rt_client *c, const char *dir, struct co_err *err);

/* Checkpoints that the servers write while training continues, below a directory that all of them
 * see (a shared file system).  Each server writes its own part, all at the same time.
 *
 *     dir/ckpt-000000000012/MANIFEST, part-00000, part-00001, ...        docs/checkpoints.md
 *
 * Sync: exactly the state after the last rt_step of the calling trainer; with backup workers each
 * shard's state is the one after that step or a later one, as nobody waits for a late trainer.
 * Async: each shard of a server has the state of one instant, every row with its optimizer state.
 * A delta holds the rows that changed since the last checkpoint and is much smaller.  A full
 * checkpoint is made where there is none to build on, or a server does not know what has changed.
 * A checkpoint counts once it is complete and synced; a kill of any process at any moment leaves
 * the earlier ones intact. */
struct rt_checkpoint_options {
    bool full;       /* no delta */
    uint32_t deltas; /* a full one after this many deltas, 1024 at most; 0: 9 */
    uint32_t keep; /* full ones of this job to keep, with their deltas; 0: 2, UINT32_MAX: all. Never
                    * removed: what could not be read, has other tables, or is newer than what the
                    * job began with and not its own */
    /* As in rt_save_as.  BASE and DELTA are for models that serve: a row that they leave out is in
     * no later delta either unless it changes again.  A directory holds either such checkpoints or
     * whole ones (CO_INVALID).  DELTA where a full one is needed is BASE; DAY is always full. */
    enum rt_save_mode mode;
    uint64_t spare[4];
};
struct rt_checkpoint {
    uint64_t number; /* counts up from 1 */
    uint64_t step;   /* steps of the trainer that made it, including those before rt_restore */
    uint64_t bytes;  /* of all parts; in rt_restore 0 */
    bool full;
    uint32_t deltas; /* deltas from its full one up to this one, this one included */
    uint64_t spare[4];
};
/* One trainer calls it at a time; blocks until the checkpoint is complete.  dir: a path on the
 * servers; a relative one is below this process's working directory.  options, ret: NULL allowed.
 * A failure affects nothing but this checkpoint.  CO_PERMISSION: a server writes checkpoints only
 * elsewhere. CO_EXISTS: another job writes its checkpoints there, err names it. CO_INVALID: server
 * 0 does not see what the others wrote, or the mode does not fit. */
CO_MUST_CHECK int rt_checkpoint(struct rt_client *c, const char *dir,
    const struct rt_checkpoint_options *options, struct rt_checkpoint *ret, struct co_err *err);

/* Sets all tables to the newest complete checkpoint; the number of servers may have changed.  Each
 * server reads the files itself: first all of them check, then all load.  One trainer calls it, as
 * rt_load.  A damaged checkpoint is skipped, and the log says which older one is used in its place.
 *
 *     CO_NOTFOUND   nothing was ever completed there
 *     CO_DAMAGED    all that was completed is damaged: a checksum is wrong, or a file is missing
 *     CO_INVALID    the newest has other tables; err names the table and the difference
 *     CO_INVALID    dir has what rt_load loads; err says so
 *     others        the newest could not be read (CO_PERMISSION, CO_INTERNAL, CO_NORESOURCE, ...),
 * or a server does not see it (CO_UNAVAILABLE): an older one is no substitute
 *
 * After an error the tables are as before, or, if they could not be loaded after the check,
 * requests on them are refused until an rt_restore succeeds.  Servers that are restarted: as with
 * rt_load. */
CO_MUST_CHECK int rt_restore(
    struct rt_client *c, const char *dir, struct rt_checkpoint *ret, struct co_err *err);

/* A saved model in this process, without servers: for prediction.  dir: a directory of
 * rt_checkpoint (the newest complete one is read) or of rt_save; where it has both, the servers'
 * checkpoint is read, and a line says if the other is newer.  Any thread may read.  rt_model_open
 * has the codes of rt_restore. */
struct rt_model;
CO_MUST_CHECK int rt_model_open(const char *dir, struct rt_model **ret_model, struct co_err *err);
void rt_model_close(struct rt_model *m);
/* Loads the newest complete checkpoint of its directory; of a chain it reads only the deltas that
 * are new.  Readers continue meanwhile; each call sees either the old or the new state.  One thread
 * at a time.  A new full checkpoint is loaded beside the old one, which takes twice the memory for
 * a moment.  ret_new: whether there was a newer one.  After a failure the model is unchanged. */
CO_MUST_CHECK int rt_model_refresh(struct rt_model *m, bool *ret_new, struct co_err *err);
/* Number of the loaded checkpoint; 0: it is from rt_save.  Not at the same time as
 * rt_model_refresh. */
uint64_t rt_model_number(const struct rt_model *m);
/* Index of the table of that name; CO_NOTFOUND. */
CO_MUST_CHECK int rt_model_table(
    const struct rt_model *m, const char *name, uint32_t *ret_table, struct co_err *err);
/* Of the loaded checkpoint; borrowed from m, as long as rt_model_dense's. */
const struct rt_table_spec *rt_model_spec(const struct rt_model *m, uint32_t table);
/* size floats, borrowed from m; NULL for a sparse table.  They do not change.  Valid until
 * rt_model_close, or the second later rt_model_refresh that found something new. */
const float *rt_model_dense(const struct rt_model *m, uint32_t table);
/* Like rt_pull_sparse, but never blocks or fails; the table must be sparse. */
void rt_model_sparse(
    const struct rt_model *m, uint32_t table, const uint64_t *ids, size_t n, float *ret_rows);
/* Writes the ids that have rows, n at most, in no order; returns how many there are.  The table
 * must be sparse.  If that is more than n, call again with more room: rt_model_refresh may have
 * loaded some meanwhile. */
size_t rt_model_ids(const struct rt_model *m, uint32_t table, uint64_t *ret_ids, size_t n);
/* How many tables there are. */
uint32_t rt_model_tables(const struct rt_model *m);

/* ---- statistics --------------------------------------------------------------------------- */

struct rt_table_stat {
    uint64_t rows;   /* sparse: rows that exist; dense: 1 */
    uint64_t bytes;  /* memory of values and optimizer state, all servers */
    uint64_t pulls;  /* rows or floats read by all trainers so far */
    uint64_t pushes; /* the same, written */
    /* Rows (dense: values) with NaN or Inf among all that was pushed, refused or skipped, and those
     * that large finite gradients have made so. */
    uint64_t nonfinite;
    uint64_t
        late; /* rows or floats that came after their step (backup workers), and were dropped */
    uint64_t rows_cold;  /* how many of `rows` are on the servers' disks (PADDLE_PS_COLD_DIR) */
    uint64_t bytes_cold; /* bytes of those; not included in bytes */
    uint64_t spare[8];
};
/* Statistics of one table, summed over all servers.  Blocks. */
CO_MUST_CHECK int rt_stat(
    struct rt_client *c, uint32_t table, struct rt_table_stat *ret, struct co_err *err);

/* ---- collective communication -------------------------------------------------------------
 *
 *     rt_group_open(job, NULL, &g, &err)              the workers of the job, rank = worker index
 *     rt_group_alloc(g, n * sizeof(float), &grad, &err)     memory that neighbours can read
 *     each step:
 *         rt_all_reduce(g, grad, grad, n, RT_F32, RT_AVG, &err)
 *     rt_group_close(g)
 *
 * P is the number of ranks of the group, n a number of elements.  All ranks make the same calls in
 * the same order with the same n, dtype, op and root; if they differ, all ranks get CO_INVALID
 * within a second, and the message says who called what.  A rank that a call does not make wait for
 * all others, as a root of a broadcast, may get it from one of its next calls
 * (docs/collectives.md).  `in` and `out` are the same pointer (in place) or do not overlap, all
 * else is CO_INVALID; so are all_to_all and all_to_allv in place.  Both must be aligned to the
 * element; alignment to 64 bytes is faster.  Buffers belong to the caller.
 *
 * Ranks that share a machine and a network namespace communicate through shared memory, the others
 * through TCP.  With options.device, buffers in GPU memory go from GPU to GPU through NVIDIA's
 * NCCL, which is loaded when it is needed (docs/collectives.md); buffers in main memory use the
 * same path as without a device.  In one call all buffers of all ranks are of the same kind.  A
 * call owns its GPU buffers until it returns; writes to them on a stream other than rt_group_stream
 * must have completed.  With NCCL the next paragraph does not apply; reduce_scatter, scatter and
 * gather do not work in place; all_gather and all_gatherv do only where `in` is the rank's own part
 * of `out`; and calls that differ are found only if they hang.
 *
 * The same ranks in the same places with the same calls give the same bits, on every rank.  Sums of
 * f16 and bf16 are computed in f32; they are rounded once where all ranks share memory, and once
 * per step between machines.  i32, i64 and u8 wrap.  max and min of a NaN are NaN.
 *
 * One thread at a time uses a group; different groups are independent.  A call that comes while
 * another thread is in one is CO_INVALID and breaks the group: no rank would know any more which
 * call is which.  Started calls may wait meanwhile, in any thread (rt_work_wait).  Every call ends
 * within the group's call_timeout_ms, however slow the ranks are, or at most an eighth of it later
 * where none of them waits for another.  The time of a started call begins with its turn.
 * CO_PEERLOST: a rank is gone (killed, stopped, its machine lost, or it closed its group).  The
 * message names the same rank on all ranks, within 50 ms of a process's end.
 * CO_TIMEOUT: a rank is alive but has not done its part of this call in time.  The message names
 * those that have not begun the call, if there are such ranks.  A call that waits logs for whom,
 * after 10 s, 20 s, 40 s and so on.
 * CO_GONE: another rank has called rt_group_shrink on a group that had not failed.
 * CO_INVALID: an argument of this or another rank does not fit.
 * After any of these except a CO_INVALID for this rank's own argument, the group is broken: every
 * call on it returns the same error, and `out` is undefined; see rt_group_shrink. */

struct rt_group;

enum rt_dtype { RT_F32, RT_F64, RT_F16, RT_BF16, RT_I64, RT_I32, RT_U8, RT_DTYPES };
enum rt_op { RT_SUM, RT_PROD, RT_MAX, RT_MIN, RT_AVG /* not of integers */, RT_OPS };

size_t rt_dtype_size(enum rt_dtype dtype);      /* bytes */
const char *rt_dtype_name(enum rt_dtype dtype); /* "f32", ... */
const char *rt_op_name(enum rt_op op);          /* "sum", ... */

enum rt_transport {
    RT_TRANSPORT_AUTO, /* shared memory where it can be, TCP elsewhere */
    RT_TRANSPORT_TCP,  /* TCP everywhere */
    RT_TRANSPORT_SHM,  /* shared memory everywhere, or CO_UNSUPPORTED */
};

/* A field that is 0 has its default. */
struct rt_group_options {
    const char *const *endpoints; /* [size] "host:port" by rank; default: the job's */
    uint32_t size;
    uint32_t rank;       /* this rank listens on endpoints[rank] */
    const char *name;    /* the job's name; groups of other names are refused */
    const char *token;   /* the job's secret; default: the job's, PADDLE_JOB_TOKEN */
    uint64_t generation; /* a group that is formed again from new endpoints gets a new one */
    const char *node; /* this rank's machine; ranks with equal names share memory.  Default: derived
                         from the machine, the network namespace and the user */
    enum rt_transport transport;
    /* Where buffers are.  NULL, "cpu": main memory.  "gpu:1": also on GPU 1 of those that this
     * process sees.  "gpu": also on the first of FLAGS_selected_gpus, or without that on the GPU
     * whose index is this rank's index among the ranks of its machine.  Either all ranks name a
     * GPU, or none. */
    const char *device;
    int64_t form_timeout_ms; /* until all ranks have joined; 600 s */
    int64_t call_timeout_ms; /* of a call; 600 s */
    uint32_t lanes;          /* TCP connections per pair of ranks; 2 */
    /* The connections of the group.  Shared memory stays as it is, and so does what NCCL sends:
     * ranks on several machines get CO_UNSUPPORTED with a GPU. */
    enum rt_encrypt encrypt;
    /* For the log: what this process waits for in a call that takes long, "an invitation".  NULL:
     * the ranks that have not come to it, by their numbers. */
    const char *waits_for;
    uint64_t spare[7];
};

/* Blocks until all ranks have joined.  job NULL: options has endpoints, size and rank.  A worker
 * that is alone in its job needs no endpoint.  CO_INVALID: another job has not as many
 * PADDLE_TRAINER_ENDPOINTS as trainers, or this process is a server.
 * CO_UNSUPPORTED names the rank that lacks what the device needs, and what that is.
 * CO_TIMEOUT names a missing rank and says why, as far as is known.  Connections from elsewhere,
 * wrong tokens, other jobs and duplicate ranks are refused with one log line and do not count. */
CO_MUST_CHECK int rt_group_open(const struct rt_job *job, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err);
/* Finishes what was started, and notifies the others that this rank leaves.  Frees the memory of
 * rt_group_alloc.  NULL allowed. */
void rt_group_close(struct rt_group *g);
/* Gives the group up because of an error of the program: then it can be closed at once.  Running
 * calls end, and all later ones, with CO_CANCELED and the reason `why`; on the other ranks with
 * CO_PEERLOST, this rank's number and the same reason.  No effect on a group that has failed.  Any
 * thread. */
void rt_group_abort(struct rt_group *g, const char *why);

uint32_t rt_group_rank(const struct rt_group *g); /* this process's, from 0 */
uint32_t rt_group_size(const struct rt_group *g); /* how many ranks */
/* Ranks that share memory with this one, this one included. */
uint32_t rt_group_local_size(const struct rt_group *g);
/* Returns 0, or the error that broke the group; never blocks. */
int rt_group_check(struct rt_group *g, struct co_err *err);

/* Collective over g: ranks of the same colour form a group, ordered by key, then by rank in g.
 * colour < 0: the rank takes part in the call and gets NULL.  The new group is closed by itself; g
 * stays.  If a rank cannot form it, for want of descriptors say, all ranks of its colour get that
 * rank's code and reason at once, and g stays in use; rt_group_sub and rt_group_grow do the same.
 */
CO_MUST_CHECK int rt_group_split(struct rt_group *g, int32_t colour, int32_t key,
    struct rt_group **ret_group, struct co_err *err);
/* Called only by the ranks in the list (n ascending ranks of g).  tag distinguishes groups of the
 * same ranks.  Ranks that are in several lists together make these groups in the same order, and
 * the same calls on g before each.  CO_INVALID, at once and on all ranks of g, which is broken
 * then: ranks gave different lists or tags, or one of the list is in another call; the message says
 * who called what. */
CO_MUST_CHECK int rt_group_sub(struct rt_group *g, const uint32_t *ranks, uint32_t n, uint64_t tag,
    struct rt_group **ret_group, struct co_err *err);

/* After a failure, called by all ranks that are alive: they agree on who is alive and form a group
 * of those, ranks in the old order.  ret_gone[i] (size of g; NULL allowed) says whether rank i is
 * not in it.  A rank that dies meanwhile is left out, too, or breaks the new group; so is one that
 * cannot form the new group, and gets an error.  A live rank
 * that does not call within call_timeout_ms is left out, and gets CO_PEERLOST.  Ends within three
 * times call_timeout_ms.  Afterwards g can only be closed. */
CO_MUST_CHECK int rt_group_shrink(
    struct rt_group *g, bool *ret_gone, struct rt_group **ret_group, struct co_err *err);

/* Forms a group of the ranks of g and new ones, for example one that was restarted after a shrink.
 * All ranks of g call it with the same options, except that each gives its own rank in the new
 * group; the new ranks call rt_group_open with them.  generation must never have been used with
 * these endpoints; a rank of g may keep its endpoint, but not take another one's.  0 in a field:
 * the value of g.  CO_INVALID, at once and on all ranks of g: their options differ, or those of one
 * are wrong.  g stays as it is: if not all ranks join within form_timeout_ms, all ranks of g get an
 * error and continue with g.  If one of them dies, all others get the larger group, or all get
 * CO_PEERLOST. */
CO_MUST_CHECK int rt_group_grow(struct rt_group *g, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err);

/* Memory that suits this group's transport: shared with the ranks of the same machine, so that they
 * reduce in it without staging.  64-byte aligned, 2 MiB-aligned from 2 MiB on.  With a device:
 * memory of that GPU, aligned as CUDA does.  Zeroed.  Not collective.  CO_NOMEMORY: also beyond
 * what a rank may share, 1 TiB divided by the ranks on its machine. */
CO_MUST_CHECK int rt_group_alloc(
    struct rt_group *g, size_t bytes, void **ret_memory, struct co_err *err);
void rt_group_free(struct rt_group *g, void *memory); /* NULL allowed */
/* Copies between any of main memory and a GPU's memory; returns when the copy is done.  On a GPU,
 * writes to `from` and reads of `to` must have completed, including those on rt_group_stream. */
CO_MUST_CHECK int rt_group_copy(
    struct rt_group *g, void *to, const void *from, size_t bytes, struct co_err *err);
/* "cpu", "gpu:0"; borrowed. */
const char *rt_group_device(const struct rt_group *g);
/* With a GPU: the CUstream of the group's calls, for programs with CUDA code of their own; else
 * NULL. */
void *rt_group_stream(const struct rt_group *g);
/* The number of GPUs that this process sees.  CO_UNSUPPORTED: none, and why.  CUDA does not survive
 * a fork: do not fork after this call, or after opening a group on a GPU. */
CO_MUST_CHECK int rt_gpu_count(uint32_t *ret, struct co_err *err);

/* One collective call.  What n counts and how long in and out are, in elements:
 *
 *     kind               in            out           n, counts
 *     RT_ALL_REDUCE      [n]           [n]
 *     RT_REDUCE          [n]           [n] on root   out is not touched elsewhere
 *     RT_BROADCAST       -             [n]           root's out is read, the others' written
 *     RT_ALL_GATHER      [n]           [P][n]
 *     RT_ALL_GATHERV     [counts[rank]] [sum]        counts[P], the same everywhere
 *     RT_REDUCE_SCATTER  [P][n]        [n]
 *     RT_SCATTER         [P][n] on root [n]
 *     RT_GATHER          [n]           [P][n] on root
 *     RT_ALL_TO_ALL      [P][n]        [P][n]        not in place
 *     RT_ALL_TO_ALLV     [sum]         [sum]         counts[P] sent to, out_counts[P] got from
 *     RT_SEND            [n]           -             root: to whom
 *     RT_RECV            -             [n]           root: from whom
 *     RT_BARRIER         -             -
 *
 * In place, the calls that gather take `in` also where the rank's own part of `out` is:
 * out + rank * n, or after the counts of the lower ranks. */
enum rt_kind {
    RT_ALL_REDUCE,
    RT_REDUCE,
    RT_BROADCAST,
    RT_ALL_GATHER,
    RT_ALL_GATHERV,
    RT_REDUCE_SCATTER,
    RT_SCATTER,
    RT_GATHER,
    RT_ALL_TO_ALL,
    RT_ALL_TO_ALLV,
    RT_SEND,
    RT_RECV,
    RT_BARRIER,
    RT_KINDS,
};
struct rt_coll {
    enum rt_kind kind;
    enum rt_dtype dtype;
    enum rt_op op;
    uint32_t root;
    const void *in;
    void *out;
    size_t n;
    const size_t *counts, *out_counts; /* of a started call: must stay valid until it has ended */
};
const char *rt_kind_name(enum rt_kind kind); /* "all_reduce", ... */

/* Runs the call and returns when this rank's part is done. */
CO_MUST_CHECK int rt_coll_run(struct rt_group *g, const struct rt_coll *call, struct co_err *err);

/* Returns at once.  A thread of the group runs the started calls in order, but runs consecutive
 * sends and receives at the same time, so ranks may start to send to each other before they
 * receive.  On a GPU consecutive sends and receives begin together: when one of them is waited for
 * or tested (rt_work_test), or when another call follows.  The call owns its buffers until it has
 * ended.  Any number of calls may be in flight; a blocking call takes its turn after them, and
 * a blocking send or receive moves at the same time as those just before it.  rt_work_wait frees
 * the handle and must be called once for each; rt_group_shrink and rt_group_close end the calls of
 * their group, and leave the handles to it. */
struct rt_work;
CO_MUST_CHECK int rt_coll_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err);
bool rt_work_test(const struct rt_work *work); /* whether it has ended */
CO_MUST_CHECK int rt_work_wait(struct rt_work *work_own, struct co_err *err);

/* Shortcuts of rt_coll_run for the most common calls. */
CO_MUST_CHECK int rt_all_reduce(struct rt_group *g, const void *in, void *out, size_t n,
    enum rt_dtype dtype, enum rt_op op, struct co_err *err);
CO_MUST_CHECK int rt_reduce(struct rt_group *g, const void *in, void *out, size_t n,
    enum rt_dtype dtype, enum rt_op op, uint32_t root, struct co_err *err);
CO_MUST_CHECK int rt_broadcast(struct rt_group *g, void *buffer, size_t n, enum rt_dtype dtype,
    uint32_t root, struct co_err *err);
CO_MUST_CHECK int rt_all_gather(struct rt_group *g, const void *in, void *out, size_t n,
    enum rt_dtype dtype, struct co_err *err);
CO_MUST_CHECK int rt_reduce_scatter(struct rt_group *g, const void *in, void *out, size_t n,
    enum rt_dtype dtype, enum rt_op op, struct co_err *err);
CO_MUST_CHECK int rt_send(struct rt_group *g, const void *in, size_t n, enum rt_dtype dtype,
    uint32_t to, struct co_err *err);
CO_MUST_CHECK int rt_recv(struct rt_group *g, void *out, size_t n, enum rt_dtype dtype,
    uint32_t from, struct co_err *err);
CO_MUST_CHECK int rt_group_barrier(struct rt_group *g, struct co_err *err);

/* ---- data-parallel training ---------------------------------------------------------------
 *
 *     rt_reducer_open(g, gradients, n, NULL, &r, &err)       the last layer's gradients first
 *     rt_broadcast_newest(g, &step, parameters, n, &err)     the same start everywhere
 *     each step:
 *         each gradient i, as backward makes it:
 *             write it to rt_reducer_values(r, i)
 *             rt_reducer_ready(r, i, &err)                   travels while backward continues
 *         rt_reducer_wait(r, &due, &err)                     averages over all ranks
 *         if (due) rt_optimizer_step(...) for each parameter
 *     rt_reducer_close(r)                                    before the group
 *
 * Every rank has the whole model and its part of the batch; P is the number of ranks.  The same
 * ranks with the same gradients give the same bits in each run, on every rank.
 *
 * Continuing without a rank that died: every call on the reducer fails with CO_PEERLOST, on all
 * ranks (in the same step, or in the next one on ranks that were done with this one).  Then
 *     rt_group_shrink(g, NULL, &less, &err)
 *     rt_reducer_rebuild(r, less, &err)                      call rt_reducer_values again
 *     rt_group_close(g)
 *     rt_broadcast_newest(less, &step, values, n, &err)      parameters and optimizer states
 * and all ranks repeat the step that is `step` now, or do the next one. */

/* The gradient of a parameter, n floats.  memory: the caller's [n], copied in and out; NULL: the
 * gradient is in the reducer's buckets and never copied.  name: for messages; borrowed during the
 * call, NULL allowed.  parameter: [n], for dgc's l2; NULL: no l2.
 * In a group with a GPU the buckets are in GPU memory; memory and parameter may be, too. */
struct rt_gradient {
    const char *name;
    size_t n;
    float *memory;
    const float *parameter;
};

/* Deep gradient compression (Lin et al. 2017, arXiv:1712.01887; Paddle's DGCMomentumOptimizer).  Of
 * gradients of 16384 floats and more only the largest entries are sent; the others accumulate:
 *     u = momentum u + g;  v = v + u                  (nesterov: u = momentum (u + g); v += u + g)
 *     the k = n (1 - sparsity) largest |v| are sent, at those indexes u = v = 0
 * The result is their average over the ranks; apply it with rt_optimizer_step_sgd where
 * rt_reducer_compressed is true.  k is an upper bound, because the threshold is found in a sample.
 */
struct rt_dgc {
    float momentum;
    bool nesterov;
    float l2;        /* l2 * parameter is added to g, after the clipping */
    float clip_norm; /* of the whole job: the g of a rank is scaled to a norm of at most clip_norm /
                        sqrt(P), gradient by gradient; 0: no clipping */
    uint64_t rampup_begin_step; /* the steps before this one are dense */
    uint64_t rampup_step;       /* steps over which the list of sparsities is applied; 0: 1 */
    const float *sparsity;      /* [n_sparsity], each at least 0 and below 1; copied */
    size_t n_sparsity;          /* 0: {0.999} */
};

/* A field that is 0 has its default.
 * In a group with a GPU, merge_steps accumulates in main memory, and NCCL gets the sum.  What f16,
 * bf16 and dgc send is computed in main memory and does not travel by NCCL. */
struct rt_reducer_options {
    size_t bucket_bytes;      /* gradients travel in buckets of about this size; 32 MiB */
    size_t last_bucket_bytes; /* the bucket that is ready last, with the first layers; 1 MiB */
    enum rt_dtype
        wire; /* RT_F16, RT_BF16: gradients are rounded for sending (fleet's fp16_allreduce).  The
                 caller scales the loss and unscales the gradients */
    uint32_t merge_steps;     /* steps that are accumulated locally and reduced once (fleet's
                                 gradient_merge, k_steps); 1 */
    bool merge_sum;           /* the sum of the k steps, not their mean */
    const struct rt_dgc *dgc; /* copied; NULL: off */
    bool error_feedback;      /* with a wire of f16 or bf16: what rounding took from this rank's
                                 gradient is added to its next one (Karimireddy et al. 2019,
                                 arXiv:1901.09847) */
    uint64_t spare[3];
};

/* One thread at a time.  Between a step's first ready and its wait, other calls on the group share
 * one queue with the buckets.  Their place in it is the same on all ranks only if all ranks produce
 * gradients in the same order, so make such calls on a group of their own (rt_group_split).
 * On a GPU, writes to a gradient must have completed before it is ready, also on rt_group_stream.
 */
struct rt_reducer;

/* Collective.  gradients: in the order in which backward makes them.  CO_INVALID names a rank whose
 * list (names too) or options differ, and what differs; memory and bucket sizes may, where the
 * buckets are the same.  CO_NOMEMORY.  If one rank fails by itself, as with wrong options, all get
 * its code.  The caller keeps g and closes it after r. */
CO_MUST_CHECK int rt_reducer_open(struct rt_group *g, const struct rt_gradient *gradients, size_t n,
    const struct rt_reducer_options *options, struct rt_reducer **ret_reducer, struct co_err *err);
/* Waits for what was started.  NULL allowed. */
void rt_reducer_close(struct rt_reducer *r);

/* [n] of gradient i: backward writes it before ready, and averages are in it after wait.  Zero at
 * the start, and not touched between steps.  64-byte aligned if in the buckets.  In a group with a
 * GPU it is GPU memory, which a program without CUDA reaches by rt_group_copy. */
float *rt_reducer_values(const struct rt_reducer *r, size_t i);
/* The bucket of gradient i; buckets are numbered in the order in which they travel. */
uint32_t rt_reducer_bucket(const struct rt_reducer *r, size_t i);
uint32_t rt_reducer_buckets(const struct rt_reducer *r);

/* Gradient i of this step is written; it belongs to the reducer until wait.  Whatever the order of
 * these calls, buckets start in the same order on all ranks: each when it is full and those before
 * it have started.  Does not block, except for copies from and to a GPU.  CO_INVALID: twice in a
 * step. */
CO_MUST_CHECK int rt_reducer_ready(struct rt_reducer *r, size_t i, struct co_err *err);
/* For gradients that are elsewhere in each step: copies from[k], all floats of gradient which[k],
 * to its values, and it is ready; from[k] NULL: they are there.  Otherwise as rt_reducer_ready. */
CO_MUST_CHECK int rt_reducer_put(struct rt_reducer *r, const size_t *which,
    const float *const *from, size_t n, struct co_err *err);
/* Ends a step.  ret_due (NULL allowed) true: all gradients are averages over the ranks; false: the
 * step was only accumulated (merge_steps), and gradients are undefined.  Gradients that were not
 * ready count as zero on this rank.  After a failure nothing is in flight, and the gradients are
 * undefined. */
CO_MUST_CHECK int rt_reducer_wait(struct rt_reducer *r, bool *ret_due, struct co_err *err);
/* After wait: copies the average of gradient which[k] to to[k]. */
CO_MUST_CHECK int rt_reducer_get(const struct rt_reducer *r, const size_t *which, float *const *to,
    size_t n, struct co_err *err);
/* Marks all gradients as ready, and waits: for values that are complete at once, like parameters.
 */
CO_MUST_CHECK int rt_reducer_run(struct rt_reducer *r, bool *ret_due, struct co_err *err);

/* Whether the last wait compressed gradient i: then its average includes momentum and l2. */
bool rt_reducer_compressed(const struct rt_reducer *r, size_t i);
/* dgc's u of gradient i, [n], in main memory; NULL where there is none.  After the last dense step
 * the optimizer's velocity may be copied into it, so that momentum continues. */
float *rt_reducer_velocity(const struct rt_reducer *r, size_t i);
/* Whether the averages hold no NaN and no infinity.  The answer is the same on all ranks without
 * communication: a NaN of a single rank, or a value that f16 could not hold, is in everybody's
 * average.  GPU values are copied to main memory first; false if that fails. */
bool rt_reducer_finite(const struct rt_reducer *r);
/* Whether all ranks' values (n floats) are finite.  Collective, for what is no average. */
CO_MUST_CHECK int rt_all_finite(
    struct rt_group *g, const float *values, size_t n, bool *ret_finite, struct co_err *err);

/* Moves the reducer to a new group, after rt_group_shrink for example; the old group need not work
 * but must still be open.  Collective over g; new ranks call rt_reducer_open instead.  A step in
 * progress begins again from its first gradient.  Local state stays as it was before that step:
 * dgc's u and v, what error_feedback keeps, and merged steps where all ranks have the same number.
 * Where the step has ended on another rank, whose values all get by rt_broadcast_newest, it counts
 * in this rank's local state, too: do not write to rt_reducer_values between the failure and this
 * call.  CO_INVALID: from a GPU to main memory or back; CO_NOMEMORY: the reducer is still in the
 * old group.  All ranks get an error of one. */
CO_MUST_CHECK int rt_reducer_rebuild(struct rt_reducer *r, struct rt_group *g, struct co_err *err);

/* Floats that are the same on all ranks, like parameters: in main memory, or on all ranks in a
 * GPU's. */
struct rt_values {
    float *values; /* [n] */
    size_t n;
};
/* Collective: all ranks get the step and the values of the rank whose *step is the largest (the
 * lowest such rank). */
CO_MUST_CHECK int rt_broadcast_newest(struct rt_group *g, uint64_t *step,
    const struct rt_values *list, size_t n_list, struct co_err *err);

/* ---- local SGD ----
 *
 * k steps without communication, then the parameters are averaged (Paddle fleet's localsgd; Stich
 * 2018, arXiv:1805.09767).  The parameters are the gradients of a reducer of their own:
 *     rt_reducer_open(g, parameters, n, NULL, &r, &err)
 *     each step: optimizer, then rt_local_sgd_step(&s, r, loss, lr, &averaged, &err)
 * Up to begin_step, every step is averaged.  Adaptive (Wang, Joshi 2018, arXiv:1810.08313, as in
 * Paddle): after each average k = ceil(sqrt(lr0 loss / (lr loss0) k_steps)), within 1 .. 16; this
 * uses lr, and the loss averaged over the ranks.  The first step after rt_reducer_open and
 * rt_reducer_rebuild is collective in any case: all ranks continue where the furthest one is.
 * CO_INVALID names a rank with other options. */
struct rt_local_sgd {
    uint32_t k_steps;    /* 0: 1; adaptive: to begin with */
    uint32_t begin_step; /* 0: 1 */
    bool adaptive;
    /* Owned by the library; 0 at the start: */
    uint64_t step, last;
    uint32_t k;
    double loss0, lr0;
};
/* Every rank calls it after the optimizer's step.  ret_averaged: whether parameters were averaged.
 */
CO_MUST_CHECK int rt_local_sgd_step(struct rt_local_sgd *s, struct rt_reducer *parameters,
    double loss, double lr, bool *ret_averaged, struct co_err *err);

/* ---- optimizer, learning rates ----
 *
 * A rule of runtime/train/optim on this rank's parameters, in main memory; pure, any thread, one
 * optimizer by one thread at a time. */
struct rt_optimizer;
/* "momentum:mu=0.9,l2=0.0001", "nesterov:...", "sgd", "adam", ... for a parameter of n floats:
 * l2 * parameter is added to the gradient.  CO_INVALID. */
CO_MUST_CHECK int rt_optimizer_new(
    const char *rule, size_t n, struct rt_optimizer **ret_optimizer, struct co_err *err);
void rt_optimizer_free(struct rt_optimizer *o); /* NULL allowed */
/* w [n], gradient [n]; they do not overlap. */
void rt_optimizer_step(struct rt_optimizer *o, double lr, float *w, const float *gradient);
/* w -= lr gradient, no l2, state untouched: where rt_reducer_compressed says so. */
void rt_optimizer_step_sgd(struct rt_optimizer *o, double lr, float *w, const float *gradient);
/* The optimizer's state, for checkpoints and rt_broadcast_newest; borrowed.  n 0: the rule has
 * none. */
struct rt_values rt_optimizer_state(struct rt_optimizer *o);

/* A learning rate over time: "cosine:steps=10000,warmup=500",
 * "piecewise:at=100:200,values=1:0.1:0.01" (docs/rules.md has all of them: those of
 * paddle.optimizer.lr, and of older Paddles).  Pure, any thread. */
struct rt_schedule;
/* NULL or "": constant.  CO_INVALID names what is wrong. */
CO_MUST_CHECK int rt_schedule_new(
    const char *text, struct rt_schedule **ret_schedule, struct co_err *err);
void rt_schedule_free(struct rt_schedule *s); /* NULL allowed */
/* The rate of step t (from 0) for a base rate lr: never negative, always a number. */
double rt_schedule_at(const struct rt_schedule *s, double lr, uint64_t t);

/* ---- batch normalisation over all ranks ----
 *
 * Statistics of a channel are over the batches of all ranks together, whatever their sizes.
 * Ranks send mean, sum of squared differences and count (Chan, Golub, LeVeque 1983), in f64.
 * Collective and blocking; a group of its own (rt_group_split) keeps these small calls from
 * waiting behind gradients.  All in main memory, whatever the group's device. */
struct rt_bn {
    size_t n, channels, inner; /* x [n][channels][inner]; channels_last: [n][inner][channels] */
    bool channels_last;
};
/* This rank's part, pure: [channels] of mean and of the sum of (x - mean)^2; n * inner values. */
void rt_bn_moments(const struct rt_bn *shape, const float *x, double *ret_mean, double *ret_m2);
/* Adds n_b values of mean_b, m2_b to n_a of *mean, *m2. */
void rt_bn_combine(double n_a, double *mean, double *m2, double n_b, double mean_b, double m2_b);
/* Of all ranks' x, [channels] each: mean, variance (biased, as Paddle's running one), 1 /
 * sqrt(variance + epsilon).  ret_count: values a channel.  A rank may have n 0. */
CO_MUST_CHECK int rt_bn_forward(struct rt_group *g, const struct rt_bn *shape, const float *x,
    float epsilon, float *ret_mean, float *ret_variance, float *ret_inv_std, uint64_t *ret_count,
    struct co_err *err);
/* With xhat = (x - mean) inv_std of y = scale xhat + bias, and dy the shape of x; pure:
 *     rt_bn_sums: this rank's sums [2][channels] of dy and of dy xhat
 *     rt_bn_dx: scale inv_std (dy - (S1 + xhat S2) / count), as x (may be dy), where S1, S2 are
 *         those sums over all ranks
 * rt_bn_backward does both.  ret_dscale, ret_dbias [channels] are this rank's (their average over
 * the ranks is the reducer's work). */
void rt_bn_sums(const struct rt_bn *shape, const float *x, const float *dy, const float *mean,
    const float *inv_std, double *ret_sums);
void rt_bn_dx(const struct rt_bn *shape, const float *x, const float *dy, const float *mean,
    const float *inv_std, const float *scale, uint64_t count, const double *sums, float *ret_dx);
CO_MUST_CHECK int rt_bn_backward(struct rt_group *g, const struct rt_bn *shape, const float *x,
    const float *dy, const float *mean, const float *inv_std, const float *scale, uint64_t count,
    float *ret_dx, float *ret_dscale, float *ret_dbias, struct co_err *err);

/* ---- metrics over all trainers ---- */

/* PADDLE_WITH_GLOO: 1 workers, 2 servers, too; 0: off. */
uint32_t rt_job_gloo(const struct rt_job *job);

/* A group of the trainers of a parameter-server job, for metrics and barriers; Paddle uses gloo for
 * these.  Needs spec.withGloo 1 or 2 (PADDLE_WITH_GLOO), which also sets PADDLE_TRAINER_ENDPOINTS,
 * the trainers' addresses with ports of their own.  No HTTP store is needed, and
 * PADDLE_GLOO_HTTP_ENDPOINT is not used.  A single trainer needs neither.
 * CO_UNSUPPORTED: gloo is off.  CO_INVALID: no endpoints, or not as many as trainers; a server.
 * options: as in rt_group_open. */
CO_MUST_CHECK int rt_trainers_open(const struct rt_job *job, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err);

/* Paddle's fleet.metrics; in is this rank's share, sums are f64.
 *
 *     metric                    in                        ret
 *     RT_METRIC_SUM, MAX, MIN   [n]                       [n]
 *     RT_METRIC_ACC             [2] right ones, all       [1] right / all
 *     RT_METRIC_MAE, MSE        [2] sum of errors, count  [1] sum / count
 *     RT_METRIC_RMSE            [2] of squares, count     [1] sqrt(sum / count)
 *     RT_METRIC_AUC             [2][n / 2] positives and  [1] trapezoids, from the last bucket
 *                               negatives by bucket           down; 0.5 if a class is missing */
enum rt_metric {
    RT_METRIC_SUM,
    RT_METRIC_MAX,
    RT_METRIC_MIN,
    RT_METRIC_ACC,
    RT_METRIC_MAE,
    RT_METRIC_MSE,
    RT_METRIC_RMSE,
    RT_METRIC_AUC,
    RT_METRICS,
};
/* Collective.  CO_INVALID: n does not fit the metric, or there was nothing to count. */
CO_MUST_CHECK int rt_metric(struct rt_group *g, enum rt_metric metric, const double *in, size_t n,
    double *ret, struct co_err *err);
/* Counts scores [n] with labels [n] (not 0: positive) into stat [2][buckets], bucket floor(score
 * (buckets - 1)) in f32.  CO_INVALID: a score is not within 0..1, or there is no bucket; nothing is
 * counted then. */
CO_MUST_CHECK int rt_auc_add(double *stat, size_t buckets, const float *scores, const float *labels,
    size_t n, struct co_err *err);

/* ---- helpers: what every training program writes around its model --------------------------
 *
 * examples/logistic is a program that has all of them. */

/* ---- named parameters in one dense table ----
 *
 *     enum { W, B };
 *     const struct rt_param list[] = {[W] = {"w", 8, "normal:std=0.1"}, [B] = {"b", 1, NULL}};
 *     rt_params_new(list, 2, seed, &p, &err)
 *     table: {.name = "dense", .kind = RT_DENSE, .size = rt_params_size(p), ...}
 *     rt_params_value(p, W)[i], rt_params_gradient(p, W)[i]
 *     rt_exchange_dense(c, 0, rt_params_gradients(p), rt_params_values(p), &err) */
struct rt_param {
    const char *name; /* 1..63 of [A-Za-z0-9_.-], no two the same */
    size_t n;         /* floats, at least 1 */
    const char *init; /* first values, as of a sparse table; NULL: zero.  A pure function of the
                       * seed, the place in the list and the place in the parameter */
};

struct rt_params; /* one thread */

/* The list is copied.  CO_INVALID names the parameter; CO_NORESOURCE: above 2^32 floats. */
CO_MUST_CHECK int rt_params_new(const struct rt_param *list, size_t n, uint64_t seed,
    struct rt_params **ret_params, struct co_err *err);
void rt_params_free(struct rt_params *p);         /* NULL allowed */
size_t rt_params_size(const struct rt_params *p); /* floats of all together */
/* [size]: all in the list's order, without gaps; borrowed from p, 64-byte aligned.  Values begin
 * as the list says, gradients as zeros. */
float *rt_params_values(struct rt_params *p);
float *rt_params_gradients(struct rt_params *p);
/* [n]: the part of those vectors that belongs to parameter i of the list. */
float *rt_params_value(struct rt_params *p, size_t i);
float *rt_params_gradient(struct rt_params *p, size_t i);
/* Offset and length, in floats, of the parameter of that name in the vector; for reading a saved
 * vector.  CO_NOTFOUND. */
CO_MUST_CHECK int rt_params_find(const struct rt_params *p, const char *name, size_t *ret_offset,
    size_t *ret_n, struct co_err *err);

/* Collective, instead of rt_init_dense, for each dense table.  Loads all tables that rt_save left
 * in dir; if dir holds nothing, or is NULL or "", uses worker 0's values (size floats).  All return
 * with the table's values in `values`.  ret_loaded (NULL allowed): whether they were loaded; set on
 * worker 0 only.  Only worker 0 reads dir; CO_INVALID there as in rt_load. */
CO_MUST_CHECK int rt_load_or_init(const struct rt_job *job, struct rt_client *c, const char *dir,
    uint32_t table, float *values, bool *ret_loaded, struct co_err *err);

/* ---- a worker's share of text files ---- */

enum rt_share_by {
    /* Files are sorted by name; file i belongs to worker i mod workers.  With fewer files than
     * workers, all read all files, and line i over all files belongs to worker i mod workers. */
    RT_SHARE_FILES,
    /* Contiguous files; the first (files mod workers) workers get one more
     * (fleet.util.get_file_shard).  With fewer files as above. */
    RT_SHARE_BLOCKS,
    /* The number behind the first "-" of a file's name, mod workers: train.txt-00002. */
    RT_SHARE_SUFFIX,
    /* All read all files; line i over all files belongs to one worker, which follows from a hash of
     * pass and i: in each pass, other lines. */
    RT_SHARE_MIXED,
    RT_SHARES,
};

struct rt_share {
    uint32_t worker, workers; /* rt_worker_index, rt_worker_num */
    enum rt_share_by by;
};

/* The position of a reader.  Valid for the same files in any process. */
struct rt_position {
    uint64_t pass;   /* from 0 */
    uint64_t file;   /* of this worker's */
    uint64_t offset; /* bytes of that file that were read */
    uint64_t line;   /* lines of that file that were read */
    uint64_t seen;   /* lines of all files that were read, other workers' too */
};

enum { RT_LINE_MAX = 64 << 10 };

struct rt_input; /* one thread */

/* path: a file; a pattern of names with *, ? or [...]; a directory, whose files are read, and those
 * in its folders, without those that begin with "." or "_"; or a file *.list that names files or
 * directories, one a line, relative ones beside it.  Files are text, as it is or packed by gzip
 * (their first bytes say which), or pipes, which can be read once.  share NULL: all of it.
 * CO_NOTFOUND: nothing there; CO_INVALID: worker and workers, or a name without a number
 * (RT_SHARE_SUFFIX).  A worker may get no file at all (RT_SHARE_SUFFIX). */
CO_MUST_CHECK int rt_input_open(const char *path, const struct rt_share *share,
    struct rt_input **ret_input, struct co_err *err);
void rt_input_close(struct rt_input *l); /* NULL allowed */
/* This worker's next line, without "\n" or "\r\n", without a byte-order mark, and ended by a NUL
 * that *ret_len does not count; borrowed until the next call.  NULL: the end of this pass.
 * CO_INVALID: a line longer than RT_LINE_MAX, or one with a NUL in it; the call after that reads on
 * behind it.  CO_UNSUPPORTED: a file that is no text, such as a zip archive or UTF-16, or neither
 * file nor pipe, or a pipe that was read before.  CO_DAMAGED: gzip data that is cut or wrong.
 * CO_TIMEOUT: nobody has written to a pipe for 60 s. */
CO_MUST_CHECK int rt_input_next(
    struct rt_input *l, const char **ret_line, size_t *ret_len, struct co_err *err);
/* As in CSV: a newline between double quotes does not end a line, but is part of it.  A quote opens
 * at the beginning of a line, or behind one of these characters (RT_BETWEEN_MAX at most) and
 * blanks;
 * "": none does.  A quote that is not closed within RT_LINE_MAX bytes is no quote. */
enum { RT_BETWEEN_MAX = 7 };
void rt_input_quotes(struct rt_input *l, const char *between);
/* Goes back to the first line, for the next pass. */
void rt_input_rewind(struct rt_input *l);
uint64_t rt_input_pass(const struct rt_input *l);
/* "file:line" of where the last line begins, for messages; and how files are shared, "2 of 5
 * files".  Borrowed.
 */
const char *rt_input_where(struct rt_input *l);
const char *rt_input_describe(const struct rt_input *l);
/* Returns the position after the last line that was read; moves the reader to such a position.
 * CO_INVALID: the position is from other files. */
void rt_input_tell(const struct rt_input *l, struct rt_position *ret);
CO_MUST_CHECK int rt_input_seek(
    struct rt_input *l, const struct rt_position *at, struct co_err *err);

/* ---- batches of samples ----
 *
 *     struct rt_data_options o = {.paths = paths, .n_paths = 1, .format = RT_DATA_CRITEO,
 *         .batch = 512, .share = {.worker = rt_worker_index(job), .workers = rt_worker_num(job)}};
 *     rt_data_open(&o, &d, &err)
 *     while (rt_data_next(d, -1, &b, &err) == 0 && b) { ... b->ids, b->dense, b->labels ...
 *         rt_data_batch_free(b); }
 *     rt_data_close(d)
 *
 * One thread reads lines ahead, others parse them.  A sample has labels, dense numbers, and for
 * each of its slots ids, of which each may be any of 64 bits. */
enum rt_data_format {
    RT_DATA_UNSET,
    /* "name:value" words with blanks between, in any order; a name may occur again. */
    RT_DATA_SLOTS,
    /* label, 13 integers, 26 categories, tabs between; without a label, one column less. Categories
     * are hashed, integers scaled (runtime/train/data/feature.h). */
    RT_DATA_CRITEO,
    /* A header names columns; quotes as in rt_input_quotes.  CSV: commas, semicolons, tabs or bars
     * between them, whichever the header has. */
    RT_DATA_CSV,
    RT_DATA_TSV,
    /* Paddle's MultiSlotDataFeed: for each field, in their order, a count and so many values. */
    RT_DATA_MULTISLOT,
    RT_DATA_FORMATS,
};

enum rt_data_kind {
    RT_DATA_LABEL, /* numbers, or true and false */
    RT_DATA_DENSE, /* numbers; a missing one is 0 */
    RT_DATA_IDS,   /* a slot */
    RT_DATA_KINDS,
};

/* A field of a sample: a name of RT_DATA_SLOTS, a column of CSV. */
struct rt_data_field {
    const char *name;
    enum rt_data_kind kind;
    uint32_t n; /* numbers in it, 0: 1; more than 1 not in columns; of a slot, 0 */
    uint64_t spare[2];
};

/* What is 0 has the default. */
struct rt_data_options {
    const char *const *paths; /* [n_paths] as rt_input_open's */
    size_t n_paths;
    enum rt_data_format format;
    const struct rt_data_field *fields; /* [n_fields]; of RT_DATA_CRITEO, none */
    size_t n_fields;
    /* CSV and TSV without headers: the names of all columns; NULL: files have headers. */
    const char *const *columns; /* [n_columns] */
    size_t n_columns;
    struct rt_share share; /* zeroed: all */
    uint32_t batch;        /* samples; 0: 1 */
    /* 0: slots have any number of ids (struct rt_data_batch).  Otherwise at most this many, and a
     * line with more cannot be used; what is missing is `fill`. */
    uint32_t pad;
    uint64_t fill;
    uint64_t vocabulary; /* ids are taken modulo this; 0: they are not */
    bool whole;          /* CSV, TSV: ids are whole numbers below 2^64, not texts to be hashed */
    bool raw;            /* Criteo: integers are not scaled */
    bool unlabelled;     /* a line may lack its label, which is NaN then */
    bool drop_last;      /* at the end of a pass, samples that do not fill a batch */
    uint64_t passes;     /* 0: 1; UINT64_MAX: no end */
    /* Samples that are shuffled among each other; 0, 1: none.  Each run of so many samples is put
     * in an order that follows from seed, pass and run.  Two runs are in memory. */
    uint32_t shuffle;
    uint64_t seed;
    uint32_t threads; /* that parse; 0: by the processors, up to 4 */
    uint32_t ahead;   /* batches that are read ahead; 0: 8 */
    uint64_t bad_max; /* the error comes with this many bad lines in a pass; 0: no number of them */
    /* A command of /bin/sh whose output is read in place of each file, which is its input and $1:
     * "zstd -dc", "hadoop fs -cat \"$1\"".  Paths with ":/" in them need not be files here.  NULL,
     * "": none.  CO_UNAVAILABLE: it did not end with 0. */
    const char *pipe_command;
    uint64_t spare[9];
};

struct rt_data; /* one thread at a time */

/* Arrays belong to the batch. */
struct rt_data_batch {
    size_t n;            /* samples */
    const float *labels; /* [n][labels] */
    const float *dense;  /* [n][dense] */
    /* pad: [n][slots][pad].  Otherwise [n_ids]: those of slot 0 of all samples, then of slot 1. */
    const uint64_t *ids;
    size_t n_ids;
    const int64_t *offsets; /* [slots][n + 1] within the slot, from 0; NULL with pad */
    const uint32_t *counts; /* [n][slots] ids that are not fill; NULL without pad */
    uint64_t spare[4];
};

/* Where the batch that was returned last ends.  Valid for the same options and files, in any
 * process. */
struct rt_data_position {
    struct rt_position at; /* of lines that are parsed together */
    uint64_t skip;         /* samples from there to the run that is shuffled */
    uint64_t run, taken;   /* which, and samples that were taken from it */
    uint64_t samples, bad; /* of this pass: taken; bad lines before `at` */
    uint64_t check;        /* of options and files */
    uint64_t spare[2];
};

enum { RT_DATA_TEXT_MAX = 512 };

/* Of the running pass, as far as lines were taken for batches. */
struct rt_data_counts {
    uint64_t pass, samples, bad;
    /* "17 skipped (16 columns, 1 label), first: FILE:LINE: why"; after the end of a pass in which
     * one worker of several had no line: that, with the share that it has of the files. */
    char text[RT_DATA_TEXT_MAX];
    uint64_t spare[4];
};

/* Texts are copied.  Errors are rt_input_open's; CO_INVALID names the option. */
CO_MUST_CHECK int rt_data_open(
    const struct rt_data_options *options, struct rt_data **ret_data, struct co_err *err);
void rt_data_close(struct rt_data *d); /* NULL allowed */
/* Numbers of labels and dense values, and slots, of a sample. */
void rt_data_shape(
    const struct rt_data *d, size_t *ret_labels, size_t *ret_dense, size_t *ret_slots);
/* The next batch, which the caller frees; NULL: the end of the last pass.  A batch ends with its
 * pass.  wait_ms: how long to wait for lines, CO_TIMEOUT; below 0: as long as reading takes.
 * Nothing is lost by CO_TIMEOUT and CO_CANCELED (rt_interrupt).  Bad lines are passed over and
 * counted.  CO_INVALID: bad_max of them, a header without a column, or a pass without a usable
 * line, unless this is one worker of several and has no line at all: then rt_data_count says so.
 * Errors of reading are rt_input_next's, but a silent pipe is CO_UNAVAILABLE.  After an error, all
 * calls return it. */
CO_MUST_CHECK int rt_data_next(
    struct rt_data *d, int64_t wait_ms, struct rt_data_batch **ret_batch, struct co_err *err);
void rt_data_batch_free(struct rt_data_batch *b); /* NULL allowed; any thread */
void rt_data_tell(const struct rt_data *d, struct rt_data_position *ret);
/* Moves to a position: what follows is what followed there.  Reads again up to `shuffle` samples.
 * CO_INVALID: it is from other options or files. */
CO_MUST_CHECK int rt_data_seek(
    struct rt_data *d, const struct rt_data_position *at, struct co_err *err);
void rt_data_count(const struct rt_data *d, struct rt_data_counts *ret);
/* How files are shared, as rt_input_describe.  Borrowed. */
const char *rt_data_describe(const struct rt_data *d);

/* rt_keep of a position, after each step; and rt_resume, all zero where nothing was kept.  A
 * program that reads ahead keeps the position of the data that it has trained on. */
CO_MUST_CHECK int rt_keep_position(
    struct rt_client *c, const struct rt_position *at, struct co_err *err);
CO_MUST_CHECK int rt_resume_position(struct rt_client *c, struct rt_position *ret_at,
    struct rt_place *ret_place, struct co_err *err);
/* The same for a reader that does not read ahead; resuming moves it to the kept position. */
CO_MUST_CHECK int rt_keep_input(struct rt_client *c, const struct rt_input *l, struct co_err *err);
CO_MUST_CHECK int rt_resume_input(struct rt_client *c, struct rt_input *l, struct co_err *err);

/* ---- the classic lines of a training ----
 *
 * On stdout, twice a second and at the end of a pass, each with an empty line behind it:
 *     TRAIN ---> pass: 0 loss: 0.412776
 * and with `more`, without that line, what is in `fields`, and the rate:
 *     TRAIN ---> pass: 0 loss: 0.412776 auc: 0.783976 examples/s: 16436 */
struct rt_progress {
    bool more;
    int64_t every_ms; /* 0: 500 */
    char fields[96];  /* "auc: 0.78"; the caller's, who may write it when rt_progress_due */
    const struct rt_job
        *job; /* borrowed: loss and examples_per_second are its reports, too; may be NULL */
    /* Owned by the library; 0 at the start: */
    uint64_t pass, samples, steps; /* steps: of all passes */
    double loss;
    int64_t printed_ms;
    uint64_t answered; /* by rt_progress_due: 1 no, 2 yes */
    uint64_t spare[3];
};
/* Begins a pass, numbered from 0. */
void rt_progress_begin(struct rt_progress *p, uint64_t pass);
/* Adds n samples with this mean loss.  A printed line has the mean since the line before. */
void rt_progress_add(struct rt_progress *p, size_t n, double loss);
/* Whether the next rt_progress_add prints, which then keeps to this answer. */
bool rt_progress_due(struct rt_progress *p);
void rt_progress_end(struct rt_progress *p); /* prints what no line has yet */

#ifdef __cplusplus
}
#endif
