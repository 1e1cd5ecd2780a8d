/* Judges the state of a job from its pods: the phase, whether it is completing or restarting, and
 * the reason.  Pure. */
#pragma once

#include <string.h>

#include "operator/plan/children.h"

/* The judgement. */
struct plan_assessment {
    enum api_phase phase;
    int32_t attempt; /* if it differs from the stored one, nothing is done before it is stored */
    bool completing; /* the success policy is met, and the other pods have their grace period */
    bool all_created;
    bool all_running;   /* or they have succeeded */
    bool restarting;    /* the group restarts and is not Running again yet */
    int64_t hold_until; /* seconds: no pods are created before; 0: no such limit */
    int64_t due;        /* seconds: when pods of a later attempt were due; 0: first attempt */
    int64_t wake_at;    /* seconds: when to reconcile again; 0: no need */
    /* What the status says about restarts. */
    int32_t restarts;
    int64_t restart_time, backoff; /* 0: there was none */
    /* Why the job does not run or has failed; "" when there is nothing to report. */
    const char *reason;
    char message[640];
    const char *kept; /* a pod that should have ended, which the message names; NULL: none */
    bool blocked;     /* the reason keeps objects from being created */
    bool gave_back;   /* it gives its pods back, with this plan */
};

/* The job must be reconciled at this time, 0: at none; the earliest wins. */
static inline void plan_wake_by(int64_t *wake_at, int64_t at) {
    if (at > 0 && (*wake_at == 0 || at < *wake_at)) {
        *wake_at = at;
    }
}

/* Its phase is Running, as upstream's would be, also when no role has replicas. */
static inline bool plan_assessment_runs(const struct plan_assessment *o) {
    return o->phase == API_PHASE_RUNNING && strcmp(o->reason, "NoPods") != 0;
}

void plan_assessment_init(
    struct plan_assessment *o, const struct plan_children *w, const json_t *env);
