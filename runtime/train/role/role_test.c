#include "runtime/train/role/role.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/log_testing.h"

enum { VARS_MAX = 16 };

struct row {
    const char *what;
    const char *env[VARS_MAX]; /* "NAME=value" */
    const char *error;         /* part of the message; NULL: accepted, as follows */
    enum role_training training;
    enum role role;
    uint32_t index, n_workers, n_servers;
    const char *endpoint;
};

static const char *get(void *arg, const char *name) {
    const char *const *env = arg;
    size_t n = strlen(name);
    for (size_t i = 0; i < VARS_MAX && env[i]; i++) {
        if (strncmp(env[i], name, n) == 0 && env[i][n] == '=') {
            return env[i] + n + 1;
        }
    }
    return NULL;
}

#define HAND_LIST "PADDLE_PSERVERS_IP_PORT_LIST=10.89.176.11:36000,10.89.176.12:36000"
#define HAND_SERVER HAND_LIST, "TRAINING_ROLE=PSERVER", "PADDLE_TRAINERS_NUM=2"
#define HAND_TRAINER HAND_LIST, "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=2"

/* As paddle-operator 0.3.5 writes them in PodIP mode with gloo. */
#define PODIP                                                                                      \
    "TRAINER_PORTS_NUM=20", "PADDLE_PORT=54081",                                                   \
        "PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:54081,10.0.0.2:54081",                              \
        "PADDLE_TRAINER_ENDPOINTS=10.0.0.3:54081,10.0.0.4:54081",                                  \
        "PADDLE_TRAINERS=10.0.0.3,10.0.0.4", "PADDLE_TRAINERS_NUM=2", "PADDLE_WITH_GLOO=1",        \
        "PADDLE_GLOO_RENDEZVOUS=3", "PADDLE_GLOO_HTTP_ENDPOINT=10.0.0.1:54081"
#define SERVICE                                                                                    \
    "PADDLE_PSERVERS_IP_PORT_LIST=j-ps-0:36000,j-ps-1:36000",                                      \
        "PADDLE_TRAINER_ENDPOINTS=j-worker-0:36000,j-worker-1:36000", "PADDLE_TRAINERS_NUM=2",     \
        "TRAINING_ROLE=PSERVER", "PADDLE_TRAINING_ROLE=PSERVER"
#define V6                                                                                         \
    "PADDLE_PSERVERS_IP_PORT_LIST=[fd00::1]:36020,[fd00::2]:36020",                                \
        "PADDLE_TRAINER_ENDPOINTS=[fd00::3]:36020", "PADDLE_TRAINERS_NUM=1", "PADDLE_PORT=36020"

#define ALONE ROLE_TRAINING_ALONE
#define PS ROLE_TRAINING_PS
#define COLL ROLE_TRAINING_COLLECTIVE
#define WORKER ROLE_WORKER
#define SERVER ROLE_SERVER
#define HETER ROLE_HETER

