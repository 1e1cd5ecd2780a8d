/* Small helpers for building JSON bodies.  Pure. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "common/json/json.h"
#include "common/parse.h"

/* The member, an object or list; created when absent or null. */
static inline json_t *plan_tree_need(json_t *obj, const char *key, json_t *(*make)(void)) {
    json_t *j = json_object_get(obj, key);
    if (!j || json_is_null(j)) {
        co_json_set(obj, key, make());
        j = json_object_get(obj, key);
    }
    return j;
}

static inline void plan_tree_set_text(json_t *obj, const char *key, const char *value) {
    co_json_set(obj, key, co_json_string(value));
}

static inline void plan_tree_set_number(json_t *obj, const char *key, int32_t n) {
    char text[16];
    (void)snprintf(text, sizeof(text), "%" PRId32, n);
    plan_tree_set_text(obj, key, text);
}

/* Leaves 0 out. */
static inline void plan_tree_set_count(json_t *obj, const char *key, int64_t n) {
    co_json_set(obj, key, n ? json_integer(n) : NULL);
}

/* Leaves a time of 0 out. */
static inline void plan_tree_set_time(json_t *obj, const char *key, int64_t seconds) {
    char text[32];
    if (seconds) {
        co_time_format(seconds, text);
        plan_tree_set_text(obj, key, text);
    }
}

static inline json_t *plan_tree_copy(const json_t *j) {
    return json_deep_copy((json_t *)(uintptr_t)j);
}

/* Of a status that may be absent. */
static inline json_t *plan_tree_copy_or_new(const json_t *j) {
    return j ? plan_tree_copy(j) : json_object();
}
