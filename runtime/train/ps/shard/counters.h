/* A shard's counters.  Only its thread writes them; the metrics page reads them from another
 * thread, so they are atomic. */
#pragma once

#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/shard/tables.h"

struct shard_meter_table {
    atomic_uint_fast64_t rows, bytes, nonfinite, late;
};

struct shard_meter {
    struct meter_source source;
    const struct shard_tables *of;
    struct meter_times took[METER_OPS];
    atomic_uint_fast64_t values[METER_OPS], bytes[METER_DIRECTIONS], queue;
    struct shard_meter_table *tables; /* [n_tables] */
};

/* The tables must outlive it. */
void shard_meter_open(struct shard_meter *m, const struct shard_tables *tables);
void shard_meter_close(struct shard_meter *m); /* a zeroed one is allowed */

/* These two are for the shard's thread. */
/* Counts a request and its answer's bytes.  begin: meter_clock() when the request began; 0,
 * which that returns when metrics are off, counts nothing. */
void shard_meter_did(struct shard_meter *m, const struct rpc_frame_head *request,
    size_t answer_bytes, int64_t begin);
/* Publishes rows and memory of the tables, and how many requests the turn found queued. */
void shard_meter_turn(struct shard_meter *m, size_t queue);
