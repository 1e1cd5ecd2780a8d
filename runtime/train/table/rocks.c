/* Rows on disk, with RocksDB: loads the library, sets its options, and translates calls and errors.
 *
 *     key in RocksDB:  space u32 | key u64     big-endian, so that keys are ordered as numbers */
#include "runtime/train/table/rocks.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rocksdb/c.h>

#include "common/library.h"
#include "common/mem.h"

/* Debian 12's name; other distributions have the second one in their development package. */
static const char *const libraries[] = {"librocksdb.so.7.8", "librocksdb.so"};

enum {
    KEY = 12,
    CACHE_SHARE = 8,   /* 1 / CACHE_SHARE of the budget caches filters, indexes and blocks */
    BUFFERS = 3,       /* write buffers: one is filled while the others are flushed */
    BUFFER_SHARE = 48, /* a buffer has 1 / BUFFER_SHARE of the budget */
    BUFFER_MIN = 64 << 10,
    BUFFER_MAX = 64 << 20,
    FILE_MAX = 64 << 20,
    FILTER_BITS = 10, /* bits a key: one in a hundred absent keys costs a read */
    FILTER_PIECE = 4096,
    OPEN_FILES = 256,
    LOG_ERRORS = 3,
    READ_GROUP = 256, /* keys that are read in one call */
};

/* One line for each function of RocksDB that is used. */
#define FUNCTIONS(F)                                                                               \
    F(options_create)                                                                              \
    F(options_destroy)                                                                             \
    F(options_set_create_if_missing)                                                               \
    F(options_set_error_if_exists)                                                                 \
    F(options_set_compression)                                                                     \
    F(options_set_info_log_level)                                                                  \
    F(options_set_keep_log_file_num)                                                               \
    F(options_set_max_open_files)                                                                  \
    F(options_set_max_background_jobs)                                                             \
    F(options_set_max_write_buffer_number)                                                         \
    F(options_set_write_buffer_size)                                                               \
    F(options_set_target_file_size_base)                                                           \
    F(options_set_max_bytes_for_level_base)                                                        \
    F(options_set_level_compaction_dynamic_level_bytes)                                            \
    F(options_set_stats_dump_period_sec)                                                           \
    F(options_set_stats_persist_period_sec)                                                        \
    F(options_set_block_based_table_factory)                                                       \
    F(block_based_options_create)                                                                  \
    F(block_based_options_destroy)                                                                 \
    F(block_based_options_set_block_cache)                                                         \
    F(block_based_options_set_filter_policy)                                                       \
    F(block_based_options_set_partition_filters)                                                   \
    F(block_based_options_set_index_type)                                                          \
    F(block_based_options_set_metadata_block_size)                                                 \
    F(block_based_options_set_cache_index_and_filter_blocks)                                       \
    F(block_based_options_set_cache_index_and_filter_blocks_with_high_priority)                    \
    F(block_based_options_set_format_version)                                                      \
    F(filterpolicy_create_bloom_full)                                                              \
    F(cache_create_lru)                                                                            \
    F(cache_destroy)                                                                               \
    F(destroy_db)                                                                                  \
    F(open_column_families)                                                                        \
    F(column_family_handle_destroy)                                                                \
    F(close)                                                                                       \
    F(free)                                                                                        \
    F(property_int)                                                                                \
    F(writeoptions_create)                                                                         \
    F(writeoptions_destroy)                                                                        \
    F(writeoptions_disable_WAL)                                                                    \
    F(readoptions_create)                                                                          \
    F(readoptions_destroy)                                                                         \
    F(readoptions_set_snapshot)                                                                    \
    F(readoptions_set_fill_cache)                                                                  \
    F(readoptions_set_iterate_upper_bound)                                                         \
    F(writebatch_create)                                                                           \
    F(writebatch_destroy)                                                                          \
    F(writebatch_put)                                                                              \
    F(writebatch_delete)                                                                           \
    F(writebatch_delete_range)                                                                     \
    F(write)                                                                                       \
    F(batched_multi_get_cf)                                                                        \
    F(pinnableslice_value)                                                                         \
    F(pinnableslice_destroy)                                                                       \
    F(create_snapshot)                                                                             \
    F(release_snapshot)                                                                            \
    F(create_iterator)                                                                             \
    F(iter_seek)                                                                                   \
    F(iter_valid)                                                                                  \
    F(iter_next)                                                                                   \
    F(iter_key)                                                                                    \
    F(iter_value)                                                                                  \
    F(iter_get_error)                                                                              \
    F(iter_destroy)

