/* A frame: what trainers and servers say to each other, as bytes.
 *
 * 32 bytes of head, little-endian, then `bytes` bytes of payload; one message of a stream is one
 * or more frames back to back:
 *
 *     0 u8  version (1)      1 u8  kind         2 u16 table      4 u32 shard of the server
 *     8 u64 seq, echoed     16 u64 aux          24 u32 count     28 u32 bytes
 *
 * A request's kind has the top bit clear; its answer has the same kind with the bit set, or is
 * RT_FRAME_ERROR (aux = code as int64, payload = text).  Knows nothing of tables' shapes, gRPC
 * or threads: pure.  A frame belongs to whoever holds it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    RT_FRAME_VERSION = 1,
    RT_FRAME_HEAD = 32,
    RT_FRAME_BYTES_MAX = 32 << 20, /* payload */
    RT_FRAME_CONTROL_MAX = 1 << 20,
    RT_FRAME_STAT_NUMBERS = 5,
    RT_MESSAGE_MAX = RT_FRAME_BYTES_MAX + (1 << 20), /* all frames of a message */
};

/* f32[n] = n floats; dim is the table's, state that of its optimizer. */
enum rt_frame_kind {
    RT_FRAME_CONTROL = 1,    /* payload: control.proto; answer the same */
    RT_FRAME_PING,           /* nothing; the same */
    RT_FRAME_PULL_DENSE,     /* aux: chunk; answer: f32[count] */
    RT_FRAME_PUSH_DENSE,     /* aux: chunk; f32[count] gradient; answer: nothing */
    RT_FRAME_XCHG_DENSE,     /* as push; answer: f32[count], the new values */
    RT_FRAME_PUT_DENSE,      /* aux: chunk; f32[count] values; answer: nothing */
    RT_FRAME_GET_DENSE,      /* aux: chunk; answer: f32 values and state, count floats in all */
    RT_FRAME_RESTORE_DENSE,  /* aux: chunk; f32[count] as GET_DENSE gave; answer: nothing */
    RT_FRAME_PULL_SPARSE,    /* u64[count] ids; answer: f32[count][dim] */
    RT_FRAME_PUSH_SPARSE,    /* u64[count] ids, f32[count][dim] gradients; answer: nothing */
    RT_FRAME_SCAN_SPARSE,    /* aux: first row; answer: u64[count] ids, f32[count][dim + state];
                                aux: next row, all ones at the end */
    RT_FRAME_RESTORE_SPARSE, /* u64[count] ids, f32[count][dim + state]; answer: nothing */
    RT_FRAME_STEP,           /* aux: step number of this trainer; answer: nothing */
    RT_FRAME_STAT,           /* answer: u64[5] rows, bytes, pulls, pushes, nonfinite */
    RT_FRAME_KINDS,
    RT_FRAME_ANSWER = 0x80,
    RT_FRAME_ERROR = 0xff,
};

struct rt_frame_head {
    uint8_t kind;
    uint16_t table;
    uint32_t shard;
    uint64_t seq;
    uint64_t aux;
    uint32_t count;
    uint32_t bytes;
};

struct rt_frame {
    struct rt_frame *next; /* for whoever queues it */
    struct rt_frame_head head;
    /* Runs when a received frame is freed: gives its place in the stream's window back. */
    void (*release)(struct rt_frame *f);
    void *from;             /* for release */
    size_t room;            /* bytes allocated */
    unsigned char *payload; /* head.bytes bytes, 32-aligned, inside this allocation */
    unsigned char *wire;    /* RT_FRAME_HEAD bytes directly before payload */
};

/* With payload of `bytes` uninitialised bytes.  CO_NORESOURCE above RT_FRAME_BYTES_MAX. */
CO_MUST_CHECK int rt_frame_new(
    uint8_t kind, size_t bytes, struct rt_frame **ret, struct co_err *err);
void rt_frame_free(struct rt_frame *f); /* NULL allowed */
/* For a received frame that is kept for long: it no longer counts in its stream's window. */
void rt_frame_detach(struct rt_frame *f);
CO_DEFINE_CLEANUP(struct rt_frame *, rt_frame_free)

/* Writes head into wire; afterwards wire .. payload end is what travels. */
void rt_frame_seal(struct rt_frame *f);

/* Checks version, kind, and bytes against kind and count where the table's shape is not needed. */
CO_MUST_CHECK int rt_frame_head_read(
    const unsigned char wire[RT_FRAME_HEAD], struct rt_frame_head *ret, struct co_err *err);

/* An answer of the error kind; never fails (aborts when memory is out). */
struct rt_frame *rt_frame_error(const struct rt_frame_head *request, int code, const char *text);
/* Turns one into *err; returns its code. */
int rt_frame_error_read(const struct rt_frame *f, struct co_err *err);
const char *rt_frame_kind_name(uint8_t kind);

/* Cuts a message into frames while its pieces arrive. */
struct rt_splitter {
    size_t left; /* bytes of the message not yet fed */
    unsigned char head[RT_FRAME_HEAD];
    size_t have; /* bytes of the head, then of the payload */
    struct rt_frame *frame;
    struct rt_frame *first, **last; /* complete ones */
};
void rt_splitter_init(struct rt_splitter *sp, size_t message_bytes);
void rt_splitter_done(struct rt_splitter *sp); /* frees what was not taken */
/* CO_INVALID: not a frame, or one that is longer than its message. */
CO_MUST_CHECK int rt_splitter_feed(
    struct rt_splitter *sp, const void *data, size_t len, struct co_err *err);
/* All frames in order, the caller's; CO_INVALID when the message ends inside one. */
CO_MUST_CHECK int rt_splitter_take(
    struct rt_splitter *sp, struct rt_frame **ret_first, struct co_err *err);
