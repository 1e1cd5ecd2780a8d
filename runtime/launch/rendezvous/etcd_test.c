#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base64.h"
#include "runtime/launch/rendezvous/etcd_view.h"

/* One key of an etcd; revisions count from 1 in the order of the rows. */
struct key {
    enum { BEAT, INFO, OURS, STATUS } range;
    const char *key, *value;
};

#define NODE(name, id, ready)                                                                      \
    {BEAT, "/paddle/j/heartbeat/" name, name}, {INFO, "/j/info/" name "/-1", "{\"" name "\": 1}"}, \
    {                                                                                              \
        OURS, "/paddlerun/j/node/" name,                                                           \
            "{\"id\": \"" id "\", \"host\": \"h\", \"ready\": " #ready "}"                         \
    }
#define ROUND(n, restarts, nodes)                                                                  \
    {                                                                                              \
        OURS, "/paddlerun/j/round",                                                                \
            "{\"round\": " #n ", \"restarts\": " #restarts ", \"nodes\": [" nodes "]}"             \
    }
#define PADDLES(name)                                                                              \
    {BEAT, "/paddle/j/heartbeat/" name, name}, {                                                   \
        INFO, "/j/info/" name "/-1", "{\"" name "\": 1}"                                           \
    }

enum { KEYS = 16 };

struct row {
    const char *what;
    struct key keys[KEYS];
    int min, max, level, max_restart;
    enum rdzv_state state;
    int round;      /* met last */
    int64_t quiet;  /* ms since anything changed */
    int64_t waited; /* ms in this state */
    bool done;
    enum rdzv_etcd_next next;
    const char *text; /* the reason, or names by rank */
};

