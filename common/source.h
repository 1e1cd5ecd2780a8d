/* The bytes of one text file, unpacked where gzip has packed it.  Its first bytes say what it is,
 * not its name.  Lines that end with a carriage return alone, as on old Macs, end with a newline
 * here, among lines of any other end, too: all that read lines so read them.  Owned by its reader.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

struct co_source;

/* Opens path, a file or a pipe, at an offset of the bytes that co_source_read gives; first: nothing
 * was read of it before.  Waits for a pipe's first bytes for PIPE_MS (source.c).
 * CO_UNSUPPORTED: neither a file nor a pipe, a format that is no text, or a pipe that is to be read
 * a second time; CO_INVALID: the file ends before the offset; CO_DAMAGED: gzip data that is cut or
 * wrong; CO_TIMEOUT: the pipe has no writer. */
CO_MUST_CHECK int co_source_open(const char *path, uint64_t offset, bool first,
    struct co_source **ret_source, struct co_err *err);
/* What a program may want beyond that. */
struct co_source_options {
    const char *path;
    uint64_t offset;
    bool first;
    const char *command; /* its output is read (filter.h), at any time; NULL: the file itself */
    int stop; /* a descriptor: once it is readable, waits end with CO_CANCELED; -1: none */
};
/* CO_UNAVAILABLE: the command has failed. */
CO_MUST_CHECK int co_source_open_with(
    const struct co_source_options *o, struct co_source **ret_source, struct co_err *err);
void co_source_close(struct co_source *s); /* NULL allowed */
CO_DEFINE_CLEANUP(struct co_source *, co_source_close)
/* Reads up to room bytes; 0 at the end.  Errors as above. */
CO_MUST_CHECK int co_source_read(
    struct co_source *s, void *ret, size_t room, size_t *ret_n, struct co_err *err);
