#include "runtime/launch/local/pods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const inherited[] = {
    "PATH=/usr/bin:/bin", "HOME=/h", "PADDLE_TRAINERS_NUM=77", "TRAINING_ROLE=PSERVER", NULL};
static const struct local_image images[] = {{"example/own", "own --flag"}};
static const struct local_pods_options options = {.images = images,
    .n_images = 1,
    .bin_dir = "/opt/bin",
    .envp = (char *const *)(const void *)inherited};

static int read_text(const char *text, struct local_pods *ret, struct co_err *err) {
    return local_pods_read("input", text, strlen(text), &options, ret, err);
}

/* As `paddle-operator render` prints it: addresses are pods' names. */
static const char rendered[] =
    "---\n"
    "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"j-ps-0\"}}\n"
    "---\n"
    "kind: Pod\n"
    "metadata:\n"
    "  name: j-ps-0\n"
    "  namespace: ns\n"
    "  labels: {a: b}\n"
    "  ownerReferences: [{kind: PaddleJob, name: j}]\n"
    "spec:\n"
    "  hostNetwork: true\n"
    "  initContainers: [{name: coord-paddle}, {name: fetch}]\n"
    "  containers:\n"
    "  - image: paddlejob/runtime:dev\n"
    "    env:\n"
    "    - {name: POD_IP, value: j-ps-0}\n"
    "    - {name: TRAINING_ROLE, value: PSERVER}\n"
    "    - {name: WHO, value: $(POD_NAME) of $$(x) $(NO)}\n"
    "    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"
    "    - {name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}\n"
    "    - {name: L, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}\n"
    "    - {name: AGAIN, value: $(POD_NAME)}\n"
    "    - {name: PADDLE_PORT, value: '1'}\n"
    "    envFrom: [{configMapRef: {name: j}}]\n"
    "---\n"
    "kind: Pod\n"
    "metadata: {name: j-worker-0, ownerReferences: [{kind: PaddleJob, name: j}]}\n"
    "spec:\n"
    "  volumes: [{name: v}]\n"
    "  containers:\n"
    "  - image: example/own:v1\n"
    "    args: [--servers, 'j-ps-0:36000', --name, j-ps-0, $(TRAINING_ROLE)]\n"
    "    env:\n"
    "    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}\n"
    "    - {name: TRAINING_ROLE, value: TRAINER}\n"
    "    - {name: URL, value: 'http://j-ps-0.ns.svc:80/j-ps-0'}\n"
    "    envFrom: [{configMapRef: {name: j}}]\n"
    "  - {image: sidecar}\n"
    "---\n"
    "kind: ConfigMap\n"
    "metadata: {name: j}\n"
    "data:\n"
    "  PADDLE_PORT: '36000'\n"
    "  PADDLE_PSERVERS_IP_PORT_LIST: 'j-ps-0:36000'\n"
    "  PADDLE_TRAINERS: j-worker-0,j-worker-01\n"
    "  PADDLE_TRAINER_ENDPOINTS: 'j-worker-0:36000'\n";

static void check_env(const struct local_pod *pod, const char *name, const char *expected) {
    const char *value = job_env_get(&pod->env, name);
    if (!co_streq(value, expected)) {
        fail_msg("%s: %s is \"%s\"", pod->name, name, value);
    }
}

/* They are stopped together, so nobody gets less than it asks for. */
static void all_pods_get_the_longest_grace_period(void **state) {
    (void)state;
    static const struct {
        const char *first, *second;
        int64_t grace_s; /* -1: none says any */
    } rows[] = {
        {"", "", -1},
        {", terminationGracePeriodSeconds: 0", "", 0},
        {"", ", terminationGracePeriodSeconds: 45", 45},
        {", terminationGracePeriodSeconds: 60", ", terminationGracePeriodSeconds: 45", 60},
        {", terminationGracePeriodSeconds: 3", "", 3},
        {", terminationGracePeriodSeconds: -1", ", terminationGracePeriodSeconds: x", -1},
        {", terminationGracePeriodSeconds: 9223372036854775807", "", 86400},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        static const char pod[] =
            "kind: Pod\nmetadata: {name: j-worker-%d}\nspec: {containers: [{image: i, command: "
            "[a]}]%s}\n";
        CO_AUTOFREE char *one = co_xasprintf(pod, 0, rows[i].first);
        CO_AUTOFREE char *two = co_xasprintf(pod, 1, rows[i].second);
        CO_AUTOFREE char *text = co_xasprintf("%s---\n%s", one, two);
        struct local_pods p = {0};
        struct co_err err = {0};
        if (read_text(text, &p, &err)) {
            fail_msg("row %zu: %s", i, err.msg);
        }
        assert_int_equal(p.says_grace ? p.grace_s : -1, rows[i].grace_s);
        local_pods_done(&p);
    }
}

