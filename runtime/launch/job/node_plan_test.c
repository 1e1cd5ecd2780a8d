#include "runtime/launch/job/node_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/launch/job/report.h"
#include "runtime/launch/job/truth_stages_testing.h"
#include "runtime/launch/job/truth_testing.h"
#include "runtime/launch/job/value.h"

enum { WORDS_MAX = 14, NODES_MAX = 4, TEXT_MAX = 1 << 20 };

static const char *from_list(void *arg, const char *name) {
    for (const char *const *e = arg; *e; e++) {
        size_t len = strlen(name);
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=') {
            return *e + len + 1;
        }
    }
    return NULL;
}

/* A launcher's inputs, and what was made of them. */
struct launch {
    const char *argv[WORDS_MAX];
    struct options options;
    struct job_node node;
    struct job job;
    struct job_plan plan;
    struct job_offer offers[NODES_MAX];
    size_t n_offers;
};

static int launch_job(struct launch *l, const char *const *words, const char *const *env,
    const char *visible, struct co_err *err) {
    static const char *const none[] = {NULL};
    env = env ? env : none;
    int argc = 1;
    l->argv[0] = "launch";
    for (; words[argc - 1]; argc++) {
        l->argv[argc] = words[argc - 1];
    }
    l->argv[argc++] = "train.py";
    l->node.device = visible && *visible ? JOB_DEVICE_GPU : JOB_DEVICE_CPU;
    options_list_split(&l->node.visible, visible ? visible : "");
    CO_TRY(options_parse(argc, (char *const *)l->argv, from_list, (void *)env, &l->options, err));
    return job_plan(&l->options, &l->node, from_list, (void *)env, &l->job, err);
}

static void launch_init(struct launch *l, const char *ip, const char *pod) {
    *l = (struct launch){.node = {.ip = (char *)ip,
                             .pod = (char *)pod,
                             .python = (char *)"/bin/python3",
                             .dir = (char *)"/d"}};
}

static void launch_done(struct launch *l) {
    job_plan_done(&l->plan);
    job_done(&l->job);
    options_done(&l->options);
    options_list_done(&l->node.visible);
    for (size_t i = 0; i < l->n_offers; i++) {
        job_offer_done(&l->offers[i]);
    }
}

/* This node is the job's only one. */
static void offer_own(struct launch *l, const uint16_t *ports) {
    job_offer_make(&l->job, ports, &l->offers[l->n_offers++]);
}

/* NULL behind the last value. */
static int receive_values(struct launch *l, const char *const *values, struct co_err *err) {
    int r = 0;
    for (size_t i = 0; i < NODES_MAX && values[i] && !r; i++) {
        r = job_value_decode(&l->job, i, values[i], &l->offers[i], err);
        l->n_offers += r == 0;
    }
    return r;
}

static int make_plan(struct launch *l, size_t self, const char *scratch, struct co_err *err) {
    return job_plan_make(&l->job, l->offers, l->n_offers, self, scratch, &l->plan, err);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The lines of a list, in order. */
static char *sorted(char **lines, size_t n) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    qsort(lines, n, sizeof(*lines), by_text);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(co_buf_addf(&b, NULL, "%s\n", lines[i]), 0);
    }
    return co_buf_take(&b);
}

static char *truth_text(const struct job_truth *t) {
    CO_AUTOFREE char *both = co_xasprintf("%s%s", t->all ? t->all : "", t->expect);
    struct options_list lines = {0};
    both[strlen(both) - 1] = '\0';
    options_list_split_at(&lines, both, '\n');
    char *text = sorted(lines.item, lines.n);
    options_list_done(&lines);
    return text;
}

static void check_truth(const struct job_truth *t) {
    struct launch l;
    struct co_err err = {0};
    launch_init(&l, t->ip, t->pod);
    int r = launch_job(&l, t->words, NULL, t->visible, &err);
    if (!r && l.job.n_ports && !t->values[0]) {
        offer_own(&l, t->ports);
    }
    if (r || receive_values(&l, t->values, &err) || make_plan(&l, t->self, t->scratch, &err)) {
        fail_msg("%s: %s", t->name, err.msg);
    }
    assert_true(t->process < l.plan.n);
    struct job_env *set = &l.plan.process[t->process].set;
    CO_AUTOFREE char *text = sorted(set->item, set->n);
    CO_AUTOFREE char *expect = truth_text(t);
    if (strcmp(text, expect) != 0) {
        fail_msg("%s:\n%s\nexpected\n%s", t->name, text, expect);
    }
    launch_done(&l);
}

static void children_get_what_paddle_gives_them(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(job_truths); i++) {
        check_truth(&job_truths[i]);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(job_truths_stages); i++) {
        check_truth(&job_truths_stages[i]);
    }
}

