/* Loads NCCL, and translates calls, types and results between it and the group. */
#include "runtime/train/nccl/nccl.h"

#include <string.h>

#include "common/contract.h"
#include "common/library.h"
#include "common/mem.h"
#include "runtime/train/nccl/nccl_abi.h"

_Static_assert((int)NCCL_ID_BYTES == (int)NCCL_ID_SIZE, "an id travels whole");

struct nccl {
    struct nccl_functions call;
    int version;
    uint32_t rank, size;
    struct rt_nccl_comm *comm; /* NULL: not joined, or aborted */
    bool left;                 /* finalized: to be destroyed, not aborted */
};

#define SYMBOL(member, symbol, may_lack)                                                           \
    {.name = #symbol, .offset = offsetof(struct nccl_functions, member), .optional = may_lack},
static const struct co_symbol symbols[] = {NCCL_SYMBOLS(SYMBOL)};

static const int types[RT_DTYPES] = {
    [RT_F32] = NCCL_F32,
    [RT_F64] = NCCL_F64,
    [RT_F16] = NCCL_F16,
    [RT_BF16] = NCCL_BF16,
    [RT_I64] = NCCL_I64,
    [RT_I32] = NCCL_I32,
    [RT_U8] = NCCL_U8,
};
static const int reductions[RT_OPS] = {
    [RT_SUM] = NCCL_SUM,
    [RT_PROD] = NCCL_PROD,
    [RT_MAX] = NCCL_MAX,
    [RT_MIN] = NCCL_MIN,
    [RT_AVG] = NCCL_AVG,
};

static int code_of(int result) {
    switch (result) {
    case NCCL_SYSTEM:
        return CO_UNAVAILABLE;
    case NCCL_ARGUMENT:
    case NCCL_USAGE:
        return CO_INVALID;
    case NCCL_REMOTE:
        return CO_PEERLOST;
    default:
        return CO_INTERNAL;
    }
}

/* 0 for success, and for a call that is in progress; else sets the error. */
static int check(const struct nccl *n, int result, const char *what, struct co_err *err) {
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
        return 0;
    }
    const char *text = n->call.error_string(result), *more = n->call.last_error(n->comm);
    return co_err_set(err, code_of(result), "NCCL: %s: %s%s%.300s", what, text ? text : "unknown",
        more && *more ? ": " : "", more ? more : "");
}

/* ---- open, join, leave, close ---- */

CO_DEFINE_CLEANUP(struct nccl *, nccl_close)

/* Images have it where the dynamic linker looks.  pip puts it into a folder that only the Python
 * of the program knows. */
static int load(struct nccl_functions *ret, struct co_err *err) {
    const char *folder = co_contract_getenv(CO_VAR_NCCL_DIR);
    struct co_err why = {0};
    int rc = co_library_open(folder, "libnccl.so.2", symbols, CO_ARRAY_LEN(symbols), ret, &why);
    if (rc < 0) {
        bool named = folder && *folder;
        return co_err_set(err, rc, "%s%s%s%s", co_err_text(&why), named ? "" : "; ",
            named ? "" : co_contract[CO_VAR_NCCL_DIR].name,
            named ? "" : " can name its folder, of pip's site-packages/nvidia/nccl/lib");
    }
    return 0;
}

int nccl_open(struct nccl **ret, struct co_err *err) {
    CO_CLEANUP(nccl_closep) struct nccl *n = co_xcalloc(1, sizeof(*n));
    CO_TRY(load(&n->call, err));
    CO_TRY(check(n, n->call.version(&n->version), "its version", err));
    if (n->version < NCCL_OLDEST) {
        return co_err_set(err, CO_UNSUPPORTED, "the library libnccl.so.2 is NCCL %d, older than %d",
            n->version, NCCL_OLDEST);
    }
    *ret = co_steal_ptr(n);
    return 0;
}

void nccl_abort(struct nccl *n) {
    if (n->comm) {
        (void)n->call.abort(n->comm);
        n->comm = NULL;
    }
}

void nccl_close(struct nccl *n) {
    if (!n) {
        return;
    }
    if (n->comm && n->left) {
        (void)n->call.destroy(n->comm);
        n->comm = NULL;
    }
    nccl_abort(n);
    free(n);
}

uint32_t nccl_version(const struct nccl *n) {
    return (uint32_t)n->version;
}

int nccl_id(struct nccl *n, unsigned char ret_id[NCCL_ID_BYTES], struct co_err *err) {
    struct nccl_id id;
    CO_TRY(check(n, n->call.unique_id(&id), "an id", err));
    memcpy(ret_id, id.bytes, sizeof(id.bytes));
    return 0;
}

int nccl_join(struct nccl *n, const unsigned char id[NCCL_ID_BYTES], uint32_t rank, uint32_t size,
    struct co_err *err) {
    struct nccl_id name;
    struct nccl_config config = NCCL_CONFIG;
    memcpy(name.bytes, id, sizeof(name.bytes));
    n->rank = rank;
    n->size = size;
    return check(n, n->call.init(&n->comm, (int)size, name, (int)rank, &config), "initialise", err);
}

int nccl_pending(struct nccl *n, struct co_err *err) {
    int state = NCCL_INTERNAL;
    CO_TRY(check(n, n->call.async_error(n->comm, &state), "ask how it is", err));
    CO_TRY(check(n, state, "the communicator has failed", err));
    return state == NCCL_IN_PROGRESS;
}

