#include "runtime/launch/rendezvous/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A scenario is written in words, one step a word, each at a second of its own:
 *
 *     +a  node a joins      a+1  it runs in round 1    a.1  it stops round 1    a*1  done in round
 * 1 -a  breaks off        !a   leaves well           ~a   asked to stop       #a   fails
 *     @a  asks for a restart      >  a minute passes   p:x  Paddle's node x joins
 *
 * and a=X says what a receives now: - nothing, M met, C changed, D all done, O over; ?X that the
 * step before was refused (R no room, E it exists); *N the running round's size. */
struct world {
    struct rdzv_group g;
    int64_t now;
    int refused;
    struct co_err err;
};

static struct rdzv_group_hello hello(const struct world *w, const char *name) {
    return (struct rdzv_group_hello){.name = name,
        .id = name,
        .host = "h",
        .value = "{}",
        .rank = -1,
        .min = w->g.rules.min,
        .max = w->g.rules.max};
}

static void report(struct world *w, char who, enum rdzv_node_state state, int round) {
    char name[2] = {who, '\0'};
    struct rdzv_group_hello h = hello(w, name);
    struct rdzv_group_node *n = NULL;
    h.state = state;
    h.round = round;
    w->refused = rdzv_group_receive(&w->g, &h, w->now, &n, &w->err);
}

static struct rdzv_group_node *node(const struct world *w, char who) {
    const char name[2] = {who, '\0'};
    struct rdzv_group_node *n = rdzv_group_find(&w->g, name);
    if (!n) {
        fail_msg("no node %c", who);
    }
    return n;
}

static const char notice_letters[] = {[RDZV_NOTICE_NONE] = '-',
    [RDZV_NOTICE_MET] = 'M',
    [RDZV_NOTICE_CHANGED] = 'C',
    [RDZV_NOTICE_ALL_DONE] = 'D',
    [RDZV_NOTICE_OVER] = 'O'};

static bool expect(struct world *w, const char *step, const char *describe) {
    if (step[1] == '=') {
        char got = notice_letters[rdzv_group_notice(&w->g, node(w, step[0]))];
        if (got != step[2]) {
            fail_msg("%s: at %s it is %c (%s)", describe, step, got, w->g.over.msg);
        }
        return true;
    }
    if (step[0] == '?') {
        if (w->refused != (step[1] == 'R' ? CO_NORESOURCE : CO_EXISTS)) {
            fail_msg("%s: at %s refused with %s %s", describe, step, co_code_name(w->refused),
                w->err.msg);
        }
        w->refused = 0;
        return true;
    }
    if (step[0] == '*') {
        if (w->g.phase != RDZV_GROUP_RUNNING || (int)w->g.n_roster != step[1] - '0') {
            fail_msg(
                "%s: at %s phase %d, %zu nodes", describe, step, (int)w->g.phase, w->g.n_roster);
        }
        return true;
    }
    return false;
}

static void act(struct world *w, const char *step) {
    char p[2] = {step[2], '\0'};
    struct rdzv_group_hello paddle = {.name = p, .value = "{}", .rank = -1};
    struct rdzv_group_node *n = NULL;
    switch (step[0]) {
    case '+':
        report(w, step[1], RDZV_NODE_JOINING, 0);
        break;
    case '-':
        rdzv_group_broke(&w->g, node(w, step[1]), w->now);
        break;
    case '!':
        rdzv_group_leave(&w->g, node(w, step[1]), 0, "", w->now);
        break;
    case '~':
        rdzv_group_leave(&w->g, node(w, step[1]), -1, "SIGTERM", w->now);
        break;
    case '#':
        rdzv_group_leave(&w->g, node(w, step[1]), 1, "exit code 1", w->now);
        break;
    case '@':
        rdzv_group_restart(&w->g, node(w, step[1]), w->g.round, "exit code 1", w->now);
        break;
    case '>':
        w->now += 60 * 1000;
        break;
    default:
        if (step[0] == 'p' && step[1] == ':') {
            w->refused = rdzv_group_receive(&w->g, &paddle, w->now, &n, &w->err);
        } else {
            report(w, step[0],
                step[1] == '+'   ? RDZV_NODE_RUNNING
                : step[1] == '.' ? RDZV_NODE_STOPPING
                                 : RDZV_NODE_DONE,
                step[2] - '0');
        }
    }
}

