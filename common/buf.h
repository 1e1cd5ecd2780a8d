/* A growing byte buffer with a maximum size, and reading and writing of whole files.
 *
 * Once anything was added, `data` ends with a NUL that is not counted in `len`.  Not thread-safe.
 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

struct co_buf {
    char *data; /* owned; NULL until something was added */
    size_t len; /* bytes used */
    size_t cap; /* bytes allocated */
    size_t max; /* len never exceeds this */
};

#define CO_BUF(maximum) ((struct co_buf){.max = (maximum)})
#define CO_AUTOBUF CO_CLEANUP(co_buf_done)

void co_buf_done(struct co_buf *b);  /* frees; the buffer is empty and usable again */
void co_buf_clear(struct co_buf *b); /* empties, keeps the memory */

/* All return CO_NORESOURCE and leave the buffer unchanged when max would be exceeded. */
CO_MUST_CHECK int co_buf_add(struct co_buf *b, const void *data, size_t len, struct co_err *err);
CO_MUST_CHECK int co_buf_adds(struct co_buf *b, const char *s, struct co_err *err);
CO_MUST_CHECK int co_buf_addf(struct co_buf *b, struct co_err *err, const char *fmt, ...)
    CO_PRINTF(3, 4);
/* Makes room for `more` bytes at data + len; the caller writes them and increases len. */
CO_MUST_CHECK int co_buf_reserve(struct co_buf *b, size_t more, struct co_err *err);

void co_buf_consume(struct co_buf *b, size_t n); /* drops the first n bytes */
char *co_buf_take(struct co_buf *b);             /* the caller frees the result; never NULL */

/* Reads a whole file of at most max bytes. */
CO_MUST_CHECK int co_file_read(
    const char *path, size_t max, struct co_buf *ret, struct co_err *err);
/* The same of an open file; path is for messages. */
CO_MUST_CHECK int co_fd_read(
    int fd, const char *path, size_t max, struct co_buf *ret, struct co_err *err);
/* The file that path leads to through links: renaming another one to it leaves the links as they
 * are.  The caller frees *ret_name.  CO_INVALID: what is there is no file, but a device, say, which
 * a rename would remove; or a link that leads nowhere. */
CO_MUST_CHECK int co_file_target(const char *path, char **ret_name, struct co_err *err);
/* Creates a file beside path, to be renamed to it once it is complete, whose name nobody else has:
 * two that write path at a time do not share it, on two machines either.  The name is hidden, so
 * that a program that lists the directory ignores it.  path: of co_file_target.  The caller frees
 * *ret_name. */
CO_MUST_CHECK int co_file_aside(
    const char *path, unsigned mode, int *ret_fd, char **ret_name, struct co_err *err);
/* Writes the file that path leads to atomically: temporary file in the same directory, fsync,
 * rename. */
CO_MUST_CHECK int co_file_write(
    const char *path, const void *data, size_t len, unsigned mode, struct co_err *err);
/* Opens path for writing, with flags of open; creates it.  Never waits for a reader of a FIFO, nor
 * do writes before co_fd_wait: those fail with EAGAIN.  CO_INVALID: a FIFO that nobody reads. */
CO_MUST_CHECK int co_file_open_log(
    const char *path, int flags, unsigned mode, int *ret_fd, struct co_err *err);
/* Writes wait from now on, as those of a program that got the descriptor should. */
void co_fd_wait(int fd);
/* Where a path leads from the working directory; the caller frees it. */
char *co_path_absolute(const char *path);
/* The program of that name in the PATH; the caller frees it.  NULL: there is none. */
char *co_path_find(const char *program);
