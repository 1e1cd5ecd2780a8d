/* Writes arrays as NumPy's files: one as .npy, several as .npz, a zip archive of .npy files
 * (stored, with zip's 64-bit fields, so that arrays may be large). The sizes are declared first;
 * then the arrays may be written in any order; checksums are computed from the file at the end.
 *
 * The file has a temporary name until it is complete. Knows nothing of checkpoints. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum { INSPECT_NPZ_NAME_MAX = 96, INSPECT_NPZ_ARRAYS_MAX = 1024 };

struct inspect_npz;

/* single: a .npy with one array. */
CO_MUST_CHECK int inspect_npz_create(
    const char *path, bool single, struct inspect_npz **ret, struct co_err *err);
/* Declares the next array. descr is NumPy's, "'<f4'"; rows of `columns` items (0: a vector) of
 * item_bytes each. *ret_index: the array's number for inspect_npz_write. */
CO_MUST_CHECK int inspect_npz_add(struct inspect_npz *z, const char *name, const char *descr,
    uint64_t rows, uint64_t columns, uint64_t item_bytes, uint32_t *ret_index, struct co_err *err);
/* `at`: offset in bytes from the array's beginning. */
CO_MUST_CHECK int inspect_npz_write(struct inspect_npz *z, uint32_t index, uint64_t at,
    const void *data, size_t len, struct co_err *err);
/* Completes the file, syncs it and renames it to its final name. */
CO_MUST_CHECK int inspect_npz_finish(struct inspect_npz *z, struct co_err *err);
/* Removes an unfinished file; NULL is allowed. */
void inspect_npz_close(struct inspect_npz *z);
CO_DEFINE_CLEANUP(struct inspect_npz *, inspect_npz_close)
