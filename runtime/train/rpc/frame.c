/* Frames in memory (frame.h has their layout): what each kind may contain, allocation with a cache
 * of large ones, and the splitter that cuts a byte stream into frames. */
#include "runtime/train/rpc/frame.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "common/huge.h"

enum { ALIGN = 32 }; /* of payloads: vector loads of 32 bytes never cross a cache line */

/* What a request's payload must be, as far as that can be checked without knowing the table. */
enum payload_shape { NOTHING, CONTROL, FLOATS, VALUES, IDS, ROWS, KEEP };

static const struct {
    const char *name;
    enum payload_shape request;
    bool changes;
} kinds[RPC_FRAME_KINDS] = {
    [0] = {"none", NOTHING},
    [RPC_FRAME_CONTROL] = {"control", CONTROL},
    [RPC_FRAME_PING] = {"ping", NOTHING},
    [RPC_FRAME_PULL_DENSE] = {"pull-dense", NOTHING},
    [RPC_FRAME_PUSH_DENSE] = {"push-dense", VALUES, true},
    [RPC_FRAME_XCHG_DENSE] = {"exchange-dense", VALUES, true},
    [RPC_FRAME_PUT_DENSE] = {"put-dense", FLOATS, true},
    [RPC_FRAME_GET_DENSE] = {"get-dense", NOTHING},
    [RPC_FRAME_RESTORE_DENSE] = {"restore-dense", FLOATS, true},
    [RPC_FRAME_PULL_SPARSE] = {"pull-sparse", IDS},
    [RPC_FRAME_PUSH_SPARSE] = {"push-sparse", ROWS, true},
    [RPC_FRAME_SCAN_SPARSE] = {"scan-sparse", NOTHING},
    [RPC_FRAME_RESTORE_SPARSE] = {"restore-sparse", ROWS, true},
    [RPC_FRAME_STEP] = {"step", NOTHING, true},
    [RPC_FRAME_STAT] = {"stat", NOTHING},
    [RPC_FRAME_KEEP] = {"keep", KEEP, true},
    [RPC_FRAME_RECALL] = {"recall", NOTHING},
    [RPC_FRAME_GET_RATE] = {"get-rate", NOTHING},
    [RPC_FRAME_SET_RATE] = {"set-rate", NOTHING, true},
    [RPC_FRAME_SET_STEPS] = {"set-steps", NOTHING, true},
    [RPC_FRAME_TICK] = {"tick", NOTHING, true},
    [RPC_FRAME_CHECKPOINT] = {"checkpoint", CONTROL},
    [RPC_FRAME_PUSH_CLICKS] = {"push-clicks", ROWS, true},
    [RPC_FRAME_SHRINK] = {"shrink", NOTHING, true},
};

const char *rpc_frame_kind_name(uint8_t kind) {
    unsigned k = kind & 0x7fU;
    return kind == RPC_FRAME_ERROR ? "error" : k < RPC_FRAME_KINDS ? kinds[k].name : "unknown";
}

bool rpc_frame_changes(uint8_t kind) {
    return kind < RPC_FRAME_KINDS && kinds[kind].changes;
}

bool rpc_frame_narrows(uint8_t kind) {
    return kind == RPC_FRAME_PULL_DENSE || kind == RPC_FRAME_PUSH_DENSE ||
           kind == RPC_FRAME_XCHG_DENSE;
}

/* A cache of large freed frames. Training sends the same megabytes in every step, and fresh pages
 * from the kernel cost more than copying the data. The cache is process-wide because one thread
 * makes a frame and another frees it. */
enum { SPARE_MIN = 16 << 10, SPARE_N = 128, SPARE_BYTES = 64 << 20 };

static struct {
    pthread_mutex_t m;
    struct rpc_frame *frames[SPARE_N];
    size_t n, bytes;
} spare = {.m = PTHREAD_MUTEX_INITIALIZER};

static struct rpc_frame *take_spare(size_t size) {
    struct rpc_frame *f = NULL;
    pthread_mutex_lock(&spare.m);
    for (size_t i = spare.n; i > 0 && !f; i--) {
        size_t room = spare.frames[i - 1]->room;
        if (room >= size && room / 2 <= size) {
            f = spare.frames[i - 1];
            spare.frames[i - 1] = spare.frames[--spare.n];
            spare.bytes -= room;
        }
    }
    pthread_mutex_unlock(&spare.m);
    return f;
}

static bool keep_spare(struct rpc_frame *f) {
    bool kept = false;
    pthread_mutex_lock(&spare.m);
    if (spare.n < SPARE_N && spare.bytes + f->room <= SPARE_BYTES) {
        spare.frames[spare.n++] = f;
        spare.bytes += f->room;
        kept = true;
    }
    pthread_mutex_unlock(&spare.m);
    return kept;
}

