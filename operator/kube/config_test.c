#include "operator/kube/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"

#define PEM64 "LS0tLS1CRUdJTiBYLS0tLS0K" /* "-----BEGIN X-----\n" */
static const char pem[] = "-----BEGIN X-----\n";

/* Files that a kubeconfig names: x.pem, and nothing else. */
static int read_fake(
    void *arg, const char *path, char **ret_text, size_t *ret_len, struct co_err *err) {
    (void)arg;
    bool good = !strcmp(path, "/k/x.pem") || !strcmp(path, "/abs/x.pem");
    if (!good && strcmp(path, "/k/text") != 0) {
        return co_err_set(err, CO_NOTFOUND, "%s: No such file or directory", path);
    }
    *ret_text = co_xstrdup(good ? pem : "hello");
    *ret_len = strlen(*ret_text);
    return 0;
}

static int resolve(const char *first, const char *second, const char *context,
    struct kube_config **ret, struct co_err *err) {
    CO_CLEANUP(kube_config_set_freep)
    struct kube_config_set *set = kube_config_set_new(read_fake, NULL);
    CO_TRY(kube_config_set_add(set, "/k/one", first, strlen(first), err));
    if (second) {
        CO_TRY(kube_config_set_add(set, "/l/two", second, strlen(second), err));
    }
    return kube_config_set_resolve(set, context, ret, err);
}

/* For what must resolve. */
static struct kube_config *resolved(const char *first, const char *second, const char *context)
    __attribute__((returns_nonnull));
static struct kube_config *resolved(const char *first, const char *second, const char *context) {
    struct kube_config *cfg = NULL;
    struct co_err err = {0};
    (void)resolve(first, second, context, &cfg, &err);
    assert_string_equal(err.msg, "");
    assert_non_null(cfg);
    return cfg;
}

static const char whole[] =
    "apiVersion: v1\n"
    "kind: Config\n"
    "current-context: dev\n"
    "clusters:\n"
    "- name: c\n"
    "  cluster:\n"
    "    server: https://[fd00::1]:6443/prefix/\n"
    "    certificate-authority: x.pem\n"
    "    tls-server-name: api.example\n"
    "    proxy-url: socks5://proxy:1080\n"
    "- name: open\n"
    "  cluster: {server: 'https://h', insecure-skip-tls-verify: true}\n"
    "contexts:\n"
    "- {name: dev, context: {cluster: c, user: cert, namespace: team}}\n"
    "- {name: tok, context: {cluster: open, user: tok}}\n"
    "- {name: nobody, context: {cluster: open}}\n"
    "- {name: plug, context: {cluster: c, user: plug}}\n"
    "users:\n"
    "- {name: cert, user: {client-certificate-data: " PEM64 ", client-key: /abs/x.pem}}\n"
    "- {name: tok, user: {tokenFile: sub/token, token: t}}\n"
    "- name: plug\n"
    "  user:\n"
    "    exec:\n"
    "      apiVersion: client.authentication.k8s.io/v1\n"
    "      command: bin/plug\n"
    "      args: [a, 'b c']\n"
    "      env: [{name: NAME, value: v}]\n"
    "      provideClusterInfo: true\n"
    "      interactiveMode: IfAvailable\n"
    "      installHint: get it\n";

static void current_context(void **state) {
    (void)state;
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = resolved(whole, NULL, NULL);
    assert_string_equal(cfg->server, "https://[fd00::1]:6443/prefix");
    assert_string_equal(cfg->ns, "team");
    assert_string_equal(cfg->ca, pem);
    assert_string_equal(cfg->cert, pem);
    assert_string_equal(cfg->key, pem);
    assert_string_equal(cfg->tls_server_name, "api.example");
    assert_string_equal(cfg->proxy_url, "socks5://proxy:1080");
    assert_string_equal(cfg->source, "/k/one: context \"dev\"");
    assert_false(cfg->insecure);
}

static void a_context_by_name(void **state) {
    (void)state;
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = resolved(whole, NULL, "tok");
    assert_string_equal(cfg->token_file, "/k/sub/token");
    assert_string_equal(cfg->token, "t");
    assert_string_equal(cfg->ns, "default");
    assert_true(cfg->insecure);
    CO_CLEANUP(kube_config_freep)
    struct kube_config *anonymous = resolved(whole, NULL, "nobody");
    assert_null(anonymous->token);
}

