/* A libnccl.so.2 for machines without a GPU: as much of NCCL as this project calls, between
 * processes of one machine, over shared memory, for communicators that do not block.  What its
 * callers may not do ends the process: a communicator that is used before it is ready, or after it
 * has ended or was aborted; memory that is not a GPU's; a process that ends with one that lives.
 *
 *     STANDIN_NCCL_VERSION=N     22703
 *     STANDIN_NCCL_FAIL=CALL     asynchronously, instead of making that call; 0: in init
 *     STANDIN_NCCL_ORDERLY=1     nothing is to be aborted
 *     STANDIN_NCCL_STUCK=1       init does not end; STANDIN_NCCL_DIE=1: the process does, in it
 *
 * WITHOUT_ALL_TO_ALL, WITHOUT_ABORT: built without these functions. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/train/nccl/nccl_abi.h"
#include "tests/nccl/standin.h"

#define EXPORT __attribute__((visibility("default")))

enum { RANKS = 8, BOX = 32 << 10, POLLS = 3, NOT_NOW = INT_MAX };

/* One direction between two ranks. */
struct box {
    _Atomic uint32_t full;
    uint32_t tag, bytes;
    unsigned char data[BOX];
};

struct meeting {
    _Atomic int here;
    struct box box[RANKS][RANKS]; /* [from][to] */
};

struct transfer {
    struct transfer *next; /* owned: what goes to and comes from that rank after this */
    int peer;
    const unsigned char *send;
    unsigned char *recv;
    size_t n_send, n_recv;
};

struct job {
    struct job *next;
    struct rt_nccl_comm *comm;
    struct nccl_cuda_stream *stream;
    uint32_t tag;
    struct transfer part[RANKS];
    /* A reduction of what comes: */
    unsigned char *parts; /* owned [size][bytes]; NULL: none */
    unsigned char *out;
    size_t at, n; /* of the elements of each, those that become out */
    size_t count;
    int type, op;
};

enum state { INIT = 1, READY, ENDING, ENDED, DEAD };

struct rt_nccl_comm {
    struct rt_nccl_comm *next;
    enum state state;
    int rank, size, polls, error;
    uint32_t calls;
    struct meeting *with;
    char name[64];
    struct job *first, **end; /* begun, and not in the stream yet */
    _Atomic int pending;      /* in the stream */
    _Atomic bool aborted;
};

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static struct rt_nccl_comm *comms; /* the dead ones, too: who uses them is found out */
static __thread int group_depth;
static __thread struct rt_nccl_comm *grouped; /* whose jobs the group has */

static long setting(const char *name, long other) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : other;
}

/* Nothing may live on when the process ends. */
__attribute__((destructor)) static void finished(void) {
    for (struct rt_nccl_comm *c = comms, *next; c; c = next) {
        next = c->next;
        if (c->state != DEAD) {
            standin_broken("the process ends with a communicator that lives");
        }
        free(c);
    }
}

static struct rt_nccl_comm *alive(struct rt_nccl_comm *comm, const char *what) {
    standin_need_context(what);
    pthread_mutex_lock(&m);
    struct rt_nccl_comm *c = comms;
    while (c && c != comm) {
        c = c->next;
    }
    pthread_mutex_unlock(&m);
    if (!c || c->state == DEAD) {
        standin_broken("%s of a communicator that has ended", what);
    }
    return c;
}

/* ---- what is in a stream ---- */

static size_t size_of(int type) {
    switch (type) {
    case NCCL_U8:
        return 1;
    case NCCL_F16:
    case NCCL_BF16:
        return 2;
    case NCCL_I32:
    case NCCL_F32:
        return 4;
    case NCCL_I64:
    case NCCL_F64:
        return 8;
    default:
        standin_broken("type %d", type);
    }
}

