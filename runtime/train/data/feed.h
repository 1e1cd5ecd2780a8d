/* Threads that read and parse ahead: one reads lines into chunks, others parse these.  Chunks come
 * out in the order of their lines. */
#pragma once

#include "runtime/train/data/chunk.h"

struct da_feed_options {
    const char *const *paths;
    size_t n_paths;
    struct rt_share share;
    const char *command; /* NULL: none */
    uint64_t passes;
    uint32_t threads; /* that parse */
    size_t ahead;     /* lines that are read ahead */
};

struct da_feed; /* one thread calls */

/* Finds the files, and starts nothing yet.  fields is borrowed.  The caller owns *ret_feed. */
CO_MUST_CHECK int da_feed_open(const struct da_feed_options *o, const struct da_fields *fields,
    struct da_feed **ret_feed, struct co_err *err);
void da_feed_close(struct da_feed *f); /* NULL is fine */
CO_DEFINE_CLEANUP(struct da_feed *, da_feed_close)

/* The next chunk, which the caller gives back; the last one of the last pass is that of which
 * nothing follows.  CO_TIMEOUT at end_ms; below 0: none.  A chunk's own error is the caller's to
 * look at. */
CO_MUST_CHECK int da_feed_take(
    struct da_feed *f, int64_t end_ms, struct da_chunk **ret_chunk, struct co_err *err);
void da_feed_give_back(struct da_feed *f, struct da_chunk *c);
/* Chunks that come next begin there.  The caller has given all back. */
CO_MUST_CHECK int da_feed_seek(struct da_feed *f, const struct rt_position *at, struct co_err *err);

size_t da_feed_files(const struct da_feed *f);
const char *da_feed_path(const struct da_feed *f, size_t file);
const char *da_feed_describe(const struct da_feed *f);
