/* Internal to config*.c: one named entry of a kubeconfig, and readers of its fields.  They add the
 * file, the entry and the field to every error. */
#pragma once

#include "common/json/json.h"
#include "operator/kube/config.h"

struct kube_entry {
    const char *path;    /* of the file; borrowed from the set */
    const char *section; /* "clusters" */
    size_t index;
    const char *name;
    const json_t *value; /* clusters[index].cluster; may be NULL */
    kube_config_read_fn read;
    void *read_arg;
};

/* "FILE: users[2] 'dev': <what the format says>". */
int kube_entry_err(const struct kube_entry *e, struct co_err *err, int code, const char *fmt, ...)
    CO_PRINTF(4, 5);

/* A string field; *ret (owned) stays as it is when the field is absent, null or "". */
CO_MUST_CHECK int kube_entry_str(
    const struct kube_entry *e, const char *field, char **ret, struct co_err *err);
CO_MUST_CHECK int kube_entry_bool(
    const struct kube_entry *e, const char *field, bool *ret, struct co_err *err);
/* The PEM text in FIELD-data (base64), or else in the file that FIELD names. */
CO_MUST_CHECK int kube_entry_pem(
    const struct kube_entry *e, const char *field, char **ret, struct co_err *err);
/* Resolves a path that is relative to the kubeconfig; the caller frees it. */
char *kube_entry_path(const struct kube_entry *e, const char *path);

/* users[i].user.exec; cluster is for KUBERNETES_EXEC_INFO. */
CO_MUST_CHECK int kube_entry_exec(const struct kube_entry *user, const struct kube_entry *cluster,
    struct kube_exec **ret, struct co_err *err);
void kube_exec_free(struct kube_exec *e);
