/* One host of a job: its ssh process, what it tells, what it is told. */
#pragma once

#include <sys/types.h>

#include "common/buf.h"
#include "common/loop.h"
#include "runtime/legacy/cluster/plan.h"
#include "runtime/launch/process/tail.h"

enum rt_session_state {
    RT_SESSION_COPYING,
    RT_SESSION_STARTING, /* the server does not listen yet */
    RT_SESSION_READY,
    RT_SESSION_TRAINING,
    RT_SESSION_TRAINED, /* well */
    RT_SESSION_GONE,
};

struct rt_session_ops;

struct rt_ssh_session {
    const struct rt_session_ops *ops;
    void *arg;
    struct co_loop *loop;
    size_t index;
    const struct rt_host *host;
    enum rt_session_state state;
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
    struct rt_tail complaint;
    char last[400]; /* the last line of a log that was told */
    struct co_buf lines;
};

struct rt_session_ops {
    void (*ready)(void *arg, struct rt_ssh_session *s);
    void (*ended)(void *arg, struct rt_ssh_session *s, const char *what, int code);
    void (*tail)(void *arg, struct rt_ssh_session *s); /* `lines` is complete */
};

void rt_ssh_session_init(struct rt_ssh_session *s, struct co_loop *loop, size_t index,
    const struct rt_host *host, const struct rt_session_ops *ops, void *arg);
void rt_ssh_session_done(struct rt_ssh_session *s);
/* Runs a script; from >= 0: what the script reads, instead of what is told. */
CO_MUST_CHECK int rt_ssh_session_start(struct rt_ssh_session *s,
    const struct rt_cluster_options *options, const char *script, int from, struct co_err *err);
void rt_ssh_session_tell(struct rt_ssh_session *s, const char *line);
/* Takes note of a child that was reaped; true when it was this session's ssh. */
bool rt_ssh_session_reaped(struct rt_ssh_session *s, pid_t pid, int status);
/* All that is still in the pipes. */
void rt_ssh_session_drain(struct rt_ssh_session *s);
