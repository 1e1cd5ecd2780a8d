/* Starts a process in a group or session of its own, and describes how it ended.
 *
 * The process dies with its parent, even when that is killed with SIGKILL (PR_SET_PDEATHSIG).
 * proc_spawn must be called from the main thread: to the kernel, the end of the thread that forked
 * is the parent's end.  This file knows nothing of containers or jobs. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

struct proc_spawn {
    char *const *argv;
    char *const *envp;     /* NULL: inherited, as in the fields below */
    const char *dir;       /* NULL: inherited */
    int in, out, err;      /* -1: inherited */
    const cpu_set_t *cpus; /* cores that it may use; NULL: inherited */
    bool session;    /* a session of its own without a terminal; false: only a process group */
    bool foreground; /* the group gets the terminal, if this process has it on stdin */
};

/* A process in a session of its own that inherits everything else. */
struct proc_spawn proc_spawn_session(const char *const *argv);

/* Starts the process.  It leads the group *ret_pid and has no signal blocked.  Returns CO_NOTFOUND,
 * CO_PERMISSION or another code when the program could not be executed.  argv[0] is searched in the
 * PATH of envp. */
CO_MUST_CHECK int proc_spawn(const struct proc_spawn *s, pid_t *ret_pid, struct co_err *err);

/* Raises the soft limit of open files to the hard one: a job of a thousand processes needs more
 * than the usual 1024.  Processes that proc_spawn starts get the former limit, as programs that use
 * select rely on it. */
void proc_files_raise(void);

/* The exit code for an error of proc_spawn, as in shells: 127 for CO_NOTFOUND, else 126. */
int proc_spawn_exit_code(int code);

/* Of waitpid's status: the exit code, or 128 + signal. */
int proc_exit_code(int status);
/* "exit code 3", "killed by SIGKILL" */
void proc_exit_text(int status, char *ret_text, size_t size);
/* "stopped by SIGTERM": of a launcher that a signal ended. */
void proc_stopped_text(int signo, char *ret_text, size_t size);

/* Sends a signal to every child of this process, including those that it adopted when their parents
 * ended (as a subreaper, or as PID 1).  Returns how many there were. */
size_t proc_children_kill(int signo);
