/* Reads the samples of one worker, batch by batch: from files (rt_input_open with RT_SHARE_BLOCKS),
 * or directly from the generator, whose line i belongs to worker i mod workers.  Lines are Criteo's
 * or PaddleRec's (slots.h).
 *
 * Malformed lines are skipped and counted.  The first few are logged as "file:line: reason", and
 * the count is logged at the end.  A reader belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/ctr/model.h"

enum { CTR_BAD_LINES_SHOWN = 5 };

/* A share of the data: that of worker `index` of `count`; {0, 1} is all of it. */
struct ctr_share {
    uint32_t index, count;
};

struct ctr_reader;

/* The caller owns *ret_r.  c must have Criteo's 26 slots and 13 numbers.  CO_NOTFOUND: path does
 * not exist or has no file. */
CO_MUST_CHECK int ctr_reader_open(const char *path, const struct ctr_config *c,
    struct ctr_share share, struct ctr_reader **ret_r, struct co_err *err);
/* Reads lines begin to begin + lines - 1 of the generator's data set. */
CO_MUST_CHECK int ctr_reader_open_generated(uint64_t seed, uint64_t begin, uint64_t lines,
    const struct ctr_config *c, struct ctr_share share, struct ctr_reader **ret_r,
    struct co_err *err);
void ctr_reader_free(struct ctr_reader *r); /* NULL is fine */
CO_DEFINE_CLEANUP(struct ctr_reader *, ctr_reader_free)

/* Fills b with the next b->max samples, or with fewer if the data ends; at the end b->n is 0.  May
 * wait for the disk.  Errors are those of reading files; b->n is then undefined. */
CO_MUST_CHECK int ctr_reader_next(struct ctr_reader *r, struct ctr_batch *b, struct co_err *err);
/* Goes back to the first sample for another pass.  Malformed lines are counted from 0 again, but
 * not logged again. */
void ctr_reader_rewind(struct ctr_reader *r);

/* Describes the share for a log: "2 of 5 files", "1/2 of the lines of 1 file". */
const char *ctr_reader_describe(const struct ctr_reader *r);
/* The number of malformed lines so far, and the last one as "file:line: reason" ("": none). */
uint64_t ctr_reader_bad_lines(const struct ctr_reader *r);
const char *ctr_reader_last_bad(const struct ctr_reader *r);
