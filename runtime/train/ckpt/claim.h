/* Who writes checkpoints into a directory: one job at a time.
 *
 *     dir/OWNER    text: job, endpoint of its server 0, host, process, since when
 *
 * Two jobs in one directory would number, prune and restore each other's checkpoints.  While its
 * owner lives, a thread sets the file's time every CKPT_CLAIM_RENEW_MS.  Nothing else needs to work
 * on a shared file system: no locks, which mounts often keep to one machine, and no equal clocks,
 * as times of the file are compared with one another.
 *
 * A claim is free if its owner has ended well (the file is gone), is known to have died (same
 * machine: no such process; same network namespace: we listen on what it listened on), or has let
 * the time stand for CKPT_CLAIM_SEEN_MS.  So a job that is restarted after SIGKILL waits that long
 * at most, and usually not at all.  Names are no proof: containers of two jobs may well have one
 * host name, endpoint and job name. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum { CKPT_CLAIM_RENEW_MS = 2000, CKPT_CLAIM_SEEN_MS = 10000 };

struct ckpt_claim;

/* Runs before each look at OWNER; NULL outside of tests. */
extern void (*_Atomic ckpt_claim_looks)(void);

struct ckpt_claim_who {
    const char *job, *endpoint; /* "": has none */
    const char *listens;     /* "host:port" on which this process listens already; NULL: nothing */
    int64_t seen_ms;         /* 0: CKPT_CLAIM_SEEN_MS */
    const atomic_bool *stop; /* once it is true, the wait ends; NULL: nothing ends it */
};

/* Makes dir if it is absent.  Blocks for seen_ms at most, and then only where it does not know
 * whether the last owner lives.  CO_EXISTS: another job uses dir; the message names it, its age,
 * and what to do.  CO_CANCELED: who->stop.  Others: it is unknown, because dir cannot be read
 * or written. */
CO_MUST_CHECK int ckpt_claim_take(
    const char *dir, const struct ckpt_claim_who *who, struct ckpt_claim **ret, struct co_err *err);
const char *ckpt_claim_dir(const struct ckpt_claim *c);
/* Before something is written that would replace another's: CO_EXISTS: somebody has taken dir
 * since, as after a pause of this process that was longer than seen_ms.  A file that is gone is
 * written again. */
CO_MUST_CHECK int ckpt_claim_check(struct ckpt_claim *c, struct co_err *err);
/* Removes the file, if it is still ours, waiting two seconds at most for a file system that hangs.
 * NULL allowed. */
void ckpt_claim_drop(struct ckpt_claim *c);
CO_DEFINE_CLEANUP(struct ckpt_claim *, ckpt_claim_drop)
