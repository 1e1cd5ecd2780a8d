/* Internal to operator/kube: objects from lists and watch events, in JSON or protobuf, in one form.
 * Pure. */
#pragma once

#include "operator/kube/object.h"
#include "operator/kube/proto.h"

struct kube_item {
    struct kube_object object;
    struct co_jdoc doc; /* owned; empty when the object is a part of other nodes */
    char *text;         /* owned, or NULL */
};
void kube_item_done(struct kube_item *i);
#define KUBE_AUTOITEM CO_CLEANUP(kube_item_done)

/* From JSON; the text is borrowed. */
CO_MUST_CHECK int kube_item_json(
    const char *text, size_t len, struct kube_item *ret, struct co_err *err);
/* From protobuf that was read already. */
struct kube_item kube_item_proto(struct co_jdoc *doc_own);
/* From a part of other nodes, which are borrowed. */
struct kube_item kube_item_part(const struct co_jnode *nodes);

/* metadata.resourceVersion, or NULL. */
const char *kube_item_version(const struct kube_item *i);

/* Iterates over a page of a list.  Only one item is parsed at a time, to save memory. */
struct kube_page {
    struct co_jdoc rest;                  /* owned: the list without the items in [at, end) */
    const struct co_proto_message *proto; /* table of the items; NULL: they are JSON */
    const char *at, *end;
    const struct co_jnode *odd; /* items that could not be cut out are in rest: the last one */
};
/* text is borrowed; proto may be NULL.  CO_INVALID: it is not a list. */
CO_MUST_CHECK int kube_page_open(const char *text, size_t len, const struct co_proto_message *proto,
    struct kube_page *ret, struct co_err *err);
/* CO_GONE after the last one. */
CO_MUST_CHECK int kube_page_next(struct kube_page *p, struct kube_item *ret, struct co_err *err);
void kube_page_done(struct kube_page *p);
#define KUBE_AUTOPAGE CO_CLEANUP(kube_page_done)
