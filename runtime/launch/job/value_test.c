#include "runtime/launch/job/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct options plain = {.number = {[OPTIONS_OPT_HTTP_PORT] = -1}};
static const struct options with_port = {.number = {[OPTIONS_OPT_HTTP_PORT] = 80}};
static const struct job_node cpu = {.pod = (char *)"abcdef", .device = JOB_DEVICE_CPU};
static const struct job_node gpu = {.pod = (char *)"abcdef", .device = JOB_DEVICE_GPU};

/* What a node of a job reports, and what of it the others receive. */
static const struct {
    struct job job;
    uint16_t ports[8];
    const char *value;
} rows[] = {
    {{.options = &plain,
         .node = &cpu,
         .mode = JOB_MODE_COLLECTIVE,
         .rank = -1,
         .ip = "10.0.0.1",
         .n = {0, 2, 0}},
        {1, 2, 3},
        "{\"name\":\"abcdef\",\"rank\":-1,\"replicas\":2,\"dtype\":\"cpu\",\"candidate\":"
        "\"10.0.0.1:1\",\"endpoints\":\"10.0.0.1:2,10.0.0.1:3\"}"},
    {{.options = &plain,
         .node = &gpu,
         .mode = JOB_MODE_RPC,
         .rank = 0,
         .ip = "fd00::1",
         .n = {0, 1, 0}},
        {65535, 2},
        "{\"name\":\"abcdef\",\"rank\":0,\"replicas\":1,\"dtype\":\"gpu\",\"candidate\":"
        "\"[fd00::1]:65535\",\"endpoints\":\"[fd00::1]:2\"}"},
    {{.options = &plain,
         .node = &cpu,
         .mode = JOB_MODE_PS,
         .rank = 3,
         .ip = "10.0.0.1",
         .n = {1, 2, 0}},
        {1, 2, 3, 4},
        "{\"name\":\"abcdef\",\"rank\":3,\"servers\":[\"10.0.0.1:1\"],\"trainers\":"
        "[\"10.0.0.1:2\",\"10.0.0.1:3\"],\"dtype\":\"cpu\",\"gloo_port\":4}"},
    {{.options = &plain,
         .node = &cpu,
         .mode = JOB_MODE_PS,
         .rank = 1,
         .ip = "h",
         .n = {1, 0, 3},
         .stages = {3, {2, 0, 1}}},
        {1, 2, 3, 4, 5},
        "{\"name\":\"abcdef\",\"rank\":1,\"servers\":[\"h:1\"],\"trainers\":[],\"heters\":"
        "[[\"h:2\",\"h:3\"],[],[\"h:4\"]],\"dtype\":\"cpu\",\"gloo_port\":5}"},
    /* stages without workers are not reported */
    {{.options = &plain,
         .node = &cpu,
         .mode = JOB_MODE_PS,
         .ip = "h",
         .n = {1, 1, 0},
         .stages = {1, {0}}},
        {1, 2, 3},
        "{\"name\":\"abcdef\",\"rank\":0,\"servers\":[\"h:1\"],\"trainers\":[\"h:2\"],"
        "\"dtype\":\"cpu\",\"gloo_port\":3}"},
};

static void assert_same(const struct job_offer *a, const struct job_offer *b) {
    for (int s = 0; s < JOB_ROLE_COUNT; s++) {
        CO_AUTOFREE char *one = options_list_join(&a->endpoints[s], ",");
        CO_AUTOFREE char *other = options_list_join(&b->endpoints[s], ",");
        assert_string_equal(one, other);
    }
    assert_true(job_stages_equal(&a->stages, &b->stages));
    assert_true(co_streq(a->candidate, b->candidate));
    assert_int_equal(a->gloo_port, b->gloo_port);
}

static void a_node_reports_what_paddles_nodes_report(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct job_offer offer;
        job_offer_make(&rows[i].job, rows[i].ports, &offer);
        CO_AUTOFREE char *value = job_value_encode(&rows[i].job, &offer);
        assert_string_equal(value, rows[i].value);
        job_offer_done(&offer);
    }
}

