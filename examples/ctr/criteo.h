/* Parses a line of the Criteo format: label, 13 integers, 26 categorical values, separated by tabs.
 * Features may be empty.
 *
 *     number i      0 if empty, else (x - min_i) / range_i with the fixed tables in criteo.c
 *     category c    FNV-1a (64 bits) over the decimal column number (14 to 39) and the value,
 *                   modulo the vocabulary; an empty value is hashed, too
 *
 * The hash must never change: a feature needs the same id in every process, on every machine, and
 * when a saved model is loaded.  Knows nothing of files. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    CTR_CRITEO_DENSE = 13,
    CTR_CRITEO_SLOTS = 26,
    CTR_CRITEO_COLUMNS = 1 + CTR_CRITEO_DENSE + CTR_CRITEO_SLOTS,
    CTR_CRITEO_REASON_MAX = 96,
};

/* The id of a value (len bytes) in a column (1 to 9999). */
uint64_t ctr_criteo_id(unsigned column, const char *value, size_t len, uint64_t vocabulary);

/* Parses a line of len bytes, without its newline.  Returns 0, or -1 with a readable reason that
 * lacks file and line; the outputs may then be half written. */
int ctr_criteo_parse(const char *line, size_t len, uint64_t vocabulary,
    uint64_t ret_ids[CTR_CRITEO_SLOTS], float ret_dense[CTR_CRITEO_DENSE], float *ret_label,
    char ret_reason[CTR_CRITEO_REASON_MAX]);
