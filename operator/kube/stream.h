/* Inside of operator/kube: a request whose answer has no end, for watches.
 *
 * As op_kube_do, but on connections apart from the requests', in no lane, and with the body of a
 * good answer handed on as it comes. */
#pragma once

#include "operator/kube/client.h"

/* Of one event: more ends the stream. */
enum { OP_KUBE_EVENT_MAX = 8 << 20 };

/* done reports the end: code 0 when the server ended the stream in order.  req->deadline_ms bounds
 * all of it; 0: no bound.  data and done never run inside a call to this folder's functions, and
 * op_kube_cancel is allowed in both. */
struct op_kube_op *op_kube_stream(struct op_kube_client *c, const struct op_kube_req *req,
    void (*data)(void *arg, const char *data, size_t len));
/* For timers beside the client's. */
struct co_loop *op_kube_client_loop(const struct op_kube_client *c);
/* The streams' connection seems dead: new streams get a new one. */
void op_kube_client_distrust_streams(struct op_kube_client *c);
