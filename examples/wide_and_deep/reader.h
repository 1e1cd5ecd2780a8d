/* Samples of one worker, read batch by batch: from a file, from the files of a directory (sorted
 * by name; names beginning with "." or "_" are left out), or straight from the generator.
 *
 * Shares: with at least as many files as workers each worker takes contiguous files, the first
 * (files mod workers) workers one more.  With fewer files, and for generated lines, line i of
 * the whole goes to worker i mod workers, so that everyone has work.
 *
 * Malformed lines are skipped and counted; the first few are logged as file:line: reason, the
 * number of all at the end.  Memory is bounded: one buffer of 1 MiB, lines of at most 64 KiB.
 * A reader belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/wide_and_deep/model.h"

enum { WD_LINE_MAX = 64 * 1024, WD_BAD_LINES_SHOWN = 5 };

/* Which share of the data: worker `index` of `count`; {0, 1} is all of it. */
struct wd_share {
    uint32_t index, count;
};

struct wd_reader;

/* The caller owns *ret_r.  c must have Criteo's 26 slots and 13 numbers.  CO_NOTFOUND when path
 * is not there or holds no file. */
CO_MUST_CHECK int wd_reader_open(const char *path, const struct wd_config *c, struct wd_share share,
    struct wd_reader **ret_r, struct co_err *err);
/* Lines begin .. begin + lines - 1 of the generator's data set. */
CO_MUST_CHECK int wd_reader_open_generated(uint64_t seed, uint64_t begin, uint64_t lines,
    const struct wd_config *c, struct wd_share share, struct wd_reader **ret_r, struct co_err *err);
void wd_reader_free(struct wd_reader *r); /* NULL is fine */
CO_DEFINE_CLEANUP(struct wd_reader *, wd_reader_free)

/* Fills b with the next samples, b->max of them unless the data ends before; b->n is 0 at the
 * end.  Blocks on the disk.  Errors are those of reading files; b->n is then undefined. */
CO_MUST_CHECK int wd_reader_next(struct wd_reader *r, struct wd_batch *b, struct co_err *err);
/* Back to the first sample, for another pass; malformed lines are counted anew and not logged
 * again. */
void wd_reader_rewind(struct wd_reader *r);

/* How the data is shared, for people: "2 of 5 files", "every 2nd line of 1 file". */
const char *wd_reader_describe(const struct wd_reader *r);
/* Malformed lines so far, and the last one as "file:line: reason" ("" when there was none). */
uint64_t wd_reader_bad_lines(const struct wd_reader *r);
const char *wd_reader_last_bad(const struct wd_reader *r);
