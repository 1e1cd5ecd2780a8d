/* What a status write must contain (a merge patch), and whether the write is urgent.  Pure. */
#include "operator/control/diff.h"

#include <string.h>

static json_t *borrow_value(const json_t *j) {
    return json_incref((json_t *)(uintptr_t)j);
}

/* The recursion is bounded: the parser limits the nesting of what it accepts. */
json_t *ctl_merge_diff(const json_t *from, const json_t *to) { /* NOLINT(misc-no-recursion) */
    if (!json_is_object(from) || !json_is_object(to)) {
        return json_equal(from, to) ? NULL : borrow_value(to);
    }
    json_t *patch = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)to, key, value) {
        if (json_is_null(value)) {
            continue;
        }
        const json_t *old = json_object_get(from, key);
        co_json_set(patch, key, old ? ctl_merge_diff(old, value) : borrow_value(value));
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

/* Index of the condition Completing; the size of the list if it has none. */
static size_t find_completing(const json_t *conditions) {
    size_t i = 0;
    while (i < json_array_size(conditions) &&
           !co_streq(co_json_str(json_array_get(conditions, i), "type"), "Completing")) {
        i++;
    }
    return i;
}

static bool is_completing(const json_t *status) {
    const json_t *conditions = json_object_get(status, "conditions");
    const json_t *c = json_array_get(conditions, find_completing(conditions));
    return co_streq(co_json_str(c, "status"), "True") != 0;
}

/* Whether both lists have the same conditions with the same reasons, Completing aside.  Messages
 * are not compared, as they contain counters. */
static bool same_conditions(const json_t *a, const json_t *b) {
    static const char *const keys[] = {"type", "status", "reason"};
    size_t skip_a = find_completing(a), skip_b = find_completing(b);
    size_t n = json_array_size(a) - (skip_a < json_array_size(a));
    bool same = n == json_array_size(b) - (skip_b < json_array_size(b));
    for (size_t i = 0; same && i < n * CO_ARRAY_LEN(keys); i++) {
        const char *key = keys[i % CO_ARRAY_LEN(keys)];
        size_t at = i / CO_ARRAY_LEN(keys);
        same = co_streq(co_json_str(json_array_get(a, at + (at >= skip_a)), key),
                   co_json_str(json_array_get(b, at + (at >= skip_b)), key)) != 0;
    }
    return same;
}

bool ctl_status_can_wait(const json_t *stored, const json_t *wanted, const json_t *diff) {
    static const char *const counters[] = {"ps", "worker", "heter", "readyPS", "readyWorker",
        "readyHeter", "containerRestarts", "message"};
    if (!stored) {
        return co_streq(co_json_str(wanted, "phase"), "Pending") && !co_json_str(wanted, "reason");
    }
    /* Parameter servers often end right after the workers.  By waiting, one write says that the job
     * has completed, instead of two of which the first says that it is completing. */
    bool begins = is_completing(wanted) && !is_completing(stored);
    bool ends = is_completing(stored) && !is_completing(wanted);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)diff, key, value) {
        bool counter = (begins && strcmp(key, "reason") == 0) ||
                       (!ends && strcmp(key, "conditions") == 0 &&
                           same_conditions(json_object_get(stored, key), value));
        for (size_t i = 0; !counter && i < CO_ARRAY_LEN(counters); i++) {
            counter = strcmp(key, counters[i]) == 0;
        }
        if (!counter) {
            return false;
        }
    }
    return true;
}