#define MEMBER(name) __typeof__(rocksdb_##name) *name;
#define SYMBOL(name) {"rocksdb_" #name, offsetof(struct calls, name), false},

struct calls {
    FUNCTIONS(MEMBER)
};

static const struct co_symbol symbols[] = {FUNCTIONS(SYMBOL)};

struct table_rocks {
    struct calls call;
    char *dir;
    struct table_budget *budget;
    size_t bytes; /* taken from the budget */
    rocksdb_options_t *options;
    rocksdb_block_based_table_options_t *table;
    rocksdb_cache_t *cache;
    rocksdb_t *db;
    rocksdb_column_family_handle_t *all;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    atomic_uint_least32_t spaces; /* how many were handed out */
};

struct table_rocks_instant {
    struct table_rocks *disk;
    const rocksdb_snapshot_t *snapshot;
};

/* Sets the error to the first line of RocksDB's message, and frees that. */
static int fail(
    const struct table_rocks *d, int code, const char *what, char *why_own, struct co_err *err) {
    int rc = co_err_set(
        err, code, "%s \"%s\": %.*s", what, d->dir, (int)strcspn(why_own, "\n"), why_own);
    d->call.free(why_own);
    return rc;
}

/* ---- open, close ---- */

static size_t buffer_bytes(const struct table_budget *b) {
    size_t n = b->max / BUFFER_SHARE;
    return n < BUFFER_MIN ? BUFFER_MIN : n > BUFFER_MAX ? BUFFER_MAX : n;
}

static void set_options(struct table_rocks *d) {
    const struct calls *f = &d->call;
    size_t buffer = buffer_bytes(d->budget), file = 4 * buffer;
    d->cache = f->cache_create_lru(d->budget->max / CACHE_SHARE);
    d->table = f->block_based_options_create();
    f->block_based_options_set_format_version(d->table, 5);
    f->block_based_options_set_block_cache(d->table, d->cache);
    f->block_based_options_set_filter_policy(
        d->table, f->filterpolicy_create_bloom_full(FILTER_BITS));
    /* Keeps filters and indexes in the cache, in small pieces, so that the cache bounds their
     * memory. */
    f->block_based_options_set_index_type(
        d->table, rocksdb_block_based_table_index_type_two_level_index_search);
    f->block_based_options_set_partition_filters(d->table, 1);
    f->block_based_options_set_metadata_block_size(d->table, FILTER_PIECE);
    f->block_based_options_set_cache_index_and_filter_blocks(d->table, 1);
    f->block_based_options_set_cache_index_and_filter_blocks_with_high_priority(d->table, 1);
    d->options = f->options_create();
    f->options_set_create_if_missing(d->options, 1);
    f->options_set_error_if_exists(d->options, 1);
    f->options_set_compression(d->options, rocksdb_no_compression);
    f->options_set_info_log_level(d->options, LOG_ERRORS);
    f->options_set_keep_log_file_num(d->options, 1);
    f->options_set_max_open_files(d->options, OPEN_FILES);
    f->options_set_max_background_jobs(d->options, 2);
    f->options_set_max_write_buffer_number(d->options, BUFFERS);
    f->options_set_write_buffer_size(d->options, buffer);
    f->options_set_target_file_size_base(d->options, file < FILE_MAX ? file : FILE_MAX);
    f->options_set_max_bytes_for_level_base(d->options, 8 * buffer);
    f->options_set_level_compaction_dynamic_level_bytes(d->options, 1);
    f->options_set_stats_dump_period_sec(d->options, 0);
    f->options_set_stats_persist_period_sec(d->options, 0);
    f->options_set_block_based_table_factory(d->options, d->table);
    d->write = f->writeoptions_create();
    f->writeoptions_disable_WAL(d->write, 1);
    d->read = f->readoptions_create();
}

/* Removes what an earlier process left.  That fails if a running process holds the lock. */
static int open_db(struct table_rocks *d, struct co_err *err) {
    char *why = NULL;
    d->call.destroy_db(d->options, d->dir, &why);
    if (!why) {
        const rocksdb_options_t *options[] = {d->options};
        const char *name = "default";
        d->db = d->call.open_column_families(d->options, d->dir, 1, &name, options, &d->all, &why);
    }
    return why ? fail(d, CO_INVALID, "cold rows in", why, err) : 0;
}

