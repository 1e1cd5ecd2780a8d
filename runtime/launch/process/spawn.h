/* Starting a process in a group of its own, and saying how it ended.
 *
 * What is started dies with its starter: PR_SET_PDEATHSIG, for a starter killed with SIGKILL.
 * Call from the main thread: the kernel takes the end of the thread that forked for the starter's.
 * Knows nothing of containers or jobs. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

struct rl_spawn {
    char *const *argv;
    char *const *envp;     /* NULL: this process's */
    const char *dir;       /* NULL: this process's */
    int in, out, err;      /* -1: this process's */
    const cpu_set_t *cpus; /* cores it may use; NULL: this process's */
    bool session;          /* of its own, without a terminal; else a process group of its own */
    bool foreground;       /* that group gets the terminal, if this process has it on stdin */
};

/* A session of its own; all else is this process's. */
struct rl_spawn rl_spawn_session(const char *const *argv);

/* The process leads the group *ret_pid and has no signal blocked.  CO_NOTFOUND, CO_PERMISSION or
 * another code when the program could not be executed; argv[0] is looked up in the PATH of
 * envp. */
CO_MUST_CHECK int rl_spawn(const struct rl_spawn *s, pid_t *ret_pid, struct co_err *err);

/* Lifts the soft limit of open files to the hard one: a job of a thousand processes takes more than
 * the usual 1024.  What rl_spawn starts has the limit of before, as programs that call select need
 * it. */
void rl_files_raise(void);

/* As shells have it: 127 for CO_NOTFOUND, 126 for other codes of rl_spawn. */
int rl_spawn_exit_code(int code);

/* From waitpid's status: the exit code, or 128 + signal. */
int rl_exit_code(int status);
/* "exit code 3", "killed by SIGKILL" */
void rl_exit_text(int status, char *ret_text, size_t size);

/* A signal to every child of this process, those included that became its children because
 * their parents ended (PR_SET_CHILD_SUBREAPER, or as PID 1).  Returns how many there were. */
size_t rl_children_kill(int signo);
