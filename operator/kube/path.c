/* Paths and queries of requests, with strict escaping. */
#include "operator/kube/path.h"

#include <string.h>

enum { SEGMENT_MAX = 253 };

static bool is_unreserved(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

/* Appends s with everything but RFC 3986's unreserved characters as %XX. */
static int add_escaped(struct co_buf *b, const char *s, struct co_err *err) {
    static const char hex[] = "0123456789ABCDEF";
    size_t before = b->len;
    for (const char *p = s; *p; p++) {
        unsigned char c = (unsigned char)*p;
        char text[3] = {'%', hex[c >> 4], hex[c & 15]};
        int rc =
            is_unreserved(c) ? co_buf_add(b, p, 1, err) : co_buf_add(b, text, sizeof(text), err);
        if (rc) {
            b->len = before;
            return rc;
        }
    }
    return 0;
}

static int add_segment(struct co_buf *b, const char *what, const char *s, struct co_err *err) {
    if (!*s || !strcmp(s, ".") || !strcmp(s, "..")) {
        return co_err_set(err, CO_INVALID, "%s \"%s\" cannot be part of a path", what, s);
    }
    if (strlen(s) > SEGMENT_MAX) {
        return co_err_set(
            err, CO_INVALID, "%s \"%.40s...\" is longer than %d characters", what, s, SEGMENT_MAX);
    }
    for (const char *p = s; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f) {
            return co_err_set(err, CO_INVALID, "%s \"%s\" holds a control character", what, s);
        }
    }
    CO_TRY(co_buf_adds(b, "/", err));
    return add_escaped(b, s, err);
}

int kube_path_add(struct co_buf *b, const struct kube_type *type, const char *ns, const char *name,
    const char *subresource, struct co_err *err) {
    const bool core = !*type->group;
    const struct {
        const char *what, *text;
        bool wanted;
    } parts[] = {
        {"root", core ? "api" : "apis", true},
        {"group", type->group, !core},
        {"version", type->version, true},
        {"namespaces", "namespaces", ns != NULL},
        {"namespace", ns, ns != NULL},
        {"resource", type->plural, true},
        {"name", name, name != NULL},
        {"subresource", subresource, subresource != NULL},
    };
    if (subresource && !name) {
        return co_err_set(err, CO_INVALID, "subresource \"%s\" without a name", subresource);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(parts); i++) {
        if (parts[i].wanted) {
            CO_TRY(add_segment(b, parts[i].what, parts[i].text, err));
        }
    }
    return 0;
}

int kube_query_add(
    struct co_buf *b, bool *first, const char *key, const char *value, struct co_err *err) {
    CO_TRY(co_buf_adds(b, *first ? "?" : "&", err));
    CO_TRY(add_escaped(b, key, err));
    CO_TRY(co_buf_adds(b, "=", err));
    CO_TRY(add_escaped(b, value, err));
    *first = false;
    return 0;
}
