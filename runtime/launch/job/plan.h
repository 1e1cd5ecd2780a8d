/* The processes of one node of a job: command, environment and log of each.
 * Pure: the same job and the same nodes give the same processes. */
#pragma once

#include "runtime/launch/job/env.h"
#include "runtime/launch/job/offer.h"

struct rl_process {
    enum rl_seat seat;
    size_t local, index; /* among this node's of the seat; among the job's */
    struct rl_env set;   /* what it gets besides this process's environment, in Paddle's order */
    char *log;           /* file name in log_dir */
};

struct rl_plan {
    struct rl_process *process; /* servers, trainers, heterogeneous trainers */
    size_t n;
    struct rl_list command;                  /* of all of them */
    struct rl_list endpoints[RL_SEAT_COUNT]; /* of the whole job, by index */
    struct rl_stages stages;                 /* of the whole job */
    char *master, *gloo;                     /* endpoints; NULL: none */
    size_t node, n_nodes;
};

/* offers: of the nodes, by rank, of which number `self` is this one; its own for RL_WAY_ALONE, none
 * for the ways that need none.  scratch: a path of which nothing exists, for gloo. */
CO_MUST_CHECK int rl_plan_make(const struct rl_job *j, const struct rl_offer *offers, size_t n,
    size_t self, const char *scratch, struct rl_plan *ret, struct co_err *err);
void rl_plan_done(struct rl_plan *p);

/* A process's name in messages: "server 0", "worker 1". */
void rl_process_name(const struct rl_process *p, char *ret_text, size_t size);

/* Fills p->set from the table of variables. */
void rl_plan_variables(
    const struct rl_job *j, const struct rl_plan *plan, const char *scratch, struct rl_process *p);
