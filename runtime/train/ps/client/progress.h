/* How far a trainer is in its job.  One call at a time makes steps and passes barriers, the one
 * that has `turn`; any thread reads.  What is not atomic changes only while the client joins, when
 * no other thread of it works on the links. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct psc_progress {
    _Atomic(const char *) turn;     /* the step, barrier or no_more of a thread; NULL: none */
    atomic_uint_least64_t steps;    /* that this trainer has completed */
    atomic_uint_least64_t barriers; /* the same */
    atomic_uint_least64_t least;    /* backups: of the answers to a STEP, see shard_steps_least */
    atomic_uint_least64_t free;     /* staleness: up to this step it need not ask servers */
    uint64_t barriers_done;         /* that the job had passed when this trainer joined */
    uint64_t era;                   /* how often the job went back to a checkpoint */
    uint64_t lived;                 /* the era in which this trainer last used all servers */
    uint64_t restored;              /* the checkpoint that all servers must have; 0: any */
    uint64_t origin;                /* its step in the manifest less the job's own */
    bool no_more;                   /* this trainer makes no more steps */
    atomic_bool loads;              /* this trainer has loaded or restored tables, or tried to */
    atomic_bool *done;              /* [trainers] has finished, as a server said */
};