static double load(const unsigned char *p, int type) {
    uint16_t h;
    uint32_t bits;
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
    } v;
    memcpy(&v, p, size_of(type));
    memcpy(&h, p, sizeof(h) < size_of(type) ? sizeof(h) : size_of(type));
    switch (type) {
    case NCCL_U8:
        return *p;
    case NCCL_I32:
        return v.i32;
    case NCCL_I64:
        return (double)v.i64;
    case NCCL_F32:
        return v.f32;
    case NCCL_F64:
        return v.f64;
    case NCCL_BF16:
        bits = (uint32_t)h << 16;
        memcpy(&v.f32, &bits, sizeof(bits));
        return v.f32;
    default: /* f16, normal numbers and zero */
        return (h & 0x7fff) == 0
                   ? 0
                   : (h >> 15 ? -1 : 1) * ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25);
    }
}

static void store(unsigned char *p, int type, double value) {
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
        uint16_t h;
    } v;
    uint32_t bits;
    int exponent;
    switch (type) {
    case NCCL_U8:
        *p = (unsigned char)(int64_t)value;
        return;
    case NCCL_I32:
        v.i32 = (int32_t)(int64_t)value;
        break;
    case NCCL_I64:
        v.i64 = (int64_t)value;
        break;
    case NCCL_F32:
        v.f32 = (float)value;
        break;
    case NCCL_F64:
        v.f64 = value;
        break;
    case NCCL_BF16:
        v.f32 = (float)value;
        memcpy(&bits, &v.f32, sizeof(bits));
        v.h = (uint16_t)(bits >> 16);
        break;
    default:
        value = frexp(value, &exponent);
        v.h = 0;
        if (value != 0) {
            v.h = (uint16_t)((value < 0) << 15 | (exponent + 14) << 10 |
                             ((int)(fabs(value) * 2048) & 1023));
        }
    }
    memcpy(p, &v, size_of(type));
}

static void reduce(const struct job *j) {
    size_t size = size_of(j->type), stride = j->count * size;
    int ranks = j->comm->size;
    for (size_t i = 0; i < j->n; i++) {
        double sum = load(j->parts + (j->at + i) * size, j->type);
        for (int r = 1; r < ranks; r++) {
            double v = load(j->parts + (size_t)r * stride + (j->at + i) * size, j->type);
            sum = j->op == NCCL_PROD  ? sum * v
                  : j->op == NCCL_MAX ? fmax(sum, v)
                  : j->op == NCCL_MIN ? fmin(sum, v)
                                      : sum + v;
        }
        store(j->out + i * size, j->type, j->op == NCCL_AVG ? sum / ranks : sum);
    }
}

/* As much as goes without waiting.  A tag that is not expected stays: then all hang, as NCCL. */
static bool advance(const struct job *j, struct transfer *t, bool may_send, bool may_recv) {
    struct meeting *with = j->comm->with;
    if (may_send && t->n_send > 0) {
        struct box *b = &with->box[j->comm->rank][t->peer];
        if (!atomic_load(&b->full)) {
            b->bytes = t->n_send < BOX ? (uint32_t)t->n_send : BOX;
            b->tag = j->tag;
            memcpy(b->data, t->send, b->bytes);
            t->send += b->bytes;
            t->n_send -= b->bytes;
            atomic_store(&b->full, 1);
        }
    }
    if (may_recv && t->n_recv > 0) {
        struct box *b = &with->box[t->peer][j->comm->rank];
        if (atomic_load(&b->full) && b->tag == j->tag && b->bytes <= t->n_recv) {
            memcpy(t->recv, b->data, b->bytes);
            t->recv += b->bytes;
            t->n_recv -= b->bytes;
            atomic_store(&b->full, 0);
        }
    }
    bool sent = may_send && t->n_send == 0, came = may_recv && t->n_recv == 0;
    return t->next ? advance(j, t->next, sent, came) : sent && came;
}

static void job_free(struct job *j) {
    for (int r = 0; r < RANKS; r++) {
        for (struct transfer *t = j->part[r].next, *next; t; t = next) {
            next = t->next;
            free(t);
        }
    }
    free(j->parts);
    free(j);
}

