/* The operator's metrics: one table of rows, served at /metrics and printed to docs/metrics.md.
 * No label has a job's or a pod's name, so that the number of series is bounded.  Owned by the
 * loop's thread. */
#pragma once

#include "common/metrics.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"

enum op_metric {
    OP_M_RECONCILES,
    OP_M_RECONCILE_ERRORS,
    OP_M_RECONCILE_TERMINAL,
    OP_M_RECONCILE_SECONDS,
    OP_M_WORKERS_MAX,
    OP_M_WORKERS,
    OP_M_QUEUE_DEPTH,
    OP_M_QUEUE_ADDS,
    OP_M_QUEUE_SECONDS,
    OP_M_WORK_SECONDS,
    OP_M_UNFINISHED_SECONDS,
    OP_M_LONGEST_SECONDS,
    OP_M_QUEUE_RETRIES,
    OP_M_REQUESTS,
    OP_M_CLIENT_SECONDS,
    OP_M_CLIENT_SENT,
    OP_M_CLIENT_RECEIVED,
    OP_M_LEADER,
    OP_M_LEADER_SLOW,
    OP_M_REQUEST_SECONDS,
    OP_M_REQUEST_BYTES,
    OP_M_WATCH_BREAKS,
    OP_M_WATCH_LAG,
    OP_M_ACTIONS,
    OP_M_PLAN_SECONDS,
    OP_M_JOBS,
    OP_M_APART,
    OP_M_PODS,
    OP_M_OLDEST_SECONDS,
    OP_M_STATUS_WAITING,
    OP_M_EVENTS_WAITING,
    OP_M_PHASES,
    OP_M_STAGE_SECONDS,
    OP_M_INTERRUPTED_SECONDS,
    OP_M_GATE_OPENED,
    OP_M_GATE_WAITING,
    OP_M_COUNT,
};

/* Label values of OP_M_RECONCILES. */
enum { OP_M_SUCCESS, OP_M_ERROR, OP_M_REQUEUE, OP_M_REQUEUE_AFTER };
/* ... and of OP_M_STAGE_SECONDS. */
enum op_metric_stage {
    OP_M_STAGE_PODS_CREATED,
    OP_M_STAGE_SCHEDULED,
    OP_M_STAGE_RUNNING,
    OP_M_STAGE_FINISHED,
    OP_M_STAGES
};

struct op_metrics {
    struct co_metric row[OP_M_COUNT];
    const char *phases[OP_PHASES + 1];
    char host[256], lease[96]; /* label pairs that are known at runtime only */
};

struct op_metrics *op_metrics_new(void);
void op_metrics_free(struct op_metrics *m);
/* Sets the label `host` of request metrics to that of the API server's URL. */
void op_metrics_server(struct op_metrics *m, const char *url);

/* Sets the label `name` of leader_election_* to a shard's lease. */
void op_metrics_lease(struct op_metrics *m, const char *name);

/* For struct op_kube_client_opts.sample; arg is the struct op_metrics. */
void op_metrics_sample(void *arg, const struct op_kube_sample *s);
void op_metrics_action(struct op_metrics *m, const struct op_action *a);
/* A reconcile has ended after ms; result: OP_M_SUCCESS, ... */
void op_metrics_looked(struct op_metrics *m, size_t result, int64_t ms);
/* A stage of a job has ended, ms after the stage before; less than 0 counts as 0. */
void op_metrics_stage(struct op_metrics *m, enum op_metric_stage stage, int64_t ms);
/* Appends the text for /metrics. */
CO_MUST_CHECK int op_metrics_render(
    const struct op_metrics *m, struct co_buf *ret, struct co_err *err);