struct row {
    const char *what;
    struct rdzv_group_rules rules;
    const char *describe;
    const char *why; /* what `over` or the last refusal says; NULL: not looked at */
};

#define FIXED .min = 2, .max = 2, .elastic_ms = 30000, .silent_ms = 10000
#define ELASTIC .min = 1, .max = 3, .elastic_ms = 30000, .silent_ms = 10000

static const struct row rows[] = {
    {"two meet", {FIXED, .level = -1}, "+a a=- +b a=M b=M a+1 a=- *2", NULL},
    {"an answer that got lost is given again", {FIXED, .level = -1}, "+a +b a=M +a a=M", NULL},
    {"one too many", {FIXED, .level = -1}, "+a +b +c ?R a=M",
        "node c is one too many: the job has its 2 nodes (a, b)"},
    {"a lost node ends the job", {FIXED, .level = -1}, "+a +b a+1 b+1 -b a=- > a=O",
        "node b (rank 1, h) is gone: its launcher ended without a word"},
    {"a connection may break", {FIXED, .level = -1}, "+a +b a+1 b+1 -b b+1 > > a=- b=-", NULL},
    {"a failed node ends the job with its words", {FIXED, .level = -1}, "+a +b a+1 b+1 #b a=O",
        "node b (rank 1, h) failed: exit code 1"},
    {"who left well is not missed", {FIXED, .level = -1}, "+a +b a+1 b+1 !b a=- > a=-", NULL},
    {"lost while gathering: another comes", {.min = 3, .max = 3, .level = -1, .silent_ms = 10000},
        "+a +b -a > b=- +c +d b=M *3", NULL},
    {"not before all are connected", {.min = 3, .max = 3, .level = -1, .silent_ms = 10000},
        "+a +b -a +c b=- +a *3", NULL},
    {"all done", {FIXED, .level = -1}, "+a +b a+1 b+1 a*1 a=- b*1 a=D b=D", NULL},
    {"done and gone counts as done", {FIXED, .level = -1}, "+a +b a+1 b+1 a*1 !b a=D", NULL},
    {"a loss after some are done ends even an elastic job", {ELASTIC, .level = 1, .max_restart = 3},
        "+a +b +c a+1 b+1 c+1 a*1 #b c=O a=O", NULL},
    {"held until a replacement comes", {FIXED, .level = 0, .max_restart = 3},
        "+a +b a+1 b+1 -b > a=C a.1 a=- +a a=- +c a=M c=M *2", NULL},
    {"the round waits for who is still stopping", {FIXED, .level = 0, .max_restart = 3},
        "+a +b a+1 b+1 -b > a=C a.1 +c c=- > c=- +a c=M", NULL},
    {"fewer are enough after a while", {ELASTIC, .level = 1}, "+a +b a=- > a=M *2", NULL},
    {"at the maximum nobody waits", {ELASTIC, .level = 1}, "+a +b +c a=M *3", NULL},
    {"a newcomer starts a round and costs none", {ELASTIC, .level = 1, .max_restart = 0},
        "+a > *1 a+1 +b a=C a.1 +a > a=M b=M *2", NULL},
    {"a newcomer is late with level -1", {ELASTIC, .level = -1}, "+a > *1 a+1 +b ?R a=-",
        "node b is late: the job runs with 1 nodes and --elastic_level -1"},
    {"asked to stop costs no restart", {ELASTIC, .level = 1, .max_restart = 0},
        "+a +b +c a+1 b+1 c+1 ~c a=C b=C", NULL},
    {"no restart left", {ELASTIC, .level = 1, .max_restart = 1},
        "+a +b +c a+1 b+1 c+1 @a a=C b=C +a +b +c *3 a+2 b+2 c+2 @b a=O",
        "node b (rank 1, h) starts again: exit code 1, and no restart is left"},
    {"an old round's words change nothing", {ELASTIC, .level = 1, .max_restart = 9},
        "+a +b +c a+1 @a +a +b +c *3 b+1 b=C c*1 c=C *3", NULL},
    {"Paddle's nodes count", {FIXED, .level = -1}, "p:x +a a=M *2 p:x *2 p:y ?R", NULL},
    {"Paddle's node does not take a name", {FIXED, .level = -1}, "+a p:a ?E",
        "the name a is taken by node a (h)"},
    {"Paddle's nodes stay for the next round", {ELASTIC, .level = 1, .max_restart = 9},
        "+a +b p:x *3 a+1 b+1 #b a=C a.1 +a > *2", NULL},
};

