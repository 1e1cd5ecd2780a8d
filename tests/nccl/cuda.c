/* A libcuda.so.1 for machines without a GPU: as much of the driver as this project calls, over
 * main memory and threads.  Addresses of "device memory" cannot be read or written, so that code
 * that mistakes them for main memory crashes; a stream is a thread with a queue.
 *
 *     STANDIN_GPUS=N        how many there are; 8
 *     STANDIN_MEMORY=BYTES  of each process; 64 MiB
 *     STANDIN_INIT=CODE     what cuInit answers
 *     STANDIN_SAME=1        all GPUs are the same one */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/train/nccl/cuda_abi.h"
#include "tests/nccl/standin.h"

#define EXPORT __attribute__((visibility("default")))

enum { WINDOW = 512 << 20, PAGE = 4096, DEPTH = 8, DEVICES = 64 };

struct rt_cuda_context {
    int retained;
};

struct work {
    struct work *next;
    void (*run)(void *arg);
    void *arg;
};

struct nccl_cuda_stream {
    struct nccl_cuda_stream *next;
    pthread_t thread;
    struct work *first, **end;
    uint64_t issued, done;
    bool stop, captured;
};

struct rt_cuda_event {
    struct nccl_cuda_stream *stream;
    uint64_t at;
};

struct piece {
    struct piece *next;
    size_t at, bytes;
};

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned char *window, *store; /* what addresses are; what stands for it */
static size_t next_at, used;
static struct piece *pieces;
static struct nccl_cuda_stream *streams;
static int events;
static int captures; /* in mode global */
static bool broken;  /* since the last began */
static struct rt_cuda_context contexts[DEVICES];
static bool begun;
static __thread struct rt_cuda_context *stack[DEPTH];
static __thread int depth;

EXPORT void standin_broken(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    (void)fprintf(stderr, "stand-in: ");
    (void)vfprintf(stderr, fmt, ap);
    (void)fprintf(stderr, "\n");
    va_end(ap);
    abort();
}

EXPORT void *standin_new(size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p) {
        standin_broken("no memory");
    }
    return p;
}

EXPORT void standin_need_context(const char *what) {
    if (depth == 0) {
        standin_broken("%s without a current context", what);
    }
}

static long setting(const char *name, long other) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : other;
}

static struct piece *piece_of(const void *address, size_t bytes) {
    size_t at = (size_t)((const unsigned char *)address - window);
    for (struct piece *p = pieces; p; p = p->next) {
        if (at >= p->at && at - p->at <= p->bytes && bytes <= p->bytes - (at - p->at)) {
            return p;
        }
    }
    return NULL;
}

EXPORT void *standin_memory(const void *address, size_t bytes) {
    pthread_mutex_lock(&m);
    struct piece *p = piece_of(address, bytes);
    pthread_mutex_unlock(&m);
    if (!p) {
        standin_broken("%zu bytes at %p are not memory of a GPU", bytes, address);
    }
    return store + ((const unsigned char *)address - window);
}

/* ---- streams ---- */

static void *stream_run(void *arg) {
    struct nccl_cuda_stream *s = arg;
    pthread_mutex_lock(&m);
    while (s->first || !s->stop) {
        struct work *w = s->first;
        if (!w) {
            pthread_cond_wait(&changed, &m);
            continue;
        }
        s->first = w->next;
        s->end = s->first ? s->end : &s->first;
        pthread_mutex_unlock(&m);
        w->run(w->arg);
        free(w);
        pthread_mutex_lock(&m);
        s->done++;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&m);
    return NULL;
}

EXPORT void standin_enqueue(struct nccl_cuda_stream *stream, void (*run)(void *arg), void *arg) {
    struct work *w = standin_new(sizeof(*w));
    w->run = run;
    w->arg = arg;
    pthread_mutex_lock(&m);
    *stream->end = w;
    stream->end = &w->next;
    stream->issued++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&m);
}

static bool is_stream(const struct nccl_cuda_stream *stream) {
    for (struct nccl_cuda_stream *s = streams; s; s = s->next) {
        if (s == stream) {
            return true;
        }
    }
    return false;
}

/* Under m. */
static void wait_for(const struct nccl_cuda_stream *s, uint64_t at) {
    while (s->done < at) {
        pthread_cond_wait(&changed, &m);
    }
}

EXPORT int cuStreamCreate(struct nccl_cuda_stream **ret, unsigned flags) {
    standin_need_context("cuStreamCreate");
    if (flags != NCCL_CUDA_STREAM_NON_BLOCKING) {
        return NCCL_CUDA_INVALID_VALUE;
    }
    struct nccl_cuda_stream *s = standin_new(sizeof(*s));
    s->end = &s->first;
    pthread_mutex_lock(&m);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&m);
    if (pthread_create(&s->thread, NULL, stream_run, s)) {
        abort();
    }
    *ret = s;
    return 0;
}