static void job_run(void *arg) {
    struct job *j = arg;
    bool done = false;
    while (!done && !atomic_load(&j->comm->aborted)) {
        done = true;
        for (int r = 0; r < j->comm->size; r++) {
            done &= advance(j, &j->part[r], true, true);
        }
        (void)sched_yield();
    }
    if (done && j->parts) {
        reduce(j);
    }
    atomic_fetch_sub(&j->comm->pending, 1);
    job_free(j);
}

/* ---- communicators ---- */

EXPORT int ncclGetVersion(int *ret) {
    *ret = (int)setting("STANDIN_NCCL_VERSION", 22703);
    return 0;
}

EXPORT const char *ncclGetErrorString(int result) {
    return result == NCCL_SYSTEM ? "unhandled system error" : "an error of the stand-in";
}

EXPORT const char *ncclGetLastError(struct rt_nccl_comm *comm) {
    return comm && comm->error ? "the stand-in was told to fail" : "";
}

EXPORT int ncclGetUniqueId(struct nccl_id *ret) {
    uint64_t random[2];
    memset(ret, 0, sizeof(*ret));
    if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
        abort();
    }
    (void)snprintf(ret->bytes, sizeof(ret->bytes), "/standin-%llx%llx",
        (unsigned long long)random[0], (unsigned long long)random[1]);
    return 0;
}

EXPORT int ncclCommInitRankConfig(
    struct rt_nccl_comm **ret, int size, struct nccl_id id, int rank, struct nccl_config *config) {
    standin_need_context("ncclCommInitRankConfig");
    if (config->size != sizeof(*config) || config->magic != NCCL_MAGIC ||
        config->version != NCCL_OLDEST || config->blocking != 0 ||
        config->max_ctas != NCCL_UNDEFINED) {
        standin_broken("a config that NCCL would refuse");
    }
    if (size > RANKS || rank < 0 || rank >= size) {
        standin_broken("rank %d of %d", rank, size);
    }
    if (setting("STANDIN_NCCL_DIE", 0)) {
        (void)raise(SIGKILL);
    }
    struct rt_nccl_comm *c = standin_new(sizeof(*c));
    *c = (struct rt_nccl_comm){.state = INIT, .rank = rank, .size = size, .polls = NOT_NOW};
    c->end = &c->first;
    memcpy(c->name, id.bytes, sizeof(c->name) - 1);
    int fd = shm_open(c->name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) < 0) {
        standin_broken("no shared memory");
    }
    c->with = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (!setting("STANDIN_NCCL_STUCK", 0) && atomic_fetch_add(&c->with->here, 1) == size - 1) {
        (void)shm_unlink(c->name);
    }
    c->error = setting("STANDIN_NCCL_FAIL", -1) == 0 ? NCCL_SYSTEM : 0;
    pthread_mutex_lock(&m);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&m);
    *ret = c;
    return NCCL_IN_PROGRESS;
}

/* What was begun gets on each time that somebody asks, so that whoever does not ask is found out.
 */
static void progress(struct rt_nccl_comm *c) {
    if (c->state == INIT && c->polls == NOT_NOW && atomic_load(&c->with->here) == c->size) {
        c->polls = POLLS;
    }
    if (c->polls == NOT_NOW || c->polls-- > 0) {
        return;
    }
    c->polls = 0;
    if (c->state == INIT) {
        c->state = READY;
    } else if (c->state == ENDING && atomic_load(&c->pending) == 0) {
        c->state = ENDED;
    }
    while (c->first && !c->error) {
        struct job *j = c->first;
        c->first = j->next;
        atomic_fetch_add(&c->pending, 1);
        standin_enqueue(j->stream, job_run, j);
    }
    c->end = c->first ? c->end : &c->first;
}

