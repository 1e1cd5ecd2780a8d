/* The start gate's endpoint: GET /gate/v1/<namespace>/<pod>/<uid>?wait=<seconds>&ips=<addresses>
 *
 *   200  go                                 the pod's containers may start
 *   202  not yet, the body says why; ask again
 *   404  the operator does not know the pod (yet); ask again
 *   410  the job is over: give up
 *
 * ips=<address>,... are the pod's own addresses.  The one that lists get is believed when the pod
 * has a node and the connection comes from it: a pod can speak for itself only, and before it has
 * a node nobody can.  Kubelet tells the API server up to a second later.
 *
 * A request waits here until its job changes, so that a pod starts when its peers' addresses are
 * complete and not a poll later.  What it tells is not secret; a pod proves itself by its UID.
 * Number of waiting requests and their time are bounded.  Owned by the loop's thread. */
#pragma once

#include "common/httpd.h"
#include "operator/control/controller.h"

struct op_gate;

CO_MUST_CHECK int op_gate_open(struct co_loop *loop, const char *addr, struct op_controller *c,
    struct op_metrics *metrics, struct op_gate **ret, struct co_err *err);
void op_gate_close(struct op_gate *g);
CO_DEFINE_CLEANUP(struct op_gate *, op_gate_close)