EXPORT int cuStreamDestroy_v2(struct nccl_cuda_stream *stream) {
    standin_need_context("cuStreamDestroy");
    pthread_mutex_lock(&m);
    if (!is_stream(stream)) {
        standin_broken("cuStreamDestroy of what is no stream");
    }
    struct nccl_cuda_stream **at = &streams;
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    stream->stop = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&m);
    pthread_join(stream->thread, NULL);
    free(stream);
    return 0;
}

EXPORT int cuStreamSynchronize(struct nccl_cuda_stream *stream) {
    standin_need_context("cuStreamSynchronize");
    pthread_mutex_lock(&m);
    wait_for(stream, stream->issued);
    pthread_mutex_unlock(&m);
    return 0;
}

/* ---- captures, in mode global: what is not known to be safe is refused, and breaks them ---- */

EXPORT int cuStreamIsCapturing(const struct nccl_cuda_stream *stream, int *ret) {
    standin_need_context("cuStreamIsCapturing");
    pthread_mutex_lock(&m);
    *ret = stream && stream->captured;
    pthread_mutex_unlock(&m);
    return 0;
}

/* For tests alone. */
EXPORT void standin_capture_begin(struct nccl_cuda_stream *stream) {
    pthread_mutex_lock(&m);
    stream->captured = true;
    broken = false;
    captures++;
    pthread_mutex_unlock(&m);
}

/* Whether the graph is whole. */
EXPORT bool standin_capture_end(struct nccl_cuda_stream *stream) {
    pthread_mutex_lock(&m);
    stream->captured = false;
    captures--;
    bool whole = !broken;
    pthread_mutex_unlock(&m);
    return whole;
}

/* Under m. */
static bool is_unsafe(void) {
    broken |= captures > 0;
    return captures > 0;
}

EXPORT int cuEventCreate(struct rt_cuda_event **ret, unsigned flags) {
    standin_need_context("cuEventCreate");
    pthread_mutex_lock(&m);
    events++;
    pthread_mutex_unlock(&m);
    *ret = standin_new(sizeof(**ret));
    return flags == NCCL_CUDA_EVENT_NO_TIMING ? 0 : NCCL_CUDA_INVALID_VALUE;
}

EXPORT int cuEventDestroy_v2(struct rt_cuda_event *event) {
    standin_need_context("cuEventDestroy");
    pthread_mutex_lock(&m);
    events--;
    pthread_mutex_unlock(&m);
    free(event);
    return 0;
}

EXPORT int cuEventRecord(struct rt_cuda_event *event, struct nccl_cuda_stream *stream) {
    standin_need_context("cuEventRecord");
    pthread_mutex_lock(&m);
    event->stream = stream;
    event->at = stream->issued;
    pthread_mutex_unlock(&m);
    return 0;
}

EXPORT int cuEventQuery(struct rt_cuda_event *event) {
    standin_need_context("cuEventQuery");
    pthread_mutex_lock(&m);
    bool done = !event->stream || event->stream->done >= event->at;
    bool unsafe = is_unsafe();
    pthread_mutex_unlock(&m);
    return unsafe ? NCCL_CUDA_CAPTURE_UNSUPPORTED : done ? 0 : NCCL_CUDA_NOT_READY;
}

/* ---- devices and contexts ---- */

EXPORT int cuInit(unsigned flags) {
    long code = setting("STANDIN_INIT", 0);
    begun = code == 0 && flags == 0;
    return (int)code;
}

EXPORT int cuGetErrorString(int result, const char **ret) {
    *ret = result == NCCL_CUDA_OUT_OF_MEMORY ? "out of memory"
           : result == NCCL_CUDA_NO_DEVICE   ? "no CUDA-capable device is detected"
                                             : "an error of the stand-in";
    return 0;
}

EXPORT int cuDeviceGetCount(int *ret) {
    *ret = (int)setting("STANDIN_GPUS", 8);
    return begun ? 0 : NCCL_CUDA_NOT_INITIALIZED;
}

EXPORT int cuDeviceGet(int *ret, int ordinal) {
    *ret = ordinal;
    return ordinal >= 0 && ordinal < setting("STANDIN_GPUS", 8) ? 0 : NCCL_CUDA_INVALID_DEVICE;
}

