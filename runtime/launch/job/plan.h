/* The processes of one node of a job: command, environment and log of each.
 * Pure: the same job and the same nodes give the same processes. */
#pragma once

#include "runtime/launch/job/env.h"
#include "runtime/launch/job/job.h"

struct rt_process {
    enum rt_seat seat;
    size_t local, index; /* among this node's of the seat; among the job's */
    struct rt_env set;   /* what it gets besides this process's environment, in Paddle's order */
    char *log;           /* file name in log_dir */
};

struct rt_plan {
    struct rt_process *process; /* servers, trainers, heterogeneous trainers */
    size_t n;
    struct rt_list command;                  /* of all of them */
    struct rt_list endpoints[RT_SEAT_COUNT]; /* of the whole job, by index */
    struct rt_stages stages;                 /* of the whole job */
    char *master, *gloo;                     /* endpoints; NULL: none */
    size_t node, n_nodes;
};

/* values: what the nodes told (rt_job_value), by rank, of which number `self` is this one; one
 * for RT_WAY_ALONE, none for the ways that need none.  scratch: a path of which nothing exists,
 * for gloo.  CO_INVALID names the node whose value is no good. */
CO_MUST_CHECK int rt_plan_make(const struct rt_job *j, const char *const *values, size_t n,
    size_t self, const char *scratch, struct rt_plan *ret, struct co_err *err);
void rt_plan_done(struct rt_plan *p);

/* A process's name in messages: "server 0", "worker 1". */
void rt_process_name(const struct rt_process *p, char *ret_text, size_t size);

/* Fills p->set from the table of variables. */
void rt_plan_variables(
    const struct rt_job *j, const struct rt_plan *plan, const char *scratch, struct rt_process *p);
