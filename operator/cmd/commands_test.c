#include "operator/cmd/commands.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/version.h"

enum { WORDS_MAX = 6, TEXTS_MAX = 6, TEXT_MAX = 1 << 20 };

/* ---- a command and what it prints -------------------------------------------------------- */

static int file_of(const char *text) {
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* In place of a descriptor; the one that was there. */
static int stand_in(int fd, int place) {
    int before = fcntl(place, F_DUPFD_CLOEXEC, 3);
    assert_true(before >= 0);
    assert_int_equal(dup2(fd, place), place);
    return before;
}

static void put_back(int before, int place) {
    assert_int_equal(dup2(before, place), place);
    (void)close(before);
}

/* The exit code of `paddle-operator words...`, and all that it printed, mistakes included. */
static int run(const char *in_text, const char *const *words, struct co_buf *ret) {
    char *argv[WORDS_MAX + 2] = {co_xstrdup("paddle-operator")};
    int argc = 1;
    for (; words[argc - 1]; argc++) {
        argv[argc] = co_xstrdup(words[argc - 1]);
    }
    int in = file_of(in_text), out = file_of("");
    (void)fflush(NULL);
    int before[] = {stand_in(in, 0), stand_in(out, 1), stand_in(out, 2)};
    int code = opc_cmd(argc, argv);
    (void)fflush(NULL);
    for (int i = 0; i < 3; i++) {
        put_back(before[i], i);
    }
    struct stat st;
    assert_int_equal(fstat(out, &st), 0);
    assert_int_equal(co_buf_reserve(ret, (size_t)st.st_size + 1, NULL), 0);
    ret->len = (size_t)pread(out, ret->data, (size_t)st.st_size, 0);
    ret->data[ret->len] = '\0';
    (void)close(in);
    (void)close(out);
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
    return code;
}

struct row {
    const char *words[WORDS_MAX], *in;
    int code;
    const char *texts[TEXTS_MAX]; /* in what it prints, in this order */
};

static void check(const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(TEXT_MAX);
        int code = run(rows[i].in ? rows[i].in : "", rows[i].words, &out);
        const char *at = out.data;
        size_t t = 0;
        for (; at && t < TEXTS_MAX && rows[i].texts[t]; t++) {
            at = strstr(at, rows[i].texts[t]);
        }
        if (code != rows[i].code || !at) {
            fail_msg("row %zu ends with %d, %zu of the texts: %s", i, code, t - !at, out.data);
        }
    }
}

/* ---- the table --------------------------------------------------------------------------- */

static void commands_are_found_by_name(void **state) {
    (void)state;
    static const struct row rows[] = {
        {{"help"}, NULL, 0,
            {"usage: paddle-operator [command]", "  run ", "  render ", "  version "}},
        {{"run", "--help"}, NULL, 0, {"--namespace string"}},
        {{"--help"}, NULL, 0, {"--namespace string"}},        /* flags alone are run's */
        {{"--services=x"}, NULL, 2, {"flag \"--services\""}}, /* as in upstream's manifests */
        {{"run", "--services=x"}, NULL, 2, {"paddle-operator: flag \"--services\""}},
        {{"run", "now"}, NULL, 2, {"\"now\" is not a flag"}},
        {{"rum"}, NULL, 2, {"\"rum\" is not a command", "usage: "}},
        {{"validate"}, NULL, 2, {"paddle-operator validate FILE"}},
        {{"validate", "-h"}, NULL, 0, {"paddle-operator validate FILE"}},
        {{"validate", "--x"}, NULL, 1, {"--x"}},
        {{"render"}, NULL, 2, {"paddle-operator render FILE"}},
        {{"render", "-h"}, NULL, 0, {"paddle-operator render FILE"}},
        {{"version", "foo"}, NULL, 2, {"\"foo\" is one word too many"}},
        {{"docs"}, NULL, 2,
            {"usage: paddle-operator docs flags|metrics|env|events|reasons|man|bash|zsh"}},
        {{"docs", "recipes"}, NULL, 2, {"usage: "}},
        {{"docs", "flags", "env"}, NULL, 2, {"usage: "}},
    };
    check(rows, CO_ARRAY_LEN(rows));
    CO_AUTOBUF struct co_buf out = CO_BUF(TEXT_MAX);
    assert_int_equal(run("", (const char *const[]){"version", NULL}, &out), 0);
    CO_AUTOFREE char *want = co_xasprintf("paddle-operator %s\n", co_version);
    assert_string_equal(out.data, want);
}

