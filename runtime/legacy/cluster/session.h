/* One host of a job: its ssh process, its output, commands to it. */
#pragma once

#include <sys/types.h>

#include "common/buf.h"
#include "common/loop.h"
#include "runtime/launch/process/tail.h"
#include "runtime/legacy/cluster/host_script.h"

enum cluster_session_state {
    CLUSTER_SESSION_COPYING,
    CLUSTER_SESSION_STARTING, /* the server does not listen yet */
    CLUSTER_SESSION_READY,
    CLUSTER_SESSION_TRAINING,
    CLUSTER_SESSION_TRAINED, /* well */
    CLUSTER_SESSION_GONE,
};

struct cluster_session_ops;

struct cluster_ssh_session {
    const struct cluster_session_ops *ops;
    void *arg;
    struct co_loop *loop;
    size_t index;
    const struct cluster_host *host;
    enum cluster_session_state state;
    bool server_ended, leaving; /* leaving: it was asked to stop */
    bool connected;             /* the script runs on the host */
    bool received;              /* the host has what tar sent; tar may not have ended yet */
    int64_t unreached_since;    /* of the first ssh that did not get through; 0: none */
    struct co_timer *again;     /* its next try */
    pid_t pid, tar;             /* 0: none */
    int tar_status;             /* waitpid's, once tar has ended */
    int in;                     /* to the host; -1: closed */
    struct {
        int fd;
        struct co_poll *poll;
    } out, err;
    struct co_buf line; /* of out */
    struct proc_tail complaint;
    char last[400]; /* the last line of a log that was printed */
    struct co_buf lines;
};

struct cluster_session_ops {
    void (*connected)(void *arg, struct cluster_ssh_session *s);
    void (*ready)(void *arg, struct cluster_ssh_session *s);
    void (*ended)(void *arg, struct cluster_ssh_session *s, const char *what, int code);
    void (*tail)(void *arg, struct cluster_ssh_session *s); /* `lines` is complete */
};

void cluster_ssh_session_init(struct cluster_ssh_session *s, struct co_loop *loop, size_t index,
    const struct cluster_host *host, const struct cluster_session_ops *ops, void *arg);
void cluster_ssh_session_done(struct cluster_ssh_session *s);
/* Runs a script; from >= 0: what the script reads, instead of commands. */
CO_MUST_CHECK int cluster_ssh_session_start(struct cluster_ssh_session *s,
    const struct cluster_options *options, const char *script, int from, struct co_err *err);
void cluster_ssh_session_send(struct cluster_ssh_session *s, const char *line);
/* Takes note of a child that was reaped; true when it was this session's ssh. */
bool cluster_ssh_session_reaped(struct cluster_ssh_session *s, pid_t pid, int status);
/* All that is still in the pipes. */
void cluster_ssh_session_drain(struct cluster_ssh_session *s);
