/* The operator's metrics: one table of rows, served at /metrics and printed to docs/metrics.md.
 * No label has a job's or a pod's name, so that the number of series is bounded.  Owned by the
 * loop's thread. */
#pragma once

#include "common/metrics.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"

enum ctl_metric {
    CTL_M_RECONCILES,
    CTL_M_RECONCILE_ERRORS,
    CTL_M_RECONCILE_TERMINAL,
    CTL_M_RECONCILE_SECONDS,
    CTL_M_WORKERS_MAX,
    CTL_M_WORKERS,
    CTL_M_QUEUE_DEPTH,
    CTL_M_QUEUE_ADDS,
    CTL_M_QUEUE_SECONDS,
    CTL_M_WORK_SECONDS,
    CTL_M_UNFINISHED_SECONDS,
    CTL_M_LONGEST_SECONDS,
    CTL_M_QUEUE_RETRIES,
    CTL_M_REQUESTS,
    CTL_M_CLIENT_SECONDS,
    CTL_M_CLIENT_SENT,
    CTL_M_CLIENT_RECEIVED,
    CTL_M_LEADER,
    CTL_M_LEADER_SLOW,
    CTL_M_REQUEST_SECONDS,
    CTL_M_REQUEST_BYTES,
    CTL_M_WATCH_BREAKS,
    CTL_M_WATCH_LAG,
    CTL_M_ACTIONS,
    CTL_M_PLAN_SECONDS,
    CTL_M_JOBS,
    CTL_M_NOT_CACHED,
    CTL_M_NOT_AT_HAND,
    CTL_M_PODS,
    CTL_M_OLDEST_SECONDS,
    CTL_M_STATUS_WAITING,
    CTL_M_EVENTS_WAITING,
    CTL_M_PHASES,
    CTL_M_STAGE_SECONDS,
    CTL_M_INTERRUPTED_SECONDS,
    CTL_M_GATE_OPENED,
    CTL_M_GATE_WAITING,
    CTL_M_COUNT,
};

/* Label values of CTL_M_RECONCILES. */
enum { CTL_M_SUCCESS, CTL_M_ERROR, CTL_M_REQUEUE, CTL_M_REQUEUE_AFTER };
/* ... and of CTL_M_STAGE_SECONDS. */
enum ctl_metric_stage {
    CTL_M_STAGE_PODS_CREATED,
    CTL_M_STAGE_SCHEDULED,
    CTL_M_STAGE_RUNNING,
    CTL_M_STAGE_FINISHED,
    CTL_M_STAGES
};

struct ctl_metrics {
    struct co_metric row[CTL_M_COUNT];
    const char *phases[API_PHASES + 1];
    char host[256], lease[96]; /* label pairs that are known at runtime only */
};

struct ctl_metrics *ctl_metrics_new(void);
void ctl_metrics_free(struct ctl_metrics *m);
/* Sets the label `host` of request metrics to that of the API server's URL. */
void ctl_metrics_server(struct ctl_metrics *m, const char *url);

/* Sets the label `name` of leader_election_* to a shard's lease. */
void ctl_metrics_lease(struct ctl_metrics *m, const char *name);

/* For struct kube_client_opts.sample; arg is the struct ctl_metrics. */
void ctl_metrics_sample(void *arg, const struct kube_sample *s);
void ctl_metrics_action(struct ctl_metrics *m, const struct plan_action *a);
/* A reconcile has ended after ms; result: CTL_M_SUCCESS, ... */
void ctl_metrics_reconciled(struct ctl_metrics *m, size_t result, int64_t ms);
/* A stage of a job has ended, ms after the stage before; less than 0 counts as 0. */
void ctl_metrics_stage(struct ctl_metrics *m, enum ctl_metric_stage stage, int64_t ms);
/* Appends the text for /metrics. */
CO_MUST_CHECK int ctl_metrics_render(
    const struct ctl_metrics *m, struct co_buf *ret, struct co_err *err);
