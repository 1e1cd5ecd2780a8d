/* The launcher's state, shared by launch.c (from beginning to end) and round.c (processes). */
#pragma once

#include "common/loop.h"
#include "runtime/launch/process/childlog.h"
#include "runtime/launch/process/children.h"
#include "runtime/launch/node/node.h"
#include "runtime/launch/process/ports.h"
#include "runtime/launch/process/quiet.h"
#include "runtime/launch/node/say.h"
#include "runtime/launch/rendezvous/rendezvous.h"
#include "runtime/launch/job/plan.h"

struct rt_launch {
    const struct rt_options *options;
    int argc;
    char *const *argv;
    struct rt_node node;
    struct rt_job job;
    struct rt_ports ports;
    char *value; /* what this node tells the others */
    struct rt_say say;
    struct co_loop *loop;
    struct rt_children *children;
    struct rt_rdzv *rdzv; /* NULL: not with others, or not any more */
    /* One round: from the nodes' meeting to the end of the processes. */
    struct rt_plan plan;
    struct rt_childlog **log; /* of plan.process[i]; NULL: its output is this process's */
    struct rt_quiet *quiet;   /* watches this node's servers for workers of others; or NULL */
    int round;
    size_t n_workers; /* of this node */
    size_t n_left;    /* processes whose end ends this node's work: workers, or all */
    bool running;     /* processes exist */
    bool again;       /* another round follows */
    bool completed;   /* the workers ended well */
    bool echoing;     /* a log is still being copied to stdout */
    /* The end. */
    bool over;    /* code is final */
    bool parting; /* the others are being told */
    int code;
    char why[CO_ERR_MAX]; /* of the code, where it is not 0 */
    size_t failed;        /* process whose log is shown at the end; plan.n: none */
    int n_signals, signo;
};

int64_t rt_launch_grace(const struct rt_launch *l);
/* It is over, with this code, unless it was before: who runs is stopped, the others are told. */
void rt_launch_end(struct rt_launch *l, int code, const char *why);
void rt_launch_error(struct rt_launch *l, int code, const struct co_err *err);
/* Stops the loop when nothing is left to wait for. */
void rt_launch_try_finish(struct rt_launch *l);

/* The callbacks of l->children. */
extern const struct rt_children_fns rt_round_fns;
/* Starts this node's processes; values: of all nodes, by rank. */
void rt_round_start(struct rt_launch *l, const char *const *values, size_t n, size_t self);
/* The servers may go: all workers of the job are done. */
void rt_round_stop_servers(struct rt_launch *l);
/* The failed process's last lines, when all else was said. */
void rt_round_show_failed(struct rt_launch *l);
/* Its last bytes, at most size - 1; how many: 0 where no process failed or it has no log. */
size_t rt_round_failed_tail(const struct rt_launch *l, char *ret, size_t size);
void rt_round_done(struct rt_launch *l);
