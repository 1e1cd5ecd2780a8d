/* What can be done to an API server's JSON before it is parsed: a parsed object takes many times
 * the memory of its text, and most of a pod is of no use here.  Texts that are not as API servers
 * write them are left as they are.  Pure. */
#pragma once

#include "common/jdoc.h"
#include "common/json.h"

/* co_json_parse_odd, less all managedFields: half of an object's bytes, and nobody's business. */
CO_MUST_CHECK int op_kube_text_parse(
    const char *text, size_t len, json_t **ret, struct co_err *err);

/* A copy of an object's text, to be freed, without managedFields and with its annotations empty,
 * one of which is the whole object once more where kubectl has applied it. */
char *op_kube_text_slim(const char *text, size_t len, size_t *ret_len);

/* A list, item by item.  *ret_rest is the list without its items; the caller owns it.  *ret_items
 * and *ret_end enclose them, for op_kube_text_item; where they were not found, they are in
 * *ret_rest. */
CO_MUST_CHECK int op_kube_text_list(const char *text, size_t len, struct co_jdoc *ret_rest,
    const char **ret_items, const char **ret_end, struct co_err *err);
/* The next item's text, and *at moves behind it.  CO_GONE after the last one. */
CO_MUST_CHECK int op_kube_text_item(
    const char **at, const char *end, const char **ret, size_t *ret_len);
