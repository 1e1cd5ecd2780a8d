/* What checkpoint.c (one checkpoint), saving.c (those that the options ask for) and restore.c
 * share.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/control.h"

/* A part may take long.  The loss of a server ends its calls in any case. */
enum { PSC_PART_MS = 3600 * 1000 };

/* A checkpoint in progress. */
struct psc_checkpoint_attempt {
    struct rt_client *c;
    struct rt_call *call;
    struct rt_checkpoint_options options;
    uint64_t number, previous, root, step;
    uint64_t next; /* as in a manifest */
    enum rt_save_mode mode;
    uint32_t deltas;
    int64_t begin_ms;
    bool taken; /* its number is another checkpoint's */
    struct psc_ckpt_part_said {
        uint32_t shards;
        uint64_t bytes, hash;
    } * parts; /* [servers] */
};

struct psc_saving {
    pthread_mutex_t m;
    pthread_cond_t changed;
    bool busy;           /* a thread makes or restores a checkpoint; it owns what follows */
    char *dir;           /* owned; what is known of the directory: */
    uint64_t next;       /* number of the next one; 0: nothing is known */
    uint64_t last, root; /* the newest complete one and its full one; 0: none to build on */
    uint32_t deltas;     /* from root to last */
    uint32_t mode;       /* save mode of the newest */

    /* for the thread that calls rt_step: */
    uint64_t steps, due_steps;
    int64_t due_ms;
    uint64_t origin; /* from a restore: the step in a manifest less the one counted here */
    pthread_t thread;
    bool threaded;     /* `thread` must be joined */
    atomic_bool again; /* a delta was not possible, or tables were loaded: make one now */
};

/* saving.c.  Waits until no thread makes or restores a checkpoint, and is it; the same without a
 * wait; the end of it. */
void psc_saving_take(struct psc_saving *sv);
bool psc_saving_try(struct psc_saving *sv);
void psc_saving_give(struct psc_saving *sv);

/* For what follows the caller has taken c->saving. */

enum psc_audience {
    PSC_TO_SERVER_0,
    PSC_TO_SERVERS,
    PSC_TO_SHARDS
}; /* shard 0 of server 0, of all servers; all shards */

/* Makes a call with the same message to all of them. */
CO_MUST_CHECK int psc_checkpoint_call(struct rt_client *c, const char *what, const Rpc__Control *m,
    enum psc_audience who, struct rt_call **ret, struct co_err *err);
/* Asks server 0 for the newest checkpoint up to `most`; number 0: there is none. */
CO_MUST_CHECK int psc_checkpoint_find(struct rt_client *c, const char *dir, uint64_t most,
    bool restores, Rpc__CkptFound *ret, struct co_err *err);
/* Asks server 0 what is in the directory, unless that is known. */
CO_MUST_CHECK int psc_checkpoint_learn(struct rt_client *c, const char *dir, struct co_err *err);
/* A directory holds either complete checkpoints or ones that leave out rows.  Otherwise a restore
 * could take the newest of one sort for the other, and `keep` would count, and so remove, both. */
CO_MUST_CHECK int psc_checkpoint_check(
    const struct rt_client *c, const struct rt_checkpoint_options *o, struct co_err *err);
/* Sends the order; the checkpoint has the state in which the order finds each shard. */
CO_MUST_CHECK int psc_checkpoint_begin(struct rt_client *c, const struct rt_checkpoint_options *o,
    struct psc_checkpoint_attempt **ret, struct co_err *err);
/* Waits for the parts, and commits. */
CO_MUST_CHECK int psc_checkpoint_finish(
    struct psc_checkpoint_attempt *a, struct rt_checkpoint *ret, struct co_err *err);
/* Whether a full checkpoint may succeed where this one failed.  CO_CONFLICT: a server does not know
 * what has changed since the last one, or another trainer has used the number.  CO_NORESOURCE:
 * perhaps it has a long list of erased ids, which only grows; a full checkpoint has no such list.
 */
bool psc_checkpoint_for_full(const struct psc_checkpoint_attempt *a, int code);
void psc_attempt_free(struct psc_checkpoint_attempt *a);
