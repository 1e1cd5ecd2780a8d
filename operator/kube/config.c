/* Resolves one context of one or more kubeconfig files to an kube_config. */
#include "operator/kube/config.h"

#include <string.h>

#include "common/buf.h"
#include "common/yaml/yaml.h"
#include "operator/kube/config_parts.h"

enum { TEXT_MAX = 4 << 20 };

/* A parsed kubeconfig. */
struct file {
    char *path;
    json_t *doc; /* NULL: an empty file */
};

struct kube_config_set {
    kube_config_read_fn read;
    void *read_arg;
    struct file *files; /* in order of precedence */
    size_t n_files;
};

static int read_disk(
    void *arg, const char *path, char **ret_text, size_t *ret_len, struct co_err *err) {
    (void)arg;
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    CO_TRY(co_file_read(path, TEXT_MAX, &b, err));
    *ret_len = b.len;
    *ret_text = co_buf_take(&b);
    return 0;
}

struct kube_config_set *kube_config_set_new(kube_config_read_fn read, void *arg) {
    struct kube_config_set *set = co_xcalloc(1, sizeof(*set));
    set->read = read ? read : read_disk;
    set->read_arg = arg;
    return set;
}

void kube_config_set_free(struct kube_config_set *set) {
    if (!set) {
        return;
    }
    for (size_t i = 0; i < set->n_files; i++) {
        free(set->files[i].path);
        json_decref(set->files[i].doc);
    }
    free(set->files);
    free(set);
}

int kube_config_set_add(struct kube_config_set *set, const char *path, const char *text, size_t len,
    struct co_err *err) {
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    CO_AUTOJSON json_t *doc = NULL;
    struct co_err why = {0};
    int rc = co_yaml_open(path, text, len, &y, &why);
    if (!rc) {
        rc = co_yaml_next(y, &doc, &why);
    }
    if (rc && rc != CO_NOTFOUND) { /* an empty one has no entries */
        return co_err_set(err, rc, "%s", why.msg);
    }
    if (doc && !json_is_object(doc)) {
        return co_err_set(err, CO_INVALID, "%s: not a kubeconfig", path);
    }
    const char *kind = co_json_str(doc, "kind");
    if (kind && *kind && strcmp(kind, "Config") != 0) {
        return co_err_set(err, CO_INVALID, "%s: kind: \"%s\", expected Config", path, kind);
    }
    set->files = co_xrealloc(set->files, set->n_files + 1, sizeof(*set->files));
    set->files[set->n_files++] = (struct file){co_xstrdup(path), co_steal_ptr(doc)};
    return 0;
}

/* Finds FILE's entry section[] with name == wanted; its value is in the field `inner`. */
static int find_in(const struct file *f, const char *section, const char *inner, const char *wanted,
    struct kube_entry *ret, struct co_err *err) {
    const json_t *list = json_object_get(f->doc, section);
    if (list && !json_is_null(list) && !json_is_array(list)) {
        return co_err_set(err, CO_INVALID, "%s: %s: not a list", f->path, section);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = co_json_str(item, "name");
        if (!name) {
            return co_err_set(err, CO_INVALID, "%s: %s[%zu]: no name", f->path, section, i);
        }
        if (strcmp(name, wanted) != 0) {
            continue;
        }
        *ret = (struct kube_entry){f->path, section, i, name, json_object_get(item, inner)};
        if (ret->value && !json_is_null(ret->value) && !json_is_object(ret->value)) {
            return kube_entry_err(ret, err, CO_INVALID, "%s: not a map", inner);
        }
        return 0;
    }
    return CO_NOTFOUND;
}

/* The first file that has the entry wins.  Entries of several files are not merged. */
static int find_entry(const struct kube_config_set *set, const char *section, const char *inner,
    const char *name, struct kube_entry *ret, struct co_err *err) {
    for (size_t i = 0; i < set->n_files; i++) {
        int rc = find_in(&set->files[i], section, inner, name, ret, err);
        if (!rc) {
            ret->read = set->read;
            ret->read_arg = set->read_arg;
        }
        if (rc != CO_NOTFOUND) {
            return rc;
        }
    }
    return CO_NOTFOUND;
}

static int current_context(
    const struct kube_config_set *set, const char **ret, struct co_err *err) {
    for (size_t i = 0; i < set->n_files; i++) {
        const char *name = co_json_str(set->files[i].doc, "current-context");
        if (name && *name) {
            *ret = name;
            return 0;
        }
    }
    const char *path = set->n_files ? set->files[0].path : "kubeconfig";
    return co_err_set(err, CO_INVALID,
        "%s: current-context: missing; choose one with --context or kubectl config use-context",
        path);
}