static void an_exec_plugin_is_read_from_the_kubeconfig(void **state) {
    (void)state;
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = resolved(whole, NULL, "plug");
    assert_string_equal(cfg->exec->command, "/k/bin/plug");
    assert_string_equal(cfg->exec->args[1], "b c");
    assert_null(cfg->exec->args[2]);
    assert_string_equal(cfg->exec->env[0], "NAME=v");
    assert_string_equal(cfg->exec->install_hint, "get it");
    assert_non_null(strstr(cfg->exec->cluster_json, "\"certificate-authority-data\":\"" PEM64));
    assert_non_null(strstr(cfg->exec->cluster_json, "\"proxy-url\":\"socks5://proxy:1080\""));
}

static void the_first_file_that_names_a_thing_wins(void **state) {
    (void)state;
    static const char one[] = "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
                              "users: [{name: u, user: {token: first}}]\n";
    static const char two[] = "current-context: x\n"
                              "contexts: [{name: x, context: {cluster: other}}]\n"
                              "clusters: [{name: c, cluster: {server: 'https://second', "
                              "certificate-authority-data: " PEM64 "}}]\n"
                              "users: [{name: u, user: {token: second, username: mixed}}]\n";
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = resolved(one, two, NULL);
    assert_string_equal(cfg->server, "https://second");
    assert_string_equal(cfg->token, "first");
    assert_null(cfg->username);
}

/* A kubeconfig with one cluster, one user and the rest in order. */
static int resolve_parts(const char *cluster, const char *user, struct co_err *err) {
    CO_CLEANUP(kube_config_freep) struct kube_config *cfg = NULL;
    CO_AUTOFREE char *text =
        co_xasprintf("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: dev}}]\n"
                     "clusters: [{name: c, cluster: {%s}}]\n"
                     "users: [{name: other, user: {}}, {name: dev, user: {%s}}]\n",
            cluster, user);
    return resolve(text, NULL, NULL, &cfg, err);
}

static void errors_name_file_field_and_cause(void **state) {
    (void)state;
    static const struct {
        const char *cluster, *user;
        int code;
        const char *message;
    } rows[] = {
        {"server: 'https://h'", "client-key-data: '%%'", CO_INVALID,
            "/k/one: users[1] \"dev\": client-key-data: not base64"},
        {"server: 'https://h'", "client-key-data: aGVsbG8=", CO_INVALID,
            "/k/one: users[1] \"dev\": client-key-data: not PEM text"},
        {"server: 'https://h'", "client-key: text", CO_INVALID,
            "/k/one: users[1] \"dev\": client-key: /k/text: not PEM text"},
        {"server: 'https://h'", "client-certificate: gone", CO_NOTFOUND,
            "/k/one: users[1] \"dev\": client-certificate: /k/gone: No such file or directory"},
        {"server: 'https://h'", "client-certificate: x.pem", CO_INVALID,
            "/k/one: users[1] \"dev\": client-certificate: given without client-key"},
        {"server: 'https://h'", "token: 5", CO_INVALID,
            "/k/one: users[1] \"dev\": token: not a string"},
        {"server: 'https://h'", "token: \"a\\nX-Evil: 1\"", CO_INVALID,
            "/k/one: users[1] \"dev\": token: holds a control character"},
        {"server: 'https://h'", "as: root", CO_UNSUPPORTED,
            "/k/one: users[1] \"dev\": as: impersonation is not supported"},
        {"server: 'https://h'", "auth-provider: {name: gcp}", CO_UNSUPPORTED,
            "/k/one: users[1] \"dev\": auth-provider: was removed from Kubernetes 1.26; use an "
            "exec "
            "credential plugin"},
        {"", "", CO_INVALID, "/k/one: clusters[0] \"c\": server: missing"},
        {"server: 'ftp://h'", "", CO_INVALID,
            "/k/one: clusters[0] \"c\": server: \"ftp://h\", expected https://host:port"},
        {"server: 'https://'", "", CO_INVALID,
            "/k/one: clusters[0] \"c\": server: \"https://\", expected https://host:port"},
        {"server: 'https://me:word@h'", "", CO_INVALID,
            "/k/one: clusters[0] \"c\": server: \"@h\", expected https://host:port"},
        {"server: 'https://h', proxy-url: 'me:word@h:1'", "", CO_INVALID,
            "/k/one: clusters[0] \"c\": proxy-url: \"@h:1\", expected http://, https:// or "
            "socks5://"},
        {"server: 'https://h', proxy-url: 'h:1'", "", CO_INVALID,
            "/k/one: clusters[0] \"c\": proxy-url: \"h:1\", expected http://, https:// or "
            "socks5://"},
        {"server: 'https://h', insecure-skip-tls-verify: 'yes'", "", CO_INVALID,
            "/k/one: clusters[0] \"c\": insecure-skip-tls-verify: not true or false"},
        {"server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: x.pem", "",
            CO_INVALID,
            "/k/one: clusters[0] \"c\": insecure-skip-tls-verify: true together with "
            "certificate-authority; choose one"},
        {"server: 'https://h'", "exec: {command: x}", CO_UNSUPPORTED,
            "/k/one: users[1] \"dev\": exec.apiVersion: \"\", expected "
            "client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1"},
        {"server: 'https://h'", "exec: {apiVersion: client.authentication.k8s.io/v1}", CO_INVALID,
            "/k/one: users[1] \"dev\": exec.command: missing"},
        {"server: 'https://h'",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: "
            "Always}",
            CO_UNSUPPORTED,
            "/k/one: users[1] \"dev\": exec.interactiveMode: Always needs a terminal, which this "
            "program does not have"},
        {"server: 'https://h'",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, args: [1]}",
            CO_INVALID, "/k/one: users[1] \"dev\": exec.args[0]: expected a string"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        assert_int_equal(resolve_parts(rows[i].cluster, rows[i].user, &err), rows[i].code);
        assert_string_equal(err.msg, rows[i].message);
    }
}

