/* Finds the configuration: which kubeconfig, or the in-cluster files; see kube_config_load. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/log.h"
#include "operator/kube/config.h"

enum { FILE_MAX = 4 << 20 };

static const char serviceaccount[] = "/var/run/secrets/kubernetes.io/serviceaccount";

static int add_file(struct kube_config_set *set, const char *path, struct co_err *err) {
    CO_AUTOBUF struct co_buf b = CO_BUF(FILE_MAX);
    int rc = co_file_read(path, FILE_MAX, &b, err);
    if (!rc) {
        rc = kube_config_set_add(set, path, b.data ? b.data : "", b.len, err);
    }
    if (b.data) {
        explicit_bzero(b.data, b.cap);
    }
    return rc;
}

/* A file that cannot be looked at is not skipped: it may name another cluster than the next one. */
static bool file_exists(const char *path) {
    return access(path, F_OK) == 0 || errno != ENOENT;
}

static int load_one(
    const char *path, const char *context, struct kube_config **ret, struct co_err *err) {
    CO_CLEANUP(kube_config_set_freep)
    struct kube_config_set *set = kube_config_set_new(NULL, NULL);
    CO_TRY(add_file(set, path, err));
    return kube_config_set_resolve(set, context, ret, err);
}

/* CO_NOTFOUND when none of the files exists. */
static int load_list(
    const char *list, const char *context, struct kube_config **ret, struct co_err *err) {
    CO_CLEANUP(kube_config_set_freep)
    struct kube_config_set *set = kube_config_set_new(NULL, NULL);
    size_t found = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ":");
        CO_AUTOFREE char *path = co_xstrndup(p, n);
        p += n + (p[n] == ':');
        if (!n || !file_exists(path)) {
            continue;
        }
        CO_TRY(add_file(set, path, err));
        found++;
    }
    if (!found) {
        return co_err_set(err, CO_NOTFOUND, "KUBECONFIG=%s: no such file", list);
    }
    return kube_config_set_resolve(set, context, ret, err);
}

static int read_small(const char *dir, const char *name, char **ret, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    CO_AUTOBUF struct co_buf b = CO_BUF(FILE_MAX);
    CO_TRY(co_file_read(path, FILE_MAX, &b, err));
    *ret = co_buf_take(&b);
    return 0;
}

/* The namespace of this pod.  "default" is only for a file that is not there: anywhere else an
 * operator that watches its own namespace would watch another one. */
static int read_namespace(const char *dir, char **ret, struct co_err *err) {
    CO_AUTOFREE char *ns = NULL;
    struct co_err why = {0};
    int rc = read_small(dir, "namespace", &ns, &why);
    if (rc && rc != CO_NOTFOUND) {
        return co_err_set(err, rc, "%s", why.msg);
    }
    if (ns) {
        ns[strcspn(ns, "\r\n")] = '\0';
    }
    *ret = ns && *ns ? co_steal_ptr(ns) : co_xstrdup("default");
    return 0;
}

static int load_in_cluster(
    const char *dir, const char *host, struct kube_config **ret, struct co_err *err) {
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = co_xcalloc(1, sizeof(*cfg));
    bool v6 = strchr(host, ':') && *host != '[';
    if (read_small(dir, "ca.crt", &cfg->ca, err) || read_namespace(dir, &cfg->ns, err)) {
        return co_err_wrap(err, "in-cluster");
    }
    cfg->source = co_xstrdup("in-cluster");
    cfg->server = co_xasprintf(
        "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port && *port ? port : "443");
    cfg->token_file = co_xasprintf("%s/token", dir);
    *ret = co_steal_ptr(cfg);
    return 0;
}

/* The API server's host when we run in a pod with a service account token; else NULL. */
static const char *in_cluster_host(const char *dir) {
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    CO_AUTOFREE char *token = co_xasprintf("%s/token", dir);
    return host && *host && file_exists(token) ? host : NULL;
}

int kube_config_load(
    const struct kube_config_opts *opts, struct kube_config **ret, struct co_err *err) {
    const char *list = getenv("KUBECONFIG");
    const char *home = getenv("HOME");
    const char *dir = opts->serviceaccount_dir ? opts->serviceaccount_dir : serviceaccount;
    const char *host = in_cluster_host(dir);
    struct co_err local = {0}; /* err->code is needed even when the caller passes NULL */
    err = err ? err : &local;
    if (opts->kubeconfig && *opts->kubeconfig) {
        return load_one(opts->kubeconfig, opts->context, ret, err);
    }
    if (list && *list) {
        int rc = load_list(list, opts->context, ret, err);
        if (rc != CO_NOTFOUND || !host) {
            return rc;
        }
    }
    if (host) {
        return load_in_cluster(dir, host, ret, err);
    }
    CO_AUTOFREE char *path = co_xasprintf("%s/.kube/config", home ? home : "");
    if (home && *home && file_exists(path)) {
        return load_one(path, opts->context, ret, err);
    }
    return co_err_set(err, CO_NOTFOUND,
        "no cluster: no --kubeconfig, KUBECONFIG is not set, not in a pod (%s/token), no %s", dir,
        path);
}
