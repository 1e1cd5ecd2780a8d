/* Helpers around jansson: parsing with a cause, typed getters, builders that abort when memory is
 * out. */
#include "common/json/json.h"

#include <inttypes.h>
#include <string.h>

int co_json_load(
    const char *text, size_t len, json_t **ret, enum json_error_code *ret_why, struct co_err *err) {
    /* Checked here, because jansson ignores a NUL after a number. */
    const char *nul = len ? memchr(text, '\0', len) : NULL;
    if (nul) {
        *ret_why = json_error_invalid_syntax;
        return co_err_set(err, CO_INVALID, "byte %zu: a NUL, expected JSON", (size_t)(nul - text));
    }
    json_error_t e;
    json_t *j = json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
    if (!j) {
        *ret_why = json_error_code(&e);
        return co_err_set(err, CO_INVALID, "line %d, column %d: %s", e.line, e.column, e.text);
    }
    *ret = j;
    return 0;
}

int co_json_parse(const char *text, size_t len, json_t **ret, struct co_err *err) {
    enum json_error_code why;
    return co_json_load(text, len, ret, &why, err);
}

json_t *co_json_atv(const json_t *obj, const char *const *keys) {
    const json_t *j = obj;
    for (; j && *keys; keys++) {
        j = json_object_get(j, *keys);
    }
    return (json_t *)(uintptr_t)j;
}

static const char *type_name(json_type t) {
    switch (t) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
    default:
        return "null";
    }
}

/* The value at a dotted path; NULL when absent. */
static const json_t *at_path(const json_t *obj, const char *path) {
    const json_t *j = obj;
    while (j && *path) {
        const char *dot = strchrnul(path, '.');
        char key[256];
        size_t n = (size_t)(dot - path);
        if (n >= sizeof(key)) {
            return NULL;
        }
        memcpy(key, path, n);
        key[n] = '\0';
        j = json_object_get(j, key);
        path = *dot ? dot + 1 : dot;
    }
    return j;
}

static int wrong_type(const char *path, const json_t *j, const char *expected, struct co_err *err) {
    return co_err_set(
        err, CO_INVALID, "%s is %s, expected %s", path, type_name(json_typeof(j)), expected);
}

int co_json_get(
    const json_t *obj, const char *path, json_type type, json_t **ret, struct co_err *err) {
    const json_t *j = at_path(obj, path);
    if (!j || json_is_null(j)) {
        return co_err_set(err, CO_NOTFOUND, "%s is missing, expected %s", path, type_name(type));
    }
    if (json_typeof(j) != type && !(type == JSON_TRUE && json_is_boolean(j))) {
        return wrong_type(path, j, type_name(type), err);
    }
    *ret = (json_t *)(uintptr_t)j;
    return 0;
}

int co_json_get_str(const json_t *obj, const char *path, const char **ret, struct co_err *err) {
    json_t *j = NULL;
    CO_TRY(co_json_get(obj, path, JSON_STRING, &j, err));
    *ret = json_string_value(j);
    return 0;
}

int co_json_get_i64(const json_t *obj, const char *path, int64_t min, int64_t max, int64_t *ret,
    struct co_err *err) {
    json_t *j = NULL;
    CO_TRY(co_json_get(obj, path, JSON_INTEGER, &j, err));
    int64_t v = json_integer_value(j);
    if (v < min || v > max) {
        return co_err_set(err, CO_INVALID,
            "%s is %" PRId64 ", expected an integer from %" PRId64 " to %" PRId64, path, v, min,
            max);
    }
    *ret = v;
    return 0;
}

char *co_json_dump_sorted(const json_t *j) {
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    if (!text) {
        abort(); /* only when memory is out: the tree is ours and acyclic */
    }
    return text;
}

void co_json_set(json_t *obj, const char *key, json_t *value_own) {
    if (value_own && json_object_set_new(obj, key, value_own)) {
        abort();
    }
}

void co_json_append(json_t *arr, json_t *value_own) {
    if (value_own && json_array_append_new(arr, value_own)) {
        abort();
    }
}

json_t *co_json_string(const char *s) {
    s = s ? s : "";
    json_t *j = json_string(s);
    if (j) {
        return j;
    }
    CO_AUTOFREE char *copy = co_xstrdup(s);
    for (char *p = copy; *p; p++) {
        if ((unsigned char)*p >= 0x80) {
            *p = '?';
        }
    }
    j = json_string(copy);
    return j ? j : json_null();
}
