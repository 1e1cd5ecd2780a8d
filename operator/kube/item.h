/* Inside of operator/kube: objects out of lists and events, in whichever form they came.  Pure. */
#pragma once

#include "operator/kube/object.h"
#include "operator/kube/proto.h"

struct op_kube_item {
    struct op_kube_object object;
    struct co_jdoc doc; /* owned, or nothing: its nodes are a part of somebody's */
    char *text;         /* owned, or NULL */
};
void op_kube_item_done(struct op_kube_item *i);
#define OP_AUTOITEM CO_CLEANUP(op_kube_item_done)

/* From JSON, which stays where it is. */
CO_MUST_CHECK int op_kube_item_json(
    const char *text, size_t len, struct op_kube_item *ret, struct co_err *err);
/* From what was read of protobuf. */
struct op_kube_item op_kube_item_proto(struct co_jdoc *doc_own);
/* From a part of other nodes, which stay where they are. */
struct op_kube_item op_kube_item_part(const struct co_jnode *nodes);

/* metadata.resourceVersion, or NULL. */
const char *op_kube_item_version(const struct op_kube_item *i);

/* A page of a list, item by item. */
struct op_kube_page {
    struct co_jdoc rest;                  /* owned: the list, less the items between at and end */
    const struct co_proto_message *proto; /* of those; NULL: they are JSON */
    const char *at, *end;
    const struct co_jnode *odd; /* the last one taken of the items that are in rest */
};
/* text is borrowed; proto may be NULL.  CO_INVALID: no list. */
CO_MUST_CHECK int op_kube_page_open(const char *text, size_t len,
    const struct co_proto_message *proto, struct op_kube_page *ret, struct co_err *err);
/* CO_GONE after the last one. */
CO_MUST_CHECK int op_kube_page_next(
    struct op_kube_page *p, struct op_kube_item *ret, struct co_err *err);
void op_kube_page_done(struct op_kube_page *p);
#define OP_AUTOPAGE CO_CLEANUP(op_kube_page_done)
