/* libpaddlert: what a training program needs to take part in a parameter-server job.
 *
 *     rt_init(&job, &err)                      who am I? (environment, as for Paddle)
 *     if (rt_is_server(job)) {
 *         rt_server_run(job, NULL, &err);      until all trainers have finished
 *     } else {
 *         rt_client_open(job, &options, tables, n, &c, &err);   waits for the servers
 *         rt_init_dense(c, 0, w, &err);        worker 0's values, for everybody
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
 * Values are IEEE 754 binary32, row-major; ids are any uint64.  All fallible functions return 0
 * or a negative enum co_code and describe the cause in *err (common/err.h): CO_INVALID = the
 * environment or an argument must change (exit 2 is the custom), CO_TIMEOUT and CO_PEERLOST name
 * the endpoint or the trainer.  Times are milliseconds.  Nothing here forks, exits or installs
 * signal handlers; fork before the first rt_server_run or rt_client_open, never after.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* ---- this process's place in its job ------------------------------------------------------ */

struct rt_job; /* immutable after rt_init; any thread */

/* Reads the environment (TRAINING_ROLE, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM,
 * PADDLE_TRAINER_ID, POD_IP, PADDLE_PORT, ...).  Without any of it: worker 0 of 1 with no
 * servers; the tables then live inside the process.  CO_INVALID names variable, value, and what
 * was expected. */
CO_MUST_CHECK int rt_init(struct rt_job **ret_job, struct co_err *err);
void rt_done(struct rt_job *job); /* NULL allowed; after everything opened with it is closed */

bool rt_is_server(const struct rt_job *job);
bool rt_is_worker(const struct rt_job *job);
bool rt_is_first_worker(const struct rt_job *job);
uint32_t rt_worker_index(const struct rt_job *job); /* 0 .. rt_worker_num - 1 */
uint32_t rt_worker_num(const struct rt_job *job);
uint32_t rt_server_index(const struct rt_job *job);
uint32_t rt_server_num(const struct rt_job *job);                     /* 0: not distributed */
const char *rt_server_endpoint(const struct rt_job *job, uint32_t i); /* borrowed, "host:port" */
/* PADDLE_TRAINER_ENDPOINTS, by index; NULL: not told.  Borrowed. */
const char *rt_worker_endpoint(const struct rt_job *job, uint32_t i);
const char *rt_job_name(const struct rt_job *job); /* borrowed; "" without one */

/* ---- server ------------------------------------------------------------------------------- */

/* 0 in a field: its default, or what the environment says (names in parentheses). */
/* What a server does with gradients that are NaN or infinite. */
enum rt_nonfinite {
    RT_NONFINITE_UNSET,  /* what PADDLE_PS_NONFINITE says; refuse */
    RT_NONFINITE_REFUSE, /* the call fails with CO_INVALID: table, id or index, trainer */
    RT_NONFINITE_SKIP,   /* sparse: the row is left out; dense: the value counts as 0 */
    RT_NONFINITE_ALLOW,
};

struct rt_server_options {
    int64_t lease_ms;         /* silence after which a trainer is lost (PADDLE_PS_LEASE); 30 s */
    int64_t start_timeout_ms; /* first trainer seen -> all seen (PADDLE_PS_START_TIMEOUT); 600 s */
    uint32_t shards;          /* worker threads (PADDLE_PS_SHARDS); half the cores, 1 .. 16 */
    uint64_t memory_max;      /* bytes of tables; three quarters of the machine's */
    enum rt_nonfinite nonfinite;
    bool handle_signals; /* SIGTERM and SIGINT end the server with CO_CANCELED */
};

/* Serves until every trainer has finished, then returns 0.  Prints "Server listening on <addr>
 * selected port: <port>" on stderr when trainers can connect.  Raises the soft limit of open files
 * to the hard one.
 * CO_PEERLOST: a trainer was lost; the message says which one, from where, last heard when.
 *     Sync: at once, all other trainers are told.  Async: training goes on; the lost trainer may
 *     come back under its id (what the job did together before, up to its last completed barrier,
 *     is then behind it: rt_load, rt_init_dense and rt_barrier do not repeat it); when the others
 *     have finished it has one more lease to do so.
 * CO_TIMEOUT: some trainers never came.  CO_UNAVAILABLE: the address is taken. */