EXPORT int ncclCommGetAsyncError(struct rt_nccl_comm *comm, int *ret) {
    struct rt_nccl_comm *c = alive(comm, "ncclCommGetAsyncError");
    if (group_depth > 0) {
        standin_broken("ncclCommGetAsyncError before ncclGroupEnd");
    }
    progress(c);
    *ret = c->error                                             ? c->error
           : c->state == INIT || c->state == ENDING || c->first ? NCCL_IN_PROGRESS
                                                                : NCCL_SUCCESS;
    return 0;
}

static void bury(struct rt_nccl_comm *c) {
    atomic_store(&c->aborted, true);
    while (atomic_load(&c->pending) > 0) {
        (void)sched_yield();
    }
    while (c->first) {
        struct job *j = c->first;
        c->first = j->next;
        job_free(j);
    }
    (void)shm_unlink(c->name);
    (void)munmap(c->with, sizeof(*c->with));
    c->state = DEAD;
}

EXPORT int ncclCommFinalize(struct rt_nccl_comm *comm) {
    struct rt_nccl_comm *c = alive(comm, "ncclCommFinalize");
    if (c->state != READY || c->first) {
        standin_broken("ncclCommFinalize of a communicator that is busy");
    }
    c->state = ENDING;
    c->polls = POLLS;
    return NCCL_IN_PROGRESS;
}

EXPORT int ncclCommDestroy(struct rt_nccl_comm *comm) {
    struct rt_nccl_comm *c = alive(comm, "ncclCommDestroy");
    if (c->state != ENDED) {
        standin_broken("ncclCommDestroy before it has ended");
    }
    bury(c);
    return 0;
}

#ifndef WITHOUT_ABORT
EXPORT int ncclCommAbort(struct rt_nccl_comm *comm) {
    if (setting("STANDIN_NCCL_ORDERLY", 0)) {
        standin_broken("ncclCommAbort of what could end");
    }
    bury(alive(comm, "ncclCommAbort"));
    return 0;
}
#endif

/* ---- calls ---- */

static int begun(struct rt_nccl_comm *c) {
    if (group_depth > 0) {
        grouped = c;
        return 0;
    }
    c->polls = POLLS;
    return NCCL_IN_PROGRESS;
}

/* A job at the end of what has been begun; in a group all sends and receives are one. */
static struct job *job_of(
    struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream, uint32_t tag) {
    struct rt_nccl_comm *c = alive(comm, "a call");
    if (c->state != READY || (c->first && group_depth == 0)) {
        standin_broken("a call of a communicator that is busy");
    }
    if (group_depth > 0 && c->first) {
        return c->first;
    }
    if (c->error == 0 && setting("STANDIN_NCCL_FAIL", -1) == (long)++c->calls) {
        c->error = NCCL_SYSTEM;
    }
    struct job *j = standin_new(sizeof(*j));
    j->comm = c;
    j->stream = stream;
    j->tag = tag;
    for (int r = 0; r < c->size; r++) {
        j->part[r].peer = r;
    }
    *c->end = j;
    c->end = &j->next;
    return j;
}

static uint32_t tag_of(int what, size_t n, int type, int op) {
    return (uint32_t)what << 28 | (uint32_t)type << 24 | (uint32_t)op << 20 |
           (uint32_t)(n & 0xfffff);
}

/* Everyone's `in` of count elements to all, or to root; n of them, from at, become out. */
static int reduction(const void *in, void *out, size_t count, size_t at, size_t n, int type, int op,
    int root, struct job *j) {
    size_t bytes = count * size_of(type);
    struct rt_nccl_comm *c = j->comm;
    bool gets = root < 0 || root == c->rank;
    const unsigned char *own = bytes ? standin_memory(in, bytes) : NULL;
    j->parts = gets ? standin_new(bytes * (size_t)c->size + 1) : NULL;
    j->out = gets && n ? standin_memory(out, n * size_of(type)) : NULL;
    j->count = count;
    j->at = at;
    j->n = gets ? n : 0;
    j->type = type;
    j->op = op;
    for (int r = 0; r < c->size; r++) {
        struct transfer *t = &j->part[r];
        if (root < 0 || root == r) {
            t->send = own;
            t->n_send = bytes;
        }
        if (gets) {
            t->recv = j->parts + (size_t)r * bytes;
            t->n_recv = bytes;
        }
    }
    return begun(c);
}

