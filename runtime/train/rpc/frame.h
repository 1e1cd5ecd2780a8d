/* A frame: one request or answer between a trainer and a server, as bytes.
 *
 * A head of 40 bytes, little-endian, then `bytes` bytes of payload. A message of a stream is one or
 * more frames back to back:
 *
 *     0 u8  version (2)      1 u8  kind         2 u16 table      4 u32 shard of the server
 *     8 u64 seq, echoed     16 u64 aux          24 u32 count     28 u32 bytes
 *    32 u64 number
 *
 * Each trainer numbers its requests that change something (rpc_frame_changes) 1, 2, ... per shard.
 * After a broken connection the trainer reconnects and repeats every request without an answer; the
 * shard applies no number twice. A PULL_DENSE may carry the number of one of its trainer's STEPs:
 * it is answered when that step is applied. All other frames have number 0.
 *
 * A request's kind has the top bit clear. Its answer has the same kind with the bit set, or is
 * RPC_FRAME_ERROR (aux: the code as int64, payload: the text). This file knows neither tables nor
 * gRPC. A frame is reference-counted; nobody writes to it after the first rpc_frame_seal. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    RPC_FRAME_VERSION = 2,
    RPC_FRAME_HEAD = 40,
    RPC_FRAME_BYTES_MAX = 32 << 20, /* payload */
    RPC_FRAME_CONTROL_MAX = 1 << 20,
    RPC_FRAME_STAT_NUMBERS = 8,
    RPC_FRAME_KEEP_MAX = 64 << 10,
    RPC_FRAME_RATE_NUMBERS = 3,
    RPC_FRAME_INT8_BLOCK = 64, /* values of one byte that share a scale of two bytes */
    RPC_FRAME_SHRINK_ALL = 1,  /* all rows, whatever the table's policy says */
    RPC_MESSAGE_MAX = RPC_FRAME_BYTES_MAX + (1 << 20), /* all frames of a message */
};

/* aux of a STEP: the trainer makes no more steps */
#define RPC_STEP_NO_MORE UINT64_MAX

/* f32[n]: n floats. w[n]: n values of the table's wire type (f32, f16 or bf16). With wire int8 the
 * gradients of a PUSH_DENSE are i8[n] (runtime/train/table/int8.h), and what a PULL_DENSE with a
 * step gets is i8[count], to be added to the version that aux names in its upper half, or
 * f32[count]; the answer's aux is the version that the trainer has then. All else is f32. dim:
 * floats in a row. state: floats of optimizer state in a row. policy: floats that the evict policy
 * keeps in a row. */
enum rpc_frame_kind {
    RPC_FRAME_CONTROL = 1,    /* payload: control.proto; answer the same */
    RPC_FRAME_PING,           /* nothing; the same */
    RPC_FRAME_PULL_DENSE,     /* aux: chunk, number: step or 0; answer: w[count] */
    RPC_FRAME_PUSH_DENSE,     /* aux: chunk; w[count] gradient; answer: nothing */
    RPC_FRAME_XCHG_DENSE,     /* as push; answer: w[count], the new values */
    RPC_FRAME_PUT_DENSE,      /* aux: chunk; f32[count] values; answer: nothing */
    RPC_FRAME_GET_DENSE,      /* aux: chunk; answer: f32 values and state, count floats in all */
    RPC_FRAME_RESTORE_DENSE,  /* aux: chunk; f32[count] as GET_DENSE gave; answer: nothing */
    RPC_FRAME_PULL_SPARSE,    /* u64[count] ids; answer: w[count][dim] */
    RPC_FRAME_PUSH_SPARSE,    /* u64[count] ids, w[count][dim] gradients; answer: nothing */
    RPC_FRAME_SCAN_SPARSE,    /* aux: first slot, count: enum rt_save_mode; answer: u64[count] ids,
                                f32[count][dim + state + policy], aux: next slot, all ones: end */
    RPC_FRAME_RESTORE_SPARSE, /* u64[count] ids, f32[count][dim + state + policy]; answer: nothing
                               */
    RPC_FRAME_STEP,           /* aux: step number of this trainer, all ones: its last step is done;
                                answer: aux: the last step that was applied */
    RPC_FRAME_STAT,           /* answer: u64[8] rows, bytes, pulls, pushes, nonfinite, late,
                                 rows on disk, their bytes */
    RPC_FRAME_KEEP,           /* aux: step; up to RPC_FRAME_KEEP_MAX bytes; answer: nothing */
    RPC_FRAME_RECALL,         /* aux: step; answer: what was last kept up to it, aux: its step */
    RPC_FRAME_GET_RATE,       /* answer: u64[3] lr (f64), steps, current rate (f64) */
    RPC_FRAME_SET_RATE,       /* aux: lr (f64); answer: nothing */
    RPC_FRAME_SET_STEPS,      /* aux: steps that the table's schedule has seen; answer: nothing */
    RPC_FRAME_TICK,           /* async: a step of this trainer, for all tables; answer: nothing */
    RPC_FRAME_PUSH_CLICKS, /* u64[count] ids, f32[count][2] show and click, then as PUSH_SPARSE */
    RPC_FRAME_SHRINK,      /* aux: first slot, count: RPC_FRAME_SHRINK_ALL or 0; answer: count: rows
                              erased, aux: next slot, all ones: end */
    RPC_FRAME_CHECKPOINT,  /* payload: control.proto, for a shard; answer the same */
    RPC_FRAME_KINDS,
    RPC_FRAME_ANSWER = 0x80,
    RPC_FRAME_ERROR = 0xff,
};