static void pages_come_from_their_tables(void **state) {
    (void)state;
    static const struct row rows[] = {
        {{"docs", "flags"}, NULL, 0, {"| `--namespace` |", "| `--port-range` |"}},
        {{"docs", "metrics"}, NULL, 0, {"paddlejob_jobs"}},
        {{"docs", "env"}, NULL, 0, {"PADDLE_TRAINER_ID"}},
        {{"docs", "events"}, NULL, 0, {"|"}},
        {{"docs", "reasons"}, NULL, 0, {"DeadlineExceeded"}},
        {{"docs", "man"}, NULL, 0, {".TH PADDLE-OPERATOR 8", "\\-\\-selector", "validate FILE"}},
        {{"docs", "bash"}, NULL, 0, {"--selector", "complete "}},
        {{"docs", "zsh"}, NULL, 0, {"#compdef paddle-operator", "--selector="}},
    };
    check(rows, CO_ARRAY_LEN(rows));
}

#define HEAD "apiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata: {name: j}\n"
#define ROLE(n) "{replicas: " #n ", template: {spec: {containers: [{name: c, image: i}]}}}\n"
#define GOOD HEAD "spec:\n  worker: " ROLE(2)
#define SECOND                                                                                     \
    "apiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata: {name: k}\n"                \
    "spec:\n  worker: " ROLE(2)
#define OTHER "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: beside}\n"

/* ---- convert ------------------------------------------------------------------------------ */

#define KUBEFLOW                                                                                   \
    "apiVersion: kubeflow.org/v1\nkind: PaddleJob\nmetadata: {name: j, uid: u}\nspec:\n"
#define POD "{spec: {containers: [{name: paddle, image: i, args: [yes, \"1\"]}]}}"

#define A_LIST                                                                                     \
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: kubeflow.org/v1\n  kind: PaddleJob\n"       \
    "  metadata: {name: a}\n  spec: {odd: 1}\n- kind: Service\n"