int rpc_frame_new(uint8_t kind, size_t bytes, struct rpc_frame **ret, struct co_err *err) {
    if (bytes > RPC_FRAME_BYTES_MAX) {
        return co_err_set(err, CO_NORESOURCE, "frame %s of %zu bytes exceeds the limit of %d",
            rpc_frame_kind_name(kind), bytes, RPC_FRAME_BYTES_MAX);
    }
    size_t size = sizeof(struct rpc_frame) + RPC_FRAME_HEAD + ALIGN + bytes;
    struct rpc_frame *f = size >= SPARE_MIN ? take_spare(size) : NULL;
    size_t room = f ? f->room : size;
    /* aligned here: aligned_alloc has no cache by thread */
    f = f ? f : size >= CO_HUGE_MIN ? co_huge_alloc(size) : malloc(size);
    if (!f) {
        return co_err_set(err, CO_NOMEMORY, "no memory for a frame of %zu bytes", bytes);
    }
    *f = (struct rpc_frame){
        .room = room, .refs = 1, .head = {.kind = kind, .bytes = (uint32_t)bytes}};
    uintptr_t first = (uintptr_t)(f + 1) + RPC_FRAME_HEAD;
    f->payload = (unsigned char *)(f + 1) + RPC_FRAME_HEAD + (ALIGN - first % ALIGN) % ALIGN;
    f->wire = f->payload - RPC_FRAME_HEAD;
    *ret = f;
    return 0;
}

void rpc_frame_detach(struct rpc_frame *f) {
    if (f->release) {
        f->release(f);
        f->release = NULL;
    }
}

struct rpc_frame *rpc_frame_ref(struct rpc_frame *f) {
    atomic_fetch_add(&f->refs, 1);
    return f;
}

void rpc_frame_free(struct rpc_frame *f) {
    if (!f || atomic_fetch_sub(&f->refs, 1) != 1) {
        return;
    }
    rpc_frame_detach(f);
    if (f->room < SPARE_MIN || !keep_spare(f)) {
        co_huge_free(f, f->room);
    }
}

void rpc_frame_seal(struct rpc_frame *f) {
    unsigned char *w = f->wire;
    if (f->sealed) {
        return;
    }
    f->sealed = true;
    w[0] = RPC_FRAME_VERSION;
    w[1] = f->head.kind;
    co_put_u16(w + 2, f->head.table);
    co_put_u32(w + 4, f->head.shard);
    co_put_u64(w + 8, f->head.seq);
    co_put_u64(w + 16, f->head.aux);
    co_put_u32(w + 24, f->head.count);
    co_put_u32(w + 28, f->head.bytes);
    co_put_u64(w + 32, f->head.number);
}

static int check_bytes(const struct rpc_frame_head *h, struct co_err *err) {
    if (h->bytes > RPC_FRAME_BYTES_MAX) {
        return co_err_set(err, CO_INVALID, "frame %s declares %u bytes, more than the limit of %d",
            rpc_frame_kind_name(h->kind), h->bytes, RPC_FRAME_BYTES_MAX);
    }
    if (h->kind & RPC_FRAME_ANSWER) {
        return 0;
    }
    uint64_t n = h->count;
    bool ok = true;
    switch (kinds[h->kind].request) {
    case NOTHING:
        ok = h->bytes == 0;
        break;
    case CONTROL:
        ok = h->bytes <= RPC_FRAME_CONTROL_MAX;
        break;
    case KEEP:
        ok = h->bytes <= RPC_FRAME_KEEP_MAX;
        break;
    case FLOATS:
        ok = h->bytes == n * 4;
        break;
    case VALUES:
        ok = h->bytes == n * 4 || h->bytes == n * 2 ||
             h->bytes == n + (n + RPC_FRAME_INT8_BLOCK - 1) / RPC_FRAME_INT8_BLOCK * 2;
        break;
    case IDS:
        ok = h->bytes == n * 8;
        break;
    case ROWS:
        ok = n == 0 ? h->bytes == 0 : h->bytes % n == 0 && h->bytes / n >= 10 && h->bytes % 2 == 0;
        break;
    }
    return ok ? 0
              : co_err_set(err, CO_INVALID, "frame %s of %u items cannot have %u bytes",
                    rpc_frame_kind_name(h->kind), h->count, h->bytes);
}

int rpc_frame_head_read(
    const unsigned char wire[RPC_FRAME_HEAD], struct rpc_frame_head *ret, struct co_err *err) {
    if (wire[0] != RPC_FRAME_VERSION) {
        return co_err_set(
            err, CO_INVALID, "frame version %u, expected %d", wire[0], RPC_FRAME_VERSION);
    }
    struct rpc_frame_head h = {
        .kind = wire[1],
        .table = co_get_u16(wire + 2),
        .shard = co_get_u32(wire + 4),
        .seq = co_get_u64(wire + 8),
        .aux = co_get_u64(wire + 16),
        .count = co_get_u32(wire + 24),
        .bytes = co_get_u32(wire + 28),
        .number = co_get_u64(wire + 32),
    };
    unsigned k = h.kind & 0x7fU;
    if (h.kind != RPC_FRAME_ERROR && (k == 0 || k >= RPC_FRAME_KINDS)) {
        return co_err_set(err, CO_INVALID, "frame kind %u is unknown", h.kind);
    }
    CO_TRY(check_bytes(&h, err));
    *ret = h;
    return 0;
}