CO_MUST_CHECK int rt_server_run(
    const struct rt_job *job, const struct rt_server_options *options, struct co_err *err);

/* ---- tables ------------------------------------------------------------------------------- */

enum rt_table_kind {
    RT_DENSE,  /* one flat vector of `size` floats */
    RT_SPARSE, /* rows of `dim` floats by uint64 id, made when first pushed to */
};

/* Every trainer passes the same specs in the same order; servers refuse a trainer whose specs
 * differ.  A table is named in calls by its place in the list, from 0. */
struct rt_table_spec {
    const char *name; /* 1..63 of [A-Za-z0-9_.-]; file names in checkpoints */
    enum rt_table_kind kind;
    uint64_t size; /* dense: number of floats */
    uint32_t dim;  /* sparse: floats in a row, 1..65536 */
    const char
        *optimizer; /* "sgd:lr=0.1", "adagrad:lr=0.05,epsilon=1e-6", ... (runtime/train/optim) */
    /* Sparse: first value of a row, a pure function of (seed, id, place in the row), the same for
     * any number of servers: "zero", "constant:value=1", "uniform:min=-1,max=1",
     * "normal:mean=0,std=0.01".  Dense tables start at zero; see rt_init_dense. */
    const char *init;
    uint64_t seed;
};

/* The initial row of an id, dim floats, without any server. */
CO_MUST_CHECK int rt_table_init_row(
    const struct rt_table_spec *spec, uint64_t id, float *ret_row, struct co_err *err);

/* ---- trainer ------------------------------------------------------------------------------ */

enum rt_mode {
    RT_ASYNC, /* every push is applied at once */
    RT_SYNC,  /* pushes of a step are averaged over the trainers, then applied once */
};

struct rt_client_options {
    enum rt_mode mode;          /* the same for all trainers */
    int64_t start_timeout_ms;   /* waiting for servers (PADDLE_PS_START_TIMEOUT); 600 s */
    int64_t call_timeout_ms;    /* pull, push, ... (PADDLE_PS_CALL_TIMEOUT, FLAGS_rpc_deadline);
                                   180 s */
    int64_t barrier_timeout_ms; /* barriers, and steps in sync mode; 600 s */
    int64_t lease_ms;           /* silence after which a server is lost (PADDLE_PS_LEASE); 30 s */
    /* Async rt_exchange_dense: at most this many steps' gradients wait, summed, while an
     * earlier exchange is under way; 0: 4.  1: every step is sent by itself. */
    uint32_t dense_merge_max;
};

struct rt_client; /* any thread may call; rt_step, rt_barrier, rt_finish: one thread */

/* Connects to all servers and makes the tables there.  While servers are not ready prints, every
 * 3 s, the two classic lines ("server not ready, wait 3 sec to retry..." / "not ready
 * endpoints:[...]") on stderr.  options NULL: all defaults.  specs are copied.
 * CO_TIMEOUT names the endpoints that are not ready; CO_PERMISSION: a server refused this
 * trainer (other job, wrong token, other tables, id already there). */
CO_MUST_CHECK int rt_client_open(const struct rt_job *job, const struct rt_client_options *options,
    const struct rt_table_spec *specs, size_t n_specs, struct rt_client **ret_client,
    struct co_err *err);

/* Leaves without having finished: servers take this trainer for lost.  NULL allowed. */
void rt_client_close(struct rt_client *c);

/* Sends what is under way, tells the servers that this trainer has finished, closes.  c is gone
 * also on failure. */
CO_MUST_CHECK int rt_finish(struct rt_client *c, struct co_err *err);

/* Collective: every worker calls it once per dense table before training.  Worker 0's values
 * (size floats) become the table; all return, after a real barrier, with the table's values in
 * `values`. */
CO_MUST_CHECK int rt_init_dense(
    struct rt_client *c, uint32_t table, float *values, struct co_err *err);

/* Reads the whole vector into ret_w (size floats).  Blocks. */
CO_MUST_CHECK int rt_pull_dense(
    struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err);

/* Hands a gradient (size floats) over; it is copied.  Returns before it is applied; waits only
 * when too much is under way.  A failure shows in this or a later call. */
CO_MUST_CHECK int rt_push_dense(
    struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err);