static void each_sequence_of_node_events_gives_its_state(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        struct world w = {.now = 1000};
        char text[256], *save = NULL;
        rdzv_group_init(&w.g, &row->rules);
        (void)snprintf(text, sizeof(text), "%s", row->describe);
        for (char *s = strtok_r(text, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
            if (!expect(&w, s, row->what)) {
                act(&w, s);
                (void)rdzv_group_tick(&w.g, w.now, w.now);
                w.now += 100;
            }
        }
        const char *said = w.g.phase == RDZV_GROUP_OVER ? w.g.over.msg : w.err.msg;
        if (w.refused || (row->why && strcmp(said, row->why) != 0)) {
            fail_msg("%s: %d %s", row->what, w.refused, said);
        }
        rdzv_group_done(&w.g);
    }
}

static void each_tick_returns_the_time_of_the_next(void **state) {
    (void)state;
    struct world w = {.now = 1000};
    const struct rdzv_group_rules rules = {ELASTIC, .level = 1};
    rdzv_group_init(&w.g, &rules);
    report(&w, 'a', RDZV_NODE_JOINING, 0);
    assert_int_equal(rdzv_group_tick(&w.g, w.now, w.now), 1000 + 30000);
    rdzv_group_notified(&w.g, node(&w, 'a'), w.now);
    assert_int_equal(rdzv_group_tick(&w.g, w.now, w.now), 1000 + 10000);
    rdzv_group_broke(&w.g, node(&w, 'a'), w.now);
    assert_int_equal(rdzv_group_tick(&w.g, w.now, w.now), 1000 + RDZV_GROUP_RECONNECT_MS + 20);
    /* A node of many tries again later. */
    assert_int_equal(rdzv_group_retry_ms(1000), 250);
    assert_int_equal(rdzv_group_retry_ms(RDZV_GROUP_NODES_MAX), 500);
    w.g.rules.max = 5000;
    rdzv_group_broke(&w.g, node(&w, 'a'), w.now);
    assert_int_equal(rdzv_group_tick(&w.g, w.now, w.now), 1000 + RDZV_GROUP_RECONNECT_MS + 500);
    rdzv_group_done(&w.g);
}

