/* What the operator counts: one table of rows, printed at /metrics and in docs/metrics.md.
 * No label carries a job's or a pod's name.  Owned by the loop's thread. */
#pragma once

#include "common/metrics.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"

enum op_metric {
    OP_M_RECONCILES,
    OP_M_RECONCILE_ERRORS,
    OP_M_RECONCILE_SECONDS,
    OP_M_ACTIONS,
    OP_M_REQUESTS,
    OP_M_REQUEST_SECONDS,
    OP_M_REQUEST_BYTES,
    OP_M_WATCH_BREAKS,
    OP_M_JOBS,
    OP_M_PODS,
    OP_M_FINISHED,
    OP_M_GATE_OPENED,
    OP_M_GATE_WAITING,
    OP_M_LEADER,
    OP_M_COUNT,
};

/* Label values of OP_M_RECONCILES. */
enum { OP_M_SUCCESS, OP_M_ERROR, OP_M_REQUEUE };

struct op_metrics {
    struct co_metric row[OP_M_COUNT];
};

struct op_metrics *op_metrics_new(void);
void op_metrics_free(struct op_metrics *m);

/* For struct op_kube_client_opts.sample; arg is the struct op_metrics. */
void op_metrics_sample(void *arg, const struct op_kube_sample *s);
void op_metrics_action(struct op_metrics *m, const struct op_action *a);
void op_metrics_finished(struct op_metrics *m, enum op_phase phase);
/* Appends the text for /metrics. */
CO_MUST_CHECK int op_metrics_render(
    const struct op_metrics *m, struct co_buf *ret, struct co_err *err);