EXPORT int ncclAllReduce(const void *in, void *out, size_t n, int type, int op,
    struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(1, n, type, op));
    return reduction(in, out, n, 0, n, type, op, -1, j);
}

EXPORT int ncclReduce(const void *in, void *out, size_t n, int type, int op, int root,
    struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(2, n, type, op));
    return reduction(in, out, n, 0, n, type, op, root, j);
}

EXPORT int ncclReduceScatter(const void *in, void *out, size_t n, int type, int op,
    struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(3, n, type, op));
    size_t size = (size_t)j->comm->size;
    return reduction(in, out, n * size, n * (size_t)j->comm->rank, n, type, op, -1, j);
}

static void part(struct job *j, int peer, const void *in, void *out, size_t bytes) {
    struct transfer *t = &j->part[peer];
    while ((in && t->n_send > 0) || (out && t->n_recv > 0)) {
        if (!t->next) {
            t->next = standin_new(sizeof(*t));
            t->next->peer = peer;
        }
        t = t->next;
    }
    if (in && bytes) {
        t->send = standin_memory(in, bytes);
        t->n_send = bytes;
    }
    if (out && bytes) {
        t->recv = standin_memory(out, bytes);
        t->n_recv = bytes;
    }
}

EXPORT int ncclBroadcast(const void *in, void *out, size_t n, int type, int root,
    struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(4, n, type, 0));
    int rank = j->comm->rank;
    for (int r = 0; r < j->comm->size; r++) {
        part(j, r, rank == root && r != root ? in : NULL, rank != root && r == root ? out : NULL,
            n * size_of(type));
    }
    return begun(comm);
}

EXPORT int ncclAllGather(const void *in, void *out, size_t n, int type, struct rt_nccl_comm *comm,
    struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(5, n, type, 0));
    size_t bytes = n * size_of(type);
    for (int r = 0; r < j->comm->size; r++) {
        part(j, r, in, (unsigned char *)out + (size_t)r * bytes, bytes);
    }
    return begun(comm);
}

#ifndef WITHOUT_ALL_TO_ALL
EXPORT int ncclAlltoAll(const void *in, void *out, size_t n, int type, struct rt_nccl_comm *comm,
    struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(6, n, type, 0));
    size_t bytes = n * size_of(type);
    for (int r = 0; r < j->comm->size; r++) {
        part(j, r, (const unsigned char *)in + (size_t)r * bytes,
            (unsigned char *)out + (size_t)r * bytes, bytes);
    }
    return begun(comm);
}
#endif

EXPORT int ncclGroupStart(void) {
    group_depth++;
    return 0;
}

EXPORT int ncclGroupEnd(void) {
    struct rt_nccl_comm *c = grouped;
    if (--group_depth < 0) {
        standin_broken("ncclGroupEnd without ncclGroupStart");
    }
    if (group_depth > 0 || !c) {
        return 0;
    }
    grouped = NULL;
    return begun(c);
}

EXPORT int ncclSend(const void *in, size_t n, int type, int to, struct rt_nccl_comm *comm,
    struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(7, 0, type, 0));
    part(j, to, in, NULL, n * size_of(type));
    return begun(j->comm);
}

EXPORT int ncclRecv(void *out, size_t n, int type, int from, struct rt_nccl_comm *comm,
    struct nccl_cuda_stream *stream) {
    struct job *j = job_of(comm, stream, tag_of(7, 0, type, 0));
    part(j, from, NULL, out, n * size_of(type));
    return begun(j->comm);
}