EXPORT int cuDeviceGetUuid_v2(struct nccl_cuda_uuid *ret, int device) {
    memset(ret, 0, sizeof(*ret));
    ret->bytes[0] = (char)(setting("STANDIN_SAME", 0) ? 0 : device);
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(struct rt_cuda_context **ret, int device) {
    pthread_mutex_lock(&m);
    if (!window) {
        window = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        store = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    contexts[device].retained++;
    pthread_mutex_unlock(&m);
    *ret = &contexts[device];
    return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    pthread_mutex_lock(&m);
    int all = 0;
    contexts[device].retained--;
    for (int i = 0; i < DEVICES; i++) {
        all += contexts[i].retained;
    }
    if (contexts[device].retained < 0 || (all == 0 && (pieces || streams || events))) {
        standin_broken("a context goes while there are%s%s%s", pieces ? " memory" : "",
            streams ? " streams" : "", events ? " events" : "");
    }
    pthread_mutex_unlock(&m);
    return 0;
}

EXPORT int cuCtxPushCurrent_v2(struct rt_cuda_context *context) {
    if (depth == DEPTH) {
        standin_broken("contexts are pushed and not popped");
    }
    stack[depth++] = context;
    return 0;
}

EXPORT int cuCtxPopCurrent_v2(struct rt_cuda_context **ret) {
    standin_need_context("cuCtxPopCurrent");
    *ret = stack[--depth];
    return 0;
}

/* ---- memory ---- */

EXPORT int cuMemAlloc_v2(nccl_cuda_address *ret, size_t bytes) {
    standin_need_context("cuMemAlloc");
    size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes == 0) {
        return NCCL_CUDA_INVALID_VALUE;
    }
    if (room < bytes || room > WINDOW - next_at ||
        used + room > (size_t)setting("STANDIN_MEMORY", 64 << 20)) {
        return NCCL_CUDA_OUT_OF_MEMORY;
    }
    struct piece *p = standin_new(sizeof(*p));
    pthread_mutex_lock(&m);
    *p = (struct piece){.next = pieces, .at = next_at, .bytes = bytes};
    pieces = p;
    next_at += room; /* never used twice: who uses what has been freed is found out */
    used += room;
    memset(store + p->at, 0xa5, bytes);
    pthread_mutex_unlock(&m);
    *ret = (nccl_cuda_address)(uintptr_t)(window + p->at);
    return 0;
}

/* As the driver's, waits for all that is queued. */
EXPORT int cuMemFree_v2(nccl_cuda_address address) {
    standin_need_context("cuMemFree");
    const unsigned char *start = (const unsigned char *)(uintptr_t)address;
    pthread_mutex_lock(&m);
    for (struct nccl_cuda_stream *s = streams; s; s = s->next) {
        wait_for(s, s->issued);
    }
    struct piece **at = &pieces;
    while (*at && (*at)->at != (size_t)(start - window)) {
        at = &(*at)->next;
    }
    struct piece *p = *at;
    if (!p) {
        standin_broken("cuMemFree of what was not allocated");
    }
    *at = p->next;
    used -= (p->bytes + PAGE - 1) / PAGE * PAGE;
    free(p);
    pthread_mutex_unlock(&m);
    return 0;
}

EXPORT int cuPointerGetAttribute(void *ret, int attribute, nccl_cuda_address address) {
    standin_need_context("cuPointerGetAttribute");
    pthread_mutex_lock(&m);
    struct piece *p = piece_of((const void *)(uintptr_t)address, 0);
    pthread_mutex_unlock(&m);
    if (!p || attribute != NCCL_CUDA_POINTER_ORDINAL) {
        return NCCL_CUDA_INVALID_VALUE;
    }
    *(int *)ret = 0;
    return 0;
}

struct move {
    void *to;
    const void *from; /* NULL: filled with value */
    size_t bytes;
    unsigned char value;
};

static void move_run(void *arg) {
    struct move *v = arg;
    if (v->from) {
        memcpy(v->to, v->from, v->bytes);
    } else {
        memset(v->to, v->value, v->bytes);
    }
    free(v);
}

static int move(struct nccl_cuda_stream *stream, struct move what) {
    standin_need_context("a copy");
    struct move *v = standin_new(sizeof(*v));
    *v = what;
    standin_enqueue(stream, move_run, v);
    return 0;
}

EXPORT int cuMemsetD8Async(
    nccl_cuda_address to, unsigned char value, size_t bytes, struct nccl_cuda_stream *stream) {
    void *at = standin_memory((const void *)(uintptr_t)to, bytes);
    return move(stream, (struct move){.to = at, .bytes = bytes, .value = value});
}

/* What is no memory of a GPU is main memory, as for the driver. */
static void *either(nccl_cuda_address address, size_t bytes) {
    unsigned char *p = (unsigned char *)(uintptr_t)address;
    bool device = p >= window && p < window + WINDOW;
    return device ? standin_memory(p, bytes) : p;
}

EXPORT int cuMemcpyAsync(
    nccl_cuda_address to, nccl_cuda_address from, size_t bytes, struct nccl_cuda_stream *stream) {
    return move(stream,
        (struct move){.to = either(to, bytes), .from = either(from, bytes), .bytes = bytes});
}
