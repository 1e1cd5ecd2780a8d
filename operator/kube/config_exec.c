/* Reads users[].user.exec of a kubeconfig: the configuration of a credential plugin. */
#include <string.h>

#include "common/base64.h"
#include "operator/kube/config_parts.h"

enum { LIST_MAX = 256 }; /* arguments, and variables */

static void free_list(char **list) {
    for (size_t i = 0; list && list[i]; i++) {
        free(list[i]);
    }
    free(list);
}

void kube_exec_free(struct kube_exec *e) {
    if (e) {
        free(e->command);
        free_list(e->args);
        free_list(e->env);
        free(e->api_version);
        free(e->install_hint);
        free(e->cluster_json);
        free(e);
    }
}
CO_DEFINE_CLEANUP(struct kube_exec *, kube_exec_free)

static char *arg_text(const json_t *item) {
    return json_is_string(item) ? co_xstrdup(json_string_value(item)) : NULL;
}

static char *env_text(const json_t *item) {
    const char *name = co_json_str(item, "name");
    const char *value = co_json_str(item, "value");
    bool good = name && *name && !strchr(name, '=');
    return good ? co_xasprintf("%s=%s", name, value ? value : "") : NULL;
}

static int read_list(const struct kube_entry *exec, const char *field, const char *expected,
    char *(*text)(const json_t *), char ***ret, struct co_err *err) {
    const json_t *list = json_object_get(exec->value, field);
    size_t n = json_array_size(list);
    if ((list && !json_is_null(list) && !json_is_array(list)) || n > LIST_MAX) {
        return kube_entry_err(exec, err, CO_INVALID,
            "exec.%s: expected a list of at most %d entries", field, LIST_MAX);
    }
    char **out = co_xcalloc(n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        out[i] = text(json_array_get(list, i));
        if (!out[i]) {
            free_list(out);
            return kube_entry_err(
                exec, err, CO_INVALID, "exec.%s[%zu]: expected %s", field, i, expected);
        }
    }
    *ret = out;
    return 0;
}

static int check_protocol(const struct kube_entry *exec, const char *version, struct co_err *err) {
    static const char group[] = "client.authentication.k8s.io/";
    CO_AUTOFREE char *mode = NULL;
    if (!co_streq(version, "client.authentication.k8s.io/v1") &&
        !co_streq(version, "client.authentication.k8s.io/v1beta1")) {
        return kube_entry_err(exec, err, CO_UNSUPPORTED,
            "exec.apiVersion: \"%s\", expected %sv1 or %sv1beta1", version ? version : "", group,
            group);
    }
    int rc = kube_entry_str(exec, "interactiveMode", &mode, err);
    if (rc || !mode || !strcmp(mode, "Never") || !strcmp(mode, "IfAvailable")) {
        return rc;
    }
    if (!strcmp(mode, "Always")) {
        return kube_entry_err(exec, err, CO_UNSUPPORTED,
            "exec.interactiveMode: Always needs a terminal, which this program does not have");
    }
    return kube_entry_err(exec, err, CO_INVALID,
        "exec.interactiveMode: \"%s\", expected Never, IfAvailable or Always", mode);
}

/* spec.cluster of KUBERNETES_EXEC_INFO. */
static int describe_cluster(const struct kube_entry *cluster, char **ret_json, struct co_err *err) {
    static const char *const same[] = {
        "server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"};
    CO_AUTOJSON json_t *j = json_object();
    CO_AUTOFREE char *ca = NULL;
    CO_TRY(kube_entry_pem(cluster, "certificate-authority", &ca, err));
    for (size_t i = 0; i < CO_ARRAY_LEN(same); i++) {
        json_t *v = json_object_get(cluster->value, same[i]);
        co_json_set(j, same[i], v ? json_deep_copy(v) : NULL);
    }
    if (ca) {
        CO_AUTOFREE char *text = co_base64(ca, strlen(ca));
        co_json_set(j, "certificate-authority-data", json_string(text));
    }
    size_t i;
    json_t *extension;
    json_array_foreach(json_object_get(cluster->value, "extensions"), i, extension) {
        if (co_streq(co_json_str(extension, "name"), "client.authentication.k8s.io/exec")) {
            json_t *config = json_object_get(extension, "extension");
            co_json_set(j, "config", config ? json_deep_copy(config) : NULL);
        }
    }
    *ret_json = co_json_dump(j);
    return 0;
}

int kube_entry_exec(const struct kube_entry *user, const struct kube_entry *cluster,
    struct kube_exec **ret, struct co_err *err) {
    struct kube_entry exec = *user;
    exec.value = json_object_get(user->value, "exec");
    if (!exec.value || json_is_null(exec.value)) {
        return 0;
    }
    CO_CLEANUP(kube_exec_freep) struct kube_exec *e = co_xcalloc(1, sizeof(*e));
    CO_AUTOFREE char *command = NULL;
    bool cluster_info = false;
    CO_TRY(kube_entry_str(&exec, "command", &command, err));
    CO_TRY(kube_entry_str(&exec, "apiVersion", &e->api_version, err));
    CO_TRY(kube_entry_str(&exec, "installHint", &e->install_hint, err));
    CO_TRY(kube_entry_bool(&exec, "provideClusterInfo", &cluster_info, err));
    CO_TRY(check_protocol(&exec, e->api_version, err));
    CO_TRY(read_list(&exec, "args", "a string", arg_text, &e->args, err));
    CO_TRY(read_list(&exec, "env", "a name and a value", env_text, &e->env, err));
    if (cluster_info) {
        CO_TRY(describe_cluster(cluster, &e->cluster_json, err));
    }
    if (!command) {
        return kube_entry_err(&exec, err, CO_INVALID, "exec.command: missing");
    }
    e->command = strchr(command, '/') ? kube_entry_path(&exec, command) : co_steal_ptr(command);
    *ret = co_steal_ptr(e);
    return 0;
}
