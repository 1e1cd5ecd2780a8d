/* Inside of operator/kube: what an API server answers in protobuf
 * (application/vnd.kubernetes.protobuf) becomes the JSON that it would have been, less the fields
 * that the type's table does not name.
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
/* An object of the table, a list of such or a Status, by the kind that it says. */
CO_MUST_CHECK int op_kube_proto_json(const struct co_proto_message *table, const char *data,
    size_t len, struct co_buf *out, struct co_err *err);

/* A watch's bytes, cut anyhow. */
struct op_kube_proto_stream {
    bool begun, proto;  /* what its first byte was: of a length below 16 MiB, or a brace */
    struct co_buf part; /* an event that is not whole yet */
};

/* Whether these bytes, the stream's next ones, are protobuf's. */
bool op_kube_proto_stream_is(struct op_kube_proto_stream *s, const char *data, size_t len);
void op_kube_proto_stream_done(struct op_kube_proto_stream *s);
/* Adds a line of JSON, as API servers write it, for each event that is whole now.  CO_INVALID or
 * CO_NORESOURCE (an event of more than event_max bytes): what follows cannot be read either. */
CO_MUST_CHECK int op_kube_proto_feed(struct op_kube_proto_stream *s,
    const struct co_proto_message *table, size_t event_max, const char *data, size_t len,
    struct co_buf *out, struct co_err *err);