/* Push and pull in one: the way to train a dense table.
 * Sync: pushes; w is refreshed by the next rt_step, and must stay valid until then.
 * Async: hands the gradient over (copied, summed with earlier ones that still wait) and puts the
 * newest values that have arrived into w; waits only when dense_merge_max gradients wait.  w is
 * thus a few steps behind; one thread a table. */
CO_MUST_CHECK int rt_exchange_dense(
    struct rt_client *c, uint32_t table, const float *gradient, float *w, struct co_err *err);

/* Row i of ret_rows [n][dim] is the row of ids[i]; ids may repeat.  A row that does not exist
 * reads as its initial value.  Blocks. */
CO_MUST_CHECK int rt_pull_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct co_err *err);

/* gradients [n][dim]; those of the same id are summed.  Otherwise as rt_push_dense. */
CO_MUST_CHECK int rt_push_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, struct co_err *err);

/* The pull, split in two, so that the next batch's rows travel while this one is computed.
 * ids are copied; ret_rows must stay valid until rt_wait, which frees the call and must be
 * called once for each. */
struct rt_call;
CO_MUST_CHECK int rt_pull_sparse_start(struct rt_client *c, uint32_t table, const uint64_t *ids,
    size_t n, float *ret_rows, struct rt_call **ret_call, struct co_err *err);
CO_MUST_CHECK int rt_wait(struct rt_call *call, struct co_err *err);

/* End of this trainer's step.  Sync: waits until all trainers that have not finished are here,
 * their gradients are averaged (sum over trainers / number of trainers, also for rows that only
 * some pushed to) and applied, and refreshes the w of rt_exchange_dense.  Every trainer must make
 * the same number of steps, or finish earlier.  Async: returns at once. */
CO_MUST_CHECK int rt_step(struct rt_client *c, struct co_err *err);

/* Waits until all pushes and exchanges handed over have been applied by the servers. */
CO_MUST_CHECK int rt_flush(struct rt_client *c, struct co_err *err);

/* Waits until every trainer that has not finished is here (implies rt_flush). */
CO_MUST_CHECK int rt_barrier(struct rt_client *c, struct co_err *err);

/* ---- checkpoints -------------------------------------------------------------------------- */

/* Writes all tables, optimizer state included, below directory dir of the caller's machine (made
 * when absent).  One trainer calls it; the others may go on in async mode (each row is then from
 * some moment of the save) and should wait in a barrier in sync mode.  The new checkpoint
 * replaces an earlier one in dir only when it is complete; a kill at any moment leaves the
 * earlier one usable. */
CO_MUST_CHECK int rt_save(struct rt_client *c, const char *dir, struct co_err *err);

/* Puts a checkpoint's values and optimizer state into the tables of the same names, whatever the
 * number of servers was and is.  One trainer calls it, before or instead of rt_init_dense by
 * all, with a barrier after it.  CO_INVALID names the file that is torn, corrupt or does not fit
 * the specs; CO_NOTFOUND: no checkpoint in dir. */
CO_MUST_CHECK int rt_load(struct rt_client *c, const char *dir, struct co_err *err);

/* A saved model in this process, without servers: for prediction. */
struct rt_model;
CO_MUST_CHECK int rt_model_open(const char *dir, struct rt_model **ret_model, struct co_err *err);
void rt_model_close(struct rt_model *m);
/* Place of the table of that name; CO_NOTFOUND. */
CO_MUST_CHECK int rt_model_table(
    const struct rt_model *m, const char *name, uint32_t *ret_table, struct co_err *err);
/* Strings borrowed from m. */
const struct rt_table_spec *rt_model_spec(const struct rt_model *m, uint32_t table);
/* size floats, borrowed from m; NULL for a sparse table. */
const float *rt_model_dense(const struct rt_model *m, uint32_t table);
/* As rt_pull_sparse, but never blocks or fails; table must be sparse. */
void rt_model_sparse(
    const struct rt_model *m, uint32_t table, const uint64_t *ids, size_t n, float *ret_rows);

/* ---- figures ------------------------------------------------------------------------------ */

