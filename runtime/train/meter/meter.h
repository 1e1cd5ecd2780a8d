/* Metrics of a process of a training job, shown in Prometheus' text format at /metrics.
 *
 * The rows of rows.c are all metrics there are. Rare events are counted at once, under a lock.
 * Frequent ones (requests of a shard) are counted by their thread in its own memory; a source,
 * which the thread's owner attaches, collects them when somebody reads.
 *
 * Rows of servers are shown by servers only, and rows of trainers by trainers. Nothing listens
 * until rt_meter_open is called. One registry per process. Any thread may call these functions,
 * unless a comment says otherwise. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/metrics.h"

enum rt_meter {
    /* servers; from sources: */
    RT_M_ROWS,
    RT_M_TABLE_BYTES,
    RT_M_MEMORY,
    RT_M_MEMORY_MAX,
    RT_M_REQUEST_SECONDS,
    RT_M_IDS,
    RT_M_BYTES,
    RT_M_NONFINITE,
    RT_M_LATE,
    RT_M_QUEUE,
    RT_M_TRAINERS,
    RT_M_STALENESS,
    RT_M_STEP,
    RT_M_LIVE, /* the rows before this are collected for each reader */
    /* as it happens: */
    RT_M_MISSED = RT_M_LIVE,
    RT_M_REFUSED,
    RT_M_PARTS,
    RT_M_PART_NUMBER,
    RT_M_PART_TIME,
    RT_M_PART_BYTES,
    RT_M_PART_SECONDS,
    /* trainers: */
    RT_M_CALL_SECONDS,
    RT_M_STEPS,
    RT_M_TRAINER_BYTES,
    RT_M_RECONNECTS,
    RT_M_CHECKPOINTS,
    RT_M_CHECKPOINT_NUMBER,
    RT_M_CHECKPOINT_TIME,
    RT_M_CHECKPOINT_BYTES,
    RT_M_CHECKPOINT_SECONDS,
    RT_M_REPORTED,
    RT_M_REPORTED_STEP,
    RT_M_COUNT,
};

/* Series, in the order of the rows' words. */
enum rt_meter_op { RT_OP_PULL, RT_OP_PUSH, RT_OP_EXCHANGE, RT_OP_STEP, RT_OP_OTHER, RT_METER_OPS };
enum { RT_BYTES_RECEIVED, RT_BYTES_SENT, RT_DIRECTIONS };
enum { RT_METER_DONE, RT_METER_FAILED };
enum { RT_MISSED_AWAY, RT_MISSED_LOST };
enum { RT_METER_TABLES = 64, RT_METER_NAMES = 64, RT_METER_NAME = 64 };

/* ---- as it happens ---- */

void rt_meter_add(enum rt_meter row, size_t series, double v);
void rt_meter_set(enum rt_meter row, size_t series, double v);
void rt_meter_observe(enum rt_meter row, size_t series, double v);
/* RT_M_TRAINER_BYTES, without the lock. */
void rt_meter_bytes(size_t direction, size_t bytes);
/* The series of a label value in a row with one label; the last series for an unknown value. */
size_t rt_meter_word(enum rt_meter row, const char *word);
/* A number that the training program reports; the newest value is shown. False: refused, because
 * there are RT_METER_NAMES names already, or name has a character outside of [A-Za-z0-9_.:/-]. */
bool rt_meter_report(const char *name, double v);

/* ---- sources ---- */

/* Monotonic nanoseconds; 0, without reading a clock, while nothing serves metrics. */
int64_t rt_meter_clock(void);
/* Whether metrics are served. Times are measured only then, because reading the clock costs. */
bool rt_meter_on(void);

struct rt_meter_source {
    void (*fill)(void *arg); /* may call the functions of this group, and must not block */
    void *arg;
    struct rt_meter_source *next;
};
/* The caller owns the source, which must live until it is detached. detach waits for a running
 * fill. */
void rt_meter_attach(struct rt_meter_source *s);
void rt_meter_detach(struct rt_meter_source *s);

/* To be called from a source's fill only. */
void rt_meter_fill(enum rt_meter row, size_t series, double v); /* added up over all sources */
void rt_meter_fill_most(enum rt_meter row, size_t series, double v);
size_t rt_meter_fill_table(const char *name); /* the series of a table; the last one: all others */

/* Counted by one thread, read by any. */
struct rt_meter_times {
    atomic_uint_fast64_t bucket[CO_METRIC_BUCKETS + 1], ns;
};
void rt_meter_took(struct rt_meter_times *t, int64_t ns);
void rt_meter_fill_times(enum rt_meter row, size_t series, const struct rt_meter_times *t);

/* There is one writer, so no locked instruction is needed. */
static inline void rt_meter_count(atomic_uint_fast64_t *n, uint64_t by) {
    atomic_store_explicit(
        n, atomic_load_explicit(n, memory_order_relaxed) + by, memory_order_relaxed);
}
static inline uint64_t rt_meter_read(const atomic_uint_fast64_t *n) {
    return atomic_load_explicit(n, memory_order_relaxed);
}

/* ---- readers ---- */

/* Serves /metrics at addr ("host:port", ":port"; port 0: a free one) on a thread of its own, until
 * it was closed as often as opened. If it listens already, addr is ignored. *ret_port: NULL is
 * allowed. */
CO_MUST_CHECK int rt_meter_open(const char *addr, uint16_t *ret_port, struct co_err *err);
void rt_meter_close(void);

/* The text that GET /metrics returns. */
CO_MUST_CHECK int rt_meter_render(struct co_buf *ret, struct co_err *err);
/* The reference page. */
CO_MUST_CHECK int rt_meter_markdown(struct co_buf *ret, struct co_err *err);
/* The metric's name, for programs that parse the text. */
const char *rt_meter_name(enum rt_meter row);
