/* One host of a job: its ssh process, what it tells, what it is told. */
#pragma once

#include <sys/types.h>

#include "common/buf.h"
#include "common/loop.h"
#include "runtime/legacy/cluster/plan.h"
#include "runtime/launch/process/tail.h"

enum rl_session_state {
    RL_SESSION_COPYING,
    RL_SESSION_STARTING, /* the server does not listen yet */
    RL_SESSION_READY,
    RL_SESSION_TRAINING,
    RL_SESSION_TRAINED, /* well */
    RL_SESSION_GONE,
};

struct rl_session_ops;

struct rl_ssh_session {
    const struct rl_session_ops *ops;
    void *arg;
    struct co_loop *loop;
    size_t index;
    const struct rl_host *host;
    enum rl_session_state state;
    bool server_ended, leaving; /* leaving: it was told to stop */
    bool received;              /* the host has what tar sent; tar may not have ended yet */
    pid_t pid, tar;             /* 0: none */
    int tar_status;             /* waitpid's, once tar has ended */
    int in;                     /* to the host; -1: closed */
    struct {
        int fd;
        struct co_poll *poll;
    } out, err;
    struct co_buf line; /* of out */
    struct rl_tail complaint;
    char last[400]; /* the last line of a log that was told */
    struct co_buf lines;
};

struct rl_session_ops {
    void (*ready)(void *arg, struct rl_ssh_session *s);
    void (*ended)(void *arg, struct rl_ssh_session *s, const char *what, int code);
    void (*tail)(void *arg, struct rl_ssh_session *s); /* `lines` is complete */
};

void rl_ssh_session_init(struct rl_ssh_session *s, struct co_loop *loop, size_t index,
    const struct rl_host *host, const struct rl_session_ops *ops, void *arg);
void rl_ssh_session_done(struct rl_ssh_session *s);
/* Runs a script; from >= 0: what the script reads, instead of what is told. */
CO_MUST_CHECK int rl_ssh_session_start(struct rl_ssh_session *s,
    const struct rl_cluster_options *options, const char *script, int from, struct co_err *err);
void rl_ssh_session_tell(struct rl_ssh_session *s, const char *line);
/* Takes note of a child that was reaped; true when it was this session's ssh. */
bool rl_ssh_session_reaped(struct rl_ssh_session *s, pid_t pid, int status);
/* All that is still in the pipes. */
void rl_ssh_session_drain(struct rl_ssh_session *s);
