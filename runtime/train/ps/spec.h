/* A checked table spec, and which server and shard owns which part of a table.
 *
 *     sparse   a hash of the id selects the server and the shard
 *     dense    the vector is cut into contiguous parts for servers, these for shards, and these
 *              into chunks.  A frame carries one chunk.  Each has its own optimizer state
 *
 * Dense tables begin on different servers and shards in turn (ps_tables_take_turns).
 *
 * Pure functions; a table is read-only after ps_table_make and ps_tables_take_turns. */
#pragma once

#include "runtime/rt.h"
#include "runtime/train/optim/init.h"
#include "runtime/train/optim/optim.h"
#include "runtime/train/optim/schedule.h"
#include "runtime/train/table/narrow.h"
#include "runtime/train/table/policy.h"

enum {
    PS_TABLE_NAME_MAX = 64,
    PS_TABLES_MAX = 256,
    PS_DIM_MAX = 65536,
    /* Floats.  128 KiB stay in a core's cache from the socket to the update and back, and one end
     * works on a chunk while the other one has the next. */
    PS_DENSE_CHUNK = 1 << 15,
    /* Those of a shard that has more than PS_DENSE_MANY floats, so that there are not too many. */
    PS_DENSE_CHUNK_LARGE = 1 << 20,
    PS_DENSE_MANY = 1 << 24,
};
#define PS_DENSE_SIZE_MAX (1ULL << 34)

struct ps_table {
    struct rt_table_spec spec; /* its strings point to those below */
    char name[PS_TABLE_NAME_MAX];
    char optimizer[256]; /* of the servers, in canonical form; in geo mode they only add */
    char local[256];     /* geo: of the trainers, in canonical form: the optimizer of the spec */
    char init[128];
    char schedule[256];
    struct optim optim;
    struct optim local_optim; /* geo: `local` */
    struct optim_initializer initializer;
    struct rt_schedule rates;
    enum rt_dtype storage; /* sparse: type of values in memory */
    enum rt_dtype wire;    /* type of values and gradients in frames */
    bool int8; /* wire "int8": gradients, and the changes of a step, travel as int8.h has them; all
                  else is f32 */
    char admit_text[128], evict_text[256];
    struct table_policy admit, evict; /* sparse */
    bool zeros; /* sparse: an id without a row reads as zeros, since its row may not be admitted */
    uint32_t turn; /* dense: number of dense tables before it */
};

/* What an id without a row reads as, dim floats: the same in servers, trainers and models. */
void ps_table_absent_row(const struct ps_table *t, uint64_t id, float *ret_row);

/* Checks a spec and fills *ret.  CO_INVALID names the table and what is wrong with it. */
CO_MUST_CHECK int ps_table_make(
    const struct rt_table_spec *spec, struct ps_table *ret, struct co_err *err);
/* CO_INVALID: the table is in sync mode, but the job is not. */
CO_MUST_CHECK int ps_table_fits(const struct ps_table *t, enum rt_mode job, struct co_err *err);
/* For messages: "async", "sync", "geo" or "unset". */
const char *ps_mode_name(enum rt_mode mode);
/* CO_INVALID: "dim is 16, expected 8", of the first field of t that differs. */
CO_MUST_CHECK int ps_table_same(
    const struct ps_table *t, const struct ps_table *as, struct co_err *err);

/* How many floats of optimizer state servers keep for a row (n: its dim) or for n dense values. */
size_t ps_table_state(const struct ps_table *t, size_t n);

/* Divides g [n] by `by`. */
void ps_mean(float *g, size_t n, uint32_t by);

/* Floats of a sparse row in a checkpoint: values, state, and what its evict policy keeps. */
size_t ps_table_row(const struct ps_table *t);

/* A random number, never 0.  It distinguishes a process, or a client or server in it, from one that
 * replaces it. */
uint64_t ps_incarnation(void);

/* A range of values of a dense vector. */
struct ps_range {
    uint64_t begin, n;
};

/* Names a shard of a server, and says how many there are. */
struct ps_shard_position {
    uint32_t server, servers, shard, shards;
};

/* Sets the turn of each of a job's tables. */
void ps_tables_take_turns(struct ps_table *tables, uint32_t n);
/* The values of a dense table that the shard owns; may be none.  The table's turn selects the
 * server and the shard that own the first values, so that small tables do not all lie on the first
 * ones. */
struct ps_range ps_dense_share(const struct ps_table *t, const struct ps_shard_position *p);
uint32_t ps_dense_chunks(uint64_t n);
struct ps_range ps_dense_chunk(struct ps_range shard, uint32_t chunk);

uint32_t ps_sparse_server(uint64_t id, uint32_t servers);
uint32_t ps_sparse_shard(uint64_t id, uint32_t shards);
/* Whether the shard owns all these ids; if not, *ret_i is the index of the first other one. */
bool ps_sparse_all_live(
    const struct ps_shard_position *p, const uint64_t *ids, size_t n, size_t *ret_i);
