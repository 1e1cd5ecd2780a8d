/* Cuts unused parts out of an API server's JSON before it is parsed, and cuts lists into items: a
 * parsed object takes many times the memory of its text.  Works on the exact format that API
 * servers write; other texts are left unchanged.  Pure. */
#pragma once

#include "common/json/jdoc.h"
#include "common/json/json.h"

/* co_json_parse_odd without managedFields, which are not used and half of an object's bytes. */
CO_MUST_CHECK int kube_text_parse(const char *text, size_t len, json_t **ret, struct co_err *err);

/* A copy of an object's text without managedFields and annotations (one of which contains the whole
 * object again after a kubectl apply).  The caller frees it. */
char *kube_text_slim(const char *text, size_t len, size_t *ret_len);

/* Separates a list from its items.  *ret_rest is the list without them; the caller owns it.  The
 * items are the text from *ret_items to *ret_end, for kube_text_item.  If they could not be
 * found, that is empty and the items are in *ret_rest. */
CO_MUST_CHECK int kube_text_list(const char *text, size_t len, struct co_jdoc *ret_rest,
    const char **ret_items, const char **ret_end, struct co_err *err);
/* The next item's text; advances *at.  CO_GONE after the last one. */
CO_MUST_CHECK int kube_text_item(
    const char **at, const char *end, const char **ret, size_t *ret_len);
