/* Internal to operator/kube: objects from lists and watch events, in JSON or protobuf, in one form.
 * Pure. */
#pragma once

#include "operator/kube/object.h"
#include "operator/kube/proto.h"

struct op_kube_item {
    struct op_kube_object object;
    struct co_jdoc doc; /* owned; empty when the object is a part of other nodes */
    char *text;         /* owned, or NULL */
};
void op_kube_item_done(struct op_kube_item *i);
#define OP_AUTOITEM CO_CLEANUP(op_kube_item_done)

/* From JSON; the text is borrowed. */
CO_MUST_CHECK int op_kube_item_json(
    const char *text, size_t len, struct op_kube_item *ret, struct co_err *err);
/* From protobuf that was read already. */
struct op_kube_item op_kube_item_proto(struct co_jdoc *doc_own);
/* From a part of other nodes, which are borrowed. */
struct op_kube_item op_kube_item_part(const struct co_jnode *nodes);

/* metadata.resourceVersion, or NULL. */
const char *op_kube_item_version(const struct op_kube_item *i);

/* Iterates over a page of a list.  Only one item is parsed at a time, to save memory. */
struct op_kube_page {
    struct co_jdoc rest;                  /* owned: the list without the items in [at, end) */
    const struct co_proto_message *proto; /* table of the items; NULL: they are JSON */
    const char *at, *end;
    const struct co_jnode *odd; /* items that could not be cut out are in rest: the last one */
};
/* text is borrowed; proto may be NULL.  CO_INVALID: it is not a list. */
CO_MUST_CHECK int op_kube_page_open(const char *text, size_t len,
    const struct co_proto_message *proto, struct op_kube_page *ret, struct co_err *err);
/* CO_GONE after the last one. */
CO_MUST_CHECK int op_kube_page_next(
    struct op_kube_page *p, struct op_kube_item *ret, struct co_err *err);
void op_kube_page_done(struct op_kube_page *p);
#define OP_AUTOPAGE CO_CLEANUP(op_kube_page_done)