/* This node is "b", its id "1". */
static const struct row rows[] = {
    {"nothing there yet", {{0}}, 2, 2, -1, 3, RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_REGISTER, ""},
    {"alone", {NODE("b", "1", 1)}, 2, 2, -1, 3, RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_WAIT,
        "1 of 2 nodes are here: b"},
    {"all here, another one writes", {NODE("a", "2", 1), NODE("b", "1", 1)}, 2, 2, -1, 3,
        RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_WAIT, "2 of 2 nodes are here: a b"},
    {"all here, this one writes", {NODE("c", "2", 1), NODE("b", "1", 1)}, 2, 2, -1, 3, RDZV_MEETING,
        0, 0, 0, false, RDZV_ETCD_PROPOSE, "b c"},
    {"Paddle's node cannot write", {PADDLES("a"), NODE("b", "1", 1)}, 2, 2, -1, 3, RDZV_MEETING, 0,
        0, 0, false, RDZV_ETCD_PROPOSE, "a b"},
    {"values of the dead do not count",
        {{INFO, "/j/info/x/-1", "{}"}, {INFO, "/j/info/y/-1", "{}"}, NODE("b", "1", 1)}, 2, 2, -1,
        3, RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_WAIT, "1 of 2 nodes are here: b"},
    {"met", {NODE("a", "2", 1), NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\"")}, 2, 2, -1, 3,
        RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_MET, "b a"},
    {"another of the name", {NODE("b", "2", 1)}, 2, 2, -1, 3, RDZV_MEETING, 0, 0, 1000, false,
        RDZV_ETCD_WAIT, "the name b is taken, by a former life of this node or another"},
    {"another of the name, still", {NODE("b", "2", 1)}, 2, 2, -1, 3, RDZV_MEETING, 0, 0, 20000,
        false, RDZV_ETCD_END, "the name b is taken by the node at h"},
    {"one too many", {NODE("x", "2", 1), NODE("y", "3", 1), NODE("b", "1", 1)}, 2, 2, -1, 3,
        RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_END,
        "node b is one too many: the job has its 2 nodes (x, y)"},
    {"the first of too many wait until the last has gone",
        {NODE("b", "1", 1), NODE("y", "3", 1), NODE("z", "1", 1)}, 2, 2, -1, 3, RDZV_MEETING, 0, 0,
        0, false, RDZV_ETCD_WAIT, "3 of 2 nodes are here: b y z"},
    {"does not fit beside who came before",
        {{BEAT, "/paddle/j/heartbeat/x", "x"}, {INFO, "/j/info/x/0", "{}"}, NODE("b", "1", 1)}, 2,
        2, -1, 3, RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_END,
        "node x asks for rank 0 and node b for none: give every node a rank, or none"},
    {"who comes later does not fit: wait",
        {NODE("b", "1", 1), {BEAT, "/paddle/j/heartbeat/x", "x"}, {INFO, "/j/info/x/0", "{}"}}, 2,
        2, -1, 3, RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_WAIT,
        "node x asks for rank 0 and node b for none: give every node a rank, or none"},
    {"late", {NODE("x", "2", 1), ROUND(1, 0, "\"x\"")}, 1, 3, -1, 3, RDZV_MEETING, 0, 0, 0, false,
        RDZV_ETCD_END, "node b is late: the job runs with 1 nodes and --elastic_level -1"},
    {"an earlier job of that name", {ROUND(7, 3, "\"p\", \"q\""), NODE("b", "1", 8)}, 1, 1, -1, 3,
        RDZV_MEETING, 0, 0, 0, false, RDZV_ETCD_PROPOSE, "b"},
    {"fewer are enough after a while", {NODE("b", "1", 1)}, 1, 3, 1, 3, RDZV_MEETING, 0, 31000, 0,
        false, RDZV_ETCD_PROPOSE, "b"},
    {"running", {NODE("a", "2", 1), NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\"")}, 2, 2, -1, 3,
        RDZV_MET, 1, 0, 0, false, RDZV_ETCD_WAIT, ""},
    {"lost", {NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\"")}, 2, 2, -1, 3, RDZV_MET, 1, 0, 0,
        false, RDZV_ETCD_END, "node a (rank 1) is gone: its lease in etcd ended"},
    {"lost, held", {NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\"")}, 2, 2, 0, 3, RDZV_MET, 1, 0, 0,
        false, RDZV_ETCD_CHANGED, "node a (rank 1) is gone: its lease in etcd ended"},
    {"no restart left", {NODE("b", "1", 1), ROUND(4, 3, "\"b\", \"a\"")}, 2, 2, 0, 3, RDZV_MET, 4,
        0, 0, false, RDZV_ETCD_END,
        "node a (rank 1) is gone: its lease in etcd ended, and no restart is left"},
    {"failed, with its words",
        {NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\""),
            {OURS, "/paddlerun/j/why/a", "{\"round\": 1, \"code\": 3, \"why\": \"oom\"}"}},
        2, 2, -1, 3, RDZV_MET, 1, 0, 0, false, RDZV_ETCD_END, "node a (rank 1) failed: oom"},
    {"found dead by another",
        {NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\""),
            {OURS, "/paddlerun/j/why/a",
                "{\"round\": 1, \"code\": 1, \"why\": \"no word\", \"gone\": true}"}},
        2, 2, -1, 3, RDZV_MET, 1, 0, 0, false, RDZV_ETCD_END, "node a (rank 1) is gone: no word"},
    {"the cause, not who ended for it",
        {NODE("b", "1", 1), ROUND(1, 0, "\"c\", \"b\", \"a\""),
            {OURS, "/paddlerun/j/why/c", "{\"round\": 1, \"code\": 0, \"why\": \"a is gone\"}"}},
        3, 3, -1, 3, RDZV_MET, 1, 0, 0, false, RDZV_ETCD_END,
        "node a (rank 2) is gone: its lease in etcd ended"},
    {"words of another round",
        {NODE("b", "1", 1), ROUND(2, 0, "\"b\", \"a\""),
            {OURS, "/paddlerun/j/why/a", "{\"round\": 1, \"code\": 3, \"why\": \"oom\"}"}},
        2, 2, -1, 3, RDZV_MET, 2, 0, 0, false, RDZV_ETCD_END,
        "node a (rank 1) is gone: its lease in etcd ended"},
    {"asked to stop: no restart is needed",
        {NODE("b", "1", 1), ROUND(4, 3, "\"b\", \"a\""),
            {OURS, "/paddlerun/j/why/a", "{\"round\": 4, \"code\": -1, \"why\": \"SIGTERM\"}"}},
        1, 2, 1, 3, RDZV_MET, 4, 0, 0, false, RDZV_ETCD_CHANGED, "node a (rank 1) left: SIGTERM"},
    {"done and gone",
        {NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\""),
            {OURS, "/paddlerun/j/done/a", "{\"round\": 1}"}},
        2, 2, -1, 3, RDZV_MET, 1, 0, 0, false, RDZV_ETCD_WAIT, ""},
    {"all done",
        {NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\""),
            {OURS, "/paddlerun/j/done/a", "{\"round\": 1}"},
            {OURS, "/paddlerun/j/done/b", "{\"round\": 1}"}},
        2, 2, -1, 3, RDZV_MET, 1, 0, 0, true, RDZV_ETCD_ALL_DONE, ""},
    {"Paddle's node is done and gone",
        {NODE("b", "1", 1),
            {OURS, "/paddlerun/j/round",
                "{\"round\": 1, \"restarts\": 0, \"nodes\": [\"a\", \"b\"], \"paddles\": [\"a\"]}"},
            {STATUS, "/paddle/j", "completed"}},
        2, 2, -1, 3, RDZV_MET, 1, 0, 0, false, RDZV_ETCD_WAIT, ""},
    {"a node of ours is not done by Paddle's word",
        {NODE("b", "1", 1), ROUND(1, 0, "\"a\", \"b\""), {STATUS, "/paddle/j", "completed"}}, 2, 2,
        -1, 3, RDZV_MET, 1, 0, 0, false, RDZV_ETCD_END,
        "node a (rank 0) is gone: its lease in etcd ended"},
    {"a newcomer", {NODE("b", "1", 1), ROUND(1, 0, "\"b\""), NODE("c", "3", 2)}, 1, 3, 1, 3,
        RDZV_MET, 1, 0, 0, false, RDZV_ETCD_CHANGED, "node c at h came"},
    {"a newcomer to a job that is not elastic",
        {NODE("b", "1", 1), ROUND(1, 0, "\"b\""), NODE("c", "3", 2)}, 1, 3, -1, 3, RDZV_MET, 1, 0,
        0, false, RDZV_ETCD_WAIT, ""},
    {"one asks for a new start",
        {NODE("a", "2", 1), NODE("b", "1", 1), ROUND(1, 0, "\"b\", \"a\""),
            {OURS, "/paddlerun/j/again", "{\"round\": 1, \"why\": \"node a starts again: x\"}"}},
        2, 2, 1, 3, RDZV_MET, 1, 0, 0, false, RDZV_ETCD_CHANGED, "node a starts again: x"},
    {"own lease over", {NODE("a", "2", 1), ROUND(1, 0, "\"b\", \"a\"")}, 2, 2, 0, 3, RDZV_MET, 1, 0,
        0, false, RDZV_ETCD_CHANGED, "the lease of this node in etcd ended"},
};