static const struct row rows[] = {
    {"nothing at all", {NULL}, NULL, ALONE, WORKER, 0, 1, 0, NULL},

    {"server by hand", {HAND_SERVER, "POD_IP=10.89.176.12", "PADDLE_PORT=36000"}, NULL, PS, SERVER,
        1, 2, 2, "10.89.176.12:36000"},
    {"trainer by hand", {HAND_TRAINER, "PADDLE_TRAINER_ID=1"}, NULL, PS, WORKER, 1, 2, 2, NULL},

    {"operator's server",
        {PODIP, "POD_IP=10.0.0.2", "PADDLE_TRAINER_ID=1", "TRAINING_ROLE=PSERVER",
            "PADDLE_TRAINING_ROLE=PSERVER"},
        NULL, PS, SERVER, 1, 2, 2, "10.0.0.2:54081"},
    {"operator's worker",
        {PODIP, "POD_IP=10.0.0.4", "PADDLE_TRAINER_ID=1", "TRAINING_ROLE=TRAINER",
            "PADDLE_TRAINING_ROLE=TRAINER"},
        NULL, PS, WORKER, 1, 2, 2, "10.0.0.4:54081"},
    {"server of Service mode", {SERVICE, "POD_IP=j-ps-1", "PADDLE_PORT=36000"}, NULL, PS, SERVER, 1,
        2, 2, "j-ps-1:36000"},
    {"Service mode of 0.3.5: a port that no endpoint has",
        {SERVICE, "POD_IP=j-ps-1", "PADDLE_PORT=43887", "PADDLE_TRAINER_ID=1"}, NULL, PS, SERVER, 1,
        2, 2, "j-ps-1:36000"},
    {"Service mode of 0.3.3: no port", {SERVICE, "POD_IP=j-ps-1", "PADDLE_TRAINER_ID=1"}, NULL, PS,
        SERVER, 1, 2, 2, "j-ps-1:36000"},
    {"IPv6 server, address written otherwise",
        {V6, "TRAINING_ROLE=PSERVER", "POD_IP=fd00:0:0::2", "PADDLE_TRAINER_ID=1"}, NULL, PS,
        SERVER, 1, 1, 2, "[fd00::2]:36020"},
    {"IPv6 server with brackets", {V6, "TRAINING_ROLE=PSERVER", "POD_IP=[fd00::1]"}, NULL, PS,
        SERVER, 0, 1, 2, "[fd00::1]:36020"},
    {"IPv6 worker", {V6, "TRAINING_ROLE=TRAINER", "POD_IP=fd00::3", "PADDLE_TRAINER_ID=0"}, NULL,
        PS, WORKER, 0, 1, 2, "[fd00::3]:36020"},
    {"heter by the operator",
        {"PADDLE_HETER_ENDPOINTS=h0:36000,h1:36000", HAND_LIST, "PADDLE_TRAINERS_NUM=2",
            "TRAINING_ROLE=HETER", "POD_IP=h1", "PADDLE_PORT=36000", "PADDLE_TRAINER_ID=1"},
        NULL, PS, HETER, 1, 2, 2, "h1:36000"},
    {"launcher's server without an id",
        {"PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:4001,127.0.0.1:4002", "PADDLE_ROLE=PSERVER",
            "PADDLE_TRAINERS_NUM=1", "POD_IP=127.0.0.1", "PADDLE_PORT=4002"},
        NULL, PS, SERVER, 1, 1, 2, "127.0.0.1:4002"},
    {"servers without trainers",
        {HAND_LIST, "TRAINING_ROLE=PSERVER", "PADDLE_TRAINERS_NUM=0", "POD_IP=10.89.176.11",
            "PADDLE_PORT=36000"},
        NULL, PS, SERVER, 0, 0, 2, "10.89.176.11:36000"},

    /* accepted by Paddle, and works there */
    {"trailing comma",
        {"PADDLE_PSERVERS_IP_PORT_LIST=a:1,b:1,", "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=1",
            "PADDLE_TRAINER_ID=0"},
        NULL, PS, WORKER, 0, 1, 2, NULL},
    {"blanks around elements and numbers",
        {"PADDLE_PSERVERS_IP_PORT_LIST= a:1 , b:1 ", "TRAINING_ROLE=PSERVER",
            "PADDLE_TRAINERS_NUM= 1 ", "POD_IP=b", "PADDLE_PORT=1 "},
        NULL, PS, SERVER, 1, 1, 2, "b:1"},
    {"a port of some Service named paddle, which a trainer does not need",
        {HAND_TRAINER, "PADDLE_TRAINER_ID=0", "PADDLE_PORT=tcp://10.96.0.7:80"}, NULL, PS, WORKER,
        0, 2, 2, NULL},
    {"empty trainer endpoints", {HAND_TRAINER, "PADDLE_TRAINER_ID=0", "PADDLE_TRAINER_ENDPOINTS="},
        NULL, PS, WORKER, 0, 2, 2, NULL},
    {"trainer endpoints twice, without ports or more than trainers",
        {HAND_TRAINER, "PADDLE_TRAINER_ID=0", "PADDLE_TRAINER_ENDPOINTS=a,a,b"}, NULL, PS, WORKER,
        0, 2, 2, NULL},
    {"bad gloo values",
        {HAND_TRAINER, "PADDLE_TRAINER_ID=0", "PADDLE_WITH_GLOO=x", "PADDLE_GLOO_RENDEZVOUS=9",
            "PADDLE_GLOO_HTTP_ENDPOINT=y"},
        NULL, PS, WORKER, 0, 2, 2, NULL},
    {"number of trainers from their endpoints",
        {HAND_LIST, "TRAINING_ROLE=TRAINER", "PADDLE_TRAINER_ID=2",
            "PADDLE_TRAINER_ENDPOINTS=a:1,b:1,c:1"},
        NULL, PS, WORKER, 2, 3, 2, "c:1"},
    {"no server list: alone", {"TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=2"}, NULL, ALONE,
        WORKER, 0, 1, 0, NULL},
    {"ps with replicas 0: an empty list is none",
        {"PADDLE_PSERVERS_IP_PORT_LIST=", "TRAINING_ROLE=TRAINER", "PADDLE_TRAINER_ID=0"}, NULL,
        ALONE, WORKER, 0, 1, 0, NULL},

    /* 0.8 to 0.12 */
    {"v2 trainer",
        {"PADDLE_INIT_PSERVERS=10.0.0.1,10.0.0.2", "PADDLE_INIT_PORT=8000",
            "PADDLE_INIT_PORTS_NUM=2", "PADDLE_INIT_PORTS_NUM_FOR_SPARSE=1",
            "PADDLE_INIT_NUM_GRADIENT_SERVERS=3", "PADDLE_INIT_TRAINER_ID=2"},
        NULL, PS, WORKER, 2, 3, 6, NULL},
    {"v2 trainer with defaults", {"PADDLE_INIT_PSERVERS=127.0.0.1"}, NULL, PS, WORKER, 0, 1, 1,
        NULL},
    {"v2 without servers", {"PADDLE_INIT_TRAINER_ID=1", "PADDLE_INIT_PSERVERS="}, NULL, ALONE,
        WORKER, 0, 1, 0, NULL},
    {"v2 trainer beyond their number", {"PADDLE_INIT_PSERVERS=a", "PADDLE_INIT_TRAINER_ID=1"},
        "PADDLE_INIT_TRAINER_ID is \"1\", expected less than PADDLE_INIT_NUM_GRADIENT_SERVERS 1",
        .training = 0},
    {"v2 ports beyond the last",
        {"PADDLE_INIT_PSERVERS=a", "PADDLE_INIT_PORT=65535", "PADDLE_INIT_PORTS_NUM=2"},
        "PADDLE_INIT_PORT is \"65535\", expected room for 2 ports above it", .training = 0},
    {"v2 host that is none", {"PADDLE_INIT_PSERVERS=a,,b"}, "PADDLE_INIT_PSERVERS", .training = 0},

    /* collective */
    {"collective",
        {"PADDLE_TRAINER_ENDPOINTS=10.0.0.3:36020,10.0.0.4:36020", "PADDLE_TRAINER_ID=1",
            "TRAINING_ROLE=TRAINER", "PADDLE_TRAINING_ROLE=TRAINER", "POD_IP=10.0.0.4"},
        NULL, COLL, WORKER, 1, 2, 0, "10.0.0.4:36020"},
    {"collective without id, other number of trainers, role in lower case",
        {"PADDLE_TRAINER_ENDPOINTS=a:1,b:1", "PADDLE_TRAINERS_NUM=7", "TRAINING_ROLE=trainer"},
        NULL, COLL, WORKER, 0, 2, 0, "a:1"},
    {"current endpoint", {"PADDLE_TRAINER_ENDPOINTS=a:1,b:1", "PADDLE_CURRENT_ENDPOINT=c:2"}, NULL,
        COLL, WORKER, 0, 2, 0, "c:2"},
    {"id without endpoints: alone", {"PADDLE_TRAINER_ID=1"}, NULL, ALONE, WORKER, 0, 1, 0, NULL},
    {"elastic pod",
        {"PADDLE_TRAINER_ID=1", "TRAINING_ROLE=TRAINER", "PADDLE_ELASTIC_JOB_ID=default-j",
            "PADDLE_ELASTIC_NP=3", "PADDLE_ELASTIC_TIMEOUT=60"},
        NULL, ALONE, WORKER, 0, 1, 0, NULL},
    {"kubeflow's variables alone",
        {"PADDLE_JOB_ID=j", "PADDLE_NNODES=2", "PADDLE_MASTER=j-worker-0:36543"}, NULL, ALONE,
        WORKER, 0, 1, 0, NULL},

    /* rejected by Paddle, or never worked */
    {"no number of trainers", {HAND_LIST, "TRAINING_ROLE=TRAINER", "PADDLE_TRAINER_ID=0"},
        "PADDLE_TRAINERS_NUM is not set"},
    {"a number of trainers in words, alone", {"PADDLE_TRAINERS_NUM=two"},
        "PADDLE_TRAINERS_NUM: \"two\""},
    {"no role", {HAND_LIST, "PADDLE_TRAINERS_NUM=2"}, "TRAINING_ROLE is not set"},
    {"role in lower case", {HAND_LIST, "PADDLE_TRAINERS_NUM=2", "TRAINING_ROLE=trainer"},
        "TRAINING_ROLE is \"trainer\", expected one of PSERVER, TRAINER"},
    {"trainer without id", {HAND_TRAINER}, "PADDLE_TRAINER_ID is not set"},
    {"id in words", {HAND_TRAINER, "PADDLE_TRAINER_ID=one"}, "PADDLE_TRAINER_ID: \"one\""},
    {"id empty", {HAND_TRAINER, "PADDLE_TRAINER_ID="}, "PADDLE_TRAINER_ID is not set"},
    {"id below 0", {HAND_TRAINER, "PADDLE_TRAINER_ID=-1"}, "PADDLE_TRAINER_ID: \"-1\""},
    {"id too large", {HAND_TRAINER, "PADDLE_TRAINER_ID=2"},
        "PADDLE_TRAINER_ID is \"2\", expected less than PADDLE_TRAINERS_NUM 2"},
    {"no trainers",
        {HAND_LIST, "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=0", "PADDLE_TRAINER_ID=0"},
        "expected less than PADDLE_TRAINERS_NUM 0"},
    {"server without port", {HAND_SERVER, "POD_IP=10.89.176.11"}, "PADDLE_PORT is not set"},
    {"server without address", {HAND_SERVER, "PADDLE_PORT=36000"}, "POD_IP is not set"},
    {"server with another port", {HAND_SERVER, "POD_IP=10.89.176.11", "PADDLE_PORT=36001"},
        "POD_IP:PADDLE_PORT is \"10.89.176.11:36001\", expected one of "
        "PADDLE_PSERVERS_IP_PORT_LIST"},
    {"server with another address",
        {HAND_SERVER, "POD_IP=10.89.176.13", "PADDLE_PORT=36000", "PADDLE_TRAINER_ID=0"},
        "POD_IP:PADDLE_PORT is \"10.89.176.13:36000\""},
    {"server with a port in words", {HAND_SERVER, "POD_IP=10.89.176.11", "PADDLE_PORT=x"},
        "PADDLE_PORT: \"x\""},
    {"list without ports",
        {"PADDLE_PSERVERS_IP_PORT_LIST=a,b", "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=1",
            "PADDLE_TRAINER_ID=0"},
        "PADDLE_PSERVERS_IP_PORT_LIST"},
    {"hole in the list",
        {"PADDLE_PSERVERS_IP_PORT_LIST=a:1,,b:1", "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=1",
            "PADDLE_TRAINER_ID=0"},
        "element 1 is empty"},
    {"server twice",
        {"PADDLE_PSERVERS_IP_PORT_LIST=a:1,a:1", "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=1",
            "PADDLE_TRAINER_ID=0"},
        "has \"a:1\" twice"},
    {"server with an empty list",
        {"PADDLE_PSERVERS_IP_PORT_LIST=", "TRAINING_ROLE=PSERVER", "PADDLE_TRAINERS_NUM=1"},
        "PADDLE_PSERVERS_IP_PORT_LIST"},
    {"server without a list", {"TRAINING_ROLE=PSERVER"},
        "PADDLE_PSERVERS_IP_PORT_LIST is not set, but TRAINING_ROLE is \"PSERVER\""},
    {"collective id too large", {"PADDLE_TRAINER_ENDPOINTS=a:1,b:1", "PADDLE_TRAINER_ID=2"},
        "expected less than the number of trainer endpoints, 2"},
    {"collective role", {"PADDLE_TRAINER_ENDPOINTS=a:1,b:1", "PADDLE_TRAINING_ROLE=WORKER"},
        "PADDLE_TRAINING_ROLE is \"WORKER\", expected \"TRAINER\""},
    {"collective without ports", {"PADDLE_TRAINER_ENDPOINTS=a,b"}, "PADDLE_TRAINER_ENDPOINTS"},
};

