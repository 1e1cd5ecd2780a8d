/* The part of the CUDA driver's ABI that is used here, so that no CUDA headers are needed to build.
 * The names are ours; numbers and layouts are NVIDIA's, and `make nccl-test` compares them with its
 * header.  For cuda.c and tests alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef uint64_t nccl_cuda_address; /* of device memory; the same number as the pointer */

enum nccl_cuda_result {
    NCCL_CUDA_SUCCESS = 0,
    NCCL_CUDA_INVALID_VALUE = 1,
    NCCL_CUDA_OUT_OF_MEMORY = 2,
    NCCL_CUDA_NOT_INITIALIZED = 3,
    NCCL_CUDA_NO_DEVICE = 100,
    NCCL_CUDA_INVALID_DEVICE = 101,
    NCCL_CUDA_INVALID_CONTEXT = 201,
    NCCL_CUDA_NOT_READY = 600,
    NCCL_CUDA_CAPTURE_UNSUPPORTED = 900,
    NCCL_CUDA_CAPTURE_IMPLICIT = 906,
};

enum {
    NCCL_CUDA_CAPTURE_NONE = 0,        /* what a stream is doing */
    NCCL_CUDA_STREAM_NON_BLOCKING = 1, /* does not wait for the default stream */
    NCCL_CUDA_EVENT_NO_TIMING = 2,
    NCCL_CUDA_POINTER_ORDINAL = 9, /* attribute of a pointer: its device, an int */
    NCCL_CUDA_UUID_BYTES = 16,
};

struct rt_cuda_context;
struct nccl_cuda_stream;
struct rt_cuda_event;

struct nccl_cuda_uuid {
    char bytes[NCCL_CUDA_UUID_BYTES];
};

struct nccl_cuda_functions {
    int (*init)(unsigned flags);
    int (*error_string)(int result, const char **ret);
    int (*device_count)(int *ret);
    int (*device)(int *ret, int ordinal);
    int (*uuid)(struct nccl_cuda_uuid *ret, int device);
    int (*context_retain)(struct rt_cuda_context **ret, int device);
    int (*context_release)(int device);
    int (*context_push)(struct rt_cuda_context *context);
    int (*context_pop)(struct rt_cuda_context **ret);
    int (*memory_alloc)(nccl_cuda_address *ret, size_t bytes);
    int (*memory_free)(nccl_cuda_address address);
    int (*memory_set)(
        nccl_cuda_address to, unsigned char value, size_t bytes, struct nccl_cuda_stream *stream);
    int (*copy)(nccl_cuda_address to, nccl_cuda_address from, size_t bytes,
        struct nccl_cuda_stream *stream);
    int (*pointer)(void *ret, int attribute, nccl_cuda_address address);
    int (*stream_create)(struct nccl_cuda_stream **ret, unsigned flags);
    int (*stream_destroy)(struct nccl_cuda_stream *stream);
    int (*stream_wait)(struct nccl_cuda_stream *stream);
    int (*stream_capturing)(struct nccl_cuda_stream *stream, int *ret);
    int (*event_create)(struct rt_cuda_event **ret, unsigned flags);
    int (*event_destroy)(struct rt_cuda_event *event);
    int (*event_record)(struct rt_cuda_event *event, struct nccl_cuda_stream *stream);
    int (*event_query)(struct rt_cuda_event *event);
};

/* X(member, name in the library) */
#define NCCL_CUDA_SYMBOLS(X)                                                                       \
    X(init, cuInit)                                                                                \
    X(error_string, cuGetErrorString)                                                              \
    X(device_count, cuDeviceGetCount)                                                              \
    X(device, cuDeviceGet)                                                                         \
    X(uuid, cuDeviceGetUuid_v2)                                                                    \
    X(context_retain, cuDevicePrimaryCtxRetain)                                                    \
    X(context_release, cuDevicePrimaryCtxRelease_v2)                                               \
    X(context_push, cuCtxPushCurrent_v2)                                                           \
    X(context_pop, cuCtxPopCurrent_v2)                                                             \
    X(memory_alloc, cuMemAlloc_v2)                                                                 \
    X(memory_free, cuMemFree_v2)                                                                   \
    X(memory_set, cuMemsetD8Async)                                                                 \
    X(copy, cuMemcpyAsync)                                                                         \
    X(pointer, cuPointerGetAttribute)                                                              \
    X(stream_create, cuStreamCreate)                                                               \
    X(stream_destroy, cuStreamDestroy_v2)                                                          \
    X(stream_wait, cuStreamSynchronize)                                                            \
    X(stream_capturing, cuStreamIsCapturing)                                                       \
    X(event_create, cuEventCreate)                                                                 \
    X(event_destroy, cuEventDestroy_v2)                                                            \
    X(event_record, cuEventRecord)                                                                 \
    X(event_query, cuEventQuery)
