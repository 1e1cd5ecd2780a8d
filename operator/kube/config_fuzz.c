/* Kubeconfig texts from memory: files that they name do not exist, programs are not run. */
#include "operator/kube/config.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int no_file(
    void *arg, const char *path, char **ret_text, size_t *ret_len, struct co_err *err) {
    (void)arg;
    static const char pem[] = "-----BEGIN CERTIFICATE-----\n";
    if (strstr(path, "pem")) {
        *ret_text = co_xstrdup(pem);
        *ret_len = strlen(pem);
        return 0;
    }
    return co_err_set(err, CO_NOTFOUND, "%s: no such file", path);
}

/* Two files, cut at the first form feed: merging is part of it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    const char *cut = size ? memchr(text, '\f', size) : NULL;
    size_t first = cut ? (size_t)(cut - text) : size;
    CO_CLEANUP(kube_config_set_freep)
    struct kube_config_set *set = kube_config_set_new(no_file, NULL);
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = NULL;
    struct co_err err = {0};
    int rc = kube_config_set_add(set, "/etc/one", text, first, &err);
    if (!rc && cut) {
        rc = kube_config_set_add(set, "two", cut + 1, size - first - 1, &err);
    }
    rc = rc ? rc : kube_config_set_resolve(set, NULL, &cfg, &err);
    if (rc ? !err.msg[0] : !cfg->server || !cfg->ns || !cfg->source) {
        __builtin_trap();
    }
    return 0;
}
