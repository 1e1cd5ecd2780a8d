/* --auto_parallel_config: Paddle's automatic parallelisation.  Its tuner is the user's program
 * itself, which a node starts once before its workers, alone, and which finds in its environment
 * that it is the tuner.  The file says whether.  Pure. */
#pragma once

#include "runtime/launch/job/node_plan.h"

enum job_tuner {
    JOB_TUNER_NONE,  /* "run_only" */
    JOB_TUNER_FIRST, /* "tuner_and_run", and what a file without "tuner_run_mode" means */
    JOB_TUNER_ONLY,  /* "tuner_only": no worker is started */
};

/* From the text of the file.  CO_INVALID: a message without the file's name. */
CO_MUST_CHECK int job_tuner_read(
    const char *text, size_t len, enum job_tuner *ret, struct co_err *err);

/* The plan of the tuner alone, which may use that port of this machine. */
void job_tuner_plan(const struct job *j, uint16_t port, struct job_plan *ret);