static void the_mode_of_a_job_follows_from_options_and_variables(void **state) {
    (void)state;
#define PS_POD                                                                                     \
    "PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.9:36000", "PADDLE_TRAINER_ENDPOINTS=10.0.0.1:36000",      \
        "PADDLE_TRAINERS_NUM=1", "POD_IP=10.0.0.1"
    static const struct {
        const char *words[8], *env[8];
        enum job_mode mode;
        enum job_discovery way;
        int nodes_min, nodes_max;
        size_t servers, trainers, heters;
    } rows[] = {
        {{0}, {0}, JOB_MODE_COLLECTIVE, JOB_DISCOVERY_ALONE, 1, 1, 0, 1, 0},
        {{"--nproc_per_node", "0"}, {0}, JOB_MODE_COLLECTIVE, JOB_DISCOVERY_ALONE, 1, 1, 0, 1, 0},
        {{"--gpus=0,1"}, {0}, JOB_MODE_COLLECTIVE, JOB_DISCOVERY_ALONE, 1, 1, 0, 2, 0},
        {{"--nnodes", "2:4"}, {0}, JOB_MODE_COLLECTIVE, JOB_DISCOVERY_MEET, 2, 4, 0, 1, 0},
        {{"--np", "3"}, {0}, JOB_MODE_COLLECTIVE, JOB_DISCOVERY_MEET, 3, 3, 0, 1, 0},
        {{"--run_mode", "rpc"}, {0}, JOB_MODE_RPC, JOB_DISCOVERY_ALONE, 1, 1, 0, 1, 0},
        /* parameter servers, by any of their options; one of each by default */
        {{"--run_mode", "ps"}, {0}, JOB_MODE_PS, JOB_DISCOVERY_ALONE, 1, 1, 1, 1, 0},
        {{"--server_num", "2"}, {0}, JOB_MODE_PS, JOB_DISCOVERY_ALONE, 1, 1, 2, 1, 0},
        {{"--server_num=1", "--worker_num=2"}, {0}, JOB_MODE_PS, JOB_DISCOVERY_ALONE, 1, 1, 1, 2,
            0},
        {{"--server_num=1", "--worker_num=2", "--heter_worker_num=1"}, {0}, JOB_MODE_PS,
            JOB_DISCOVERY_ALONE, 1, 1, 1, 2, 1},
        {{"--server_num=1", "--worker_num=2", "--heter_worker_num=2; 1"}, {0}, JOB_MODE_PS,
            JOB_DISCOVERY_ALONE, 1, 1, 1, 2, 3},
        {{"--server_num=1", "--worker_num=2", "--heter_worker_num=0"}, {0}, JOB_MODE_PS,
            JOB_DISCOVERY_ALONE, 1, 1, 1, 2, 0},
        {{"--servers=10.0.0.2:1", "--workers=10.0.0.2:2", "--heter_worker_num=1;2",
             "--heter_workers=10.0.0.2:3;10.0.0.1:3,10.0.0.1"},
            {0}, JOB_MODE_PS, JOB_DISCOVERY_LISTS, 1, 1, 0, 0, 2},
        {{"--nnodes", "2", "--server_num", "0", "--trainer_num", "2"}, {0}, JOB_MODE_PS,
            JOB_DISCOVERY_MEET, 2, 2, 0, 2, 0},
        {{"--servers=127.0.0.1:1", "--workers=127.0.0.1:2,127.0.0.1:3"}, {0}, JOB_MODE_PS,
            JOB_DISCOVERY_LISTS, 1, 1, 1, 2, 0},
        /* a longer address that begins like this node's is another node */
        {{"--servers=10.0.0.1:1,10.0.0.11:1", "--trainers=10.0.0.11:2"}, {0}, JOB_MODE_PS,
            JOB_DISCOVERY_LISTS, 1, 1, 1, 0, 0},
        /* kubeflow's pods: a pod that has the one number has none of the other */
        {{0}, {"PADDLE_SERVER_NUM=1", "PADDLE_NNODES=3", "PADDLE_MASTER=a:1"}, JOB_MODE_PS,
            JOB_DISCOVERY_MEET, 3, 3, 1, 0, 0},
        {{0}, {"PADDLE_TRAINER_NUM=1", "PADDLE_NNODES=3", "PADDLE_MASTER=a:1"}, JOB_MODE_PS,
            JOB_DISCOVERY_MEET, 3, 3, 0, 1, 0},
        /* paddle-operator's pods */
        {{0}, {PS_POD, "TRAINING_ROLE=PSERVER"}, JOB_MODE_PS, JOB_DISCOVERY_GIVEN, 1, 1, 1, 0, 0},
        {{0}, {PS_POD, "TRAINING_ROLE=TRAINER"}, JOB_MODE_PS, JOB_DISCOVERY_GIVEN, 1, 1, 0, 1, 0},
        {{0}, {PS_POD, "TRAINING_ROLE=HETER"}, JOB_MODE_PS, JOB_DISCOVERY_GIVEN, 1, 1, 0, 0, 1},
        {{"--run_mode", "ps"}, {PS_POD, "TRAINING_ROLE=TRAINER"}, JOB_MODE_PS, JOB_DISCOVERY_GIVEN,
            1, 1, 0, 1, 0},
        {{0}, {"PADDLE_TRAINER_ENDPOINTS=10.0.0.1:36000,10.0.0.2:36000", "PADDLE_TRAINER_ID=1"},
            JOB_MODE_COLLECTIVE, JOB_DISCOVERY_ENDPOINTS, 2, 2, 0, 1, 0},
        {{0}, {"DISTRIBUTED_TRAINER_ENDPOINTS=10.0.0.9,10.0.0.1,10.0.0.9"}, JOB_MODE_COLLECTIVE,
            JOB_DISCOVERY_MEET, 2, 2, 0, 1, 0},
        {{0}, {"PADDLE_TRAINER_ENDPOINTS=10.0.0.1:36000"}, JOB_MODE_COLLECTIVE, JOB_DISCOVERY_ALONE,
            1, 1, 0, 1, 0},
        {{"--nnodes=1:2", "--master=etcd://e:1"},
            {"PADDLE_TRAINER_ENDPOINTS=10.0.0.1:36000,10.0.0.2:36000"}, JOB_MODE_COLLECTIVE,
            JOB_DISCOVERY_MEET, 1, 2, 0, 1, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        int r = launch_job(&l, rows[i].words, rows[i].env, NULL, &err);
        const struct job *j = &l.job;
        if (r || j->mode != rows[i].mode || j->discovery != rows[i].way ||
            j->nodes_min != rows[i].nodes_min || j->nodes_max != rows[i].nodes_max ||
            j->n[JOB_ROLE_SERVER] != rows[i].servers ||
            j->n[JOB_ROLE_TRAINER] != rows[i].trainers || j->n[JOB_ROLE_HETER] != rows[i].heters) {
            fail_msg("row %zu: %s: mode %d way %d nodes %d:%d seats %zu %zu %zu", i, err.msg,
                (int)j->mode, (int)j->discovery, j->nodes_min, j->nodes_max, j->n[0], j->n[1],
                j->n[2]);
        }
        launch_done(&l);
    }
}

static void a_job_has_the_id_that_keeps_it_apart(void **state) {
    (void)state;
    static const struct {
        const char *words[3], *env[3], *id, *notes;
    } rows[] = {
        {{0}, {0}, "default", "[]"},
        {{"--job_id=a/b"}, {0}, "a/b", "[]"},
        {{"--master=etcd://e:1"}, {0}, "default",
            "['WARNING Using default job name may cause conflict, add --job_id in args']"},
        {{"--master=etcd://e:1"}, {"PADDLE_ELASTIC_JOB_ID=ns-j"}, "ns-j", "[]"},
        {{"--master=etcd://e:1"}, {"PADDLE_ELASTIC_JOB_ID="}, "default",
            "['WARNING Using default job name may cause conflict, add --job_id in args']"},
        /* what the user says goes first */
        {{"--job_id=mine"}, {"PADDLE_ELASTIC_JOB_ID=ns-j"}, "mine", "[]"},
        {{0}, {"PADDLE_ELASTIC_JOB_ID=ns-j", "PADDLE_JOB_ID=theirs"}, "theirs", "[]"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        int r = launch_job(&l, rows[i].words, rows[i].env, NULL, &err);
        CO_AUTOFREE char *notes = options_list_python(l.job.notes.item, l.job.notes.n);
        if (r || strcmp(l.job.id, rows[i].id) != 0 || strcmp(notes, rows[i].notes) != 0) {
            fail_msg("row %zu: %s: id \"%s\", notes %s", i, err.msg, r ? "" : l.job.id, notes);
        }
        CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
        CO_AUTOFREE char *line = co_xasprintf("\njob_id: %s\n", rows[i].id);
        assert_int_equal(job_report_configuration(&l.job, &b, NULL), 0);
        assert_non_null(strstr(b.data, line));
        launch_done(&l);
    }
}

static void the_token_is_proven_where_nodes_meet(void **state) {
    (void)state;
#define TOKEN "PADDLE_JOB_TOKEN=secret"
    static const struct {
        const char *words[4], *env[3], *token, *note;
    } rows[] = {
        {{"--nnodes=2"}, {0}, NULL, NULL},
        {{"--nnodes=2"}, {TOKEN}, NULL, "open to anybody"},
        {{"--nnodes=2", "--require_token"}, {TOKEN}, "secret", NULL},
        {{"--nnodes=2"}, {TOKEN, "PADDLERUN_REQUIRE_TOKEN=1"}, "secret", NULL},
        {{"--nnodes=2", "--require_token", "--master=h:1"}, {TOKEN}, "secret", NULL},
        {{"--nnodes=2", "--require_token", "--master=etcd://e:1"}, {TOKEN}, NULL, "has no effect"},
        {{"--nnodes=2", "--require_token", "--master=etcd-0:1"}, {TOKEN}, "secret", NULL},
        {{"--nnodes=2", "--master=etcd://e:1", "--job_id=j"}, {TOKEN}, NULL, NULL},
        {{"--require_token"}, {TOKEN}, NULL, NULL}, /* nobody to meet */
        {{0}, {TOKEN}, NULL, NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        int r = launch_job(&l, rows[i].words, rows[i].env, NULL, &err);
        CO_AUTOFREE char *notes = options_list_python(l.job.notes.item, l.job.notes.n);
        if (r || !co_streq(l.job.token ? l.job.token : "", rows[i].token ? rows[i].token : "") ||
            (rows[i].note ? !strstr(notes, rows[i].note) : strstr(notes, "TOKEN") != NULL)) {
            fail_msg("row %zu: %s: notes %s", i, err.msg, notes);
        }
        launch_done(&l);
    }
    static const char *const words[] = {"--require_token", NULL}, *const none[] = {NULL};
    struct launch l;
    struct co_err err = {0};
    launch_init(&l, "10.0.0.1", "abcdef");
    assert_int_equal(CO_INVALID, launch_job(&l, words, none, NULL, &err));
    assert_non_null(strstr(err.msg, "expected PADDLE_JOB_TOKEN"));
    launch_done(&l);
}

static void pods_of_an_elastic_job_meet_at_worker_0(void **state) {
    (void)state;
#define ELASTIC_POD "PADDLE_ELASTIC_JOB_ID=ns-j", "PADDLE_ELASTIC_TIMEOUT=60", "PADDLE_TRAINER_ID=2"
    static const struct {
        const char *words[4], *env[9], *master;
        int min, max, level;
        int64_t elastic_ms;
    } rows[] = {
        {{0}, {ELASTIC_POD, "PADDLE_ELASTIC_NP=1:4", "POD_IP=j-worker-2"}, "j-worker-0:36000", 1, 4,
            1, 5000},
        {{0}, {ELASTIC_POD, "PADDLE_ELASTIC_NP=3", "POD_IP=j-worker-2.j"}, "j-worker-0.j:36000", 3,
            3, 1, 5000},
        /* a job's name may look like a worker's */
        {{0}, {ELASTIC_POD, "PADDLE_ELASTIC_NP=3", "POD_IP=a-worker-21-worker-2"},
            "a-worker-21-worker-0:36000", 3, 3, 1, 5000},
        /* pods without names meet in the namespace's etcd; those with names need none */
        {{0},
            {ELASTIC_POD, "PADDLE_ELASTIC_NP=1:4", "POD_IP=10.0.0.3",
                "PADDLE_ELASTIC_ETCD_SERVICE_HOST=10.96.0.7",
                "PADDLE_ELASTIC_ETCD_SERVICE_PORT=2379"},
            "etcd://10.96.0.7:2379", 1, 4, 1, 5000},
        {{0},
            {ELASTIC_POD, "PADDLE_ELASTIC_NP=1:4", "POD_IP=fd00::3",
                "PADDLE_ELASTIC_ETCD_SERVICE_HOST=fd00::7",
                "PADDLE_ELASTIC_ETCD_SERVICE_PORT=2379"},
            "etcd://[fd00::7]:2379", 1, 4, 1, 5000},
        {{0},
            {ELASTIC_POD, "PADDLE_ELASTIC_NP=3", "POD_IP=j-worker-2",
                "PADDLE_ELASTIC_ETCD_SERVICE_HOST=10.96.0.7",
                "PADDLE_ELASTIC_ETCD_SERVICE_PORT=2379"},
            "j-worker-0:36000", 3, 3, 1, 5000},
        {{0},
            {ELASTIC_POD, "PADDLE_ELASTIC_NP=3", "POD_IP=j-worker-2", "PADDLE_ELASTIC_SERVER=e:1"},
            "etcd://e:1", 3, 3, 1, 5000},
        /* what the command says goes first */
        {{"--master=a:1", "--elastic_level=0"}, {ELASTIC_POD, "PADDLE_ELASTIC_NP=1:4"}, "a:1", 1, 4,
            0, 5000},
        {{"--elastic_server=e:2379"}, {ELASTIC_POD, "PADDLE_ELASTIC_NP=1:4"}, "etcd://e:2379", 1, 4,
            1, 5000},
        /* lists of PaddleCloud are older than what the etcd has, also with a fixed number of nodes
         */
        {{0},
            {ELASTIC_POD, "PADDLE_ELASTIC_NP=2", "PADDLE_ELASTIC_SERVER=e:1",
                "DISTRIBUTED_TRAINER_ENDPOINTS=10.0.0.1:1,10.0.0.2:1",
                "PADDLE_TRAINERS=10.0.0.1,10.0.0.2", "TRAINER_PORTS_NUM=2"},
            "etcd://e:1", 2, 2, 1, 5000},
        {{"--elastic_server=e:1", "--np=2", "--job_id=j"},
            {"PADDLE_TRAINER_ENDPOINTS=10.0.0.1:1,10.0.0.2:1", "PADDLE_TRAINER_ID=2"}, "etcd://e:1",
            2, 2, 1, 30000},
        {{"--elastic_server=e:1", "--np=2", "--elastic_level=-1"}, {ELASTIC_POD}, "etcd://e:1", 2,
            2, -1, 60000},
        /* as Paddle's documents and a browser write it */
        {{"--nnodes=2:3", "--master=http://a:1"}, {ELASTIC_POD}, "a:1", 2, 3, -1, 60000},
        {{"--nnodes=2:3", "--master=http://a:1/"}, {ELASTIC_POD}, "a:1", 2, 3, -1, 60000},
        {{"--nnodes=2:3", "--master=a:1"}, {ELASTIC_POD, "PADDLE_ELASTIC_NP=1:4"}, "a:1", 2, 3, -1,
            60000},
        {{"--master=a:1", "--nnodes=2:3"}, {"PADDLE_TRAINER_ID=2", "PADDLE_ELASTIC_TIMEOUT=0"},
            "a:1", 2, 3, -1, 1},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        int r = launch_job(&l, rows[i].words, rows[i].env, NULL, &err);
        const struct job *j = &l.job;
        if (r || j->discovery != JOB_DISCOVERY_MEET || strcmp(j->master, rows[i].master) != 0 ||
            j->rank != 2 || j->nodes_min != rows[i].min || j->nodes_max != rows[i].max ||
            j->level != rows[i].level || j->elastic_ms != rows[i].elastic_ms) {
            fail_msg("row %zu: %s: way %d at %s, nodes %d:%d, level %d", i, err.msg,
                (int)j->discovery, j->master, j->nodes_min, j->nodes_max, j->level);
        }
        launch_done(&l);
    }
}

/* As Paddle's old launcher goes by PaddleCloud's variables: compared with it in tests/paddle. */
static void the_old_launcher_reads_its_nodes_from_the_cloud(void **state) {
    (void)state;
#define CLOUD                                                                                      \
    "PADDLE_TRAINERS=10.0.0.1,10.0.0.2", "POD_IP=10.0.0.2", "PADDLE_TRAINER_ID=1",                 \
        "TRAINER_PORTS_NUM=2"
    static const struct {
        const char *words[5], *env[8];
        enum job_discovery way;
        int64_t first_port;
    } rows[] = {
        {{"--legacy=true"}, {CLOUD, "PADDLE_TRAINERS_NUM=2"}, JOB_DISCOVERY_IPS, 6170},
        {{"--compat=2.0"}, {CLOUD, "PADDLE_TRAINERS_NUM=2", "PADDLE_PORT=7000"}, JOB_DISCOVERY_IPS,
            7000},
        {{"--legacy=true", "--nproc_per_node=3"},
            {CLOUD, "PADDLE_TRAINERS_NUM=2", "PADDLE_PORT=7000"}, JOB_DISCOVERY_IPS, 6170},
        {{"--legacy=true", "--started_port=8000"},
            {CLOUD, "PADDLE_TRAINERS_NUM=2", "PADDLE_PORT=7000"}, JOB_DISCOVERY_IPS, 8000},
        {{"--use_paddlecloud"}, {CLOUD, "PADDLE_TRAINERS_NUM=2", "FLAGS_START_PORT=6687"},
            JOB_DISCOVERY_IPS, 6687},
        {{"--legacy=true"}, {CLOUD, "PADDLE_TRAINERS_NUM=1"}, JOB_DISCOVERY_ALONE, 0},
        {{"--legacy=true"}, {CLOUD}, JOB_DISCOVERY_ALONE, 0},
        {{"--nproc_per_node=1"}, {CLOUD, "PADDLE_TRAINERS_NUM=2"}, JOB_DISCOVERY_ALONE, 0},
        {{"--legacy=true", "--ips=10.0.0.2"}, {"FLAGS_START_PORT=6687"}, JOB_DISCOVERY_IPS, 6687},
        {{"--legacy=true", "--cluster_node_ips=10.0.0.2", "--node_ip=10.0.0.2"}, {0},
            JOB_DISCOVERY_IPS, 6070},
        {{"--ips=10.0.0.2", "--start_port=7"}, {"FLAGS_START_PORT=6687"}, JOB_DISCOVERY_IPS, 7},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.2", "abcdef");
        int r = launch_job(&l, rows[i].words, rows[i].env, NULL, &err);
        if (r || l.job.discovery != rows[i].way || l.job.first_port != rows[i].first_port) {
            fail_msg("row %zu: %s: way %d, first port %ld", i, err.msg, (int)l.job.discovery,
                (long)l.job.first_port);
        }
        launch_done(&l);
    }
}

/* As it is written where a port follows. */
static void an_address_in_brackets_is_that_address(void **state) {
    (void)state;
    static const struct {
        const char *words[8];
        enum job_discovery way;
        int rank;
        const char *host, *trainer; /* the first host; NULL: not looked at */
    } rows[] = {
        {{"--ips=[fd00::1],[fd00::2]", "--host=[fd00::2]"}, JOB_DISCOVERY_IPS, 1, "fd00::1", NULL},
        {{"--ips=fd00::1,fd00::2", "--host=fd00::2"}, JOB_DISCOVERY_IPS, 1, "fd00::1", NULL},
        {{"--servers=[fd00::2]:6000", "--workers=[fd00::2]", "--host=[fd00::2]"},
            JOB_DISCOVERY_LISTS, -1, "fd00::2", "[fd00::2]:6171"},
        {{"--master=[fd00::1]:7", "--nnodes=2", "--host=[fd00::2]"}, JOB_DISCOVERY_MEET, -1, NULL,
            NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        int r = launch_job(&l, rows[i].words, (const char *const[]){NULL}, NULL, &err);
        const struct options_list *trainers = &l.job.listed[JOB_ROLE_TRAINER];
        if (r || l.job.discovery != rows[i].way || l.job.rank != rows[i].rank ||
            strcmp(l.job.ip, "fd00::2") != 0 ||
            (rows[i].host && strcmp(l.job.hosts.item[0], rows[i].host) != 0) ||
            (rows[i].trainer && strcmp(trainers->item[0], rows[i].trainer) != 0)) {
            fail_msg("row %zu: %s: way %d, rank %d, address %s", i, err.msg, (int)l.job.discovery,
                l.job.rank, l.job.ip ? l.job.ip : "");
        }
        launch_done(&l);
    }
}

static void errors_name_impossible_options(void **state) {
    (void)state;
    static const struct {
        const char *words[8], *env[4], *visible, *text;
    } rows[] = {
        {{"--nnodes", "x"}, {0}, NULL, "nnodes is \"x\", expected the number of nodes"},
        {{"--nnodes", "4:2"}, {0}, NULL, "nnodes is \"4:2\""},
        {{"--devices", "a,b"}, {0}, NULL, "devices are \"a,b\", expected their numbers"},
        {{"--devices", "0,,1"}, {0}, NULL, "devices are \"0,,1\""},
        {{"--gpus", "0,"}, {0}, NULL, "devices are \"0,\""},
        {{"--devices", "7"}, {0}, "0,1", "Device not found 7 from 7 for setting 0,1"},
        {{"--nproc_per_node", "3"}, {0}, "0,1", "nproc_per_node is 3, but there are 2 devices"},
        {{"--ips", "10.0.0.2,127.0.0.1"}, {0}, NULL,
            "127.0.0.1 in ips is not allowed in multi-nodes"},
        {{"--ips", "10.0.0.2,10.0.0.3"}, {0}, NULL, "\"10.0.0.1\" is not in --ips"},
        {{"--servers", "10.0.0.1:1"}, {0}, NULL, "--servers without --trainers"},
        {{"--workers", "10.0.0.1:1"}, {0}, NULL, "--workers without --servers"},
        {{"--servers", "10.0.0.2:1", "--trainers", "10.0.0.3:1"}, {0}, NULL,
            "no endpoint of --servers and --trainers is on this node"},
        {{"--servers=10.0.0.1:1", "--trainers=10.0.0.1:2", "--server_num=2"}, {0}, NULL,
            "--server_num is 2, but --servers has 1"},
        {{"--server_num=1", "--heter_worker_num=2;;1"}, {0}, NULL,
            "--heter_worker_num is \"2;;1\": a stage between \";\" is empty"},
        {{"--server_num=1", "--heter_worker_num=2;x"}, {0}, NULL, "--heter_worker_num: \"x\""},
        {{"--server_num=1", "--heter_worker_num=;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;"
                            ";;;;;;;;;;;;;"},
            {0}, NULL, "--heter_worker_num has 65 stages, expected at most 64"},
        {{"--server_num=1", "--worker_num=1", "--heter_workers=10.0.0.1:3"}, {0}, NULL,
            "--heter_workers without --servers and --trainers"},
        {{"--servers=10.0.0.1:1", "--workers=10.0.0.1:2", "--heter_worker_num=1;1",
             "--heter_workers=10.0.0.1:3,10.0.0.1:4"},
            {0}, NULL, "expected them to agree in every stage"},
        {{"--servers=10.0.0.1:1", "--workers=10.0.0.1:2", "--heter_worker_num=1"}, {0}, NULL,
            "expected them to agree in every stage"},
        {{"--server_num", "0"}, {0}, NULL, "0 servers and 1 trainers on the only node"},
        {{"--nproc_per_node=3"},
            {"PADDLE_TRAINER_ENDPOINTS=10.0.0.1:1,10.0.0.2:1", "TRAINER_PORTS_NUM=2"}, NULL,
            "2 endpoints in the environment for 2 nodes of 3 processes"},
        {{0}, {"PADDLE_TRAINER_ENDPOINTS=10.0.0.3,10.0.0.2:1"}, NULL,
            "has \"10.0.0.3\" and \"10.0.0.2:1\", expected a port for all or for none"},
        {{0}, {"PADDLE_TRAINER_ENDPOINTS=10.0.0.3:1,10.0.0.2:1"}, NULL,
            "\"10.0.0.1\" is not in PADDLE_TRAINER_ENDPOINTS"},
        {{0}, {"PADDLE_ELASTIC_JOB_ID=j", "PADDLE_ELASTIC_NP=1:4", "POD_IP=10.0.0.1"}, NULL,
            "a pod of an elastic job without a name (POD_IP is \"10.0.0.1\")"},
        {{0}, {"PADDLE_ELASTIC_JOB_ID=j", "PADDLE_ELASTIC_NP=x", "POD_IP=j-worker-0"}, NULL,
            "a pod of an elastic job without a name"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        int r = launch_job(&l, rows[i].words, rows[i].env, rows[i].visible, &err);
        if (r != CO_INVALID || !strstr(err.msg, rows[i].text)) {
            fail_msg("row %zu: %d \"%s\"", i, r, err.msg);
        }
        launch_done(&l);
    }
}

/* Each reports its part of every stage, or nothing; indices go stage by stage. */
static void stages_go_through_all_nodes(void **state) {
    (void)state;
#define NODE(servers, more)                                                                        \
    "{\"servers\":[" servers "],\"trainers\":[\"a:2\"],\"gloo_port\":3" more "}"
    static const struct {
        const char *devices, *values[4], *all, *expect, *text;
    } rows[] = {
        {"--heter_devices=cpu;gpu",
            {NODE("\"a:1\"", ",\"heters\":[[\"a:4\"],[\"a:5\"]]"), NODE("", ""),
                NODE("", ",\"heters\":[[],[\"c:6\",\"c:7\"]]")},
            "a:4,a:5,c:6,c:7", "3 of 3: a:4 <- -> on gpu, [3, 1, 3]", NULL},
        {"--heter_devices=cpu",
            {NODE("\"a:1\"", ",\"heters\":[[\"a:4\"]]"), NODE("", ""),
                NODE("", ",\"heters\":[[\"c:6\"]]")},
            "a:4,c:6", "2 of 2: a:2,a:2,a:2 <- -> on cpu, [3, 2]", NULL},
        {"--heter_devices=cpu",
            {NODE("\"a:1\"", ",\"heters\":[[\"a:4\"]]"), NODE("", ""),
                NODE("", ",\"heters\":[[],[\"c:6\"]]")},
            NULL, NULL, "--heter_devices is \"cpu\", but there is a stage 3"},
        {"--heter_devices=cpu;gpu",
            {NODE("\"a:1\"", ""), NODE("", ""), NODE("", ",\"heters\":[[],[\"c:6\"]]")}, NULL, NULL,
            "stage 2 has no worker"},
        {"--heter_devices=cpu",
            {NODE("\"a:1\"", ""), NODE("", ",\"heters\":\"c:6\""), NODE("", "")}, NULL, NULL,
            "node 1 sent"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const char *const words[] = {"--nnodes=3", "--server_num=0", "--trainer_num=1",
            "--master=m:1", rows[i].devices, NULL};
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        assert_int_equal(launch_job(&l, words, NULL, NULL, NULL), 0);
        int r = receive_values(&l, rows[i].values, &err);
        if (!r) {
            r = make_plan(&l, 2, "", &err);
        }
        if (rows[i].text) {
            assert_int_equal(r, CO_INVALID);
            assert_non_null(strstr(err.msg, rows[i].text));
        } else {
            assert_int_equal(r, 0);
            const struct job_env *e = &l.plan.process[1].set; /* the node's first such worker */
            CO_AUTOFREE char *text = co_xasprintf("%s of %s: %s <- ->%s on %s, %s",
                job_env_get(e, "STAGE_ID"), job_env_get(e, "STAGE_NUM"),
                job_env_get(e, "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST"),
                job_env_get(e, "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST"),
                job_env_get(e, "HETER_DEVICE_TYPE"), job_env_get(e, "PADDLE_STAGE_TRAINERS_NUM"));
            assert_string_equal(text, rows[i].expect);
            assert_string_equal(
                job_env_get(e, "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"), rows[i].all);
        }
        launch_done(&l);
    }
}

/* Server 0's host keeps gloo's port, also where the first node has no server. */
static void the_gloo_endpoint_is_on_the_host_of_server_0(void **state) {
    (void)state;
    static const char *const values[] = {"{\"servers\":[],\"trainers\":[\"a:1\"],\"gloo_port\":7}",
        "{\"servers\":[\"b:2\"],\"trainers\":[],\"gloo_port\":8}", NULL};
    static const char *const words[] = {"--nnodes=2", "--server_num=0", "--trainer_num=1", NULL};
    struct launch l;
    launch_init(&l, "10.0.0.1", "abcdef");
    assert_int_equal(launch_job(&l, words, NULL, NULL, NULL), 0);
    assert_int_equal(receive_values(&l, values, NULL), 0);
    assert_int_equal(make_plan(&l, 0, "", NULL), 0);
    assert_string_equal(l.plan.gloo, "b:8");
    launch_done(&l);
}

/* Directories may be shared by all pods of a claim, and by all nodes of a job. */
static void nodes_that_may_share_a_directory_have_folders_of_their_own(void **state) {
    (void)state;
#define GIVEN_POD "PADDLE_PSERVERS_IP_PORT_LIST=a:1", "PADDLE_TRAINER_ID=1", "POD_IP=1.1.1.1"
    static const char offer[] = "{\"candidate\":\"o:1\",\"endpoints\":\"o:2\"}";
    static const struct {
        const char *words[4], *env[5], *host;
        bool in_pod;
        size_t self, n;
        const char *dir;
    } rows[] = {
        {{0}, {0}, "h", false, 0, 0, "log"},
        {{"--log_dir="}, {GIVEN_POD, "TRAINING_ROLE=TRAINER"}, "h", true, 0, 0, ""},
        {{0}, {0}, "j-abc", true, 0, 0, "log/j-abc"},
        {{"--log_dir=/c/"}, {"PADDLE_TRAINER_ID=0"}, "j-worker-0", true, 0, 0, "/c//j-worker-0"},
        {{0}, {GIVEN_POD, "TRAINING_ROLE=TRAINER"}, "j-worker-1", true, 0, 0, "log/j-worker-1"},
        {{0}, {GIVEN_POD, "TRAINING_ROLE=PSERVER"}, "j-ps-1", true, 0, 0, "log/j-ps-1"},
        /* of a node's network, all pods have its name */
        {{0}, {GIVEN_POD, "TRAINING_ROLE=PSERVER"}, "n7", true, 0, 0, "log/n7-ps-1"},
        {{0}, {GIVEN_POD, "TRAINING_ROLE=TRAINER"}, "n7", true, 0, 0, "log/n7-worker-1"},
        {{0}, {"PADDLE_TRAINER_ENDPOINTS=1.1.1.1:1,1.1.1.2:1", "PADDLE_TRAINER_ID=1"}, "n7", false,
            0, 0, "log/n7-1"},
        {{0}, {"PADDLE_TRAINER_ENDPOINTS=1.1.1.1:1,1.1.1.2:1", "PADDLE_TRAINER_ID=1"}, "j-worker-1",
            true, 0, 0, "log/j-worker-1"},
        {{"--ips=1.1.1.2,10.0.0.1"}, {0}, "h", false, 0, 0, "log/h-1"},
        {{"--servers=1.1.1.2:1", "--trainers=10.0.0.1:1"}, {0}, "h", false, 0, 0, "log/h-1"},
        {{"--servers=10.0.0.1:1", "--trainers=10.0.0.1:2"}, {0}, "h", false, 0, 0, "log"},
        {{"--nnodes=2", "--master=m:1"}, {0}, "h", false, 1, 2, "log/h-1"},
        {{"--nnodes=2", "--master=m:1"}, {0}, NULL, false, 0, 2, "log/node-0"},
        {{"--nnodes=2", "--master=m:1", "--rank=1"}, {0}, "h", false, 0, 2, "log/h-1"},
        {{"--nnodes=2", "--master=m:1"}, {0}, "j-abc", true, 1, 2, "log/j-abc"},
        {{"--nnodes=1:2", "--master=m:1"}, {0}, "h", false, 0, 1, "log/h-abcdef"},
        {{"--nnodes=1:2", "--master=m:1"}, {0}, "h", false, 1, 2, "log/h-abcdef"},
        {{"--nnodes=1:2", "--master=m:1", "--rank=1"}, {0}, "h", false, 0, 2, "log/h-1"},
        {{"--nnodes=1:2", "--master=m:1"}, {0}, "j-abc", true, 1, 2, "log/j-abc"},
    };
#undef GIVEN_POD
    static const uint16_t ports[] = {1, 2, 3, 4, 5};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        struct co_err err = {0};
        launch_init(&l, "10.0.0.1", "abcdef");
        l.node.host = (char *)(uintptr_t)rows[i].host;
        l.node.in_pod = rows[i].in_pod;
        assert_int_equal(launch_job(&l, rows[i].words, rows[i].env, NULL, NULL), 0);
        const char *values[] = {offer, offer, NULL};
        if (rows[i].n) {
            assert_int_equal(receive_values(&l, values, NULL), 0);
        } else if (l.job.n_ports) {
            offer_own(&l, ports);
        }
        if (make_plan(&l, rows[i].self, "", &err)) {
            fail_msg("%zu: %s", i, err.msg);
        }
        assert_string_equal(l.plan.log_dir, rows[i].dir);
        launch_done(&l);
    }
}

static void logs_are_where_tools_look(void **state) {
    (void)state;
    static const struct {
        const char *words[8];
        const char *logs[4];
    } rows[] = {
        {{"--nproc_per_node=2"}, {"workerlog.0", "workerlog.1"}},
        {{"--server_num=1", "--trainer_num=2"}, {"serverlog.0", "workerlog.0", "workerlog.1"}},
        {{"--server_num=1", "--worker_num=1"}, {"serverlog.0", "workerlog.0"}},
        {{"--nproc_per_node=2", "--compat=2.3"}, {"default.gistdo.0.log", "default.gistdo.1.log"}},
        {{"--server_num=1", "--compat=2.3", "--job_id=j"},
            {"j.gistdo.ps.0.log", "j.gistdo.trainer.0.log"}},
    };
    static const uint16_t ports[] = {1, 2, 3, 4, 5};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct launch l;
        launch_init(&l, "10.0.0.1", "gistdo");
        assert_int_equal(launch_job(&l, rows[i].words, NULL, NULL, NULL), 0);
        offer_own(&l, ports);
        assert_int_equal(make_plan(&l, 0, "", NULL), 0);
        for (size_t k = 0; k < l.plan.n; k++) {
            assert_string_equal(l.plan.process[k].log, rows[i].logs[k]);
        }
        assert_null(rows[i].logs[l.plan.n]);
        launch_done(&l);
    }
}

/* The block of the tutorial of 2.0, and the table's width. */
static void the_configuration_block_is_that_of_the_old_launcher(void **state) {
    (void)state;
    static const char *const words[] = {"--server_num=1", "--worker_num=2", "--gpus=0,1", NULL};
    struct launch l;
    launch_init(&l, "127.0.0.1", "abcdef");
    assert_int_equal(launch_job(&l, words, NULL, NULL, NULL), 0);
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    assert_int_equal(job_report_configuration(&l.job, &b, NULL), 0);
    assert_string_equal(b.data,
        "gpus: 0,1\nheter_worker_num: None\nheter_workers: \nhttp_port: None\nips: 127.0.0.1\n"
        "log_dir: log\nnproc_per_node: None\nserver_num: 1\nservers: \ntraining_script: train.py\n"
        "training_script_args: []\nworker_num: 2\nworkers: \n");
    struct job_process p = {.role = JOB_ROLE_SERVER};
    job_env_set(&p.set, "PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:20923,127.0.0.1:10037");
    job_env_set(&p.set, "LONG", "0123456789012345678901234567890123456789abcdefgh");
    co_buf_clear(&b);
    assert_int_equal(job_report_table(&p, &b, NULL), 0);
    assert_string_equal(b.data,
        "    "
        "+=======================================================================================+"
        "\n"
        "    |                        Distributed Envs                      Value                  "
        "  |"
        "\n"
        "    "
        "+---------------------------------------------------------------------------------------+"
        "\n"
        "    |                PADDLE_TRAINER_ENDPOINTS         127.0.0.1:20923,127.0.0.1:10037     "
        "  |"
        "\n"
        "    |                                    LONG  ... "
        "789012345678901234567890123456789abcdefgh|"
        "\n"
        "    "
        "+=======================================================================================+"
        "\n");
    job_env_done(&p.set);
    launch_done(&l);
}

static void lists_are_printed_as_by_python(void **state) {
    (void)state;
    static const struct {
        const char *item[3], *text;
    } rows[] = {
        {{0}, "[]"},
        {{"a", "b c"}, "['a', 'b c']"},
        {{"it's"}, "[\"it's\"]"},
        {{"'\""}, "['\\'\"']"},
        {{"a\n\\"}, "['a\\n\\\\']"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        size_t n = 0;
        while (rows[i].item[n]) {
            n++;
        }
        CO_AUTOFREE char *text = options_list_python((char *const *)rows[i].item, n);
        assert_string_equal(text, rows[i].text);
    }
    static const char *const argv[] = {"launch", "--nnodes=2", "my train.py", "it's"};
    static const char *const started[][2] = {{"paddlerun", "paddlerun launch"},
        {"/opt/x/paddlerun", "/opt/x/paddlerun launch"}, {"fleetrun", "fleetrun"},
        {"bin/fleetrun", "bin/fleetrun"}, {"python3 -m paddlerun", "python3 -m paddlerun"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(started); i++) {
        CO_AUTOFREE char *command =
            job_report_command(started[i][0], "1.2.3.4:5", 4, (char *const *)argv);
        CO_AUTOFREE char *want = co_xasprintf(
            "%s --master 1.2.3.4:5 --nnodes=2 'my train.py' 'it'\\''s'", started[i][1]);
        assert_string_equal(command, want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_get_what_paddle_gives_them),
        cmocka_unit_test(the_mode_of_a_job_follows_from_options_and_variables),
        cmocka_unit_test(a_job_has_the_id_that_keeps_it_apart),
        cmocka_unit_test(the_token_is_proven_where_nodes_meet),
        cmocka_unit_test(pods_of_an_elastic_job_meet_at_worker_0),
        cmocka_unit_test(the_old_launcher_reads_its_nodes_from_the_cloud),
        cmocka_unit_test(an_address_in_brackets_is_that_address),
        cmocka_unit_test(errors_name_impossible_options),
        cmocka_unit_test(stages_go_through_all_nodes),
        cmocka_unit_test(the_gloo_endpoint_is_on_the_host_of_server_0),
        cmocka_unit_test(nodes_that_may_share_a_directory_have_folders_of_their_own),
        cmocka_unit_test(logs_are_where_tools_look),
        cmocka_unit_test(the_configuration_block_is_that_of_the_old_launcher),
        cmocka_unit_test(lists_are_printed_as_by_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