struct rpc_frame *rpc_frame_error(
    const struct rpc_frame_head *request, int code, const char *text) {
    size_t len = strlen(text);
    if (len >= CO_ERR_MAX) {
        len = CO_ERR_MAX - 1;
    }
    struct rpc_frame *f = NULL;
    if (rpc_frame_new(RPC_FRAME_ERROR, len, &f, NULL) < 0) {
        abort(); /* a few hundred bytes */
    }
    memcpy(f->payload, text, len);
    f->head.aux = (uint64_t)(int64_t)code;
    if (request) {
        f->head.seq = request->seq;
        f->head.table = request->table;
        f->head.shard = request->shard;
    }
    return f;
}

int rpc_frame_error_read(const struct rpc_frame *f, struct co_err *err) {
    int64_t code = (int64_t)f->head.aux;
    if (code > -1 || code < CO_DAMAGED) {
        code = CO_INTERNAL;
    }
    int len = f->head.bytes < CO_ERR_MAX ? (int)f->head.bytes : CO_ERR_MAX - 1;
    return co_err_set(err, (int)code, "%.*s", len, (const char *)f->payload);
}

void rpc_splitter_init(struct rpc_splitter *sp, size_t message_bytes) {
    memset(sp, 0, sizeof(*sp));
    sp->left = message_bytes;
    sp->last = &sp->first;
}

void rpc_splitter_done(struct rpc_splitter *sp) {
    rpc_frame_free(sp->frame);
    sp->frame = NULL;
    for (struct rpc_frame *f = sp->first, *next; f; f = next) {
        next = f->next;
        rpc_frame_free(f);
    }
    sp->first = NULL;
    sp->last = &sp->first;
}

static void end_frame(struct rpc_splitter *sp) {
    *sp->last = sp->frame;
    sp->last = &sp->frame->next;
    sp->frame = NULL;
    sp->have = 0;
}

/* The head is there: makes the frame that the payload goes to. */
static int begin_frame(struct rpc_splitter *sp, struct co_err *err) {
    struct rpc_frame_head h = {0};
    CO_TRY(rpc_frame_head_read(sp->head, &h, err));
    if (h.bytes > sp->left) {
        return co_err_set(err, CO_INVALID, "frame %s declares %u bytes, its message has %zu left",
            rpc_frame_kind_name(h.kind), h.bytes, sp->left);
    }
    CO_TRY(rpc_frame_new(h.kind, h.bytes, &sp->frame, err));
    sp->frame->head = h;
    sp->have = 0;
    if (h.bytes == 0) {
        end_frame(sp);
    }
    return 0;
}

int rpc_splitter_feed(struct rpc_splitter *sp, const void *data, size_t len, struct co_err *err) {
    const unsigned char *p = data;
    if (len > sp->left) {
        return co_err_set(err, CO_INVALID, "message is longer than announced");
    }
    while (len > 0) {
        size_t want = sp->frame ? sp->frame->head.bytes : RPC_FRAME_HEAD;
        size_t n = want - sp->have < len ? want - sp->have : len;
        memcpy((sp->frame ? sp->frame->payload : sp->head) + sp->have, p, n);
        sp->have += n;
        sp->left -= n;
        p += n;
        len -= n;
        if (sp->have < want) {
            continue;
        }
        if (sp->frame) {
            end_frame(sp);
        } else {
            CO_TRY(begin_frame(sp, err));
        }
    }
    return 0;
}

int rpc_splitter_take(struct rpc_splitter *sp, struct rpc_frame **ret_first, struct co_err *err) {
    if (sp->frame || sp->have > 0 || sp->left > 0) {
        return co_err_set(err, CO_INVALID, "message ends inside a frame");
    }
    *ret_first = rpc_splitter_pop(sp);
    return 0;
}

struct rpc_frame *rpc_splitter_pop(struct rpc_splitter *sp) {
    struct rpc_frame *first = sp->first;
    sp->first = NULL;
    sp->last = &sp->first;
    return first;
}

size_t rpc_splitter_rest(const struct rpc_splitter *sp, unsigned char **ret) {
    *ret = sp->frame ? sp->frame->payload + sp->have : NULL;
    return sp->frame ? sp->frame->head.bytes - sp->have : 0;
}

void rpc_splitter_filled(struct rpc_splitter *sp, size_t n) {
    sp->have += n;
    sp->left -= n;
    if (n > 0 && sp->have == sp->frame->head.bytes) {
        end_frame(sp);
    }
}