static void convert_turns_jobs_of_other_operators_into_paddlejobs(void **state) {
    (void)state;
    static const struct row rows[] = {
        {{"convert", "-"},
            KUBEFLOW
            "  runPolicy: {cleanPodPolicy: All, backoffLimit: 3}\n"
            "  elasticPolicy: {minReplicas: 1, maxReplicas: 4}\n"
            "  paddleReplicaSpecs: {worker: {replicas: 2, restartPolicy: Never, template: " POD
            "}}\n",
            0,
            {"standard input:5: spec.runPolicy.backoffLimit: here it counts restarts of the whole",
                "---\napiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata:\n  name: "
                "j\n"
                "spec:\n  cleanPodPolicy: Always\n  worker:\n    replicas: 2\n",
                "          args:\n          - true\n          - \"1\"\n        restartPolicy: "
                "Never\n",
                "    requests: 1\n    limits: 4\n  elastic: 1\n  backoffLimit: 3\n"}},
        /* Kubeflow's defaults; a Master is a parameter server, and decides by exit code. */
        {{"convert", "-"},
            KUBEFLOW "  paddleReplicaSpecs:\n    Master: {restartPolicy: ExitCode, template: " POD
                     "}\n",
            0,
            {"spec.paddleReplicaSpecs.Master: became spec.ps", "cleanPodPolicy: Never",
                "  ps:\n    replicas: 1\n", "exitCodes: 1-127", "role: ps"}},
        /* What restarts what: kubelet a container, or the operator the group. */
        {{"convert", "-"}, KUBEFLOW "  paddleReplicaSpecs:\n    Worker: {template: " POD "}\n", 0,
            {"Worker.restartPolicy: kubelet restarts containers in their pods, without a limit; ",
                "        restartPolicy: OnFailure\n"}},
        {{"convert", "-"},
            KUBEFLOW "  runPolicy: {backoffLimit: 3}\n  paddleReplicaSpecs:\n"
                     "    Worker: {restartPolicy: OnFailure, template: " POD "}\n",
            0,
            {"Worker.restartPolicy: not carried over: a failed container restarts the whole group, "
             "at most spec.backoffLimit times\n",
                "          - \"1\"\n  backoffLimit: 3\n"}},
        {{"convert", "-"},
            KUBEFLOW "  runPolicy: {backoffLimit: 3}\n  paddleReplicaSpecs:\n"
                     "    Worker: {restartPolicy: ExitCode, template: " POD "}\n",
            0,
            {"Worker.restartPolicy: as spec.failurePolicy: exit codes 1 to 127 fail the job, after "
             "others the whole group restarts, at most spec.backoffLimit times\n",
                "exitCodes: 1-127"}},
        {{"convert", "-"},
            KUBEFLOW "  paddleReplicaSpecs:\n    Worker: {restartPolicy: ExitCode, template: " POD
                     "}\n    Master: {template: " POD "}\n",
            0,
            {"Worker.restartPolicy: as spec.failurePolicy; set spec.backoffLimit, without which ",
                "Master.restartPolicy: not carried over: with spec.failurePolicy a failed "
                "container is a failed pod; set spec.backoffLimit"}},
        /* What has no place is named with its line. */
        {{"convert", "-"},
            KUBEFLOW
            "  elasticPolicy:\n    metrics: [x]\n  paddleReplicaSpecs:\n    Chief: {a: 1}\n",
            0,
            {"standard input:6: spec.elasticPolicy.metrics: not carried over: make a Horizontal",
                "standard input:8: spec.paddleReplicaSpecs.Chief: not carried over: there is no"}},
        {{"convert", "-"},
            KUBEFLOW "  odd: [1]\n  runPolicy: {cleanPodPolicy: All, what: {a: 1}}\n"
                     "  paddleReplicaSpecs:\n    Worker:\n      replicas: 1\n      who: x\n",
            0,
            {"standard input:5: spec.odd: not carried over",
                "standard input:6: spec.runPolicy.what: not carried over",
                "standard input:10: spec.paddleReplicaSpecs.Worker.who: not carried over"}},
        {{"convert", "-"}, GOOD "  cleanPolicy: Always\n  sampleSetRef: {name: x}\n", 0,
            {"standard input:7: spec.sampleSetRef: not carried over",
                "  cleanPodPolicy: Always\n"}},
        {{"convert", "-"}, GOOD "  cleanPodPolicy: Never\n  cleanPolicy: Always\n", 0,
            {"standard input:7: spec.cleanPolicy: not carried over: what it is called here is "
             "there, too",
                "  cleanPodPolicy: Never\n"}},
        {{"convert", "-"}, GOOD "  cleanPolicy: Odd\n  intranet: Pod\n", 0,
            {"standard input:6: spec.cleanPolicy: \"Odd\", expected Always, Never, ",
                "; Never is used\n", "standard input:7: spec.intranet: \"Pod\", expected PodIP",
                "  cleanPodPolicy: Odd\n"}},
        {{"convert", "-"}, GOOD "  foo: 1\n  schedulingPolicy: {bar: 2, queue: q}\n", 0,
            {"standard input:6: spec.foo: not carried over: there is no such field here\n",
                "standard input:7: spec.schedulingPolicy.bar: not carried over",
                "  schedulingPolicy:\n    queue: q\n"}},
        {{"convert", "-"}, OTHER "---\n" GOOD, 0, {"kind: ConfigMap\n", "---\napiVersion: batch."}},
        /* Each item of a List, with its lines; YAML and JSON. */
        {{"convert", "-"}, A_LIST, 0,
            {"standard input:7: spec.odd: not carried over",
                "---\napiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata:\n  name: "
                "a\n",
                "---\nkind: Service\n"}},
        {{"convert", "-"},
            "{\"apiVersion\":\"kubeflow.org/"
            "v1\",\"kind\":\"PaddleJobList\",\"items\":[{\"metadata\":{"
            "\"name\":\"a\"},\"spec\":{}},{\"metadata\":{\"name\":\"b\"},\"spec\":{}}]}",
            0, {"apiVersion: batch.", "  name: a\n", "---\napiVersion: batch.", "  name: b\n"}},
        /* What is taken for ours by its name. */
        {{"convert", "-"}, "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n---\n" GOOD, 0,
            {"standard input:1: apiVersion: passes unchanged: only PaddleJobs of kubeflow.org/v1 "
             "and"}},
        {{"convert", "-"}, OTHER, 1, {"no PaddleJob to convert", "kind: ConfigMap\n"}},
        {{"convert", "/no/such"}, NULL, 1, {"paddle-operator: ", "/no/such"}},
        {{"convert"}, NULL, 2, {"paddle-operator convert"}},
    };
    check(rows, CO_ARRAY_LEN(rows));
}

/* ---- validate ----------------------------------------------------------------------------- */

#define OF_TEMPLATE(more)                                                                          \
    "{replicas: 1, template: {spec: {containers: [{name: m, image: i, " more "}]}}}"
