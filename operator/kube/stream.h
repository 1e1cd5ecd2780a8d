/* Internal to operator/kube: a request whose answer has no end, for watches.
 *
 * Like kube_do, but on connections of its own, not limited by a class, and the body of a
 * successful answer is passed on as it arrives. */
#pragma once

#include "operator/kube/client.h"

/* Bytes of one event; a larger one ends the stream. */
enum { KUBE_EVENT_MAX = 8 << 20 };

/* done reports the end: code 0 when the server ended the stream in an orderly way.
 * req->deadline_ms is the deadline of the whole stream; 0: none.  data and done never run inside a
 * call to this folder's functions, and kube_cancel is allowed in both. */
struct kube_op *kube_stream(struct kube_client *c, const struct kube_req *req,
    void (*data)(void *arg, const char *data, size_t len));
/* The client's loop, for timers of watches. */
struct co_loop *kube_client_loop(const struct kube_client *c);
/* The streams' connection seems dead: new streams open another one. */
void kube_client_distrust_streams(struct kube_client *c);