static void set_base64(json_t *obj, const char *key, const char *text) {
    CO_AUTOFREE char *b = co_base64(text, strlen(text));
    co_json_set(obj, key, json_string(b));
}

static json_t *answer_of(const struct key *keys) {
    json_t *answer = json_object(), *header = json_object(), *responses = json_array();
    co_json_set(header, "revision", json_string("99"));
    co_json_set(answer, "header", header);
    for (int range = BEAT; range <= STATUS; range++) {
        json_t *response = json_object(), *r = json_object(), *kvs = json_array();
        for (int i = 0; i < KEYS && keys[i].key; i++) {
            char revision[12];
            json_t *kv = json_object();
            if ((int)keys[i].range == range) {
                (void)snprintf(revision, sizeof(revision), "%d", i + 1);
                set_base64(kv, "key", keys[i].key);
                set_base64(kv, "value", keys[i].value);
                co_json_set(kv, "create_revision", json_string(revision));
                co_json_set(kv, "mod_revision", json_string(revision));
                co_json_append(kvs, json_incref(kv));
            }
            json_decref(kv);
        }
        co_json_set(r, "kvs", kvs);
        co_json_set(response, "response_range", r);
        co_json_append(responses, response);
    }
    co_json_set(answer, "responses", responses);
    return answer;
}

