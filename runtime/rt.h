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
    uint32_t shards;          /* worker threads (PADDLE_PS_SHARDS); half the cores that the machine
                                 or the container (cgroup) has, 1 .. 16 */
    uint64_t memory_max;      /* bytes of all tables together; three quarters of the machine's or
                                 the container's.  A push that would exceed it fails with
                                 CO_NORESOURCE */
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
    int64_t call_timeout_ms;    /* pull, push, ... (PADDLE_PS_CALL_TIMEOUT, FLAGS_rpc_deadline),
                                   counted anew whenever a part of the call, 4 MiB or less, is
                                   done; 180 s */
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
 * the same number of steps, or finish earlier.  Async: returns at once.
 * CO_INVALID, at once and to all: this trainer is in a step and another one at a barrier, or the
 * other way round, so that each would wait for the other; the message says who is where. */
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
    /* Of all that was pushed: rows (dense: values) with NaN or Inf, refused or left out. */
    uint64_t nonfinite;
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
 * through TCP.  With options.device, buffers that are a GPU's memory go from GPU to GPU through
 * NVIDIA's NCCL, which is loaded when it is needed (docs/collectives.md); those in main memory go
 * as ever.  All buffers of a call, on all ranks, are of one sort.  A GPU's belong to the call until
 * it returns; what writes them on another stream than rt_group_stream must have ended.  The
 * arithmetic is NCCL's there: the next paragraph does not hold; reduce_scatter, scatter and gather
 * are not in place; and calls that differ may go unnoticed.
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
    /* Where buffers are.  NULL, "cpu": in main memory.  "gpu:1": also on that GPU of those that
     * this process sees; "gpu": on the first of FLAGS_selected_gpus, without that on the one of the
     * rank's place among the ranks of its machine.  All ranks say a GPU, or none. */
    const char *device;
    int64_t form_timeout_ms; /* until all ranks are there; 600 s */
    int64_t call_timeout_ms; /* of a call; 600 s */
    uint32_t lanes;          /* TCP connections a pair; 2 */
};

/* Waits until all ranks are there.  job NULL: options has endpoints, size and rank.  A worker
 * without trainer endpoints is a group of one.
 * CO_UNSUPPORTED names the rank that lacks what the device needs, and what that is.
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
 * that they reduce in it without staging; 64-byte aligned, 2 MiB-aligned from 2 MiB on.  With a
 * device: memory of that GPU, aligned as CUDA does.  Zeroed.  Not collective.  CO_NOMEMORY. */
CO_MUST_CHECK int rt_group_alloc(
    struct rt_group *g, size_t bytes, void **ret_memory, struct co_err *err);
void rt_group_free(struct rt_group *g, void *memory); /* NULL allowed */
/* Between main memory and the group's, on whatever device; they return when it is done. */
CO_MUST_CHECK int rt_group_write(
    struct rt_group *g, void *memory, const void *from, size_t bytes, struct co_err *err);
CO_MUST_CHECK int rt_group_read(
    struct rt_group *g, void *to, const void *memory, size_t bytes, struct co_err *err);
/* "cpu", "gpu:0"; borrowed. */
const char *rt_group_device(const struct rt_group *g);
/* On a GPU: the CUstream of the group's calls, for programs with CUDA of their own.  NULL else. */
void *rt_group_stream(const struct rt_group *g);
/* How many GPUs this process sees.  CO_UNSUPPORTED: none, and why.  CUDA does not survive a fork:
 * after this, or a group on a GPU, there is to be none. */
CO_MUST_CHECK int rt_gpu_count(uint32_t *ret, struct co_err *err);

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

/* ---- data-parallel training ---------------------------------------------------------------
 *
 *     rt_reducer_open(g, gradients, n, NULL, &r, &err)       the last layer's gradients first
 *     rt_broadcast_newest(g, &step, parameters, n, &err)     the same start everywhere
 *     each step:
 *         each gradient i, as backward makes it:
 *             write it to rt_reducer_values(r, i)
 *             rt_reducer_ready(r, i, &err)                   travels while backward goes on
 *         rt_reducer_wait(r, &due, &err)                     averages over all ranks
 *         if (due) rt_optimizer_step(...) for each parameter
 *     rt_reducer_close(r)                                    before the group
 *
 * Every rank has the whole model and its part of the batch; P is the number of ranks.  Same
 * ranks, same gradients: the same bits each run, on every rank.
 *
 * Going on without a rank that died: every call on the reducer fails with CO_PEERLOST, on all
 * ranks (in the same step, or in the next for those that were done with this one).  Then
 *     rt_group_shrink(g, NULL, &less, &err)
 *     rt_reducer_rebuild(r, less, &err)                      ask rt_reducer_values again
 *     rt_group_close(g)
 *     rt_broadcast_newest(less, &step, values, n, &err)      parameters and optimizer states
 * and the step that is `step` now is made again, or the next one, on all ranks. */

/* n floats, a parameter's gradient.  memory: the caller's [n], copied in and out; NULL: a place
 * in the reducer's buckets, which nothing copies.  name: for messages; borrowed during the call,
 * NULL allowed.  parameter: [n], for dgc's l2; NULL: none of it. */
