#include "operator/control/diff.h"

static json_t *borrowed(const json_t *j) {
    return json_incref((json_t *)(uintptr_t)j);
}

/* Bounded by the nesting of what a parser accepted. */
json_t *op_merge_diff(const json_t *from, const json_t *to) { /* NOLINT(misc-no-recursion) */
    if (!json_is_object(from) || !json_is_object(to)) {
        return json_equal(from, to) ? NULL : borrowed(to);
    }
    json_t *patch = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)to, key, value) {
        if (json_is_null(value)) {
            continue;
        }
        const json_t *old = json_object_get(from, key);
        co_json_set(patch, key, old ? op_merge_diff(old, value) : borrowed(value));
    }
    json_object_foreach((json_t *)(uintptr_t)from, key, value) {
        const json_t *now = json_object_get(to, key);
        if (!json_is_null(value) && (!now || json_is_null(now))) {
            co_json_set(patch, key, json_null());
        }
    }
    if (!json_object_size(patch)) {
        json_decref(patch);
        return NULL;
    }
    return patch;
}
