/* The part of NCCL's ABI that is used here, as it is since NCCL 2.18.  The names are ours;
 * numbers and layouts are NVIDIA's, and `make nccl-test` compares them with its headers.  For
 * nccl.c and tests alone. */
#pragma once

#include <limits.h>
#include <stddef.h>

enum { NCCL_OLDEST = 21800, NCCL_ID_SIZE = 128 };

enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_CUDA = 1,
    NCCL_SYSTEM = 2,
    NCCL_INTERNAL = 3,
    NCCL_ARGUMENT = 4,
    NCCL_USAGE = 5,
    NCCL_REMOTE = 6,
    NCCL_IN_PROGRESS = 7,
};

enum nccl_type {
    NCCL_U8 = 1,
    NCCL_I32 = 2,
    NCCL_I64 = 4,
    NCCL_F16 = 6,
    NCCL_F32 = 7,
    NCCL_F64 = 8,
    NCCL_BF16 = 9,
};

enum nccl_reduction {
    NCCL_SUM = 0,
    NCCL_PROD = 1,
    NCCL_MAX = 2,
    NCCL_MIN = 3,
    NCCL_AVG = 4,
};

/* NCCL reads `size` bytes of it, and uses its defaults for the rest. */
struct nccl_config {
    size_t size;
    unsigned magic;
    unsigned version; /* of the interface that this struct follows */
    int blocking;
    int cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};
enum { NCCL_UNDEFINED = INT_MIN };
#define NCCL_MAGIC 0xcafebeefU
#define NCCL_CONFIG                                                                                \
    (struct nccl_config) {                                                                         \
        .size = sizeof(struct nccl_config), .magic = NCCL_MAGIC, .version = NCCL_OLDEST,           \
        .blocking = 0, .cluster_size = NCCL_UNDEFINED, .min_ctas = NCCL_UNDEFINED,                 \
        .max_ctas = NCCL_UNDEFINED, .split_share = NCCL_UNDEFINED                                  \
    }

struct nccl_id {
    char bytes[NCCL_ID_SIZE];
};

struct rt_nccl_comm;
struct nccl_cuda_stream;

struct nccl_functions {
    int (*version)(int *ret);
    const char *(*error_string)(int result);
    const char *(*last_error)(struct rt_nccl_comm *comm);
    int (*unique_id)(struct nccl_id *ret);
    int (*init)(struct rt_nccl_comm **ret, int size, struct nccl_id id, int rank,
        struct nccl_config *config);
    int (*async_error)(struct rt_nccl_comm *comm, int *ret);
    int (*finalize)(struct rt_nccl_comm *comm);
    int (*destroy)(struct rt_nccl_comm *comm);
    int (*abort)(struct rt_nccl_comm *comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *in, void *out, size_t n, int type, int op,
        struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream);
    int (*reduce)(const void *in, void *out, size_t n, int type, int op, int root,
        struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream);
    int (*broadcast)(const void *in, void *out, size_t n, int type, int root,
        struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream);
    int (*all_gather)(const void *in, void *out, size_t n, int type, struct rt_nccl_comm *comm,
        struct nccl_cuda_stream *stream);
    int (*reduce_scatter)(const void *in, void *out, size_t n, int type, int op,
        struct rt_nccl_comm *comm, struct nccl_cuda_stream *stream);
    int (*send)(const void *in, size_t n, int type, int to, struct rt_nccl_comm *comm,
        struct nccl_cuda_stream *stream);
    int (*recv)(void *out, size_t n, int type, int from, struct rt_nccl_comm *comm,
        struct nccl_cuda_stream *stream);
    int (*all_to_all)(const void *in, void *out, size_t n, int type, struct rt_nccl_comm *comm,
        struct nccl_cuda_stream *stream);
};

/* X(member, name in the library, optional) */
#define NCCL_SYMBOLS(X)                                                                            \
    X(version, ncclGetVersion, false)                                                              \
    X(error_string, ncclGetErrorString, false)                                                     \
    X(last_error, ncclGetLastError, false)                                                         \
    X(unique_id, ncclGetUniqueId, false)                                                           \
    X(init, ncclCommInitRankConfig, false)                                                         \
    X(async_error, ncclCommGetAsyncError, false)                                                   \
    X(finalize, ncclCommFinalize, false)                                                           \
    X(destroy, ncclCommDestroy, false)                                                             \
    X(abort, ncclCommAbort, false)                                                                 \
    X(group_start, ncclGroupStart, false)                                                          \
    X(group_end, ncclGroupEnd, false)                                                              \
    X(all_reduce, ncclAllReduce, false)                                                            \
    X(reduce, ncclReduce, false)                                                                   \
    X(broadcast, ncclBroadcast, false)                                                             \
    X(all_gather, ncclAllGather, false)                                                            \
    X(reduce_scatter, ncclReduceScatter, false)                                                    \
    X(send, ncclSend, false)                                                                       \
    X(recv, ncclRecv, false)                                                                       \
    X(all_to_all, ncclAlltoAll, true) /* since 2.28 */