static void errors_of_the_whole_file(void **state) {
    (void)state;
    static const struct {
        const char *text, *context, *message;
    } rows[] = {
        {"", NULL,
            "/k/one: current-context: missing; choose one with --context or kubectl config "
            "use-context"},
        {"current-context: x", NULL, "/k/one: current-context: \"x\" is not in contexts"},
        {"current-context: x", "y", "/k/one: --context: \"y\" is not in contexts"},
        {"[]", NULL, "/k/one: not a kubeconfig"},
        {"kind: Pod", NULL, "/k/one: kind: \"Pod\", expected Config"},
        {"contexts: {}", "x", "/k/one: contexts: not a list"},
        {"contexts: [{}]", "x", "/k/one: contexts[0]: no name"},
        {"contexts: [{name: x, context: 5}]", "x", "/k/one: contexts[0] \"x\": context: not a map"},
        {"contexts: [{name: x}]", "x", "/k/one: contexts[0] \"x\": cluster: missing"},
        {"contexts: [{name: x, context: {cluster: c}}]", "x",
            "/k/one: contexts[0] \"x\": cluster: \"c\" is not in clusters"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(kube_config_freep) struct kube_config *cfg = NULL;
        struct co_err err = {0};
        assert_int_equal(resolve(rows[i].text, NULL, rows[i].context, &cfg, &err), CO_INVALID);
        assert_string_equal(err.msg, rows[i].message);
    }
}

/* ---- where it is looked for ---- */

struct place {
    char dir[64];
};

static void put(const struct place *p, const char *name, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", p->dir, name);
    assert_int_equal(co_file_write(path, text, strlen(text), 0600, NULL), 0);
}

static int setup(void **state) {
    struct place *p = co_xcalloc(1, sizeof(*p));
    snprintf(p->dir, sizeof(p->dir), "/tmp/kubeconfig-test-XXXXXX");
    if (!mkdtemp(p->dir)) {
        return -1;
    }
    static const char *const gone[] = {
        "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"};
    for (size_t i = 0; i < CO_ARRAY_LEN(gone); i++) {
        unsetenv(gone[i]);
    }
    setenv("HOME", p->dir, 1);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    static const char *const names[] = {
        ".kube/config", ".kube", "a", "b", "token", "ca.crt", "namespace"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", p->dir, names[i]);
        (void)remove(path);
    }
    int rc = rmdir(p->dir);
    free(p);
    return rc;
}

static int load(
    const struct place *p, const char *kubeconfig, struct kube_config **ret, struct co_err *err) {
    struct kube_config_opts opts = {.kubeconfig = kubeconfig, .serviceaccount_dir = p->dir};
    return kube_config_load(&opts, ret, err);
}

static char *minimal(const char *host) {
    return co_xasprintf("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
                        "clusters: [{name: c, cluster: {server: 'https://%s'}}]\n",
        host);
}

static void the_kubeconfig_is_searched_in_order(void **state) {
    const struct place *p = *state;
    CO_AUTOFREE char *kube = co_xasprintf("%s/.kube", p->dir);
    CO_AUTOFREE char *list = co_xasprintf("%s/none:%s/a::%s/b", p->dir, p->dir, p->dir);
    CO_AUTOFREE char *flag = co_xasprintf("%s/b", p->dir);
    CO_AUTOFREE char *home = minimal("home");
    CO_AUTOFREE char *a = minimal("a");
    CO_AUTOFREE char *b = minimal("b");
    struct kube_config *cfg = NULL;
    struct co_err err = {0};
    assert_int_equal(load(p, NULL, &cfg, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, "/.kube/config"));

    assert_int_equal(mkdir(kube, 0700), 0);
    put(p, ".kube/config", home);
    put(p, "a", a);
    put(p, "b", b);
    const struct {
        const char *env, *service, *flag, *server;
    } rows[] = {
        {NULL, NULL, NULL, "https://home"},
        {NULL, "10.0.0.1", NULL, "https://10.0.0.1:443"},
        {NULL, "fd00::1", NULL, "https://[fd00::1]:443"},
        {list, "10.0.0.1", NULL, "https://a"},
        {list, "10.0.0.1", flag, "https://b"},
    };
    put(p, "token", "secret\n");
    put(p, "ca.crt", pem);
    put(p, "namespace", "team\n");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        rows[i].env ? setenv("KUBECONFIG", rows[i].env, 1) : unsetenv("KUBECONFIG");
        rows[i].service ? setenv("KUBERNETES_SERVICE_HOST", rows[i].service, 1)
                        : unsetenv("KUBERNETES_SERVICE_HOST");
        assert_int_equal(load(p, rows[i].flag, &cfg, &err), 0);
        assert_string_equal(cfg->server, rows[i].server);
        bool in_cluster = rows[i].service && !rows[i].env && !rows[i].flag;
        assert_string_equal(cfg->ns, in_cluster ? "team" : "default");
        assert_int_equal(cfg->token_file != NULL, in_cluster);
        kube_config_free(cfg);
    }
}