#define ALWAYS                                                                                     \
    "{replicas: 1, template: {spec: {restartPolicy: Always, containers: [{name: m, image: i}]}}}"
#define AS_ITEM(n)                                                                                 \
    "- apiVersion: batch.paddlepaddle.org/v1\n  kind: PaddleJob\n  metadata: {name: a}\n"          \
    "  spec: {worker: {replicas: " n ", template: {spec: {containers: [{name: m, image: i}]}}}}\n"

static void validate_names_file_and_line(void **state) {
    (void)state;
    static const struct row rows[] = {
        {{"validate", "-"}, GOOD, 0, {"1 job, 0 problems\n"}},
        {{"validate", "-"}, GOOD "---\n" SECOND, 0, {"2 jobs, 0 problems\n"}},
        {{"validate", "-"}, GOOD "---\n" SECOND "---\n" GOOD, 1,
            {"standard input:15: metadata.name is \"j\", as of the job of standard input:3: one "
             "would "
             "replace the other\n",
                "3 jobs, 1 problem\n"}},
        {{"validate", "-"}, GOOD "---\n" OTHER, 0, {"1 job, 0 problems, 1 other object not"}},
        {{"validate", "-"}, OTHER, 1,
            {"0 jobs, 0 problems, 1 other object not"}}, /* nothing to check */
        {{"validate", "-"}, HEAD "spec:\n  worker: " ROLE(-1), 1,
            {"standard input:5: ", "replicas", "1 job, 1 problem\n"}},
        {{"validate", "-"}, SECOND "---\n" HEAD "spec:\n  worker: " ROLE(-1), 1,
            {"standard input:11: ", "2 jobs, 1 problem\n"}},
        {{"validate", "-"}, HEAD "spec:\n  ps: " ROLE(-1) "  worker: " ROLE(-2), 1,
            {"standard input:5: ", "standard input:6: ", "1 job, 2 problems\n"}},
        /* What kubectl get -o yaml prints. */
        {{"validate", "-"},
            "apiVersion: v1\nkind: List\nitems:\n" AS_ITEM("1") AS_ITEM("-1") "- {kind: Pod}\n", 1,
            {"standard input:11: spec.worker.replicas is -1", "standard input:10: metadata.name is",
                "2 jobs, 2 problems, 1 other object"}},
        {{"validate", "-"}, "apiVersion: v1\nkind: List\nitems: 3\n", 1, {"0 jobs, 0 problems"}},
        {{"validate", "-"}, "", 1, {"0 jobs, 0 problems\n"}},
        /* The API server knows the types of a template's fields. */
        {{"validate", "-"}, HEAD "spec: {worker: " OF_TEMPLATE("command: a b") "}\n", 1,
            {"standard input:4: spec.worker.template.spec.containers.0.command is \"a b\", "
             "expected "
             "a list of strings: write it as [...]\n",
                "1 job, 1 problem\n"}},
        /* Always counts only where no policy makes pods with another one. */
        {{"validate", "-"}, HEAD "spec: {worker: " ALWAYS "}\n", 1,
            {"restartPolicy is Always: ", "1 job, 1 problem\n"}},
        {{"validate", "-"}, HEAD "spec: {backoffLimit: 0, worker: " ALWAYS "}\n", 0,
            {"1 job, 0 problems\n"}},
        {{"validate", "-"}, HEAD "spec: {elastic: 1, worker: " ALWAYS "}\n", 0,
            {"1 job, 0 problems\n"}},
        {{"validate", "-"},
            HEAD "spec: {failurePolicy: [], ps: " ALWAYS ", successPolicy: AllPods}\n", 0,
            {"1 job, 0 problems\n"}},
        /* A job that would wait for ever. */
        {{"validate", "-"}, HEAD, 1,
            {"spec has no ps, worker or heter, so that the job has no pods", "1 job, 1 problem\n"}},
        {{"validate", "-"}, HEAD "spec:\n  worker: " ROLE(0), 1,
            {"standard input:4: spec.worker.replicas is 0, so that the job has no pods"}},
        {{"validate", "-"}, HEAD "spec:\n  ps: " ROLE(2) "  worker: " ROLE(0), 1,
            {"standard input:4: spec.worker.replicas is 0, so that nothing trains"}},
        {{"validate", "-"}, HEAD "spec: {failurePolicy: [], worker: " ALWAYS "}\n", 1,
            {"restartPolicy is Always: "}},
        /* A word that is taken for another is reported, and is no error anywhere. */
        {{"validate", "-"}, GOOD "  intranet: Nowhere\n", 0,
            {"standard input:6: ", "Nowhere", "1 job, 0 problems, 1 unknown value\n"}},
        {{"validate", "-"}, GOOD "  peerAuth: TLS\n", 1,
            {"standard input:6: spec.peerAuth is \"TLS\": use None, Token or Encrypted\n",
                "1 job, 1 problem\n"}},
        /* A field that the API server would drop. */
        {{"validate", "-"}, GOOD "  bakoffLimit: 3\n  cleanPolicy: Always\n", 1,
            {"standard input:6: spec.bakoffLimit is not a field of a PaddleJob: did you mean "
             "backoffLimit?\n",
                "standard input:7: spec.cleanPolicy is not a field of a PaddleJob: it is called "
                "cleanPodPolicy\n",
                "1 job, 2 problems\n"}},
        /* Another group's PaddleJob is a mistake, not another object. */
        {{"validate", "-"}, "apiVersion: example.com/v1\nkind: PaddleJob\nmetadata: {name: j}\n", 1,
            {"standard input:", "1 job, "}},
        {{"validate", "-"}, "a: [1\n", 1, {"paddle-operator: standard input:2"}},
        {{"validate", "/no/such"}, NULL, 1, {"paddle-operator: ", "/no/such"}},
    };
    check(rows, CO_ARRAY_LEN(rows));
}

