/* Reads and writes MATLAB level 5 files, as far as the Oxford flowers need it: real arrays of whole
 * numbers, compressed or not.  Specification: MAT-File Format, MathWorks, R2012. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { RN_MAT_BYTES_MAX = 16 << 20, RN_MAT_VALUES_MAX = 1 << 20 };

/* Returns the values of a named array, in the file's order; the caller frees them.  CO_NOTFOUND: no
 * such array.  CO_INVALID says what is wrong at which byte. */
CO_MUST_CHECK int rn_mat_parse(const unsigned char *data, size_t size, const char *name,
    uint32_t **ret_values, size_t *ret_n, struct co_err *err);
/* The same for a file, which error messages name. */
CO_MUST_CHECK int rn_mat_read(
    const char *path, const char *name, uint32_t **ret_values, size_t *ret_n, struct co_err *err);

/* An array (1, n) of values below 65536. */
struct rn_mat_array {
    const char *name;
    const uint32_t *values;
    size_t n;
};
CO_MUST_CHECK int rn_mat_write(
    const char *path, const struct rn_mat_array *arrays, size_t n, struct co_err *err);