static void pods_become_processes_with_addresses(void **state) {
    (void)state;
    struct local_pods p = {0};
    struct co_err err = {0};
    if (read_text(rendered, &p, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(p.n, 2);
    assert_string_equal(p.job, "j");
    const struct local_pod *ps = &p.item[0], *worker = &p.item[1];
    assert_string_equal(ps->address, "127.0.0.10");
    assert_string_equal(worker->address, "127.0.0.11");
    assert_true(ps->server);
    assert_false(worker->server);
    check_env(ps, "POD_IP", "127.0.0.10");
    check_env(ps, "PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.10:36000");
    check_env(ps, "PADDLE_TRAINERS", "127.0.0.11,j-worker-01");
    check_env(ps, "PADDLE_TRAINER_ENDPOINTS", "127.0.0.11:36000");
    check_env(ps, "PADDLE_PORT", "1"); /* env goes before envFrom */
    check_env(ps, "WHO", "$(POD_NAME) of $(x) $(NO)");
    check_env(ps, "POD_NAME", "j-ps-0");
    check_env(ps, "AGAIN", "j-ps-0");
    check_env(ps, "NS", "ns");
    check_env(ps, "L", "b");
    check_env(ps, "HOME", "/h");
    check_env(ps, "PATH", "/opt/bin:/usr/bin:/bin");
    check_env(ps, "HOSTNAME", "j-ps-0");
    check_env(ps, "PADDLE_LOG_DIR", "log/j-ps-0");
    check_env(ps, "PADDLE_TRAINERS_NUM", NULL); /* not what this process inherited */
    check_env(worker, "POD_IP", "127.0.0.11");
    check_env(worker, "PADDLE_PORT", "36000");
    check_env(worker, "URL", "http://127.0.0.10:80/j-ps-0");
    local_pods_done(&p);
}

static void commands_come_from_pod_or_image(void **state) {
    (void)state;
    struct local_pods p = {0};
    assert_int_equal(read_text(rendered, &p, NULL), 0);
    static const char *const ps[] = {
        "/opt/bin/paddlerun", "exec", "--", "/opt/bin/wide_and_deep", NULL};
    static const char *const worker[] = {"/bin/sh", "-c", "own --flag \"$@\"", "example/own:v1",
        "--servers", "127.0.0.10:36000", "--name", "j-ps-0", "TRAINER", NULL};
    for (size_t i = 0; i < CO_ARRAY_LEN(ps); i++) {
        assert_true(co_streq(p.item[0].argv[i], ps[i]));
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(worker); i++) {
        assert_true(co_streq(p.item[1].argv[i], worker[i]));
    }
    local_pods_done(&p);
}

static void ignored_pod_fields_are_reported_once(void **state) {
    (void)state;
    struct local_pods p = {0};
    assert_int_equal(read_text(rendered, &p, NULL), 0);
    assert_non_null(strstr(p.notes.data, "hostNetwork is ignored"));
    assert_non_null(strstr(p.notes.data, "volumes are ignored"));
    assert_non_null(strstr(p.notes.data, "init container \"fetch\" is not run"));
    assert_non_null(strstr(p.notes.data, "only the first container"));
    assert_null(strstr(p.notes.data, "coord-paddle"));
    local_pods_done(&p);
}

static void variables_come_from_secrets_of_the_input(void **state) {
    (void)state;
    static const struct {
        const char *secret, *token, *value; /* NULL: not set */
    } rows[] = {
        {"kind: Secret\nmetadata: {name: s}\nstringData: {k: j-ps-0}\n", NULL, "j-ps-0"},
        {"kind: Secret\nmetadata: {name: s}\ndata: {k: dGV4dA==}\n", NULL, "text"},
        {"kind: Secret\nmetadata: {name: s}\ndata: {k: dGV4dA==}\nstringData: {k: b}\n", "t", "b"},
        {"kind: Secret\nmetadata: {name: s}\nimmutable: true\n", "t", "t"}, /* as rendered */
        {"kind: Secret\nmetadata: {name: s}\n", NULL, NULL},
        {"kind: Secret\nmetadata: {name: s}\ndata: {k: '!'}\n", NULL, NULL},
        {"kind: Secret\nmetadata: {name: other}\nstringData: {k: v}\n", "t", NULL},
        {"kind: ConfigMap\nmetadata: {name: s}\nstringData: {k: v}\n", "t", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *text =
            co_xasprintf("%s---\nkind: Pod\nmetadata: {name: j-ps-0}\nspec:\n  containers:\n"
                         "  - command: [x]\n"
                         "    env: [{name: V, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n",
                rows[i].secret);
        struct local_pods_options with = options;
        struct local_pods p = {0};
        with.token = rows[i].token;
        assert_int_equal(local_pods_read("input", text, strlen(text), &with, &p, NULL), 0);
        check_env(&p.item[0], "V", rows[i].value);
        bool noted = p.notes.data && strstr(p.notes.data, "Secrets that are not in the input");
        assert_int_equal(noted, !rows[i].value);
        local_pods_done(&p);
    }
}

#define POD(name, rest) "---\nkind: Pod\nmetadata: {name: " name "}\nspec:\n  " rest "\n"

static void bad_input_is_refused_with_its_cause(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "no Pod in the input"},
        {"kind: PaddleJob\n", "paddle-operator render FILE | paddlerun local"},
        {"a: [\n", "input:"},
        {POD("a", "containers: []"), "pod \"a\" has no container"},
        {POD("a", "containers: [{image: who}]"), "--image who=COMMAND"},
        {POD("a", "containers: [{command: [x]}]") POD("a", "x: 1"), "a name of its own"},
        {POD("a", "containers: [{command: [x], envFrom: [{configMapRef: {name: m}}]}]"),
            "ConfigMap \"m\", which is not in the input"},
        {POD("a", "containers: [{command: [x], env: [{name: V, valueFrom: "
                  "{configMapKeyRef: {name: m, key: k}}}]}]"),
            "V comes from key \"k\" of ConfigMap \"m\""},
        {"kind: Pod\nmetadata: {name: a, ownerReferences: [{kind: PaddleJob, name: one}]}\n---\n"
         "kind: Pod\nmetadata: {name: b, ownerReferences: [{kind: PaddleJob, name: two}]}\n",
            "expected one job"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct local_pods p = {0};
        struct co_err err = {0};
        assert_int_equal(read_text(rows[i].text, &p, &err), CO_INVALID);
        if (!strstr(err.msg, rows[i].error)) {
            fail_msg("%s: \"%s\"", rows[i].text, err.msg);
        }
        assert_null(p.item);
    }
}

static void many_pods_have_addresses_of_their_own(void **state) {
    (void)state;
    struct co_buf text = CO_BUF(1 << 20);
    for (int i = 0; i < 450; i++) {
        assert_int_equal(co_buf_addf(&text, NULL,
                             "---\nkind: Pod\nmetadata: {name: p-%d}\n"
                             "spec: {containers: [{command: [x]}]}\n",
                             i),
            0);
    }
    struct local_pods p = {0};
    assert_int_equal(read_text(text.data, &p, NULL), 0);
    assert_string_equal(p.item[199].address, "127.0.0.209");
    assert_string_equal(p.item[200].address, "127.0.1.10");
    assert_string_equal(p.item[449].address, "127.0.2.59");
    local_pods_done(&p);
    co_buf_done(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pods_get_the_longest_grace_period),
        cmocka_unit_test(pods_become_processes_with_addresses),
        cmocka_unit_test(commands_come_from_pod_or_image),
        cmocka_unit_test(ignored_pod_fields_are_reported_once),
        cmocka_unit_test(variables_come_from_secrets_of_the_input),
        cmocka_unit_test(bad_input_is_refused_with_its_cause),
        cmocka_unit_test(many_pods_have_addresses_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
