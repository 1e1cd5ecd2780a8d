/* The plan of one node: the command, environment and log of each of its processes.
 * Pure: the same job and the same nodes give the same plan, on every node. */
#pragma once

#include "runtime/launch/job/env.h"
#include "runtime/launch/job/offer.h"

struct job_process {
    enum job_role role;
    size_t local, index; /* number among this node's processes of its kind, and among the job's */
    bool tuner;          /* alone, before the workers: see tuner.h */
    struct job_env set;  /* variables on top of this process's environment, in Paddle's order */
    char *log;           /* file name in the plan's log_dir */
};

struct job_plan {
    struct job_process *process; /* servers, trainers, heterogeneous trainers */
    size_t n;
    struct options_list command;                   /* the same for all processes */
    struct options_list endpoints[JOB_ROLE_COUNT]; /* of the whole job, by index */
    struct job_stages stages;                      /* of the whole job */
    char *master, *gloo;                           /* endpoints; NULL: none */
    size_t node, n_nodes;
    size_t restarts; /* of this node's processes before */
    /* Folder of this node's files: --log_dir; in a pod, or with other nodes, that may share it, a
     * folder of its own in there.  "": no files. */
    char *log_dir;
};

/* offers: those of all nodes by rank, of which `self` is this node.  JOB_DISCOVERY_ALONE has only
 * its own; JOB_DISCOVERY_LISTS, _IPS, _ENDPOINTS and _GIVEN have none.  scratch: a path that does
 * not exist yet, for gloo. */
CO_MUST_CHECK int job_plan_make(const struct job *j, const struct job_offer *offers, size_t n,
    size_t self, const char *scratch, struct job_plan *ret, struct co_err *err);
void job_plan_done(struct job_plan *p);

/* A process's name in messages: "server 0", "worker 1". */
void job_process_name(const struct job_process *p, char *ret_text, size_t size);

/* Fills p->set from the table of variables. */
void job_plan_variables(
    const struct job *j, const struct job_plan *plan, const char *scratch, struct job_process *p);
/* The job's ID as a part of paths below log_dir: its folders, unless they lead out of it.  The
 * caller frees it. */
char *job_id_in_paths(const struct job *j);