static void late_node_is_reported_and_costs_nothing(void **state) {
    (void)state;
    enum { PATIENCE = RDZV_GROUP_PATIENCE_MS };
    struct world w = {.now = 1000};
    const struct rdzv_group_rules rules = {.min = 3, .max = 3, .level = -1, .silent_ms = 10000};
    rdzv_group_init(&w.g, &rules);
    for (const char *s = "abc"; *s; s++) {
        report(&w, *s, RDZV_NODE_JOINING, 0);
    }
    (void)rdzv_group_tick(&w.g, w.now, w.now);
    for (const char *s = "abc"; *s; s++) {
        rdzv_group_notified(&w.g, node(&w, *s), w.now);
        report(&w, *s, RDZV_NODE_RUNNING, 1);
    }
    const struct {
        int64_t after, read_to; /* ms since b was notified */
        bool again;             /* first, b says something */
        size_t late;
        bool notice; /* for the others */
        int64_t next;
    } steps[] = {
        {PATIENCE - 1, PATIENCE - 1, false, 0, false, PATIENCE},
        {PATIENCE, PATIENCE, false, 1, true, 10000}, {9999, 9999, false, 1, false, 10000},
        {9999, 9999, true, 0, true, INT64_MAX - 1000},
        {0, 0, false, 0, false, 2 * PATIENCE}, /* notified once more; now patience is longer */
        {20000, 2 * PATIENCE - 1, false, 0, false, 2 * PATIENCE}, /* not yet listened to */
        {20000, 20000, true, 0, false, INT64_MAX - 1000},         /* and it had said something */
    };
    const struct rdzv_group_node *a = node(&w, 'a');
    rdzv_group_notified(&w.g, node(&w, 'b'), 1000);
    for (size_t i = 0; i < CO_ARRAY_LEN(steps); i++) {
        if (steps[i].again) {
            report(&w, 'b', RDZV_NODE_RUNNING, 1);
        } else if (steps[i].after == 0) {
            rdzv_group_notified(&w.g, node(&w, 'b'), 1000);
        }
        CO_AUTOBUF struct co_buf text = CO_BUF(4096);
        int64_t next = rdzv_group_tick(&w.g, 1000 + steps[i].read_to, 1000 + steps[i].after);
        size_t late = rdzv_group_describe_late(&w.g, &text);
        bool notice = rdzv_group_notice(&w.g, a) == RDZV_NOTICE_LATE;
        if (next != 1000 + steps[i].next || late != steps[i].late || notice != steps[i].notice) {
            fail_msg("step %zu: next %lld, %zu mute, news %d: %s", i, (long long)next - 1000, late,
                notice, text.data);
        }
        assert_string_equal(text.data, late ? "silent for a second: node b (rank 1, h); "
                                              "lost after 10 s"
                                            : "all nodes answer again");
        rdzv_group_notified(&w.g, node(&w, 'a'), 1000);
        rdzv_group_waits(&w.g, node(&w, 'a'));
    }
    (void)rdzv_group_tick(&w.g, 1000, 1000);
    assert_int_equal(w.g.phase, RDZV_GROUP_RUNNING);
    rdzv_group_done(&w.g);
}

static void beats_are_slower_where_there_are_many(void **state) {
    (void)state;
    static const struct {
        size_t n;
        int64_t silent_ms, beat_ms;
    } beats[] = {{2, 10000, 250}, {1000, 10000, 250}, {4000, 10000, 1000}, {100000, 10000, 2500},
        {2, 400, 100}};
    for (size_t i = 0; i < CO_ARRAY_LEN(beats); i++) {
        assert_int_equal(rdzv_group_beat_ms(beats[i].n, beats[i].silent_ms), beats[i].beat_ms);
    }
}

static void members_and_missing_ranks_are_described(void **state) {
    (void)state;
    struct rdzv_group g;
    CO_AUTOBUF struct co_buf b = CO_BUF(4096);
    const struct rdzv_group_rules rules = {.min = 4, .max = 4, .level = -1, .silent_ms = 1};
    struct rdzv_group_node *n = NULL;
    rdzv_group_init(&g, &rules);
    for (int rank = 0; rank < 3; rank += 2) {
        char name[2] = {(char)('a' + rank), '\0'};
        struct rdzv_group_hello h = {
            .name = name, .id = name, .value = "{}", .rank = rank, .min = 4, .max = 4};
        assert_int_equal(rdzv_group_receive(&g, &h, 0, &n, NULL), 0);
    }
    rdzv_group_describe(&g, &b);
    assert_string_equal(b.data, "2 of 4 nodes are here, missing: rank 1 3");
    rdzv_group_done(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sequence_of_node_events_gives_its_state),
        cmocka_unit_test(each_tick_returns_the_time_of_the_next),
        cmocka_unit_test(late_node_is_reported_and_costs_nothing),
        cmocka_unit_test(beats_are_slower_where_there_are_many),
        cmocka_unit_test(members_and_missing_ranks_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
