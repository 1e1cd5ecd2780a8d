/* Metrics of a process of a training job, shown in Prometheus' text format at /metrics.
 *
 * The rows of metric_rows.c are all metrics there are. Rare events are counted at once, under a
 * lock. Frequent ones (requests of a shard) are counted by their thread in its own memory; a
 * source, which the thread's owner attaches, collects them when somebody reads.
 *
 * Rows of servers are shown by servers only, and rows of trainers by trainers. Nothing listens
 * until meter_open is called. One registry per process. Any thread may call these functions,
 * unless a comment says otherwise. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/metrics.h"

enum meter {
    /* servers; from sources: */
    METER_M_ROWS,
    METER_M_TABLE_BYTES,
    METER_M_MEMORY,
    METER_M_MEMORY_MAX,
    METER_M_REQUEST_SECONDS,
    METER_M_IDS,
    METER_M_BYTES,
    METER_M_NONFINITE,
    METER_M_LATE,
    METER_M_QUEUE,
    METER_M_TRAINERS,
    METER_M_STALENESS,
    METER_M_STEP,
    METER_M_LIVE, /* the rows before this are collected for each reader */
    /* as it happens: */
    METER_M_MISSED = METER_M_LIVE,
    METER_M_REFUSED,
    METER_M_PARTS,
    METER_M_PART_NUMBER,
    METER_M_PART_TIME,
    METER_M_PART_BYTES,
    METER_M_PART_SECONDS,
    /* trainers: */
    METER_M_CALL_SECONDS,
    METER_M_STEPS,
    METER_M_TRAINER_BYTES,
    METER_M_RECONNECTS,
    METER_M_CHECKPOINTS,
    METER_M_CHECKPOINT_NUMBER,
    METER_M_CHECKPOINT_TIME,
    METER_M_CHECKPOINT_BYTES,
    METER_M_CHECKPOINT_SECONDS,
    METER_M_REPORTED,
    METER_M_REPORTED_STEP,
    METER_M_COUNT,
};

/* Series, in the order of the rows' words. */
enum meter_op {
    METER_OP_PULL,
    METER_OP_PUSH,
    METER_OP_EXCHANGE,
    METER_OP_STEP,
    METER_OP_OTHER,
    METER_OPS
};
enum { METER_BYTES_RECEIVED, METER_BYTES_SENT, METER_DIRECTIONS };
enum { METER_DONE, METER_FAILED };
enum { METER_MISSED_AWAY, METER_MISSED_LOST };
enum { METER_TABLES = 64, METER_NAMES = 64, METER_NAME = 64 };

/* ---- as it happens ---- */

void meter_add(enum meter row, size_t series, double v);
void meter_set(enum meter row, size_t series, double v);
void meter_observe(enum meter row, size_t series, double v); /* seconds; < 0: none */
/* METER_M_TRAINER_BYTES, without the lock. */
void meter_bytes(size_t direction, size_t bytes);
/* The series of a label value in a row with one label; the last series for an unknown value. */
size_t meter_word(enum meter row, const char *word);
/* A number that the training program reports; the newest value is shown. False: refused, because
 * there are METER_NAMES names already, or name has a character outside of [A-Za-z0-9_.:/-]. */
bool meter_report(const char *name, double v);

/* ---- sources ---- */

/* Monotonic nanoseconds; 0, without reading a clock, while nothing serves metrics. */
int64_t meter_clock(void);
/* Whether metrics are served. Times are measured only then, because reading the clock costs. */
bool meter_on(void);

struct meter_source {
    void (*fill)(void *arg); /* may call the functions of this group, and must not block */
    void *arg;
    struct meter_source *next;
};
/* The caller owns the source, which must live until it is detached. detach waits for a running
 * fill. */
void meter_attach(struct meter_source *s);
void meter_detach(struct meter_source *s);

/* To be called from a source's fill only. */
void meter_fill(enum meter row, size_t series, double v); /* added up over all sources */
void meter_fill_most(enum meter row, size_t series, double v);
size_t meter_fill_table(const char *name); /* the series of a table; the last one: all others */

/* Counted by one thread, read by any. */
struct meter_times {
    atomic_uint_fast64_t bucket[CO_METRIC_BUCKETS + 1], ns;
};
void meter_took(struct meter_times *t, int64_t ns); /* < 0: nothing */
void meter_fill_times(enum meter row, size_t series, const struct meter_times *t);

/* There is one writer, so no locked instruction is needed. */
static inline void meter_count(atomic_uint_fast64_t *n, uint64_t by) {
    atomic_store_explicit(
        n, atomic_load_explicit(n, memory_order_relaxed) + by, memory_order_relaxed);
}
static inline uint64_t meter_read(const atomic_uint_fast64_t *n) {
    return atomic_load_explicit(n, memory_order_relaxed);
}

/* ---- readers ---- */

/* Serves /metrics at addr ("host:port", ":port"; port 0: a free one) on a thread of its own, until
 * it was closed as often as opened. If it listens already, addr is ignored. *ret_port: NULL is
 * allowed. */
CO_MUST_CHECK int meter_open(const char *addr, uint16_t *ret_port, struct co_err *err);
void meter_close(void);

/* The text that GET /metrics returns. */
CO_MUST_CHECK int meter_render(struct co_buf *ret, struct co_err *err);
/* The reference page. */
CO_MUST_CHECK int meter_markdown(struct co_buf *ret, struct co_err *err);
/* The metric's name, for programs that parse the text. */
const char *meter_name(enum meter row);