/* ---- clusters ---- */

/* A string that becomes a part of a request, or of its address. */
static int read_line(
    const struct kube_entry *e, const char *field, char **ret, struct co_err *err) {
    CO_TRY(kube_entry_str(e, field, ret, err));
    for (const char *s = *ret; s && *s; s++) {
        if ((unsigned char)*s < ' ' || *s == 0x7f) {
            return kube_entry_err(e, err, CO_INVALID, "%s: holds a control character", field);
        }
    }
    return 0;
}

/* The part of a URL that may be shown: before the @ there may be a password. */
static const char *from_at(const char *url) {
    const char *at = strrchr(url, '@');
    return at ? at : url;
}

/* Adds a missing scheme, validates the URL, and strips trailing slashes. */
static int settle_server(const struct kube_entry *e, struct kube_config *cfg, struct co_err *err) {
    if (!cfg->server) {
        return kube_entry_err(e, err, CO_INVALID, "server: missing");
    }
    if (!strstr(cfg->server, "://")) {
        CO_AUTOFREE char *bare = cfg->server;
        bool tls = cfg->ca || cfg->insecure;
        cfg->server = co_xasprintf("%s://%s", tls ? "https" : "http", bare);
    }
    size_t scheme = strcspn(cfg->server, ":");
    bool known = (scheme == 5 && !strncmp(cfg->server, "https", 5)) ||
                 (scheme == 4 && !strncmp(cfg->server, "http", 4));
    const char *host = cfg->server + scheme + strlen("://");
    if (!known || !*host || *host == '/' || strpbrk(host, "?#@ \"\\")) {
        return kube_entry_err(
            e, err, CO_INVALID, "server: \"%s\", expected https://host:port", from_at(cfg->server));
    }
    size_t len = strlen(cfg->server);
    while (len && cfg->server[len - 1] == '/') {
        cfg->server[--len] = '\0';
    }
    return 0;
}

static int check_proxy(const struct kube_entry *e, const char *url, struct co_err *err) {
    static const char *const schemes[] = {"http://", "https://", "socks5://"};
    for (size_t i = 0; i < CO_ARRAY_LEN(schemes); i++) {
        if (!url || !strncmp(url, schemes[i], strlen(schemes[i]))) {
            return 0;
        }
    }
    return kube_entry_err(e, err, CO_INVALID,
        "proxy-url: \"%s\", expected http://, https:// or socks5://", from_at(url));
}

static int read_cluster(const struct kube_entry *e, struct kube_config *cfg, struct co_err *err) {
    CO_TRY(read_line(e, "server", &cfg->server, err));
    CO_TRY(read_line(e, "tls-server-name", &cfg->tls_server_name, err));
    CO_TRY(read_line(e, "proxy-url", &cfg->proxy_url, err));
    CO_TRY(kube_entry_bool(e, "insecure-skip-tls-verify", &cfg->insecure, err));
    CO_TRY(kube_entry_pem(e, "certificate-authority", &cfg->ca, err));
    CO_TRY(check_proxy(e, cfg->proxy_url, err));
    CO_TRY(settle_server(e, cfg, err));
    if (cfg->insecure && cfg->ca) {
        return kube_entry_err(e, err, CO_INVALID,
            "insecure-skip-tls-verify: true together with certificate-authority; choose one");
    }
    return 0;
}

/* ---- users ---- */

