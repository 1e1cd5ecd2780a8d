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

struct rl_launch {
    const struct rl_options *options;
    int argc;
    char *const *argv;
    struct rl_node node;
    struct rl_job job;
    struct rl_ports ports;
    struct rl_offer own; /* what this node brings, ... */
    char *value;         /* ... as it tells the others */
    struct rl_say say;
    struct co_loop *loop;
    struct rl_children *children;
    struct rl_rdzv *rdzv; /* NULL: not with others, or not any more */
    /* One round: from the nodes' meeting to the end of the processes. */
    struct rl_plan plan;
    struct rl_childlog **log; /* of plan.process[i]; NULL: its output is this process's */
    struct rl_quiet *quiet;   /* watches this node's servers for workers of others; or NULL */
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

int64_t rl_launch_grace(const struct rl_launch *l);
/* It is over, with this code, unless it was before: who runs is stopped, the others are told. */
void rl_launch_end(struct rl_launch *l, int code, const char *why);
void rl_launch_error(struct rl_launch *l, int code, const struct co_err *err);
/* Stops the loop when nothing is left to wait for. */
void rl_launch_try_finish(struct rl_launch *l);

/* The callbacks of l->children. */
extern const struct rl_children_fns rl_round_fns;
/* Starts this node's processes; offers, and values as they were told: of all nodes, by rank. */
void rl_round_start(struct rl_launch *l, const struct rl_offer *offers, const char *const *values,
    size_t n, size_t self);
/* The servers may go: all workers of the job are done. */
void rl_round_stop_servers(struct rl_launch *l);
/* The failed process's last lines, when all else was said. */
void rl_round_show_failed(struct rl_launch *l);
/* Its last bytes, at most size - 1; how many: 0 where no process failed or it has no log. */
size_t rl_round_failed_tail(const struct rl_launch *l, char *ret, size_t size);
void rl_round_done(struct rl_launch *l);
