/* Internal to operator/kube: decodes answers in protobuf (application/vnd.kubernetes.protobuf) to
 * the nodes that their JSON would give, without the fields that the type's table does not have.
 *
 *   object: "k8s\0" | runtime.Unknown{ typeMeta{kind}, raw: the object's own message }
 *   watch:  length (4 bytes, big-endian) | meta/v1 WatchEvent{ type, object } | length | ...
 *
 * Field numbers are those of generated.proto in k8s.io/apimachinery.  Pure. */
#pragma once

#include "common/buf.h"
#include "common/json/proto.h"

#define KUBE_PROTO_TYPE "application/vnd.kubernetes.protobuf"

/* Whether an answer is protobuf; no JSON begins with "k8s\0". */
bool kube_proto_is(const char *text, size_t len);
/* Decodes by the kind in the message: an object with `table`, a Status, or a list without its
 * items.
 */
CO_MUST_CHECK int kube_proto_read(const struct co_proto_message *table, const char *data,
    size_t len, struct co_jdoc *ret, struct co_err *err);
/* The range of a list's items, for kube_proto_item; empty when it is not a list. */
CO_MUST_CHECK int kube_proto_items(
    const char *data, size_t len, const char **ret_at, const char **ret_end, struct co_err *err);
/* The next item, a message of the type in the list; advances *at.  CO_GONE after the last one. */
CO_MUST_CHECK int kube_proto_item(
    const char **at, const char *end, const char **ret, size_t *ret_len, struct co_err *err);

/* Splits the bytes of a watch into events, however they were cut in transit. */
struct kube_proto_stream {
    bool begun, proto;  /* the first byte has come; it is 0, of a length below 16 MiB, not '{' */
    struct co_buf part; /* an event that is not complete yet */
};

/* An event's type and its object, for kube_proto_read.  Any result but 0 stops the feed with
 * that code; then the callback may have freed the stream. */
typedef int (*kube_proto_fn)(void *arg, const char *type, size_t type_len, const char *object,
    size_t len, struct co_err *err);

/* Whether the stream is protobuf; data: its next bytes. */
bool kube_proto_stream_is(struct kube_proto_stream *s, const char *data, size_t len);
/* Frees the buffer; the stream can be used for a new watch. */
void kube_proto_stream_done(struct kube_proto_stream *s);
/* Calls fn for each event that is complete now.  CO_INVALID or CO_NORESOURCE (an event of more than
 * event_max bytes): nothing that follows can be read either.  Otherwise 0 or what fn returned. */
CO_MUST_CHECK int kube_proto_feed(struct kube_proto_stream *s, size_t event_max, const char *data,
    size_t len, kube_proto_fn fn, void *arg, struct co_err *err);