static int load(struct calls *ret, const char **ret_file, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(libraries); i++) {
        if (co_library_open(NULL, libraries[i], symbols, CO_ARRAY_LEN(symbols), ret, err) == 0) {
            *ret_file = libraries[i];
            return 0;
        }
    }
    return co_err_wrap(err, "cold rows need RocksDB (Debian: librocksdb7.8)");
}

int table_rocks_find(const char **ret_file, struct co_err *err) {
    struct calls calls;
    return load(&calls, ret_file, err);
}

static int take_memory(struct table_rocks *d, struct co_err *err) {
    size_t bytes = d->budget->max / CACHE_SHARE + BUFFERS * buffer_bytes(d->budget);
    int rc = table_budget_take(d->budget, bytes, err);
    d->bytes = rc < 0 ? 0 : bytes;
    return rc;
}

static int make_dir(const char *dir, struct co_err *err) {
    bool made = mkdir(dir, 0777) == 0 || errno == EEXIST;
    return made ? 0 : co_err_set(err, CO_INVALID, "cold rows in \"%s\": %m", dir);
}

CO_DEFINE_CLEANUP(struct table_rocks *, table_rocks_close)

int table_rocks_open(const char *dir, const char *name, struct table_budget *budget,
    struct table_rocks **ret, struct co_err *err) {
    CO_CLEANUP(table_rocks_closep) struct table_rocks *d = co_xcalloc(1, sizeof(*d));
    d->dir = co_xasprintf("%s/%s", dir, name);
    d->budget = budget;
    const char *file;
    CO_TRY(load(&d->call, &file, err));
    CO_TRY(take_memory(d, err));
    CO_TRY(make_dir(dir, err));
    CO_TRY(make_dir(d->dir, err));
    set_options(d);
    CO_TRY(open_db(d, err));
    *ret = co_steal_ptr(d);
    return 0;
}

void table_rocks_close(struct table_rocks *d) {
    if (!d) {
        return;
    }
    const struct calls *f = &d->call;
    if (d->db) {
        char *why = NULL;
        f->column_family_handle_destroy(d->all);
        f->close(d->db);
        f->destroy_db(d->options, d->dir, &why); /* on failure: the next open removes the rest */
        f->free(why);
        (void)rmdir(d->dir);
    }
    if (d->options) {
        f->writeoptions_destroy(d->write);
        f->readoptions_destroy(d->read);
        f->options_destroy(d->options);
        f->block_based_options_destroy(d->table);
        f->cache_destroy(d->cache);
    }
    table_budget_give(d->budget, d->bytes);
    free(d->dir);
    free(d);
}

const char *table_rocks_dir(const struct table_rocks *d) {
    return d->dir;
}

uint64_t table_rocks_bytes(const struct table_rocks *d) {
    uint64_t n = 0;
    return d->call.property_int(d->db, "rocksdb.total-sst-files-size", &n) == 0 ? n : 0;
}

/* ---- spaces, keys ---- */

static void make_key(uint32_t space, uint64_t key, char ret[KEY]) {
    uint32_t s = __builtin_bswap32(space);
    uint64_t k = __builtin_bswap64(key);
    memcpy(ret, &s, sizeof(s));
    memcpy(ret + sizeof(s), &k, sizeof(k));
}

uint32_t table_rocks_space(struct table_rocks *d) {
    return atomic_fetch_add(&d->spaces, 1);
}

static int commit(struct table_rocks *d, rocksdb_writebatch_t *batch_own, struct co_err *err) {
    char *why = NULL;
    d->call.write(d->db, d->write, batch_own, &why);
    d->call.writebatch_destroy(batch_own);
    return why ? fail(d, CO_NORESOURCE, "cold rows cannot be written to", why, err) : 0;
}

int table_rocks_drop(struct table_rocks *d, uint32_t space, struct co_err *err) {
    char from[KEY], to[KEY];
    make_key(space, 0, from);
    make_key(space + 1, 0, to);
    rocksdb_writebatch_t *batch = d->call.writebatch_create();
    d->call.writebatch_delete_range(batch, from, KEY, to, KEY);
    return commit(d, batch, err);
}

