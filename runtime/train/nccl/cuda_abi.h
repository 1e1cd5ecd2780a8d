/* The part of the CUDA driver's ABI that is used here, so that no CUDA headers are needed to build.
 * The names are ours; numbers and layouts are NVIDIA's, and `make nccl-test` compares them with its
 * header.  For cuda.c and tests alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef uint64_t rt_cuda_address; /* of device memory; the same number as the pointer */

enum rt_cuda_result {
    RT_CUDA_SUCCESS = 0,
    RT_CUDA_INVALID_VALUE = 1,
    RT_CUDA_OUT_OF_MEMORY = 2,
    RT_CUDA_NOT_INITIALIZED = 3,
    RT_CUDA_NO_DEVICE = 100,
    RT_CUDA_INVALID_DEVICE = 101,
    RT_CUDA_INVALID_CONTEXT = 201,
    RT_CUDA_NOT_READY = 600,
};

enum {
    RT_CUDA_STREAM_NON_BLOCKING = 1, /* does not wait for the default stream */
    RT_CUDA_EVENT_NO_TIMING = 2,
    RT_CUDA_POINTER_ORDINAL = 9, /* attribute of a pointer: its device, an int */
    RT_CUDA_UUID_BYTES = 16,
};

struct rt_cuda_context;
struct rt_cuda_stream;
struct rt_cuda_event;

struct rt_cuda_uuid {
    char bytes[RT_CUDA_UUID_BYTES];
};

struct rt_cuda_functions {
    int (*init)(unsigned flags);
    int (*error_string)(int result, const char **ret);
    int (*device_count)(int *ret);
    int (*device)(int *ret, int ordinal);
    int (*uuid)(struct rt_cuda_uuid *ret, int device);
    int (*context_retain)(struct rt_cuda_context **ret, int device);
    int (*context_release)(int device);
    int (*context_push)(struct rt_cuda_context *context);
    int (*context_pop)(struct rt_cuda_context **ret);
    int (*memory_alloc)(rt_cuda_address *ret, size_t bytes);
    int (*memory_free)(rt_cuda_address address);
    int (*memory_set)(
        rt_cuda_address to, unsigned char value, size_t bytes, struct rt_cuda_stream *stream);
    int (*copy)(
        rt_cuda_address to, rt_cuda_address from, size_t bytes, struct rt_cuda_stream *stream);
    int (*pointer)(void *ret, int attribute, rt_cuda_address address);
    int (*stream_create)(struct rt_cuda_stream **ret, unsigned flags);
    int (*stream_destroy)(struct rt_cuda_stream *stream);
    int (*stream_wait)(struct rt_cuda_stream *stream);
    int (*event_create)(struct rt_cuda_event **ret, unsigned flags);
    int (*event_destroy)(struct rt_cuda_event *event);
    int (*event_record)(struct rt_cuda_event *event, struct rt_cuda_stream *stream);
    int (*event_query)(struct rt_cuda_event *event);
};

/* X(member, name in the library) */
#define RT_CUDA_SYMBOLS(X)                                                                         \
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
    X(event_create, cuEventCreate)                                                                 \
    X(event_destroy, cuEventDestroy_v2)                                                            \
    X(event_record, cuEventRecord)                                                                 \
    X(event_query, cuEventQuery)