struct rpc_frame_head {
    uint8_t kind;
    uint16_t table;
    uint32_t shard;
    uint64_t seq;
    uint64_t aux;
    uint32_t count;
    uint32_t bytes;
    uint64_t number;
};

struct rpc_frame {
    struct rpc_frame *next; /* for the queue that the frame is in */
    struct rpc_frame_head head;
    atomic_uint refs;
    bool sealed;
    /* Runs when a received frame is freed: the stream's window counts it no more. */
    void (*release)(struct rpc_frame *f);
    void *from;             /* for release */
    size_t room;            /* bytes allocated */
    unsigned char *payload; /* head.bytes bytes, 32-aligned, inside this allocation */
    unsigned char *wire;    /* RPC_FRAME_HEAD bytes directly before payload */
};

/* The payload is `bytes` uninitialised bytes. CO_NORESOURCE: more than RPC_FRAME_BYTES_MAX. */
CO_MUST_CHECK int rpc_frame_new(
    uint8_t kind, size_t bytes, struct rpc_frame **ret, struct co_err *err);
/* Any thread may take and drop references. */
struct rpc_frame *rpc_frame_ref(struct rpc_frame *f);
/* Drops a reference; the last one frees the frame. NULL is allowed. */
void rpc_frame_free(struct rpc_frame *f);
/* The frame no longer counts in its stream's window. For received frames that are kept for long. */
void rpc_frame_detach(struct rpc_frame *f);
CO_DEFINE_CLEANUP(struct rpc_frame *, rpc_frame_free)

/* Writes the head into wire, once. From then on wire up to the payload's end is what is sent. */
void rpc_frame_seal(struct rpc_frame *f);

/* Checks version and kind, and bytes against kind and count as far as no table is needed for it. */
CO_MUST_CHECK int rpc_frame_head_read(
    const unsigned char wire[RPC_FRAME_HEAD], struct rpc_frame_head *ret, struct co_err *err);

/* An answer of the error kind; never fails (aborts when memory is out). */
struct rpc_frame *rpc_frame_error(const struct rpc_frame_head *request, int code, const char *text);
/* Reads an error frame into *err; returns its code. */
int rpc_frame_error_read(const struct rpc_frame *f, struct co_err *err);
const char *rpc_frame_kind_name(uint8_t kind);
/* Pulls, pushes and exchanges of dense tables: their values travel as w above. */
bool rpc_frame_narrows(uint8_t kind);
/* Whether a request changes tables or steps. Such requests are numbered. */
bool rpc_frame_changes(uint8_t kind);

/* Cuts a message into frames while its pieces arrive. A data lane is one endless message: pass
 * SIZE_MAX bytes. */
struct rpc_splitter {
    size_t left; /* bytes of the message not yet fed */
    unsigned char head[RPC_FRAME_HEAD];
    size_t have; /* bytes of the head, then of the payload */
    struct rpc_frame *frame;
    struct rpc_frame *first, **last; /* complete ones */
};
void rpc_splitter_init(struct rpc_splitter *sp, size_t message_bytes);
void rpc_splitter_done(struct rpc_splitter *sp); /* frees what was not taken */
/* CO_INVALID: the bytes are no frame, or the frame is longer than its message. */
CO_MUST_CHECK int rpc_splitter_feed(
    struct rpc_splitter *sp, const void *data, size_t len, struct co_err *err);
/* All frames in order, the caller's; CO_INVALID when the message ends inside one. */
CO_MUST_CHECK int rpc_splitter_take(
    struct rpc_splitter *sp, struct rpc_frame **ret_first, struct co_err *err);
/* The frames that are complete so far, in order, the caller's; NULL: none. */
struct rpc_frame *rpc_splitter_pop(struct rpc_splitter *sp);
/* Bytes that the current payload still lacks, and where they go. A caller that reads them right
 * there saves a copy and reports them by rpc_splitter_filled. */
size_t rpc_splitter_rest(const struct rpc_splitter *sp, unsigned char **ret);
void rpc_splitter_filled(struct rpc_splitter *sp, size_t n);