struct rt_table_stat {
    uint64_t rows;   /* sparse: rows that exist; dense: 1 */
    uint64_t bytes;  /* memory of values and optimizer state, all servers */
    uint64_t pulls;  /* rows or floats read by all trainers so far */
    uint64_t pushes; /* the same, written */
};
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
 * P is the number of ranks of the group, n a number of elements.  All ranks make the same calls
 * in the same order with the same n, dtype, op and root; calls that differ are noticed in most
 * cases and are CO_INVALID.  `in` and `out` are the same pointer (in place) or do not overlap;
 * alignment to the element is enough, to 64 bytes is faster.  Buffers are the caller's.
 *
 * Ranks that share a machine and a network namespace exchange through shared memory, the others
 * through TCP.
 *
 * Same ranks in the same places, same calls: the same bits, on every rank.  Sums of f16 and bf16
 * are computed in f32; they are rounded once where all ranks share memory, and once a step
 * between machines.  i32, i64 and u8 wrap.  A NaN in max and min wins.
 *
 * One thread at a time uses a group; different groups are independent.  Every call ends within
 * the group's call_timeout_ms:
 * CO_PEERLOST: a rank is gone (killed, stopped, its machine lost, or it closed its group); the
 *     message names it, the same one on all ranks, within 50 ms of a process's end.
 * CO_TIMEOUT: a rank lives but has not come to this call in time.
 * CO_INVALID: an argument, or another rank's, does not fit.
 * After any of these but an own CO_INVALID argument the group is broken, every call on it
 * returns the same error, and what is in `out` is undefined; see rt_group_shrink. */

struct rt_group;

enum rt_dtype { RT_F32, RT_F64, RT_F16, RT_BF16, RT_I64, RT_I32, RT_U8, RT_DTYPES };
enum rt_op { RT_SUM, RT_PROD, RT_MAX, RT_MIN, RT_AVG /* not of integers */, RT_OPS };

size_t rt_dtype_size(enum rt_dtype dtype);
const char *rt_dtype_name(enum rt_dtype dtype); /* "f32", ... */
const char *rt_op_name(enum rt_op op);          /* "sum", ... */

enum rt_transport {
    RT_TRANSPORT_AUTO, /* shared memory where it can be, TCP elsewhere */
    RT_TRANSPORT_TCP,  /* TCP everywhere */
    RT_TRANSPORT_SHM,  /* shared memory everywhere, or CO_UNSUPPORTED */
};

/* 0 in a field: its default. */
struct rt_group_options {
    const char *const *endpoints; /* [size] "host:port" by rank; default: those of the job */
    uint32_t size;
    uint32_t rank;       /* own endpoint is endpoints[rank]; listens there */
    const char *name;    /* of the job; groups of other names are refused */
    const char *token;   /* the job's secret; default PADDLE_JOB_TOKEN */
    uint64_t generation; /* a group formed again from new endpoints gets a new one */
    const char *node;    /* where this rank is; ranks of equal names share memory.  Default: found
                          * out from the machine, the network namespace and the user */
    enum rt_transport transport;
    int64_t form_timeout_ms; /* until all ranks are there; 600 s */
    int64_t call_timeout_ms; /* of a call; 600 s */
    uint32_t lanes;          /* TCP connections a pair; 2 */
};

/* Waits until all ranks are there.  job NULL: options has endpoints, size and rank.  A worker
 * without trainer endpoints is a group of one.
 * CO_TIMEOUT names a rank that is missing and says why, as far as is known; strangers, wrong
 * tokens, other jobs and doubles are refused with one line in the log and do not count. */
CO_MUST_CHECK int rt_group_open(const struct rt_job *job, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err);
/* Tells the others that this rank leaves, finishes what was started.  NULL allowed.  Frees what
 * rt_group_alloc gave. */
void rt_group_close(struct rt_group *g);

uint32_t rt_group_rank(const struct rt_group *g);
uint32_t rt_group_size(const struct rt_group *g);
/* Ranks that share memory with this one, this one included. */
uint32_t rt_group_local_size(const struct rt_group *g);
/* 0, or the error that broke the group; does not wait. */
int rt_group_check(struct rt_group *g, struct co_err *err);

/* Collective over g: ranks of the same colour make a group, ordered by key, then by rank in g.
 * colour < 0: takes part, gets NULL.  The new group is closed on its own; g stays. */
