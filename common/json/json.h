/* JSON trees by jansson, with limits for untrusted input, and getters whose errors name the path.
 * The only file that includes jansson.h; others include this one.  A json_t may be used by one
 * thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "common/err.h"
#include "common/mem.h"

static inline void co_json_decref(json_t **j) {
    if (*j) {
        json_decref(*j);
        *j = NULL;
    }
}
#define CO_AUTOJSON CO_CLEANUP(co_json_decref)

/* Parses len bytes.  CO_INVALID with line, column and cause; *ret_why is jansson's error code then.
 * Of duplicate keys the last wins.  Strings may contain NUL (the API server may send them). jansson
 * limits the depth (JSON_PARSER_MAX_DEPTH 2048). */
CO_MUST_CHECK int co_json_load(
    const char *text, size_t len, json_t **ret, enum json_error_code *ret_why, struct co_err *err);
/* The same without jansson's code. */
CO_MUST_CHECK int co_json_parse(const char *text, size_t len, json_t **ret, struct co_err *err);

/* The same for JSON that another program has accepted.  Where jansson fails, integers beyond 64
 * bits become reals, NUL becomes U+FFFD, and values deeper than 1000 levels become null, so that
 * one unusual object does not make a whole list unreadable. */
CO_MUST_CHECK int co_json_parse_odd(const char *text, size_t len, json_t **ret, struct co_err *err);

/* Borrowed value at a path of keys, NULL when absent (or when a step is no object):
 *     co_json_at(pod, "metadata", "labels", "app.kubernetes.io/name")   */
#define co_json_at(obj, ...) co_json_atv((obj), (const char *const[]){__VA_ARGS__, NULL})
json_t *co_json_atv(const json_t *obj, const char *const *keys);
/* The string there; NULL when it is absent or not a string. */
#define co_json_str(obj, ...) json_string_value(co_json_at(obj, __VA_ARGS__))

/* Typed getters with a dotted path ("spec.worker.replicas"); no key in it may contain a dot.
 * CO_NOTFOUND when absent or null, CO_INVALID when of another type or out of range; the
 * message names the path, the type found and what was expected. */
CO_MUST_CHECK int co_json_get(
    const json_t *obj, const char *path, json_type type, json_t **ret, struct co_err *err);
CO_MUST_CHECK int co_json_get_str(
    const json_t *obj, const char *path, const char **ret, struct co_err *err);
CO_MUST_CHECK int co_json_get_i64(const json_t *obj, const char *path, int64_t min, int64_t max,
    int64_t *ret, struct co_err *err);

struct co_jnode;
/* Converts nodes (common/json/jdoc.h) to a tree; values deeper than 1000 levels become null.  The
 * caller owns it. */
json_t *co_json_of_nodes(const struct co_jnode *n);
/* An estimate of that tree's memory in bytes: from once to eighty times its text.  NULL: 0. */
size_t co_json_nodes_bytes(const struct co_jnode *n);

/* Compact text, keys in insertion order; the caller frees.  Aborts when memory is out. */
char *co_json_dump(const json_t *j);
/* Sorted keys, for comparison and hashing. */
char *co_json_dump_sorted(const json_t *j);

/* Sets obj[key] and takes the value; aborts when memory is out (for our own small objects).  value
 * NULL: sets nothing. */
void co_json_set(json_t *obj, const char *key, json_t *value_own);
void co_json_append(json_t *arr, json_t *value_own);
/* json_string of a text that may be invalid UTF-8: then all non-ASCII bytes become "?".  NULL
 * counts as "".  Never returns NULL. */
json_t *co_json_string(const char *s);
