/* Libraries that only some machines have: opened when they are needed, their functions found by a
 * table of names.  They stay open until the process ends, as CUDA's and NCCL's must. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/* A function: its name in the library, and where its address goes in the caller's struct. */
struct rt_symbol {
    const char *name;
    size_t offset;
    bool optional; /* NULL where the library does not have it */
};

/* folder NULL or "": where the dynamic linker looks.  CO_UNSUPPORTED, in one line: the library
 * cannot be loaded, and why; or which function it lacks. */
CO_MUST_CHECK int rt_library_open(const char *folder, const char *file,
    const struct rt_symbol *symbols, size_t n, void *ret_functions, struct co_err *err);