static void check(const struct row *row) {
    struct rdzv_etcd_view v;
    struct rdzv_etcd_decision d;
    struct co_err err = {0};
    const struct rdzv_options o = {.name = "b",
        .rank = -1,
        .min_nodes = row->min,
        .max_nodes = row->max,
        .level = row->level,
        .max_restart = row->max_restart,
        .elastic_ms = 30000,
        .silent_ms = 10000};
    const struct rdzv_etcd_self self = {.o = &o,
        .id = "1",
        .state = row->state,
        .round = row->round,
        .now = 100000,
        .quiet_since = 100000 - row->quiet,
        .since = 100000 - row->waited,
        .done = row->done};
    CO_AUTOJSON json_t *answer = answer_of(row->keys);
    rdzv_etcd_view_init(&v, "j");
    assert_int_equal(rdzv_etcd_view_read(&v, answer, &err), 0);
    rdzv_etcd_decide(&v, &self, &d);
    char text[CO_ERR_MAX] = "";
    (void)snprintf(text, sizeof(text), "%s", d.order ? "" : d.why);
    for (size_t i = 0; i < d.n; i++) {
        size_t len = strlen(text);
        (void)snprintf(
            text + len, sizeof(text) - len, "%s%s", i ? " " : "", v.nodes[d.order[i]].name);
    }
    if (d.next != row->next || strcmp(text, row->text) != 0) {
        fail_msg("%s: %d \"%s\"", row->what, (int)d.next, text);
    }
    free(d.order);
    rdzv_etcd_view_done(&v);
}

static void each_state_in_etcd_gives_its_decision(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        check(&rows[i]);
    }
}

#define AT(name, port)                                                                             \
    {                                                                                              \
        OURS, "/paddlerun/j/node/" name,                                                           \
            "{\"id\": \"" name "\", \"host\": \"h" name "\", \"ready\": 1, \"port\": " #port "}"   \
    }
