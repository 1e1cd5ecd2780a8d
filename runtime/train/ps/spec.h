/* A checked table spec, and where the pieces of a table live.
 *
 * Sparse: server and shard by hash of the id.  Dense: contiguous blocks by server, within a
 * server by shard, within a shard by chunk (bounded frames; each with its own optimizer state).
 * Pure; read-only after rt_table_make. */
#pragma once

#include "runtime/train/optim/optim.h"
#include "runtime/train/ps/init.h"
#include "runtime/rt.h"

enum {
    RT_TABLE_NAME_MAX = 64,
    RT_TABLES_MAX = 256,
    RT_DIM_MAX = 65536,
    RT_DENSE_CHUNK = 1 << 20, /* floats */
};
#define RT_DENSE_SIZE_MAX (1ULL << 34)

struct rt_table {
    struct rt_table_spec spec; /* its strings are the ones below */
    char name[RT_TABLE_NAME_MAX];
    char optimizer[256]; /* canonical */
    char init[128];
    struct rt_optim optim;
    struct rt_initializer initializer;
};

/* CO_INVALID names the table and what is wrong with it. */
CO_MUST_CHECK int rt_table_make(
    const struct rt_table_spec *spec, struct rt_table *ret, struct co_err *err);
/* Copies strings too. */
void rt_table_copy(struct rt_table *to, const struct rt_table *from);
/* NULL when the same, else the name of the first field that differs. */
const char *rt_table_differs(const struct rt_table *a, const struct rt_table *b);

/* State floats of a row (sparse) or of n values (dense). */
size_t rt_table_state(const struct rt_table *t, size_t n);

struct rt_range {
    uint64_t begin, n;
};

/* Part i of n values cut into `parts`; later parts may be empty. */
struct rt_range rt_dense_part(struct rt_range whole, uint32_t parts, uint32_t i);
uint32_t rt_dense_chunks(uint64_t n);
struct rt_range rt_dense_chunk(struct rt_range shard, uint32_t chunk);

uint32_t rt_sparse_server(uint64_t id, uint32_t servers);
uint32_t rt_sparse_shard(uint64_t id, uint32_t shards);