int nccl_leave(struct nccl *n, struct co_err *err) {
    if (!n->comm) {
        return co_err_set(err, CO_GONE, "NCCL: no communicator");
    }
    int rc = check(n, n->call.finalize(n->comm), "finalise", err);
    n->left = rc == 0;
    return rc;
}

/* ---- calls ---- */

int nccl_check(const struct rt_coll *c, struct co_err *err) {
    bool parts = c->kind == RT_REDUCE_SCATTER || c->kind == RT_SCATTER || c->kind == RT_GATHER;
    if (parts && c->in && c->in == c->out) {
        return co_err_set(err, CO_UNSUPPORTED, "%s: not in place on GPUs", rt_kind_name(c->kind));
    }
    return 0;
}

/* What to send to a rank and to receive from it; counts are in elements; NULL: nothing. */
struct exchange_part {
    const unsigned char *send;
    unsigned char *recv;
    size_t n_send, n_recv;
};

/* The part of rank r.  at[0], at[1]: the elements of `in` and `out` that belong to lower ranks. */
static struct exchange_part part_of(
    const struct nccl *n, const struct rt_coll *c, uint32_t r, const size_t at[2]) {
    size_t size = rt_dtype_size(c->dtype);
    const unsigned char *in = c->in, *in_r = in ? in + at[0] * size : NULL;
    unsigned char *out = c->out, *out_r = out ? out + at[1] * size : NULL;
    bool to_root = r == c->root, root = n->rank == c->root;
    switch (c->kind) {
    case RT_ALL_GATHERV:
        return (struct exchange_part){in, out_r, c->counts[n->rank], c->counts[r]};
    case RT_SCATTER:
        return (struct exchange_part){root ? in_r : NULL, to_root ? out : NULL, c->n, c->n};
    case RT_GATHER:
        return (struct exchange_part){to_root ? in : NULL, root ? out_r : NULL, c->n, c->n};
    case RT_ALL_TO_ALL:
        return (struct exchange_part){in_r, out_r, c->n, c->n};
    case RT_ALL_TO_ALLV:
        return (struct exchange_part){in_r, out_r, c->counts[r], c->out_counts[r]};
    case RT_SEND:
        return (struct exchange_part){.send = to_root ? in : NULL, .n_send = c->n};
    case RT_RECV:
        return (struct exchange_part){.recv = to_root ? out : NULL, .n_recv = c->n};
    default:
        return (struct exchange_part){0};
    }
}

/* Calls that NCCL lacks, as a group of sends and receives that run at the same time. */
static int parts(struct nccl *n, const struct rt_coll *c, struct nccl_cuda_stream *stream) {
    const struct nccl_functions *f = &n->call;
    int type = types[c->dtype];
    size_t at[2] = {0, 0};
    int result = f->group_start();
    if (result) {
        return result;
    }
    for (uint32_t r = 0; r < n->size && result == 0; r++) {
        struct exchange_part p = part_of(n, c, r, at);
        bool in_place = r == n->rank && p.send == p.recv;
        if (p.send && p.n_send > 0 && !in_place) {
            result = f->send(p.send, p.n_send, type, (int)r, n->comm, stream);
        }
        if (p.recv && p.n_recv > 0 && !in_place && result == 0) {
            result = f->recv(p.recv, p.n_recv, type, (int)r, n->comm, stream);
        }
        at[0] += c->kind == RT_ALL_TO_ALLV ? c->counts[r] : c->n;
        at[1] += c->kind == RT_ALL_TO_ALLV   ? c->out_counts[r]
                 : c->kind == RT_ALL_GATHERV ? c->counts[r]
                                             : c->n;
    }
    int ended = f->group_end();
    return result ? result : ended;
}

static int call(struct nccl *n, const struct rt_coll *c, void *one, void *stream) {
    const struct nccl_functions *f = &n->call;
    struct rt_nccl_comm *comm = n->comm;
    int type = types[c->dtype], op = reductions[c->op < RT_OPS ? c->op : 0], root = (int)c->root,
        result;
    switch (c->kind) {
    case RT_ALL_REDUCE:
        result = f->all_reduce(c->in, c->out, c->n, type, op, comm, stream);
        break;
    case RT_REDUCE:
        result = f->reduce(c->in, c->out, c->n, type, op, root, comm, stream);
        break;
    case RT_BROADCAST:
        result = f->broadcast(c->out, c->out, c->n, type, root, comm, stream);
        break;
    case RT_ALL_GATHER:
        result = f->all_gather(c->in, c->out, c->n, type, comm, stream);
        break;
    case RT_REDUCE_SCATTER:
        result = f->reduce_scatter(c->in, c->out, c->n, type, op, comm, stream);
        break;
    case RT_BARRIER:
        result = f->all_reduce(one, one, 1, NCCL_F32, NCCL_SUM, comm, stream);
        break;
    case RT_ALL_TO_ALL:
        result = f->all_to_all ? f->all_to_all(c->in, c->out, c->n, type, comm, stream)
                               : parts(n, c, stream);
        break;
    default:
        result = parts(n, c, stream);
        break;
    }
    return result;
}

int nccl_call(struct nccl *n, const struct rt_coll *calls, uint32_t n_calls, void *one,
    void *stream, struct co_err *err) {
    int result = n_calls > 1 ? n->call.group_start() : 0;
    if (result == 0) {
        for (uint32_t i = 0; i < n_calls && result == 0; i++) {
            result = call(n, &calls[i], one, stream);
        }
        int ended = n_calls > 1 ? n->call.group_end() : 0;
        result = result ? result : ended;
    }
    return check(n, result, rt_kind_name(calls[0].kind), err);
}