int table_rocks_write(struct table_rocks *d, uint32_t space, const struct table_rocks_row *rows,
    size_t n, struct co_err *err) {
    rocksdb_writebatch_t *batch = d->call.writebatch_create();
    for (size_t i = 0; i < n; i++) {
        char key[KEY];
        make_key(space, rows[i].key, key);
        if (rows[i].data) {
            d->call.writebatch_put(batch, key, KEY, rows[i].data, rows[i].bytes);
        } else {
            d->call.writebatch_delete(batch, key, KEY);
        }
    }
    return commit(d, batch, err);
}

/* ---- reading ---- */

static int damaged(const struct table_rocks *d, size_t bytes, size_t want, struct co_err *err) {
    return co_err_set(
        err, CO_INTERNAL, "cold rows in \"%s\": a row of %zu bytes, not %zu", d->dir, bytes, want);
}

static int read_group(struct table_rocks *d, uint32_t space, const uint64_t *keys, size_t n,
    size_t bytes, char *ret_rows, bool *ret_found, struct co_err *err) {
    char text[READ_GROUP][KEY], *errs[READ_GROUP];
    const char *at[READ_GROUP];
    size_t sizes[READ_GROUP];
    rocksdb_pinnableslice_t *values[READ_GROUP];
    for (size_t i = 0; i < n; i++) {
        make_key(space, keys[i], text[i]);
        at[i] = text[i];
        sizes[i] = KEY;
    }
    d->call.batched_multi_get_cf(d->db, d->read, d->all, n, at, sizes, values, errs, false);
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        size_t got = 0;
        const char *value = values[i] ? d->call.pinnableslice_value(values[i], &got) : NULL;
        ret_found[i] = value;
        if (value && got == bytes) {
            memcpy(ret_rows + i * bytes, value, bytes);
        } else if (value && rc == 0) {
            rc = damaged(d, got, bytes, err);
        }
        d->call.pinnableslice_destroy(values[i]);
        if (errs[i] && rc == 0) {
            rc = fail(d, CO_INTERNAL, "cold rows cannot be read from", errs[i], err);
        } else {
            d->call.free(errs[i]);
        }
    }
    return rc;
}

int table_rocks_read(struct table_rocks *d, uint32_t space, const uint64_t *keys, size_t n,
    size_t bytes, void *ret_rows, bool *ret_found, struct co_err *err) {
    for (size_t i = 0; i < n; i += READ_GROUP) {
        size_t m = n - i < READ_GROUP ? n - i : READ_GROUP;
        CO_TRY(read_group(
            d, space, keys + i, m, bytes, (char *)ret_rows + i * bytes, ret_found + i, err));
    }
    return 0;
}

/* ---- all of a space ---- */

struct table_rocks_instant *table_rocks_instant_new(struct table_rocks *d) {
    struct table_rocks_instant *i = co_xcalloc(1, sizeof(*i));
    i->disk = d;
    i->snapshot = d->call.create_snapshot(d->db);
    return i;
}

void table_rocks_instant_free(struct table_rocks_instant *i) {
    if (i) {
        i->disk->call.release_snapshot(i->disk->db, i->snapshot);
        free(i);
    }
}

int table_rocks_walk(struct table_rocks *d, uint32_t space, const struct table_rocks_instant *at,
    uint64_t from, bool (*take)(void *arg, uint64_t key, const void *data, size_t bytes), void *arg,
    struct co_err *err) {
    const struct calls *f = &d->call;
    char first[KEY], end[KEY], *why = NULL;
    make_key(space, from, first);
    make_key(space + 1, 0, end);
    rocksdb_readoptions_t *options = f->readoptions_create();
    f->readoptions_set_iterate_upper_bound(options, end, KEY);
    f->readoptions_set_fill_cache(options, 0); /* lookups need the cache more than a full pass */
    if (at) {
        f->readoptions_set_snapshot(options, at->snapshot);
    }
    rocksdb_iterator_t *it = f->create_iterator(d->db, options);
    f->iter_seek(it, first, KEY);
    for (bool more = true; more && f->iter_valid(it); f->iter_next(it)) {
        size_t n = 0, bytes = 0;
        uint64_t key;
        const char *k = f->iter_key(it, &n), *data = f->iter_value(it, &bytes);
        memcpy(&key, k + KEY - sizeof(key), sizeof(key));
        more = take(arg, __builtin_bswap64(key), data, bytes);
    }
    f->iter_get_error(it, &why);
    f->iter_destroy(it);
    f->readoptions_destroy(options);
    return why ? fail(d, CO_INTERNAL, "cold rows cannot be read from", why, err) : 0;
}