/* ---- render ------------------------------------------------------------------------------- */

static void render_prints_what_a_cluster_would_hold(void **state) {
    (void)state;
    static const struct row rows[] = {
        {{"render", "-"}, HEAD "spec:\n  ps: " ROLE(1) "  worker: " ROLE(2), 0,
            {"\"name\": \"j-ps-0\"", "\"name\": \"j-worker-0\"", "\"name\": \"j-worker-1\"",
                "\"kind\": \"ConfigMap\"", "\"PADDLE_PSERVERS_IP_PORT_LIST\": \"j-ps-0:42000\"",
                "\"PADDLE_TRAINER_ENDPOINTS\": \"j-worker-0:42000,j-worker-1:42000\""}},
        {{"render", "-"}, GOOD "  intranet: Service\n", 0,
            {"\"kind\": \"Service\"", "\"name\": \"j-worker-0\"", "\"kind\": \"Service\"",
                "\"kind\": \"Pod\"", "\"kind\": \"Pod\"", "\"kind\": \"ConfigMap\""}},
        {{"render", "-"}, GOOD, 0, {"\"namespace\": \"default\""}},
        {{"render", "-"}, GOOD "  peerAuth: Token\n", 0,
            {"\"kind\": \"Secret\"", "\"name\": \"j-token-", "\"kind\": \"Pod\"",
                "\"secretKeyRef\": {", "\"name\": \"j-token-", "\"kind\": \"ConfigMap\""}},
        {{"render", "-"}, GOOD "  peerAuth: Encrypted\n", 0,
            {"\"kind\": \"Secret\"", "\"name\": \"j-token-", "\"PADDLE_JOB_ENCRYPT\"",
                "\"secretKeyRef\": {"}},
        {{"render", "-"}, HEAD "spec:\n  worker: " ROLE(1) "---\n" OTHER, 0,
            {"\"kind\": \"Pod\"", "\"name\": \"beside\""}},
        {{"render", "-"}, OTHER, 1, {"no PaddleJob found"}},
        /* What kubectl get has printed, of a job that has run. */
        {{"render", "-"},
            "apiVersion: v1\nkind: List\nitems:\n" AS_ITEM("1") "  status: {phase: Completed}\n", 0,
            {"\"kind\": \"Pod\"", "\"name\": \"a-worker-0\""}},
        {{"render", "-"}, HEAD "spec:\n  worker: " ROLE(-1), 1,
            {"paddle-operator: standard input:5: ", "replicas"}},
        {{"render", "-"}, HEAD "spec:\n  worker: " ROLE(0), 1,
            {"paddle-operator: standard input:4: spec.worker.replicas is 0, so that the job has "
             "no pods"}},
        {{"render", "/no/such"}, NULL, 1, {"paddle-operator: ", "/no/such"}},
    };
    check(rows, CO_ARRAY_LEN(rows));
}