struct rt_gradient {
    const char *name;
    size_t n;
    float *memory;
    const float *parameter;
};

/* Deep gradient compression (Lin et al. 2017, arXiv:1712.01887; Paddle's DGCMomentumOptimizer):
 * of gradients of 16384 floats and more only the largest entries travel, the others wait:
 *     u = momentum u + g;  v = v + u                  (nesterov: u = momentum (u + g); v += u + g)
 *     the k = n (1 - sparsity) largest |v| are sent, at those places u = v = 0
 * What comes out is their average over the ranks: apply it by rt_optimizer_step_sgd where
 * rt_reducer_compressed says so.  k is an upper bound: the threshold is found in a sample. */
struct rt_dgc {
    float momentum;
    bool nesterov;
    float l2;        /* l2 * parameter is added to g, behind the clipping */
    float clip_norm; /* the whole job's: a rank's g is scaled to a norm of at most clip_norm /
                      * sqrt(P), gradient by gradient; 0: not */
    uint64_t rampup_begin_step; /* steps before are dense */
    uint64_t rampup_step;       /* over so many steps the list is gone through; 0: 1 */
    const float *sparsity;      /* [n_sparsity], each at least 0 and below 1; copied */
    size_t n_sparsity;          /* 0: {0.999} */
};

/* 0 in a field: its default. */
struct rt_reducer_options {
    size_t bucket_bytes;      /* gradients travel in buckets of about so many bytes; 32 MiB */
    size_t last_bucket_bytes; /* the one that is ready last, the first layers'; 1 MiB */
    enum rt_dtype wire;       /* RT_F16, RT_BF16: rounded on their way (fleet's fp16_allreduce).
                               * A loss is scaled, and its gradients back, by the caller */
    uint32_t merge_steps;     /* so many steps are added up locally and reduced once (fleet's
                               * gradient_merge, k_steps); 1 */
    bool merge_sum;           /* of the k steps their sum, not their mean */
    const struct rt_dgc *dgc; /* copied; NULL: off */
};

/* One thread at a time.  Between a step's first ready and its wait other calls on the group stand
 * in one queue with the buckets, at the same place on all ranks only where all make gradients in
 * the same order: a group of its own (rt_group_split) is for them. */
struct rt_reducer;

/* Collective.  gradients: in the order in which backward makes them.  CO_INVALID names a rank
 * whose list or options differ; CO_UNSUPPORTED: a group with a GPU; CO_NOMEMORY.  g stays the
 * caller's and is open longer than r. */
CO_MUST_CHECK int rt_reducer_open(struct rt_group *g, const struct rt_gradient *gradients, size_t n,
    const struct rt_reducer_options *options, struct rt_reducer **ret_reducer, struct co_err *err);
/* Waits for what has been started.  NULL allowed. */
void rt_reducer_close(struct rt_reducer *r);

/* [n] of gradient i: backward writes it, before ready; averages are in it after wait.  Zero at
 * the start, and not touched between steps.  64-byte aligned if in the buckets. */
float *rt_reducer_values(const struct rt_reducer *r, size_t i);
/* Which of the buckets, numbered in the order in which they travel. */
uint32_t rt_reducer_bucket(const struct rt_reducer *r, size_t i);
uint32_t rt_reducer_buckets(const struct rt_reducer *r);

/* Gradient i of this step is there and the reducer's until wait.  Buckets start in one order on
 * all ranks, each when it is full and those before it have started, whatever the order of these
 * calls.  Does not block.  CO_INVALID: twice in a step. */
CO_MUST_CHECK int rt_reducer_ready(struct rt_reducer *r, size_t i, struct co_err *err);
/* End of a step: all gradients are averages over the ranks, where ret_due (NULL allowed) is set
 * to true; false: a step that was only added up (merge_steps), gradients are undefined.
 * Gradients that were not ready count as zero on this rank.  After a failure nothing is under
 * way, and what the step's gradients are is undefined. */
CO_MUST_CHECK int rt_reducer_wait(struct rt_reducer *r, bool *ret_due, struct co_err *err);
/* All of them ready, and wait: for values that are there at once, as parameters are. */
CO_MUST_CHECK int rt_reducer_run(struct rt_reducer *r, bool *ret_due, struct co_err *err);

/* Whether gradient i of the last wait was compressed: its average has momentum and l2 in it. */
bool rt_reducer_compressed(const struct rt_reducer *r, size_t i);
/* dgc's u of gradient i, [n]; NULL where there is none.  After the last dense step the optimizer's
 * velocity may be copied into it, which then goes on. */
float *rt_reducer_velocity(const struct rt_reducer *r, size_t i);
/* No NaN, no infinity in the averages.  The same answer on all ranks, nothing travels: one that
 * a single rank made, or that f16 could not hold, is in everybody's average. */
bool rt_reducer_finite(const struct rt_reducer *r);
/* Whether all ranks' values (n floats) are finite.  Collective, for what is no average. */
CO_MUST_CHECK int rt_all_finite(
    struct rt_group *g, const float *values, size_t n, bool *ret_finite, struct co_err *err);

