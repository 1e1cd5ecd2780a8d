/* Inside of operator/kube: what an API server answers in protobuf
 * (application/vnd.kubernetes.protobuf), as the nodes that its JSON would be, less the fields that
 * the type's table does not name.
 *
 * An object is "k8s\0" and a runtime.Unknown (its kind, and its own message inside); a watch is a
 * row of meta/v1 WatchEvents, each behind its length in four bytes.  Field numbers are those of
 * generated.proto in k8s.io/apimachinery.  Pure. */
#pragma once

#include "common/buf.h"
#include "common/proto.h"

#define OP_KUBE_PROTO_TYPE "application/vnd.kubernetes.protobuf"

/* An answer is protobuf: no JSON begins as it does. */
bool op_kube_proto_is(const char *text, size_t len);
/* By the kind that it says: an object of the table, a Status, or a list without its items. */
CO_MUST_CHECK int op_kube_proto_read(const struct co_proto_message *table, const char *data,
    size_t len, struct co_jdoc *ret, struct co_err *err);
/* A list's items, for op_kube_proto_item; none of what is no list. */
CO_MUST_CHECK int op_kube_proto_items(
    const char *data, size_t len, const char **ret_at, const char **ret_end, struct co_err *err);
/* The next item, a message of the list's table, and *at moves behind it; CO_GONE after the last. */
CO_MUST_CHECK int op_kube_proto_item(
    const char **at, const char *end, const char **ret, size_t *ret_len, struct co_err *err);

/* A watch's bytes, cut anyhow. */
struct op_kube_proto_stream {
    bool begun, proto;  /* what its first byte was: of a length below 16 MiB, or a brace */
    struct co_buf part; /* an event that is not whole yet */
};

/* An event's type and its object, for op_kube_proto_read.  Not 0: stop, with that code; the stream
 * may be gone then. */
typedef int (*op_kube_proto_fn)(void *arg, const char *type, size_t type_len, const char *object,
    size_t len, struct co_err *err);

/* Whether these bytes, the stream's next ones, are protobuf's. */
bool op_kube_proto_stream_is(struct op_kube_proto_stream *s, const char *data, size_t len);
/* Also for a new one. */
void op_kube_proto_stream_done(struct op_kube_proto_stream *s);
/* Calls fn for each event that is whole now.  CO_INVALID or CO_NORESOURCE (an event of more than
 * event_max bytes): what follows cannot be read either; else 0 or what fn returned. */
CO_MUST_CHECK int op_kube_proto_feed(struct op_kube_proto_stream *s, size_t event_max,
    const char *data, size_t len, op_kube_proto_fn fn, void *arg, struct co_err *err);