static void check(const struct row *row) {
    struct role_topology *t = NULL;
    struct co_err err = {0};
    int r = role_topology_load(get, (void *)row->env, &t, &err);
    if (row->error) {
        if (r != CO_INVALID || !strstr(err.msg, row->error) || strchr(err.msg, '\n')) {
            fail_msg("%s: %d \"%s\"", row->what, r, err.msg);
        }
        assert_null(t);
        return;
    }
    if (r) {
        fail_msg("%s: %s", row->what, err.msg);
    }
    if (t->training != row->training || t->role != row->role || t->index != row->index ||
        t->n_workers != row->n_workers || t->servers.n != row->n_servers ||
        !co_streq(t->endpoint, row->endpoint)) {
        fail_msg("%s: %s, %s %u, of %u workers, %u servers, at %s", row->what,
            role_training_name(t->training), role_name(t->role), t->index, t->n_workers,
            t->servers.n, t->endpoint);
    }
    role_topology_free(t);
}

static void rows_are_accepted_or_refused_as_paddle_does(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        check(&rows[i]);
    }
}

static struct role_topology *load(const char *const *env) {
    const char *vars[VARS_MAX] = {NULL};
    for (size_t i = 0; env[i]; i++) {
        vars[i] = env[i];
    }
    struct role_topology *t = NULL;
    assert_int_equal(role_topology_load(get, vars, &t, NULL), 0);
    return t;
}

