/* Loads shared libraries that only some machines have, when they are needed, and finds their
 * functions by a table of names.  They stay open until the process ends, as CUDA and NCCL require.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/* A function: its name in the library, and the offset of its pointer in the caller's struct. */
struct co_symbol {
    const char *name;
    size_t offset;
    bool optional; /* NULL where the library does not have it */
};

/* folder NULL or "": the dynamic linker's search path.  CO_UNSUPPORTED: the library cannot be
 * loaded (err says why), or lacks a function (err names it). */
CO_MUST_CHECK int co_library_open(const char *folder, const char *file,
    const struct co_symbol *symbols, size_t n, void *ret_functions, struct co_err *err);