/* After rt_group_shrink, or with any new group; the old one need not work but must still be
 * open.  Collective over g; ranks that are new call rt_reducer_open in its place.  A step that
 * was under way begins again from its first gradient.  What waits locally stays: dgc's u and v
 * (without the entries that were on their way), and merged steps where all ranks have as many. */
CO_MUST_CHECK int rt_reducer_rebuild(struct rt_reducer *r, struct rt_group *g, struct co_err *err);

/* Floats that all ranks have in common, as parameters. */
struct rt_values {
    float *values; /* [n] */
    size_t n;
};
/* Collective: everybody gets the step and the values of the rank whose *step is the largest (of
 * several the lowest rank). */
CO_MUST_CHECK int rt_broadcast_newest(struct rt_group *g, uint64_t *step,
    const struct rt_values *list, size_t n_list, struct co_err *err);

/* ---- local SGD ----
 *
 * k steps alone, then the parameters are averaged (Paddle fleet's localsgd; Stich 2018,
 * arXiv:1805.09767).  Parameters are the gradients of a reducer of their own:
 *     rt_reducer_open(g, parameters, n, NULL, &r, &err)
 *     each step: optimizer, then rt_local_sgd_step(&s, r, loss, lr, &averaged, &err)
 * Steps up to begin_step are averaged each.  Adaptive (Wang, Joshi 2018, arXiv:1810.08313, as in
 * Paddle): after each average k = ceil(sqrt(lr0 loss / (lr loss0) k_steps)), within 1 .. 16; loss
 * and lr are looked at, loss is averaged over the ranks. */
struct rt_local_sgd {
    uint32_t k_steps;    /* 0: 1; adaptive: to begin with */
    uint32_t begin_step; /* 0: 1 */
    bool adaptive;
    /* The library's, 0 at the start: */
    uint64_t step, last;
    uint32_t k;
    double loss0, lr0;
};
CO_MUST_CHECK int rt_local_sgd_step(struct rt_local_sgd *s, struct rt_reducer *parameters,
    double loss, double lr, bool *ret_averaged, struct co_err *err);

/* ---- optimizer, learning rates ----
 *
 * A rule of runtime/train/optim on this rank's parameters; pure, any thread, one optimizer by one
 * thread at a time. */
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
/* State, for checkpoints and rt_broadcast_newest; borrowed.  n 0: the rule has none. */
struct rt_values rt_optimizer_state(struct rt_optimizer *o);

/* Learning rates at step t, from 0, by the formulas of paddle.optimizer.lr 3.3.1. steps, warmup and
 * model are above 0. */
double rt_lr_piecewise(/* values[n + 1]; values[i] while t < boundaries[i] (n, ascending) */
    const uint64_t *boundaries, const double *values, size_t n, uint64_t t);
double rt_lr_exponential(double lr, double gamma, uint64_t t);  /* lr gamma^t */
double rt_lr_natural_exp(double lr, double gamma, uint64_t t);  /* lr e^(-gamma t) */
double rt_lr_inverse_time(double lr, double gamma, uint64_t t); /* lr / (1 + gamma t) */
/* (lr - end) (1 - t / steps)^power + end, t at most steps; cycle: steps times ceil(t / steps). */
double rt_lr_polynomial(
    double lr, double end, double power, uint64_t steps, bool cycle, uint64_t t);
/* end + (lr - end) (1 + cos(pi t / steps)) / 2 */
double rt_lr_cosine(double lr, double end, uint64_t steps, uint64_t t);
/* lr model^-0.5 min(t^-0.5, t warmup^-1.5) */
double rt_lr_noam(double lr, double model, uint64_t warmup, uint64_t t);
/* start + (end - start) t / steps while t < steps; then `after`, which is a rate at t - steps. */
double rt_lr_warmup(double start, double end, uint64_t steps, uint64_t t, double after);

/* ---- batch normalisation over all ranks ----
 *
 * Statistics of a channel are over the batches of all ranks together, whatever their sizes.
 * Ranks send mean, sum of squared differences and count (Chan, Golub, LeVeque 1983), in f64.
 * Collective and blocking; a group of its own (rt_group_split) keeps these small calls from
 * waiting behind gradients. */
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

/* The group of a parameter-server job's trainers, for metrics and barriers: what gloo is in
 * Paddle.  Needs spec.withGloo 1 or 2 (PADDLE_WITH_GLOO); who says that also tells
 * PADDLE_TRAINER_ENDPOINTS, where the trainers meet, at their own ports: no HTTP store is needed
 * and nothing is asked of PADDLE_GLOO_HTTP_ENDPOINT.  One trainer alone needs neither.
 * CO_UNSUPPORTED: gloo is off.  CO_INVALID: no endpoints, or not as many as trainers; a server.
 * options: as rt_group_open. */
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
 * (buckets - 1)).  CO_INVALID: a score is not within 0..1; nothing is counted then. */
CO_MUST_CHECK int rt_auc_add(double *stat, size_t buckets, const float *scores, const float *labels,
    size_t n, struct co_err *err);
