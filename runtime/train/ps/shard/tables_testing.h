/* The tables of one shard without its thread, and frames for them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "runtime/train/ps/shard/tables.h"

enum { TESTING_TABLES = 8 };

struct testing {
    struct ps_table tables[TESTING_TABLES];
    struct table_budget budget;
    struct shard_config config; /* change it between testing_make and testing_open */
    struct shard_tables t;
    struct co_err err; /* of the last request */
};

/* One shard, two trainers, 64 MiB. */
static inline void testing_make(
    struct testing *w, const struct rt_table_spec *specs, uint32_t n, enum rt_mode mode) {
    memset(w, 0, sizeof(*w));
    for (uint32_t i = 0; i < n; i++) {
        struct co_err err = {0};
        if (ps_table_make(&specs[i], &w->tables[i], &err) < 0) {
            fail_msg("%s", err.msg);
        }
    }
    ps_tables_take_turns(w->tables, n);
    w->budget.max = 64 << 20;
    w->config = (struct shard_config){.shards = 1,
        .servers = 1,
        .trainers = 2,
        .mode = mode,
        .tables = w->tables,
        .n_tables = n,
        .budget = &w->budget};
}

static inline void testing_open(struct testing *w) {
    assert_int_equal(0, shard_tables_init(&w->t, &w->config, &w->err));
}

static inline void testing_start(
    struct testing *w, const struct rt_table_spec *specs, uint32_t n, enum rt_mode mode) {
    testing_make(w, specs, n, mode);
    testing_open(w);
}

/* All memory must have been given back. */
static inline void testing_end(struct testing *w) {
    shard_tables_done(&w->t);
    assert_int_equal(0, atomic_load(&w->budget.used));
}

/* ---- frames ---- */

static inline struct rpc_frame *testing_frame(
    uint8_t kind, uint32_t table, uint32_t count, size_t bytes) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(kind, bytes, &f, NULL));
    memset(f->payload, 0, bytes);
    f->head.table = (uint16_t)table;
    f->head.count = count;
    return f;
}

/* ids [n], then `floats` values a row. */
static inline struct rpc_frame *testing_rows(uint8_t kind, uint32_t table, const uint64_t *ids,
    uint32_t n, const float *values, size_t floats) {
    struct rpc_frame *f = testing_frame(kind, table, n, n * (8 + floats * 4));
    for (uint32_t i = 0; i < n; i++) {
        co_put_u64(f->payload + i * 8UL, ids[i]);
    }
    if (n * floats > 0) {
        co_copy_f32(f->payload + n * 8UL, values, n * floats);
    }
    return f;
}

/* The result; the error is in w->err.  ret_answer NULL: it is dropped. */
static inline int testing_ask(
    struct testing *w, uint32_t trainer, struct rpc_frame *f_own, struct rpc_frame **ret_answer) {
    struct rpc_frame *a = NULL;
    w->err = (struct co_err){0};
    int rc = shard_tables_do(&w->t, trainer, f_own, &a, &w->err);
    assert_int_equal(rc, w->err.code);
    rpc_frame_free(f_own);
    if (ret_answer) {
        *ret_answer = a;
    } else {
        rpc_frame_free(a);
    }
    return rc;
}

/* A request that must succeed. */
static inline struct rpc_frame *testing_do(struct testing *w, struct rpc_frame *f_own) {
    struct rpc_frame *a = NULL;
    if (testing_ask(w, 0, f_own, &a) < 0) {
        fail_msg("%s", w->err.msg);
    }
    return a;
}

/* A request without payload, as the one with that aux.  The caller frees the answer. */
static inline struct rpc_frame *testing_call(
    struct testing *w, uint8_t kind, uint32_t table, uint64_t aux) {
    struct rpc_frame *f = testing_frame(kind, table, 0, 0);
    f->head.aux = aux;
    return testing_do(w, f);
}

/* ---- a sparse table of f32 ---- */

static inline int testing_push(
    struct testing *w, uint32_t table, const uint64_t *ids, uint32_t n, const float *g) {
    return testing_ask(
        w, 0, testing_rows(RPC_FRAME_PUSH_SPARSE, table, ids, n, g, w->t.tables[table].dim), NULL);
}

/* One id, all of whose gradient is g. */
static inline int testing_push_one(struct testing *w, uint32_t table, uint64_t id, float g) {
    float all[64];
    for (size_t i = 0; i < w->t.tables[table].dim; i++) {
        all[i] = g;
    }
    return testing_push(w, table, &id, 1, all);
}

/* The first value of an id, as a trainer reads it. */
static inline float testing_pull_one(struct testing *w, uint32_t table, uint64_t id) {
    float v;
    struct rpc_frame *a =
        testing_do(w, testing_rows(RPC_FRAME_PULL_SPARSE, table, &id, 1, NULL, 0));
    assert_int_equal(w->t.tables[table].dim * 4, a->head.bytes);
    co_copy_f32(&v, a->payload, 1);
    rpc_frame_free(a);
    return v;
}

static inline bool testing_has(const struct testing *w, uint32_t table, uint64_t id) {
    return table_store_find(w->t.tables[table].rows, id) != TABLE_SLOT_NONE;
}

static inline size_t testing_count(const struct testing *w, uint32_t table) {
    return table_store_rows(w->t.tables[table].rows);
}
