/* Loads the CUDA driver and does what a group needs of it: a context, memory, copies, events. */
#include "runtime/train/nccl/cuda.h"

#include "common/library.h"
#include "common/mem.h"
#include "runtime/train/nccl/cuda_abi.h"

struct device_block {
    struct device_block *next;
    nccl_cuda_address address;
};

struct nccl_cuda {
    struct nccl_cuda_functions call;
    int device;
    uint32_t ordinal;
    struct nccl_cuda_uuid uuid;
    struct rt_cuda_context *context;
    struct nccl_cuda_stream *calls, *copies;
    struct rt_cuda_event *mark;
    struct device_block *memory; /* owned; what has been allocated and not freed */
};

#define SYMBOL(member, symbol)                                                                     \
    {.name = #symbol, .offset = offsetof(struct nccl_cuda_functions, member)},
static const struct co_symbol symbols[] = {NCCL_CUDA_SYMBOLS(SYMBOL)};

static int code_of(int result) {
    switch (result) {
    case NCCL_CUDA_OUT_OF_MEMORY:
        return CO_NOMEMORY;
    case NCCL_CUDA_NO_DEVICE:
        return CO_UNSUPPORTED;
    default:
        return CO_INTERNAL;
    }
}

static int failed(
    const struct nccl_cuda_functions *f, int result, const char *what, struct co_err *err) {
    const char *text = NULL;
    if (f->error_string(result, &text) != NCCL_CUDA_SUCCESS || !text) {
        text = "unknown";
    }
    return co_err_set(err, code_of(result), "CUDA: %s: %s (%d)", what, text, result);
}

/* Loads the driver.  Any failure here means that there is no usable GPU. */
static int load(struct nccl_cuda_functions *ret, uint32_t *ret_count, struct co_err *err) {
    int rc = co_library_open(NULL, "libcuda.so.1", symbols, CO_ARRAY_LEN(symbols), ret, err);
    if (rc < 0) {
        return co_err_wrap(err, "no driver of NVIDIA GPUs");
    }
    int count = 0, result = ret->init(0);
    result = result ? result : ret->device_count(&count);
    if (result == 0 && count < 1) {
        result = NCCL_CUDA_NO_DEVICE;
    }
    if (result) {
        struct co_err why = {0};
        (void)failed(ret, result, "look for GPUs", &why);
        bool forked = result == NCCL_CUDA_NOT_INITIALIZED;
        return co_err_set(err, CO_UNSUPPORTED, "%s%s", co_err_text(&why),
            forked ? ": a process that was forked from one with CUDA has none, expected a new one"
                   : "");
    }
    *ret_count = (uint32_t)count;
    return 0;
}

int nccl_cuda_count(uint32_t *ret, struct co_err *err) {
    struct nccl_cuda_functions f;
    return load(&f, ret, err);
}

CO_DEFINE_CLEANUP(struct nccl_cuda *, nccl_cuda_close)

/* Between enter and leave. */
static int make(struct nccl_cuda *c, struct co_err *err) {
    int result = c->call.stream_create(&c->calls, NCCL_CUDA_STREAM_NON_BLOCKING);
    result = result ? result : c->call.stream_create(&c->copies, NCCL_CUDA_STREAM_NON_BLOCKING);
    result = result ? result : c->call.event_create(&c->mark, NCCL_CUDA_EVENT_NO_TIMING);
    return result ? failed(&c->call, result, "a stream", err) : 0;
}

int nccl_cuda_open(uint32_t ordinal, struct nccl_cuda **ret, struct co_err *err) {
    CO_CLEANUP(nccl_cuda_closep) struct nccl_cuda *c = co_xcalloc(1, sizeof(*c));
    uint32_t count = 0;
    CO_TRY(load(&c->call, &count, err));
    if (ordinal >= count) {
        return co_err_set(err, CO_INVALID, "no GPU %u: this process sees %u", ordinal, count);
    }
    c->ordinal = ordinal;
    int result = c->call.device(&c->device, (int)ordinal);
    result = result ? result : c->call.uuid(&c->uuid, c->device);
    result = result ? result : c->call.context_retain(&c->context, c->device);
    if (result) {
        return failed(&c->call, result, "open a GPU", err);
    }
    int rc = nccl_cuda_enter(c, err);
    if (rc == 0) {
        rc = make(c, err);
        nccl_cuda_leave(c);
    }
    if (rc < 0) {
        return rc;
    }
    *ret = co_steal_ptr(c);
    return 0;
}

void nccl_cuda_close(struct nccl_cuda *c) {
    if (!c) {
        return;
    }
    if (c->context && nccl_cuda_enter(c, NULL) == 0) {
        for (struct device_block *p = c->memory, *next; p; p = next) {
            next = p->next;
            (void)c->call.memory_free(p->address);
            free(p);
        }
        if (c->mark) {
            (void)c->call.event_destroy(c->mark);
        }
        if (c->copies) {
            (void)c->call.stream_destroy(c->copies);
        }
        if (c->calls) {
            (void)c->call.stream_destroy(c->calls);
        }
        nccl_cuda_leave(c);
    }
    if (c->context) {
        (void)c->call.context_release(c->device);
    }
    free(c);
}

const void *nccl_cuda_id(const struct nccl_cuda *c) {
    return c->uuid.bytes;
}

void *nccl_cuda_stream(const struct nccl_cuda *c) {
    return c->calls;
}

int nccl_cuda_enter(struct nccl_cuda *c, struct co_err *err) {
    int result = c->call.context_push(c->context);
    return result ? failed(&c->call, result, "use a GPU's context", err) : 0;
}

void nccl_cuda_leave(struct nccl_cuda *c) {
    struct rt_cuda_context *own = NULL;
    (void)c->call.context_pop(&own);
}

/* ---- memory ---- */

static nccl_cuda_address address_of(const void *memory) {
    return (nccl_cuda_address)(uintptr_t)memory;
}

/* Waits for a copy or a fill.  result: of the call that began it. */
static int finish(struct nccl_cuda *c, int result, const char *what, struct co_err *err) {
    result = result ? result : c->call.stream_wait(c->copies);
    return result ? failed(&c->call, result, what, err) : 0;
}

int nccl_cuda_alloc(struct nccl_cuda *c, size_t bytes, void **ret, struct co_err *err) {
    int rc = nccl_cuda_enter(c, err);
    if (rc < 0) {
        return rc;
    }
    CO_AUTOFREE struct device_block *p = co_xcalloc(1, sizeof(*p));
    size_t some = bytes ? bytes : 1; /* CUDA refuses to allocate 0 bytes */
    int result = c->call.memory_alloc(&p->address, some);
    if (result) {
        rc = failed(&c->call, result, "allocate memory", err);
        (void)co_err_wrap(err, "%zu bytes on GPU %u", bytes, c->ordinal);
    } else {
        rc = finish(c, c->call.memory_set(p->address, 0, some, c->copies), "clear memory", err);
        *ret = (void *)(uintptr_t)p->address; // NOLINT(performance-no-int-to-ptr)
        p->next = c->memory;
        c->memory = co_steal_ptr(p);
    }
    nccl_cuda_leave(c);
    return rc;
}

void nccl_cuda_free(struct nccl_cuda *c, void *memory) {
    struct device_block **at = &c->memory;
    while (*at && (*at)->address != address_of(memory)) {
        at = &(*at)->next;
    }
    if (*at && nccl_cuda_enter(c, NULL) == 0) {
        struct device_block *p = *at;
        *at = p->next;
        (void)c->call.memory_free(p->address);
        free(p);
        nccl_cuda_leave(c);
    }
}

bool nccl_cuda_knows(struct nccl_cuda *c, const void *memory) {
    int ordinal = 0, result = 0;
    if (nccl_cuda_enter(c, NULL) == 0) { /* else the call itself says why not */
        result = c->call.pointer(&ordinal, NCCL_CUDA_POINTER_ORDINAL, address_of(memory));
        nccl_cuda_leave(c);
    }
    return result == 0;
}

/* The stream for calls says so itself; of the program's others the legacy stream knows those that
 * wait for it, and a question about an event is refused to a thread that captures one that does
 * not, which breaks the capture as the call would have. */
static bool is_captured(struct nccl_cuda *c) {
    int status = NCCL_CUDA_CAPTURE_NONE;
    int result = c->call.stream_capturing(c->calls, &status);
    if (result == 0 && status == NCCL_CUDA_CAPTURE_NONE) {
        result = c->call.stream_capturing(NULL, &status);
    }
    if (result == 0 && status == NCCL_CUDA_CAPTURE_NONE) {
        result = c->call.event_query(c->mark);
    }
    return status != NCCL_CUDA_CAPTURE_NONE || result == NCCL_CUDA_CAPTURE_UNSUPPORTED ||
           result == NCCL_CUDA_CAPTURE_IMPLICIT;
}

int nccl_cuda_uncaptured(struct nccl_cuda *c, struct co_err *err) {
    CO_TRY(nccl_cuda_enter(c, err));
    bool captured = is_captured(c);
    nccl_cuda_leave(c);
    return captured ? co_err_set(err, CO_INVALID,
                          "a CUDA graph is being captured, expected the call before or after: it "
                          "cannot become a part of a graph")
                    : 0;
}

int nccl_cuda_copy(
    struct nccl_cuda *c, void *to, const void *from, size_t bytes, struct co_err *err) {
    int rc = nccl_cuda_enter(c, err);
    if (rc == 0) {
        rc = finish(c, c->call.copy(address_of(to), address_of(from), bytes, c->copies),
            "copy from or to a GPU", err);
        nccl_cuda_leave(c);
    }
    return rc;
}

int nccl_cuda_mark(struct nccl_cuda *c, struct co_err *err) {
    int result = c->call.event_record(c->mark, c->calls);
    return result ? failed(&c->call, result, "mark the end of a call", err) : 0;
}

int nccl_cuda_pending(struct nccl_cuda *c, struct co_err *err) {
    int result = c->call.event_query(c->mark);
    return result == NCCL_CUDA_SUCCESS     ? 0
           : result == NCCL_CUDA_NOT_READY ? 1
                                           : failed(&c->call, result, "a call", err);
}
