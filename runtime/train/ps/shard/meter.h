/* A shard's counters.  Only its thread writes them; the metrics page reads them from another
 * thread, so they are atomic. */
#pragma once

#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/shard/tables.h"

struct rt_shard_meter_table {
    atomic_uint_fast64_t rows, bytes, nonfinite, late;
};

struct rt_shard_meter {
    struct rt_meter_source source;
    const struct rt_shard_tables *of;
    struct rt_meter_times took[RT_METER_OPS];
    atomic_uint_fast64_t values[RT_METER_OPS], bytes[RT_DIRECTIONS], queue;
    struct rt_shard_meter_table *tables; /* [n_tables] */
};

/* The tables must outlive it. */
void rt_shard_meter_open(struct rt_shard_meter *m, const struct rt_shard_tables *tables);
void rt_shard_meter_close(struct rt_shard_meter *m); /* a zeroed one is allowed */

/* These two are for the shard's thread. */
/* Counts a request and its answer's bytes.  begin: rt_meter_clock() when the request began; 0,
 * which that returns when metrics are off, counts nothing. */
void rt_shard_meter_did(struct rt_shard_meter *m, const struct rt_frame_head *request,
    size_t answer_bytes, int64_t begin);
/* Publishes rows and memory of the tables, and how many requests the turn found queued. */
void rt_shard_meter_turn(struct rt_shard_meter *m, size_t queue);