/* Fields of a user that we do not support must be an error, not be ignored. */
static int refuse_unsupported(const struct kube_entry *e, struct co_err *err) {
    static const struct {
        const char *field, *advice;
    } rows[] = {
        {"auth-provider", "was removed from Kubernetes 1.26; use an exec credential plugin"},
        {"as", "impersonation is not supported"},
        {"as-uid", "impersonation is not supported"},
        {"as-groups", "impersonation is not supported"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const json_t *j = json_object_get(e->value, rows[i].field);
        if (j && !json_is_null(j) && !(json_is_string(j) && !json_string_length(j))) {
            return kube_entry_err(e, err, CO_UNSUPPORTED, "%s: %s", rows[i].field, rows[i].advice);
        }
    }
    return 0;
}

static int read_user(const struct kube_entry *e, const struct kube_entry *cluster,
    struct kube_config *cfg, struct co_err *err) {
    CO_AUTOFREE char *token_file = NULL;
    CO_TRY(refuse_unsupported(e, err));
    CO_TRY(read_line(e, "token", &cfg->token, err));
    CO_TRY(kube_entry_str(e, "tokenFile", &token_file, err));
    CO_TRY(read_line(e, "username", &cfg->username, err));
    CO_TRY(read_line(e, "password", &cfg->password, err));
    CO_TRY(kube_entry_pem(e, "client-certificate", &cfg->cert, err));
    CO_TRY(kube_entry_pem(e, "client-key", &cfg->key, err));
    CO_TRY(kube_entry_exec(e, cluster, &cfg->exec, err));
    if (!cfg->cert != !cfg->key) {
        return kube_entry_err(e, err, CO_INVALID, "client-%s: given without client-%s",
            cfg->cert ? "certificate" : "key", cfg->cert ? "key" : "certificate");
    }
    cfg->token_file = token_file ? kube_entry_path(e, token_file) : NULL;
    if (cfg->exec && (cfg->token || cfg->token_file || cfg->username)) {
        return kube_entry_err(
            e, err, CO_INVALID, "exec: together with a token or username; choose one");
    }
    return 0;
}

/* ---- one context ---- */

void kube_secret_free(char *s) {
    if (s) {
        explicit_bzero(s, strlen(s));
        free(s);
    }
}

void kube_config_free(struct kube_config *cfg) {
    if (!cfg) {
        return;
    }
    char *plain[] = {cfg->source, cfg->server, cfg->ns, cfg->ca, cfg->tls_server_name,
        cfg->proxy_url, cfg->cert, cfg->token_file, cfg->username};
    for (size_t i = 0; i < CO_ARRAY_LEN(plain); i++) {
        free(plain[i]);
    }
    kube_secret_free(cfg->key);
    kube_secret_free(cfg->token);
    kube_secret_free(cfg->password);
    kube_exec_free(cfg->exec);
    free(cfg);
}

/* The cluster or the user that a context refers to. */
static int find_of(const struct kube_config_set *set, const struct kube_entry *context,
    const char *section, const char *field, const char *name, struct kube_entry *ret,
    struct co_err *err) {
    int rc = find_entry(set, section, field, name, ret, err);
    if (rc == CO_NOTFOUND) {
        rc = CO_INVALID;
        (void)kube_entry_err(context, err, rc, "%s: \"%s\" is not in %s", field, name, section);
    }
    return rc;
}

static int resolve_context(const struct kube_config_set *set, const struct kube_entry *context,
    struct kube_config *cfg, struct co_err *err) {
    CO_AUTOFREE char *cluster_name = NULL;
    CO_AUTOFREE char *user_name = NULL;
    struct kube_entry cluster, user;
    CO_TRY(kube_entry_str(context, "cluster", &cluster_name, err));
    CO_TRY(kube_entry_str(context, "user", &user_name, err));
    CO_TRY(kube_entry_str(context, "namespace", &cfg->ns, err));
    CO_TRY(cluster_name ? find_of(set, context, "clusters", "cluster", cluster_name, &cluster, err)
                        : kube_entry_err(context, err, CO_INVALID, "cluster: missing"));
    CO_TRY(read_cluster(&cluster, cfg, err));
    if (user_name) {
        CO_TRY(find_of(set, context, "users", "user", user_name, &user, err));
        CO_TRY(read_user(&user, &cluster, cfg, err));
    }
    return 0;
}

int kube_config_set_resolve(struct kube_config_set *set, const char *context,
    struct kube_config **ret, struct co_err *err) {
    struct kube_entry entry;
    bool chosen = context && *context;
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = co_xcalloc(1, sizeof(*cfg));
    if (!chosen) {
        CO_TRY(current_context(set, &context, err));
    }
    int rc = find_entry(set, "contexts", "context", context, &entry, err);
    if (rc == CO_NOTFOUND) {
        const char *path = set->n_files ? set->files[0].path : "kubeconfig";
        return co_err_set(err, CO_INVALID, "%s: %s: \"%s\" is not in contexts", path,
            chosen ? "--context" : "current-context", context);
    }
    CO_TRY(rc);
    CO_TRY(resolve_context(set, &entry, cfg, err));
    cfg->source = co_xasprintf("%s: context \"%s\"", entry.path, context);
    cfg->ns = cfg->ns ? cfg->ns : co_xstrdup("default");
    *ret = co_steal_ptr(cfg);
    return 0;
}