CO_MUST_CHECK int rt_group_split(struct rt_group *g, int32_t colour, int32_t key,
    struct rt_group **ret_group, struct co_err *err);
/* Called by the ranks in the list (n ascending ranks of g) only.  tag tells apart groups of the
 * same ranks. */
CO_MUST_CHECK int rt_group_sub(struct rt_group *g, const uint32_t *ranks, uint32_t n, uint64_t tag,
    struct rt_group **ret_group, struct co_err *err);

/* After a failure, by all ranks that live: agrees who that is and makes a group of them, ranks in
 * the old order.  ret_gone[i] (size of g; NULL allowed) tells whether rank i is not in it.  A rank
 * that dies meanwhile is left out, too, or breaks the new group; one that lives but does not come
 * within call_timeout_ms is left out, and gets CO_PEERLOST.  Ends within three times
 * call_timeout_ms.  g is only good for rt_group_close afterwards. */
CO_MUST_CHECK int rt_group_shrink(
    struct rt_group *g, bool *ret_gone, struct rt_group **ret_group, struct co_err *err);

/* A group of the ranks of g and of new ones, as one that was restarted after a shrink.  Called by
 * all ranks of g with the same options, but each with its own rank in the new group; the new ones
 * call rt_group_open with them.  generation must be one that was never used with these endpoints;
 * the endpoint of a rank of g may be the one it had.  0 in a field: that of g.  g stays as it is:
 * if not all come within form_timeout_ms, all its ranks get an error and go on with it. */
CO_MUST_CHECK int rt_group_grow(struct rt_group *g, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err);

/* Memory where this group's transport likes it: shared with the ranks of the same machine, so
 * that they reduce in it without staging.  64-byte aligned, 2 MiB-aligned from 2 MiB on; zeroed.
 * Not collective.  CO_NOMEMORY. */
CO_MUST_CHECK int rt_group_alloc(
    struct rt_group *g, size_t bytes, void **ret_memory, struct co_err *err);
void rt_group_free(struct rt_group *g, void *memory); /* NULL allowed */

/* One collective call.  What n counts and how long in and out are, in elements:
 *
 *     kind               in            out           n, counts
 *     RT_ALL_REDUCE      [n]           [n]
 *     RT_REDUCE          [n]           [n] on root   out is not touched elsewhere
 *     RT_BROADCAST       -             [n]           root's out is read, the others' written
 *     RT_ALL_GATHER      [n]           [P][n]        in place: in = out + rank * n
 *     RT_ALL_GATHERV     [counts[rank]] [sum]        counts[P], the same everywhere
 *     RT_REDUCE_SCATTER  [P][n]        [n]
 *     RT_SCATTER         [P][n] on root [n]
 *     RT_GATHER          [n]           [P][n] on root
 *     RT_ALL_TO_ALL      [P][n]        [P][n]        not in place
 *     RT_ALL_TO_ALLV     [sum]         [sum]         counts[P] sent to, out_counts[P] got from
 *     RT_SEND            [n]           -             root: to whom
 *     RT_RECV            -             [n]           root: from whom
 *     RT_BARRIER         -             -
 */
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
    const size_t *counts, *out_counts; /* of a started call: stay valid until it has ended */
};
const char *rt_kind_name(enum rt_kind kind); /* "all_reduce", ... */
/* Tables for people: algorithms, what they cost, which one is taken when; `paddlerun info
 * --collectives` prints it.  Length of the whole, as snprintf. */
int rt_coll_costs(char *ret_text, size_t size);

/* Makes the call and returns when this rank's part is done. */
CO_MUST_CHECK int rt_coll_run(struct rt_group *g, const struct rt_coll *call, struct co_err *err);

/* Returns at once; a thread of the group makes the started calls in their order, but moves sends
 * and receives that follow one another at the same time: ranks may start to send to each other
 * before they receive.  Buffers are the call's until it has ended.  Any number may be under way;
 * blocking calls on the group wait for those before them.  rt_work_wait frees the handle and is
 * called once for each. */
struct rt_work;
CO_MUST_CHECK int rt_coll_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err);
bool rt_work_test(const struct rt_work *work); /* has it ended? */
CO_MUST_CHECK int rt_work_wait(struct rt_work *work_own, struct co_err *err);

/* rt_coll_run, for the calls that programs make most. */
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
