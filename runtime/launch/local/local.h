/* A job's pods as processes of this machine, from start to end: `paddlerun local`.
 *
 * As the operator would: a pod that fails fails the job, and the others are stopped; when all
 * workers have succeeded, servers get some time to end by themselves.  Nobody outlives the job:
 * every pod is a session of its own, whose processes get SIGTERM, then SIGKILL; who left the
 * session becomes a child of this process and gets SIGKILL, too; pods die with a killed
 * paddlerun. */
#pragma once

#include <stdint.h>

#include "runtime/launch/local/pods.h"

struct local_options {
    int64_t grace_ms;        /* SIGTERM -> SIGKILL; -1: as the pods say, or 10 s */
    int64_t server_grace_ms; /* for servers, once workers are done */
    int out;                 /* where lines go */
    bool colour;
};

/* Blocks until all is over; SIGINT and SIGTERM stop the job, a second one kills it.  *ret_code:
 * 0, the first failed pod's exit code, 128 + signal when stopped.  Says on `out` what happens.
 * Call from the main thread; changes the dispositions of SIGPIPE and SIGCHLD and makes this
 * process a subreaper. */
CO_MUST_CHECK int local_run(const struct local_pods *pods, const struct local_options *options,
    int *ret_code, struct co_err *err);

/* The first block of loopback addresses that no other local job uses, held until *ret_lock is
 * closed. */
CO_MUST_CHECK int local_block(unsigned *ret_block, int *ret_lock, struct co_err *err);