/* Each in turn cannot be read; only a namespace that is not there has a stand-in. */
static void unreadable_service_account_files_are_named(void **state) {
    const struct place *p = *state;
    static const char *const names[] = {"ca.crt", "namespace"};
    struct kube_config *cfg = NULL;
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
    put(p, "token", "secret\n");
    put(p, "ca.crt", pem);
    assert_int_equal(load(p, NULL, &cfg, NULL), 0);
    assert_string_equal(cfg->ns, "default");
    kube_config_free(cfg);
    put(p, "namespace", "team\n");
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", p->dir, names[i]);
        CO_AUTOFREE char *aside = co_xasprintf("%s/a", p->dir);
        struct co_err err = {0};
        assert_int_equal(rename(path, aside), 0);
        assert_int_equal(symlink(path, path), 0);
        assert_int_equal(load(p, NULL, &cfg, &err), CO_INTERNAL);
        assert_non_null(strstr(err.msg, path));
        assert_int_equal(rename(aside, path), 0);
    }
    assert_int_equal(load(p, NULL, &cfg, NULL), 0);
    assert_string_equal(cfg->ns, "team");
    kube_config_free(cfg);
}

static void a_file_asked_for_must_exist(void **state) {
    const struct place *p = *state;
    CO_AUTOFREE char *path = co_xasprintf("%s/none", p->dir);
    struct kube_config *cfg = NULL;
    struct co_err err = {0};
    assert_int_equal(load(p, path, &cfg, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, path));
    setenv("KUBECONFIG", path, 1);
    assert_int_equal(load(p, NULL, &cfg, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, "KUBECONFIG="));
    /* The next file of the list may be of another cluster than one that cannot be read. */
    CO_AUTOFREE char *loop = co_xasprintf("%s/loop", p->dir);
    CO_AUTOFREE char *list = co_xasprintf("%s:%s", loop, path);
    assert_int_equal(symlink(loop, loop), 0);
    setenv("KUBECONFIG", list, 1);
    assert_int_equal(load(p, NULL, &cfg, &err), CO_INTERNAL);
    assert_non_null(strstr(err.msg, loop));
    assert_int_equal(unlink(loop), 0);
    /* A folder of that path is a file. */
    put(p, "a", "");
    CO_AUTOFREE char *below = co_xasprintf("%s/a/config", p->dir);
    setenv("KUBECONFIG", below, 1);
    assert_int_not_equal(load(p, NULL, &cfg, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, below));
    assert_non_null(strstr(err.msg, "Not a directory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(current_context),
        cmocka_unit_test(a_context_by_name),
        cmocka_unit_test(an_exec_plugin_is_read_from_the_kubeconfig),
        cmocka_unit_test(the_first_file_that_names_a_thing_wins),
        cmocka_unit_test(errors_name_file_field_and_cause),
        cmocka_unit_test(errors_of_the_whole_file),
        cmocka_unit_test_setup_teardown(the_kubeconfig_is_searched_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(
            unreadable_service_account_files_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_asked_for_must_exist, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
