/* Two JSON texts, a NUL between them: the patch from one to the other, applied as RFC 7386 says,
 * gives the other (without its nulls). */
#include "operator/control/diff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Applies in place what the RFC's pseudocode says; takes nothing. */
static json_t *apply(const json_t *target, const json_t *patch) { /* NOLINT(misc-no-recursion) */
    if (!json_is_object(patch)) {
        return json_deep_copy(patch);
    }
    json_t *result =
        json_is_object(target) ? json_copy((json_t *)(uintptr_t)target) : json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patch, key, value) {
        if (json_is_null(value)) {
            json_object_del(result, key);
        } else {
            co_json_set(result, key, apply(json_object_get(result, key), value));
        }
    }
    return result;
}

/* Nulls in objects mean "absent" in a merge patch. */
static json_t *without_nulls(const json_t *j) { /* NOLINT(misc-no-recursion) */
    if (!json_is_object(j)) {
        return json_deep_copy(j);
    }
    json_t *result = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)j, key, value) {
        if (!json_is_null(value)) {
            co_json_set(result, key, without_nulls(value));
        }
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    CO_AUTOJSON json_t *from = NULL;
    CO_AUTOJSON json_t *to = NULL;
    if (!nul || co_json_parse((const char *)data, (size_t)(nul - data), &from, NULL) ||
        co_json_parse((const char *)nul + 1, size - (size_t)(nul + 1 - data), &to, NULL) ||
        !json_is_object(from) || !json_is_object(to)) {
        return 0;
    }
    CO_AUTOJSON json_t *have = without_nulls(from);
    CO_AUTOJSON json_t *want = without_nulls(to);
    CO_AUTOJSON json_t *patch = ctl_merge_diff(have, to);
    CO_AUTOJSON json_t *got = patch ? apply(have, patch) : json_incref(have);
    if (!json_equal(got, want)) {
        abort();
    }
    return 0;
}
