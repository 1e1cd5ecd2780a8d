/* What the pods say about the job as a whole: its phase, whether it is completing, who failed.
 * Pure. */
#pragma once

#include "operator/plan/world.h"

/* What the pods say about the job as a whole. */
struct op_outlook {
    enum op_phase phase;
    int32_t attempt; /* other than the stored one: nothing is done before it is stored */
    bool completing; /* those that decide are done, the others have their grace period */
    bool all_created;
    bool restarting;    /* and not Running again yet */
    int64_t hold_until; /* no pods are created before; 0: none is held back */
    int64_t due;        /* since then there should be pods of a later attempt; 0: of the first */
    int64_t wake_at;    /* something is due then; 0: nothing */
    /* What the status is to say of restarts. */
    int32_t restarts;
    int64_t restart_time, backoff; /* 0: there was none */
    /* Why the job is not running or has failed; "" when there is nothing to say. */
    const char *reason;
    char message[640];
    bool blocked; /* the reason keeps objects from being created */
};

static inline void op_outlook_wake(struct op_outlook *o, int64_t at) {
    if (at > 0 && (o->wake_at == 0 || at < o->wake_at)) {
        o->wake_at = at;
    }
}

void op_outlook_init(struct op_outlook *o, const struct op_world *w, const json_t *env);