/* Whoever compares two runs sees what changed in the job. */
static void render_prints_the_same_again(void **state) {
    (void)state;
    static const char job[] = GOOD "  peerAuth: Token\n";
    CO_AUTOBUF struct co_buf one = CO_BUF(TEXT_MAX), two = CO_BUF(TEXT_MAX);
    const char *words[] = {"render", "-", NULL};
    assert_int_equal(run(job, words, &one), 0);
    assert_int_equal(run(job, words, &two), 0);
    assert_string_equal(one.data, two.data);
}

static void render_keeps_namespace_and_uid_of_the_job(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf out = CO_BUF(TEXT_MAX);
    const char *words[] = {"render", "-", NULL};
    assert_int_equal(
        run("apiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\n"
            "metadata: {name: j, namespace: team-a, uid: u-1}\nspec:\n  worker: " ROLE(1),
            words, &out),
        0);
    assert_non_null(strstr(out.data, "\"namespace\": \"team-a\""));
    assert_non_null(strstr(out.data, "\"uid\": \"u-1\""));
    assert_null(strstr(out.data, "\"default\""));
}

/* ---- files ------------------------------------------------------------------------------- */

static void put(const char *dir, const char *name, const char *text) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

static void a_directory_is_its_job_files_in_order(void **state) {
    (void)state;
    char dir[] = "/tmp/op-cmd-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    static const struct {
        const char *name, *text;
    } files[] = {
        {"c.json", "{\"kind\": \"C\"}"},
        {"a.yaml", "kind: A\n---\nkind: A2\n"},
        {"b.yml", "kind: B\n"},
        {".hidden.yaml", "kind: HIDDEN\n"},
        {"b.yaml.bak", "kind: BAK\n"},
        {"job.yaml", GOOD},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        put(dir, files[i].name, files[i].text);
    }
    CO_AUTOBUF struct co_buf out = CO_BUF(TEXT_MAX);
    const char *words[] = {"render", dir, NULL};
    assert_int_equal(run("", words, &out), 0);
    const char *at = out.data;
    static const char *const order[] = {"\"A\"", "\"A2\"", "\"B\"", "\"C\"", "\"Pod\""};
    for (size_t i = 0; i < CO_ARRAY_LEN(order); i++) {
        at = strstr(at, order[i]);
        assert_non_null(at);
    }
    assert_null(strstr(out.data, "HIDDEN"));
    assert_null(strstr(out.data, "BAK"));

    /* The first file that is wrong ends it. */
    put(dir, "a1.yaml", "a: [1\n");
    co_buf_done(&out);
    assert_int_equal(run("", words, &out), 1);
    CO_AUTOFREE char *where = co_xasprintf("paddle-operator: %s/a1.yaml:2", dir);
    assert_non_null(strstr(out.data, where));
    assert_non_null(strstr(out.data, "\"A2\""));
    assert_null(strstr(out.data, "\"B\""));

    static const char *const names[] = {
        "a.yaml", "a1.yaml", "b.yml", "b.yaml.bak", "c.json", ".hidden.yaml", "job.yaml"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    co_buf_done(&out);
    assert_int_equal(run("", words, &out), 1); /* empty */
    assert_string_equal(out.data, "paddle-operator: no PaddleJob found\n");
    assert_int_equal(rmdir(dir), 0);
}

/* More than fits into one read. */
static void standard_input_is_read_to_its_end(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf text = CO_BUF(TEXT_MAX), out = CO_BUF(TEXT_MAX);
    const char *words[] = {"validate", "-", NULL};
    for (int i = 0; i < 500; i++) {
        assert_int_equal(co_buf_addf(&text, NULL,
                             "apiVersion: batch.paddlepaddle.org/v1\nkind: PaddleJob\nmetadata: "
                             "{name: j%d}\nspec:\n  worker: " ROLE(2) "---\n",
                             i),
            0);
    }
    assert_int_equal(run(text.data, words, &out), 0);
    assert_string_equal(out.data, "500 jobs, 0 problems\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_found_by_name),
        cmocka_unit_test(pages_come_from_their_tables),
        cmocka_unit_test(convert_turns_jobs_of_other_operators_into_paddlejobs),
        cmocka_unit_test(validate_names_file_and_line),
        cmocka_unit_test(render_prints_what_a_cluster_would_hold),
        cmocka_unit_test(render_prints_the_same_again),
        cmocka_unit_test(render_keeps_namespace_and_uid_of_the_job),
        cmocka_unit_test(a_directory_is_its_job_files_in_order),
        cmocka_unit_test(standard_input_is_read_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
