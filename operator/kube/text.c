/* A scanner for the JSON of API servers: skips strings and nested values, without parsing them. */
#include "operator/kube/text.h"

#include <string.h>

#define MANAGED "\"managedFields\":["

/* The position after the string that begins at `at`; NULL: it does not end. */
static const char *skip_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++) {
        at += *at == '\\' && end - at > 1;
    }
    return at < end ? at + 1 : NULL;
}

/* The position after the object or list that begins at `at`; NULL: it does not end. */
static const char *skip_nest(const char *at, const char *end) {
    size_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            if (!at) {
                return NULL;
            }
            continue;
        }
        depth += *at == '{' || *at == '[';
        if (*at == '}' || *at == ']') {
            if (--depth == 0) {
                return at + 1;
            }
        }
        at++;
    }
    return NULL;
}

/* Copies text without managedFields and one comma beside each; returns the new length. */
static size_t drop_managed(const char *text, size_t len, char *ret) {
    const char *end = text + len;
    const char *at = text;
    char *out = ret;
    const char *found;
    while ((found = memmem(at, (size_t)(end - at), MANAGED, sizeof(MANAGED) - 1))) {
        const char *behind = skip_nest(found + sizeof(MANAGED) - 2, end);
        /* After a backslash this is not a key, but a part of a string. */
        if (!behind || found == text || found[-1] == '\\') {
            behind = ++found;
        }
        memcpy(out, at, (size_t)(found - at));
        out += found - at;
        if (behind != found) {
            if (behind < end && *behind == ',') {
                behind++;
            } else if (out > ret && out[-1] == ',') {
                out--;
            }
        }
        at = behind;
    }
    memcpy(out, at, (size_t)(end - at));
    return (size_t)(out + (end - at) - ret);
}

int kube_text_parse(const char *text, size_t len, json_t **ret, struct co_err *err) {
    if (!memmem(text, len, MANAGED, sizeof(MANAGED) - 1)) {
        return co_json_parse_odd(text, len, ret, err);
    }
    CO_AUTOFREE char *copy = co_xmalloc(len);
    return co_json_parse_odd(copy, drop_managed(text, len, copy), ret, err);
}

/* The value of a key in the object that begins at `at`; NULL when it has none.  Expects the format
 * of API servers: no spaces, and nothing escaped in the key. */
static const char *find_value(const char *at, const char *end, const char *key) {
    size_t n = strlen(key);
    size_t depth = 0;
    while (at && at < end) {
        if (*at == '"') {
            bool here = depth == 1 && (size_t)(end - at) > n + 3 && memcmp(at + 1, key, n) == 0 &&
                        memcmp(at + 1 + n, "\":", 2) == 0;
            if (here) {
                return at + n + 3;
            }
            at = skip_string(at, end);
            continue;
        }
        depth += *at == '{' || *at == '[';
        if ((*at == '}' || *at == ']') && (!depth || --depth == 0)) {
            return NULL;
        }
        at++;
    }
    return NULL;
}

char *kube_text_slim(const char *text, size_t len, size_t *ret_len) {
    char *copy = co_xmalloc(len);
    char *end = copy + drop_managed(text, len, copy);
    const char *meta = find_value(copy, end, "metadata");
    const char *notes = meta ? find_value(meta, end, "annotations") : NULL;
    const char *behind = notes && *notes == '{' ? skip_nest(notes, end) : NULL;
    if (behind) {
        char *rest = copy + (notes - copy) + 1;
        memmove(rest, behind - 1, (size_t)(end - behind) + 1);
        end -= behind - 1 - rest;
    }
    *ret_len = (size_t)(end - copy);
    return co_xrealloc(copy, *ret_len, 1);
}

int kube_text_list(const char *text, size_t len, struct co_jdoc *ret_rest, const char **ret_items,
    const char **ret_end, struct co_err *err) {
    const char *end = text + len;
    const char *items = find_value(text, end, "items");
    const char *behind = items && *items == '[' ? skip_nest(items, end) : NULL;
    if (!behind) { /* items: null, or no list at all */
        *ret_items = *ret_end = end;
        return co_jdoc_read(text, len, "managedFields", ret_rest, err);
    }
    CO_AUTOFREE char *rest =
        co_xasprintf("%.*s[]%.*s", (int)(items - text), text, (int)(end - behind), behind);
    CO_TRY(co_jdoc_read(rest, strlen(rest), NULL, ret_rest, err));
    *ret_items = items + 1;
    *ret_end = behind - 1;
    return 0;
}

int kube_text_item(const char **at, const char *end, const char **ret, size_t *ret_len) {
    const char *p = *at;
    while (p < end && *p != '{') {
        p++;
    }
    const char *behind = p < end ? skip_nest(p, end) : NULL;
    if (!behind) {
        return CO_GONE;
    }
    *at = behind;
    *ret = p;
    *ret_len = (size_t)(behind - p);
    return 0;
}
