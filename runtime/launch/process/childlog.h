/* The log file of a child process.  Without a maximum size the child writes the file itself, which
 * costs nothing.  With one, this process reads the child's output from a pipe and writes the file,
 * so that it can rotate it: rename it to "FILE.1" and begin a new one.
 * Belongs to the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"
#include "runtime/launch/process/follow.h"
#include "runtime/launch/process/tail.h"

struct proc_childlog;

struct proc_childlog_options {
    const char *path;
    bool overwrite;
    int64_t max_size; /* 0: the file is never rotated */
    /* The file cannot be written any more (a full disk).  Called once. */
    void (*lost)(void *arg, const struct co_err *err);
    void *arg;
};

/* Makes the folder of log files, and those that it lies in. */
CO_MUST_CHECK int proc_childlog_make_dir(const char *path, struct co_err *err);
CO_MUST_CHECK int proc_childlog_open(struct co_loop *l, const struct proc_childlog_options *options,
    struct proc_childlog **ret, struct co_err *err);
void proc_childlog_close(
    struct proc_childlog *c); /* NULL allowed; writes what is left in the pipe */
CO_DEFINE_CLEANUP(struct proc_childlog *, proc_childlog_close)

const char *proc_childlog_path(const struct proc_childlog *c);
/* The file descriptor for the child's stdout and stderr.  This object keeps owning it, and closes
 * it in proc_childlog_started, once the child has a copy. */
int proc_childlog_fd(const struct proc_childlog *c);
void proc_childlog_started(struct proc_childlog *c);

/* Copies the log to fd while it grows.  After proc_childlog_finish it copies the rest and calls
 * done(arg). */
CO_MUST_CHECK int proc_childlog_echo(
    struct proc_childlog *c, int fd, void (*done)(void *arg), void *arg, struct co_err *err);
/* The child has ended.  Returns false when there is no echo: done will not be called. */
bool proc_childlog_finish(struct proc_childlog *c);

/* Whether its path is no longer that of the file with the child's lines: it was removed, or another
 * one has its name. */
bool proc_childlog_removed(const struct proc_childlog *c);
/* Copies the last whole lines that were written since open, at most size - 1 bytes, or the end of
 * one longer line; returns how many.  It has them also when the file was removed. */
size_t proc_childlog_tail(const struct proc_childlog *c, char *ret, size_t size);
