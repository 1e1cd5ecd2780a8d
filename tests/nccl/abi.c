/* Compares cuda_abi.h and nccl_abi.h with NVIDIA's own headers, by compiling: values and layouts
 * are asserted, and each function takes our arguments and passes them on to theirs.  Only `make
 * nccl-test` has the headers, and defines WHEEL. */
#ifdef WHEEL
#include <cuda.h>
#include <nccl.h>

#include "runtime/train/nccl/cuda_abi.h"
#include "runtime/train/nccl/nccl_abi.h"

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)

SAME(NCCL_CUDA_SUCCESS, CUDA_SUCCESS);
SAME(NCCL_CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(NCCL_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(NCCL_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(NCCL_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(NCCL_CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(NCCL_CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(NCCL_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(NCCL_CUDA_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(NCCL_CUDA_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(NCCL_CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(NCCL_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(NCCL_CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(NCCL_CUDA_POINTER_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(sizeof(struct nccl_cuda_uuid), sizeof(CUuuid));
SAME(sizeof(nccl_cuda_address), sizeof(CUdeviceptr));
SAME(sizeof(int), sizeof(CUdevice));
SAME(sizeof(int), sizeof(CUresult));

SAME(NCCL_SUCCESS, ncclSuccess);
SAME(NCCL_CUDA, ncclUnhandledCudaError);
SAME(NCCL_SYSTEM, ncclSystemError);
SAME(NCCL_INTERNAL, ncclInternalError);
SAME(NCCL_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_USAGE, ncclInvalidUsage);
SAME(NCCL_REMOTE, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_U8, ncclUint8);
SAME(NCCL_I32, ncclInt32);
SAME(NCCL_I64, ncclInt64);
SAME(NCCL_F16, ncclFloat16);
SAME(NCCL_F32, ncclFloat32);
SAME(NCCL_F64, ncclFloat64);
SAME(NCCL_BF16, ncclBfloat16);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_PROD, ncclProd);
SAME(NCCL_MAX, ncclMax);
SAME(NCCL_MIN, ncclMin);
SAME(NCCL_AVG, ncclAvg);
SAME(sizeof(struct nccl_id), sizeof(ncclUniqueId));
SAME(sizeof(int), sizeof(ncclResult_t));
SAME(sizeof(int), sizeof(ncclDataType_t));
SAME(sizeof(int), sizeof(ncclRedOp_t));
SAME(NCCL_OLDEST, NCCL_VERSION(2, 18, 0));
SAME(NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);

/* Theirs has grown at its end since. */
#define FIELD(ours, theirs) SAME(offsetof(struct nccl_config, ours), offsetof(ncclConfig_t, theirs))
FIELD(size, size);
FIELD(magic, magic);
FIELD(version, version);
FIELD(blocking, blocking);
FIELD(cluster_size, cgaClusterSize);
FIELD(min_ctas, minCTAs);
FIELD(max_ctas, maxCTAs);
FIELD(net_name, netName);
FIELD(split_share, splitShare);
_Static_assert(sizeof(struct nccl_config) <= sizeof(ncclConfig_t), "theirs has what ours has");
#ifdef NCCL_API_MAGIC
SAME(NCCL_MAGIC, NCCL_API_MAGIC);
#endif

/* ---- functions: ours are called, theirs are what they do ---- */

typedef struct nccl_cuda_stream stream_t;
typedef struct rt_cuda_event event_t;
typedef struct rt_cuda_context context_t;
typedef struct rt_nccl_comm comm_t;

static int init(unsigned flags) {
    return (int)cuInit(flags);
}
static int error_string(int result, const char **ret) {
    return (int)cuGetErrorString((CUresult)result, ret);
}
static int device_count(int *ret) {
    return (int)cuDeviceGetCount(ret);
}
static int device(int *ret, int ordinal) {
    return (int)cuDeviceGet(ret, ordinal);
}
static int uuid(struct nccl_cuda_uuid *ret, int dev) {
    return (int)cuDeviceGetUuid_v2((CUuuid *)ret, dev);
}
static int context_retain(context_t **ret, int dev) {
    return (int)cuDevicePrimaryCtxRetain((CUcontext *)ret, dev);
}
static int context_release(int dev) {
    return (int)cuDevicePrimaryCtxRelease_v2(dev);
}
static int context_push(context_t *context) {
    return (int)cuCtxPushCurrent_v2((CUcontext)context);
}
static int context_pop(context_t **ret) {
    return (int)cuCtxPopCurrent_v2((CUcontext *)ret);
}
static int memory_alloc(nccl_cuda_address *ret, size_t bytes) {
    return (int)cuMemAlloc_v2((CUdeviceptr *)ret, bytes);
}
static int memory_free(nccl_cuda_address address) {
    return (int)cuMemFree_v2(address);
}
static int memory_set(nccl_cuda_address to, unsigned char value, size_t bytes, stream_t *stream) {
    return (int)cuMemsetD8Async(to, value, bytes, (CUstream)stream);
}
static int copy(nccl_cuda_address to, nccl_cuda_address from, size_t bytes, stream_t *stream) {
    return (int)cuMemcpyAsync(to, from, bytes, (CUstream)stream);
}
static int pointer(void *ret, int attribute, nccl_cuda_address address) {
    return (int)cuPointerGetAttribute(ret, (CUpointer_attribute)attribute, address);
}
static int stream_create(stream_t **ret, unsigned flags) {
    return (int)cuStreamCreate((CUstream *)ret, flags);
}
static int stream_destroy(stream_t *stream) {
    return (int)cuStreamDestroy_v2((CUstream)stream);
}
static int stream_wait(stream_t *stream) {
    return (int)cuStreamSynchronize((CUstream)stream);
}
static int stream_capturing(stream_t *stream, int *ret) {
    return (int)cuStreamIsCapturing((CUstream)stream, (CUstreamCaptureStatus *)ret);
}
static int event_create(event_t **ret, unsigned flags) {
    return (int)cuEventCreate((CUevent *)ret, flags);
}
static int event_destroy(event_t *event) {
    return (int)cuEventDestroy_v2((CUevent)event);
}
static int event_record(event_t *event, stream_t *stream) {
    return (int)cuEventRecord((CUevent)event, (CUstream)stream);
}
static int event_query(event_t *event) {
    return (int)cuEventQuery((CUevent)event);
}

#define MEMBER(member, symbol) .member = member,
extern const struct nccl_cuda_functions rt_cuda_theirs;
const struct nccl_cuda_functions rt_cuda_theirs = {NCCL_CUDA_SYMBOLS(MEMBER)};
#undef MEMBER

#define TYPE(type) ((ncclDataType_t)(type))
#define OP(op) ((ncclRedOp_t)(op))
#define COMM(comm) ((ncclComm_t)(comm))
#define STREAM(stream) ((cudaStream_t)(stream))

static int version(int *ret) {
    return (int)ncclGetVersion(ret);
}
static const char *nccl_error_string(int result) {
    return ncclGetErrorString((ncclResult_t)result);
}
static const char *last_error(comm_t *comm) {
    return ncclGetLastError(COMM(comm));
}
static int unique_id(struct nccl_id *ret) {
    return (int)ncclGetUniqueId((ncclUniqueId *)ret);
}
static int nccl_init(
    comm_t **ret, int size, struct nccl_id id, int rank, struct nccl_config *config) {
    ncclUniqueId theirs;
    __builtin_memcpy(&theirs, &id, sizeof(theirs));
    return (int)ncclCommInitRankConfig(
        (ncclComm_t *)ret, size, theirs, rank, (ncclConfig_t *)config);
}
static int async_error(comm_t *comm, int *ret) {
    return (int)ncclCommGetAsyncError(COMM(comm), (ncclResult_t *)ret);
}
static int finalize(comm_t *comm) {
    return (int)ncclCommFinalize(COMM(comm));
}
static int destroy(comm_t *comm) {
    return (int)ncclCommDestroy(COMM(comm));
}
static int nccl_abort(comm_t *comm) {
    return (int)ncclCommAbort(COMM(comm));
}
static int group_start(void) {
    return (int)ncclGroupStart();
}
static int group_end(void) {
    return (int)ncclGroupEnd();
}
static int all_reduce(
    const void *in, void *out, size_t n, int type, int op, comm_t *comm, stream_t *stream) {
    return (int)ncclAllReduce(in, out, n, TYPE(type), OP(op), COMM(comm), STREAM(stream));
}
static int reduce(const void *in, void *out, size_t n, int type, int op, int root, comm_t *comm,
    stream_t *stream) {
    return (int)ncclReduce(in, out, n, TYPE(type), OP(op), root, COMM(comm), STREAM(stream));
}
static int broadcast(
    const void *in, void *out, size_t n, int type, int root, comm_t *comm, stream_t *stream) {
    return (int)ncclBroadcast(in, out, n, TYPE(type), root, COMM(comm), STREAM(stream));
}
static int all_gather(
    const void *in, void *out, size_t n, int type, comm_t *comm, stream_t *stream) {
    return (int)ncclAllGather(in, out, n, TYPE(type), COMM(comm), STREAM(stream));
}
static int reduce_scatter(
    const void *in, void *out, size_t n, int type, int op, comm_t *comm, stream_t *stream) {
    return (int)ncclReduceScatter(in, out, n, TYPE(type), OP(op), COMM(comm), STREAM(stream));
}
static int nccl_send(const void *in, size_t n, int type, int to, comm_t *comm, stream_t *stream) {
    return (int)ncclSend(in, n, TYPE(type), to, COMM(comm), STREAM(stream));
}
static int nccl_recv(void *out, size_t n, int type, int from, comm_t *comm, stream_t *stream) {
    return (int)ncclRecv(out, n, TYPE(type), from, COMM(comm), STREAM(stream));
}
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static int all_to_all(
    const void *in, void *out, size_t n, int type, comm_t *comm, stream_t *stream) {
    return (int)ncclAlltoAll(in, out, n, TYPE(type), COMM(comm), STREAM(stream));
}
#else
#define all_to_all NULL
#endif

extern const struct nccl_functions rt_nccl_theirs;
const struct nccl_functions rt_nccl_theirs = {
    version,
    nccl_error_string,
    last_error,
    unique_id,
    nccl_init,
    async_error,
    finalize,
    destroy,
    nccl_abort,
    group_start,
    group_end,
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    nccl_send,
    nccl_recv,
    all_to_all,
};
#endif
