/* The file system operations that make a checkpoint durable. Each names itself in its errors. Tests
 * kill a process between any two of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/err.h"

enum { CKPT_DISK_BLOCK = 4096 };

struct iovec;

/* Runs before each step; NULL outside of tests. */
extern void (*ckpt_disk_watch)(void);
/* Runs before a file is opened for reading; NULL outside of tests. */
extern void (*_Atomic ckpt_disk_opens)(void);

/* With those above it.  Each that it makes is durable in the one above it, or is removed again. */
CO_MUST_CHECK int ckpt_disk_mkdir(const char *dir, struct co_err *err);
/* Creates an empty file for writing. Direct: past the page cache if the file system can; memory
 * address, length and offset of each write must then be multiples of CKPT_DISK_BLOCK. */
CO_MUST_CHECK int ckpt_disk_create(
    const char *path, bool direct, int *ret_fd, bool *ret_direct, struct co_err *err);
/* Writes go through the page cache from now on, as lengths that are no multiple need. */
void ckpt_disk_buffer(int fd);
/* Writes all of the n pieces; changes the array. */
CO_MUST_CHECK int ckpt_disk_write(
    int fd, const char *path, struct iovec *pieces, int n, struct co_err *err);
CO_MUST_CHECK int ckpt_disk_sync(int fd, const char *path, struct co_err *err);
CO_MUST_CHECK int ckpt_disk_sync_dir(const char *dir, struct co_err *err);
/* Writes a file atomically and durably, in two steps: as "name.new", synced; then that is renamed,
 * and the directory synced.  After a failure of the first, name is as before and name.new is gone;
 * after one of the second, name may be either file. */
CO_MUST_CHECK int ckpt_disk_prepare(
    const char *dir, const char *name, const void *data, size_t len, struct co_err *err);
CO_MUST_CHECK int ckpt_disk_replace(const char *dir, const char *name, struct co_err *err);
/* The second step for a file of that name, in the directory of path. */
CO_MUST_CHECK int ckpt_disk_rename(const char *aside, const char *path, struct co_err *err);
/* A file that does not exist counts as removed. */
CO_MUST_CHECK int ckpt_disk_remove(const char *dir, const char *name, struct co_err *err);
CO_MUST_CHECK int ckpt_disk_remove_dir(const char *dir, struct co_err *err);

struct ckpt_lock {
    int fd;     /* of its file; -1: none */
    bool alone; /* false: the file system has no locks, or the file is another user's: nobody is
                 * kept out */
};
/* Keeps other writers, in this process and in others, out of a directory, by a lock on a file that
 * is there meanwhile; the lock ends with the process.  CO_EXISTS: somebody else has it. */
CO_MUST_CHECK int ckpt_disk_lock(
    const char *dir, const char *name, struct ckpt_lock *ret, struct co_err *err);
void ckpt_disk_unlock(const char *dir, const char *name, struct ckpt_lock *lock);

/* ---- reading ----
 *
 * What cannot be read is neither missing nor damaged: nobody knows what is there.  These functions
 * keep the three apart by their codes, so that callers need not look at errno. */

/* Whether this errno of that path says that it is not there: a file behind a link that leads
 * nowhere is not missing, it is on a disk that is not mounted, perhaps. */
bool ckpt_disk_is_missing(int errnum, const char *path);
/* Opens a file that should be there, as ckpt_disk_unread; CO_INTERNAL: it is no file.  Never waits
 * for the other end of a FIFO. */
CO_MUST_CHECK int ckpt_disk_open(const char *path, FILE **ret, struct co_err *err);
/* Reads a whole file.  CO_NOTFOUND: it does not exist.  CO_DAMAGED: it is larger than max. */
CO_MUST_CHECK int ckpt_disk_get(
    const char *path, size_t max, struct co_buf *ret, struct co_err *err);
/* Checks that a file is there with so many bytes.  CO_DAMAGED: it is not. */
CO_MUST_CHECK int ckpt_disk_check(const char *path, uint64_t bytes, struct co_err *err);
/* The error of a file that should be there and could not be opened or read, for this errno.
 * CO_DAMAGED: it is missing.  Else a code that says what to do, never CO_NOTFOUND or CO_INVALID. */
int ckpt_disk_unread(struct co_err *err, int errnum, const char *path);
