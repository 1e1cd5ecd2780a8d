/* One line of the Criteo format: label, 13 integers, 26 categorical values, separated by tabs;
 * any of the features may be empty.
 *
 *     number i      0 if empty, else (x - min_i) / range_i with the fixed tables in criteo.c
 *     category c    FNV-1a (64 bits) over the decimal column number (14 to 39) and the value,
 *                   modulo the vocabulary; an empty value is hashed, too
 *
 * The hash is fixed: the same feature has the same id in every process, on every machine, today
 * and when a saved model is loaded.  Pure; knows nothing of files. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    WD_CRITEO_DENSE = 13,
    WD_CRITEO_SLOTS = 26,
    WD_CRITEO_COLUMNS = 1 + WD_CRITEO_DENSE + WD_CRITEO_SLOTS,
    WD_CRITEO_REASON_MAX = 96,
};

/* The id of a value (len bytes) in a column (1 to 9999). */
uint64_t wd_criteo_id(unsigned column, const char *value, size_t len, uint64_t vocabulary);

/* Reads a line of len bytes without its newline.  0, or -1 with the reason for people, without
 * file and line.  Then the outputs may be half written. */
int wd_criteo_parse(const char *line, size_t len, uint64_t vocabulary,
    uint64_t ret_ids[WD_CRITEO_SLOTS], float ret_dense[WD_CRITEO_DENSE], float *ret_label,
    char ret_reason[WD_CRITEO_REASON_MAX]);
