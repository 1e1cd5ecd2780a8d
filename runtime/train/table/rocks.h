/* Rows on disk: ordered maps from a u64 key to bytes, in a directory that one process uses.
 *
 *     <dir>/<name>     created if absent, and locked
 *     space 0, 1, ..   each is a separate map
 *
 * This is scratch space: only checkpoints survive the process.  Opening removes what an earlier
 * process left, and closing removes everything.  So RocksDB, which is behind it, writes no log.
 * Its library is loaded when the first directory is opened.  RocksDB's memory is taken from the
 * budget, about a fifth of its limit: for filters, which show without a read that a key is absent,
 * for cached blocks, and for recent writes.
 *
 * Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/train/table/budget.h"

struct table_rocks;

/* CO_INVALID: the directory cannot be created or written, or another process has locked it.
 * CO_UNSUPPORTED: RocksDB is not installed.  CO_NORESOURCE: the budget.  The budget must outlive
 * the disk. */
CO_MUST_CHECK int table_rocks_open(const char *dir, const char *name, struct table_budget *budget,
    struct table_rocks **ret, struct co_err *err);
/* The library's file, where it is installed and has what is needed; static.  CO_UNSUPPORTED. */
CO_MUST_CHECK int table_rocks_find(const char **ret_file, struct co_err *err);
void table_rocks_close(struct table_rocks *d); /* NULL allowed; removes <dir>/<name> */

const char *table_rocks_dir(const struct table_rocks *d);
uint64_t table_rocks_bytes(const struct table_rocks *d); /* of its files */

/* A new, empty space.  Numbers are not reused: at most 4 G of them between open and close. */
uint32_t table_rocks_space(struct table_rocks *d);
/* Removes all keys of the space, which must not be used again. */
CO_MUST_CHECK int table_rocks_drop(struct table_rocks *d, uint32_t space, struct co_err *err);

struct table_rocks_row {
    uint64_t key;
    const void *data; /* NULL: removes the key */
    size_t bytes;
};
/* Writes all rows or none.  CO_NORESOURCE: the disk is full or broken; the message has the
 * directory.  Earlier rows can still be read then. */
CO_MUST_CHECK int table_rocks_write(struct table_rocks *d, uint32_t space,
    const struct table_rocks_row *rows, size_t n, struct co_err *err);

/* Copies the data of the keys that exist to ret_rows [n][bytes].  CO_INTERNAL: a file cannot be
 * read or is damaged; the message names it. */
CO_MUST_CHECK int table_rocks_read(struct table_rocks *d, uint32_t space, const uint64_t *keys,
    size_t n, size_t bytes, void *ret_rows, bool *ret_found, struct co_err *err);

/* A view of the current data that later writes do not change.  Keeps removed data on the disk. */
struct table_rocks_instant;
struct table_rocks_instant *table_rocks_instant_new(struct table_rocks *d);
void table_rocks_instant_free(struct table_rocks_instant *i); /* NULL allowed; before its disk */

/* Calls take for each key from `from` on, in order, until it returns false.  The data is valid
 * during the callback, which must not write.  at NULL: the current data. */
CO_MUST_CHECK int table_rocks_walk(struct table_rocks *d, uint32_t space,
    const struct table_rocks_instant *at, uint64_t from,
    bool (*take)(void *arg, uint64_t key, const void *data, size_t bytes), void *arg,
    struct co_err *err);
