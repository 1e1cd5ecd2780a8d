/* Reads the samples of one worker, batch by batch: from files (rt_input_open with RT_SHARE_BLOCKS),
 * or directly from the generator, whose line i belongs to worker i mod workers.  Lines are of one
 * of the formats (format.h).
 *
 * Lines that cannot be used are skipped and counted by kind.  The first few are logged as
 * "file:line: reason", and the counts at the end.  A reader belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/ctr/model.h"
#include "examples/ctr/parser.h"

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
/* Before the first ctr_reader_next: parses the lines of its files by that, not by format "auto". */
void ctr_reader_parse(struct ctr_reader *r, struct ctr_parser *parser_own);
/* To predict: each line is a sample, without a label, too.  One that cannot be used is marked as
 * bad in the batch. */
void ctr_reader_keep(struct ctr_reader *r);
void ctr_reader_free(struct ctr_reader *r); /* NULL is fine */
CO_DEFINE_CLEANUP(struct ctr_reader *, ctr_reader_free)

/* Fills b with the next b->max samples, or with fewer if the data ends or if slots have very many
 * values; at the end b->n is 0.  May wait for the disk.  Errors are those of reading files, and of
 * a header; b->n is then undefined. */
CO_MUST_CHECK int ctr_reader_next(struct ctr_reader *r, struct ctr_batch *b, struct co_err *err);
/* Goes back to the first sample for another pass.  Lines that cannot be used are counted from 0
 * again, but not logged again. */
void ctr_reader_rewind(struct ctr_reader *r);
/* Before the first ctr_reader_next: whether there is a usable line.  Leaves no trace.  CO_INVALID:
 * there is none. */
CO_MUST_CHECK int ctr_reader_probe(struct ctr_reader *r, struct co_err *err);

/* Describes the share for a log: "2 of 5 files", "1/2 of the lines of 1 file". */
const char *ctr_reader_describe(const struct ctr_reader *r);
/* What was skipped in this pass so far, and how many samples there were. */
const struct da_tally *ctr_reader_skipped(const struct ctr_reader *r);
uint64_t ctr_reader_samples(const struct ctr_reader *r);