#define MUTE(name, round)                                                                          \
    { OURS, "/paddlerun/j/mute/" name, "{\"round\": " #round "}" }

/* This node is "b", always; the roster is a b c d. */
static void neighbours(void **state) {
    (void)state;
    static const struct {
        const char *what;
        struct key keys[KEYS];
        const char *neighbour, *late;
        size_t n_late;
    } cases[] = {
        {"the next one", {AT("a", 1), AT("b", 2), AT("c", 3), AT("d", 4)}, "c",
            "all nodes answer again", 0},
        {"who is gone, done or has no port is passed over",
            {AT("a", 1), AT("b", 2), AT("c", 0), AT("d", 4),
                {OURS, "/paddlerun/j/done/d", "{\"round\": 1}"}},
            "a", "all nodes answer again", 0},
        {"nobody but Paddle's", {PADDLES("a"), AT("b", 2), PADDLES("c")}, NULL,
            "all nodes answer again", 0},
        {"mute: of this round, here, and not this node",
            {AT("a", 1), AT("b", 2), AT("d", 4), MUTE("a", 1), MUTE("b", 1), MUTE("c", 1),
                MUTE("d", 0)},
            "d", "silent for a second: node a (rank 0, ha); lost after 10 s", 1},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(cases); i++) {
        struct key keys[KEYS] = {ROUND(1, 0, "\"a\", \"b\", \"c\", \"d\"")};
        memcpy(keys + 1, cases[i].keys, sizeof(keys) - sizeof(keys[0]));
        CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v;
        CO_AUTOJSON json_t *answer = answer_of(keys);
        CO_AUTOBUF struct co_buf line = CO_BUF(1000);
        rdzv_etcd_view_init(&v, "j");
        assert_int_equal(rdzv_etcd_view_read(&v, answer, NULL), 0);
        const struct rdzv_etcd_node *n = rdzv_etcd_view_neighbour(&v, "b");
        size_t n_late = rdzv_etcd_view_describe_late(&v, "b", 10000, &line);
        if (!co_streq(n ? n->name : NULL, cases[i].neighbour) || n_late != cases[i].n_late ||
            strcmp(line.data, cases[i].late) != 0) {
            fail_msg(
                "%s: %s, %zu \"%s\"", cases[i].what, n ? n->name : "nobody", n_late, line.data);
        }
    }
}

/* A key's lease ends, or etcd was away: what a node has read or learned once stays true. */
static void who_ended_well_is_remembered(void **state) {
    (void)state;
    static const struct {
        struct key keys[KEYS];
        const char *known; /* after it */
    } reads[] = {
        {{ROUND(1, 0, "\"a\", \"b\"")}, ""},
        {{ROUND(1, 0, "\"a\", \"b\""), {OURS, "/paddlerun/j/done/a", "{\"round\": 1}"},
             {OURS, "/paddlerun/j/done/x", "{\"round\": 1}"}},
            "a"},
        {{ROUND(1, 0, "\"a\", \"b\"")}, "a"},
        {{ROUND(1, 0, "\"a\", \"b\""), {OURS, "/paddlerun/j/done/b", "{\"round\": 1}"}}, "ab"},
    };
    CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v;
    CO_AUTOJSON json_t *ended = json_object();
    rdzv_etcd_view_init(&v, "j");
    for (size_t i = 0; i < CO_ARRAY_LEN(reads); i++) {
        CO_AUTOJSON json_t *answer = answer_of(reads[i].keys);
        assert_int_equal(rdzv_etcd_view_read(&v, answer, NULL), 0);
        rdzv_etcd_view_remember_done(&v, ended);
        assert_int_equal(json_object_size(ended), strlen(reads[i].known));
        for (const char *name = reads[i].known; *name; name++) {
            const char one[] = {*name, '\0'};
            assert_non_null(json_object_get(ended, one));
            assert_non_null(json_object_get(v.done, one));
        }
    }
}

static void malformed_answers_are_refused(void **state) {
    (void)state;
    static const char *const rows_of_text[] = {"{}", "{\"header\": {\"revision\": \"1\"}}",
        "{\"header\": {\"revision\": \"1\"}, \"responses\": [{}, {}]}",
        "{\"header\": {\"revision\": \"1\"}, \"responses\": [{\"response_range\": {\"kvs\": "
        "[{}]}}, {}, {}, {}]}",
        "{\"header\": {\"revision\": \"1\"}, \"responses\": [{\"response_range\": {\"kvs\": "
        "[{\"key\": \"%\"}]}}, "
        "{}, {}, {}]}"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows_of_text); i++) {
        struct rdzv_etcd_view v;
        CO_AUTOJSON json_t *answer = NULL;
        rdzv_etcd_view_init(&v, "j");
        assert_int_equal(co_json_parse(rows_of_text[i], strlen(rows_of_text[i]), &answer, NULL), 0);
        if (rdzv_etcd_view_read(&v, answer, NULL) != CO_INVALID) {
            fail_msg("accepted: %s", rows_of_text[i]);
        }
        rdzv_etcd_view_done(&v);
    }
}

/* Whoever may write to the etcd may write anything there. */
static void odd_keys_and_documents_are_ignored(void **state) {
    (void)state;
    const struct key keys[KEYS] = {NODE("b", "1", 1), {OURS, "/paddlerun/j/why/a", "7"},
        {OURS, "/paddlerun/j/why/b", "[]"}, {OURS, "/paddlerun/j/done/\xff", "{\"round\": 0}"},
        {BEAT, "/paddle/j/heartbeat/\xff", ""}, ROUND(2147483647, 2147483647, "\"a\", \"b\"")};
    CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v;
    CO_AUTOJSON json_t *answer = answer_of(keys);
    rdzv_etcd_view_init(&v, "j");
    assert_int_equal(rdzv_etcd_view_read(&v, answer, NULL), 0);
    assert_int_equal(v.n, 1);
    assert_int_equal(v.round, 0);
    assert_int_equal(json_object_size(v.done) + json_object_size(v.why), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_state_in_etcd_gives_its_decision),
        cmocka_unit_test(neighbours), cmocka_unit_test(who_ended_well_is_remembered),
        cmocka_unit_test(malformed_answers_are_refused),
        cmocka_unit_test(odd_keys_and_documents_are_ignored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