static void node_values_decode_to_what_was_encoded(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct job_offer offer, decoded;
        job_offer_make(&rows[i].job, rows[i].ports, &offer);
        assert_int_equal(job_value_decode(&rows[i].job, 0, rows[i].value, &decoded, NULL), 0);
        assert_same(&offer, &decoded);
        job_offer_done(&offer);
        job_offer_done(&decoded);
    }
}

static void a_bad_value_names_its_node(void **state) {
    (void)state;
#define SERVERS "{\"servers\":[\"a:1\"],\"trainers\":[\"a:2\"]"
    static const struct {
        enum job_mode mode;
        const char *value, *text;
    } bad[] = {
        {JOB_MODE_COLLECTIVE, "", "node 1 sent \"\", expected what a launcher in mode collective"},
        {JOB_MODE_COLLECTIVE, "[]", "collective sends: candidate is missing"},
        {JOB_MODE_COLLECTIVE, "{}", "candidate is missing, expected"},
        {JOB_MODE_COLLECTIVE, "{\"candidate\":1}", "candidate is an integer, expected"},
        {JOB_MODE_COLLECTIVE, "{\"candidate\":\"a:1\"}", "endpoints is missing"},
        {JOB_MODE_COLLECTIVE, "{\"candidate\":\"a:1\",\"endpoints\":\"a:2,b\"}",
            "collective sends: endpoints: \"b\""},
        {JOB_MODE_COLLECTIVE, SERVERS ",\"gloo_port\":3}", "candidate is missing"},
        {JOB_MODE_RPC, "{}", "in mode rpc sends: candidate"},
        {JOB_MODE_PS, "{}", "in mode ps sends: servers is missing"},
        {JOB_MODE_PS, "{\"servers\":[1]}", "servers: \"\""},
        {JOB_MODE_PS, "{\"servers\":[]}", "trainers is missing"},
        {JOB_MODE_PS, "{\"servers\":[],\"trainers\":[\"a\"]}", "trainers: \"a\""},
        {JOB_MODE_PS, SERVERS "}", "gloo_port is missing"},
        {JOB_MODE_PS, SERVERS ",\"gloo_port\":65536}", "gloo_port is 65536"},
        {JOB_MODE_PS, SERVERS ",\"gloo_port\":3,\"heters\":\"a:4\"}", "heters is a string"},
        {JOB_MODE_PS, SERVERS ",\"gloo_port\":3,\"heters\":[[\"a:4\"],[\"a\"]]}", "heters: \"a\""},
        {JOB_MODE_PS,
            SERVERS ",\"gloo_port\":3,\"heters\":[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
                    "[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
                    "[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]}",
            "65 stages, expected at most 64"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        const struct job job = {.options = &plain, .node = &cpu, .mode = bad[i].mode};
        struct job_offer offer;
        struct co_err err = {0};
        int r = job_value_decode(&job, 1, bad[i].value, &offer, &err);
        if (r != CO_INVALID || strncmp(err.msg, "node 1 sent \"", 13) != 0 ||
            !strstr(err.msg, bad[i].text)) {
            fail_msg("row %zu: %d \"%s\"", i, r, err.msg);
        }
    }
}

/* Of a node without servers, or where it was asked for, nobody needs a port for gloo. */
static void a_port_for_gloo_is_reported_where_it_counts(void **state) {
    (void)state;
    static const struct {
        const struct options *options;
        const char *value;
    } good[] = {
        {&plain, "{\"servers\":[],\"trainers\":[\"a:1\"]}"},
        {&plain, "{\"servers\":[],\"trainers\":[\"a:1\"],\"heters\":null,\"gloo_port\":\"x\"}"},
        {&with_port, SERVERS "}"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(good); i++) {
        const struct job job = {.options = good[i].options, .node = &cpu, .mode = JOB_MODE_PS};
        struct job_offer offer;
        assert_int_equal(job_value_decode(&job, 0, good[i].value, &offer, NULL), 0);
        assert_int_equal(offer.gloo_port, 0);
        job_offer_done(&offer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_reports_what_paddles_nodes_report),
        cmocka_unit_test(node_values_decode_to_what_was_encoded),
        cmocka_unit_test(a_bad_value_names_its_node),
        cmocka_unit_test(a_port_for_gloo_is_reported_where_it_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