static void gloo_and_the_jobs_name_are_kept(void **state) {
    (void)state;
    struct role_topology *t = load((const char *[]){
        PODIP, "PADDLE_TRAINER_ID=0", "TRAINING_ROLE=TRAINER", "PADDLE_JOB_ID=ctr", NULL});
    assert_true(t->gloo.workers);
    assert_false(t->gloo.servers);
    assert_int_equal(t->gloo.rendezvous, 3);
    assert_string_equal(t->gloo.http_endpoint, "10.0.0.1:54081");
    assert_string_equal(t->job, "ctr");
    assert_int_equal(role_topology_count(t, ROLE_SERVER), 2);
    role_topology_free(t);
}

/* Of a job as Paddle takes it, but not as its author thought: once in a process. */
static void another_number_of_trainers_is_named(void **state) {
    (void)state;
    const char *const pairs[] = {"PADDLE_TRAINER_ENDPOINTS=a:1,b:1", "PADDLE_TRAINERS_NUM=2", NULL};
    role_topology_free(load(pairs));
    role_topology_free(load((const char *[]){pairs[0], NULL}));
    assert_string_equal(logged(), "");
    role_topology_free(load((const char *[]){HAND_LIST, "TRAINING_ROLE=TRAINER",
        "PADDLE_TRAINER_ID=0", "PADDLE_TRAINERS_NUM=3", pairs[0], NULL}));
    assert_non_null(strstr(logged(),
        "level=warn msg=\"PADDLE_TRAINERS_NUM is not the number of PADDLE_TRAINER_ENDPOINTS, "
        "expected both to be that of the job's trainers\" trainers_num=3 trainer_endpoints=2 "
        "trainers=3\n"));
    role_topology_free(load((const char *[]){pairs[0], "PADDLE_TRAINERS_NUM=3", NULL}));
    assert_string_equal(logged(), "");
}

static void every_role_has_a_name(void **state) {
    (void)state;
    for (enum role r = 0; r < ROLE_COUNT; r++) {
        assert_non_null(role_name(r));
    }
    for (enum role_training r = 0; r < ROLE_TRAINING_COUNT; r++) {
        assert_non_null(role_training_name(r));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_number_of_trainers_is_named, log_begin, log_end),
        cmocka_unit_test(rows_are_accepted_or_refused_as_paddle_does),
        cmocka_unit_test(gloo_and_the_jobs_name_are_kept),
        cmocka_unit_test(every_role_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
