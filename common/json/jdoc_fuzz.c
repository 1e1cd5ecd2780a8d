/* What jansson takes is taken, and is the same; with a key left out it is the same without it. */
#include "common/json/jdoc.h"

#include <string.h>

#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const json_t *j, const struct co_jnode *n, const char *unread);

static bool same_object(const json_t *j, const struct co_jnode *n, const char *unread) {
    const char *key;
    json_t *value;
    if (!co_jnode_is(n, CO_J_OBJECT)) {
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)j, key, value) {
        const struct co_jnode *found = co_jnode_get(n, key);
        if (unread && strcmp(key, unread) == 0 ? found != NULL : !same(value, found, unread)) {
            return false;
        }
    }
    return true;
}

static bool same_list(const json_t *j, const struct co_jnode *n, const char *unread) {
    const struct co_jnode *item = NULL;
    for (size_t i = 0; i < json_array_size(j); i++) {
        item = co_jnode_next(n, item);
        if (!same(json_array_get(j, i), item, unread)) {
            return false;
        }
    }
    return co_jnode_is(n, CO_J_LIST) && !co_jnode_next(n, item);
}

/* The deepest text that jansson takes is no danger to the stack. */
static bool same(
    const json_t *j, const struct co_jnode *n, const char *unread) { /* NOLINT(misc-no-recursion) */
    int64_t v = 0;
    const char *text = co_jnode_text(n);
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return same_object(j, n, unread);
    case JSON_ARRAY:
        return same_list(j, n, unread);
    case JSON_STRING: /* NUL is another character here */
        return text && (strlen(json_string_value(j)) != json_string_length(j) ||
                           strcmp(text, json_string_value(j)) == 0);
    case JSON_INTEGER:
        return co_jnode_int(n, &v) && v == json_integer_value(j);
    case JSON_REAL:
        return co_jnode_is(n, CO_J_NUMBER) && !co_jnode_int(n, &v);
    case JSON_TRUE:
        return co_jnode_is(n, CO_J_TRUE);
    case JSON_FALSE:
        return co_jnode_is(n, CO_J_FALSE);
    case JSON_NULL:
    default:
        return co_jnode_is(n, CO_J_NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOJSON json_t *tree = NULL;
    int p = co_json_parse((const char *)data, size, &tree, NULL);
    const char *const unread[] = {NULL, "a"};
    for (size_t i = 0; i < CO_ARRAY_LEN(unread); i++) {
        CO_AUTOJDOC struct co_jdoc doc = {0};
        struct co_err err = {0};
        int r = co_jdoc_read((const char *)data, size, unread[i], &doc, &err);
        if ((r && !err.code) || (!p && (r || !same(tree, doc.node, unread[i])))) {
            abort();
        }
    }
    return 0;
}
