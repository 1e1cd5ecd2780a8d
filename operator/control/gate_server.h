/* What the operator answers the pods of a job.
 *
 * The start gate: GET /gate/v1/<namespace>/<pod>/<uid>?wait=<seconds>&ips=<addresses>
 *
 *   200  go                                 the pod's containers may start
 *   202  not yet, the body says why; ask again
 *   404  the operator does not know the pod (yet); ask again
 *   410  the job is over: give up
 *
 * ips=<address>,... are the pod's own addresses.  Kubelet reports them to the API server up to a
 * second later, so the operator uses this report until then.  It believes the address that host
 * lists use when the pod has a node and the connection comes from that address: so a pod can
 * report for itself only.
 *
 * The end: GET /end/v1/<namespace>/<job>/<uid>?wait=<seconds>
 *
 *   200  over                               the job's training: its servers may end
 *   202  not yet; ask again
 *   404  the operator does not know the job (yet), or does not lead; ask again
 *
 * A request waits here until its job changes, so that a pod starts as soon as its peers' addresses
 * are complete, not at the next poll, and a server ends as soon as its workers have. The answers
 * are not secret; pods and jobs are identified by their UIDs. The number of waiting requests and
 * the time that they wait are bounded. Owned by the loop's thread. */
#pragma once

#include "common/http/httpd.h"
#include "operator/control/controller.h"

struct ctl_gate;

CO_MUST_CHECK int ctl_gate_open(struct co_loop *loop, const char *addr, struct ctl_controller *c,
    struct ctl_metrics *metrics, struct ctl_gate **ret, struct co_err *err);
void ctl_gate_close(struct ctl_gate *g);
CO_DEFINE_CLEANUP(struct ctl_gate *, ctl_gate_close)
