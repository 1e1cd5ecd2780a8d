/* Readers of the fields of a kubeconfig entry: strings, booleans, paths, PEM texts. */
#include "operator/kube/config_parts.h"

#include <stdio.h>
#include <string.h>

#include "common/base64.h"

int kube_entry_err(const struct kube_entry *e, struct co_err *err, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    co_err_setv(err, code, fmt, ap);
    va_end(ap);
    co_err_wrap(err, "%s: %s[%zu] \"%s\"", e->path, e->section, e->index, e->name);
    return code;
}

static const json_t *field_of(const struct kube_entry *e, const char *field) {
    const json_t *j = json_object_get(e->value, field);
    return json_is_null(j) ? NULL : j;
}

int kube_entry_str(const struct kube_entry *e, const char *field, char **ret, struct co_err *err) {
    const json_t *j = field_of(e, field);
    if (!j) {
        return 0;
    }
    const char *s = json_string_value(j);
    if (!s) {
        return kube_entry_err(e, err, CO_INVALID, "%s: not a string", field);
    }
    if (strlen(s) != json_string_length(j)) {
        return kube_entry_err(e, err, CO_INVALID, "%s: holds a NUL byte", field);
    }
    if (*s) {
        free(*ret);
        *ret = co_xstrdup(s);
    }
    return 0;
}

int kube_entry_bool(const struct kube_entry *e, const char *field, bool *ret, struct co_err *err) {
    const json_t *j = field_of(e, field);
    if (j && !json_is_boolean(j)) {
        return kube_entry_err(e, err, CO_INVALID, "%s: not true or false", field);
    }
    if (j) {
        *ret = json_is_true(j);
    }
    return 0;
}

char *kube_entry_path(const struct kube_entry *e, const char *path) {
    const char *slash = strrchr(e->path, '/');
    if (*path == '/' || !slash) {
        return co_xstrdup(path);
    }
    return co_xasprintf("%.*s/%s", (int)(slash - e->path), e->path, path);
}

static bool is_pem(const char *text, size_t len) {
    return len && strlen(text) == len && strstr(text, "-----BEGIN ");
}

static int keep_pem(const struct kube_entry *e, const char *field, const char *path, char *text_own,
    size_t len, char **ret, struct co_err *err) {
    if (!is_pem(text_own, len)) {
        explicit_bzero(text_own, len);
        free(text_own);
        return kube_entry_err(
            e, err, CO_INVALID, "%s: %s%snot PEM text", field, path, *path ? ": " : "");
    }
    free(*ret);
    *ret = text_own;
    return 0;
}

static int pem_from_data(
    const struct kube_entry *e, const char *field, char *data, char **ret, struct co_err *err) {
    char *text = NULL;
    size_t len = 0;
    struct co_err cause = {0};
    int rc = co_base64_decode(data, &text, &len, &cause);
    explicit_bzero(data, strlen(data));
    return rc ? kube_entry_err(e, err, rc, "%s: %s", field, cause.msg)
              : keep_pem(e, field, "", text, len, ret, err);
}

static int pem_from_file(const struct kube_entry *e, const char *field, const char *file,
    char **ret, struct co_err *err) {
    CO_AUTOFREE char *path = kube_entry_path(e, file);
    char *text = NULL;
    size_t len = 0;
    struct co_err cause = {0};
    int rc = e->read(e->read_arg, path, &text, &len, &cause);
    return rc ? kube_entry_err(e, err, rc, "%s: %s", field, cause.msg)
              : keep_pem(e, field, path, text, len, ret, err);
}

int kube_entry_pem(const struct kube_entry *e, const char *field, char **ret, struct co_err *err) {
    CO_AUTOFREE char *data_field = co_xasprintf("%s-data", field);
    CO_AUTOFREE char *data = NULL;
    CO_AUTOFREE char *file = NULL;
    CO_TRY(kube_entry_str(e, data_field, &data, err));
    CO_TRY(kube_entry_str(e, field, &file, err));
    return data   ? pem_from_data(e, data_field, data, ret, err)
           : file ? pem_from_file(e, field, file, ret, err)
                  : 0;
}
