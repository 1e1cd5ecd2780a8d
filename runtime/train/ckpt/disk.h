/* The file system operations that make a checkpoint durable. Each names itself in its errors. Tests
 * kill a process between any two of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { RT_DISK_BLOCK = 4096 };

struct iovec;

/* Runs before each step; NULL outside of tests. */
extern void (*rt_disk_watch)(void);

CO_MUST_CHECK int rt_disk_mkdir(const char *dir, struct co_err *err); /* with those above it */
/* Creates an empty file for writing. Direct: past the page cache if the file system can; memory
 * address, length and offset of each write must then be multiples of RT_DISK_BLOCK. */
CO_MUST_CHECK int rt_disk_create(
    const char *path, bool direct, int *ret_fd, bool *ret_direct, struct co_err *err);
/* Writes go through the page cache from now on, as lengths that are no multiple need. */
void rt_disk_buffer(int fd);
/* Writes all of the n pieces; changes the array. */
CO_MUST_CHECK int rt_disk_write(
    int fd, const char *path, struct iovec *pieces, int n, struct co_err *err);
CO_MUST_CHECK int rt_disk_sync(int fd, const char *path, struct co_err *err);
CO_MUST_CHECK int rt_disk_sync_dir(const char *dir, struct co_err *err);
/* Writes a file atomically and durably: under another name, synced, renamed, directory synced. */
CO_MUST_CHECK int rt_disk_put(
    const char *dir, const char *name, const void *data, size_t len, struct co_err *err);
/* A file that does not exist counts as removed. */
CO_MUST_CHECK int rt_disk_remove(const char *dir, const char *name, struct co_err *err);
CO_MUST_CHECK int rt_disk_remove_dir(const char *dir, struct co_err *err);
