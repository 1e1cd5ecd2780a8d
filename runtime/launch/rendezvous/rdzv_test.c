#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/launch/rendezvous/backend.h"

enum { TRACE = 1024, SOON_MS = 20 };

/* Both ways are the test's: what they are asked for, and the owner's callbacks, go into a trace.
 */
static struct {
    struct co_loop *loop;
    struct rdzv *m;
    char trace[TRACE];
    int refuses; /* code of the way's start */
} world;

CO_PRINTF(1, 2) static void note(const char *fmt, ...) {
    const size_t len = strlen(world.trace);
    va_list ap;
    va_start(ap, fmt);
    (void)snprintf(world.trace + len, TRACE - len, "%s", len ? " " : "");
    (void)vsnprintf(world.trace + strlen(world.trace), TRACE - strlen(world.trace), fmt, ap);
    va_end(ap);
}

static int way_start(struct rdzv *m, void **ret, struct co_err *err) {
    if (world.refuses) {
        return co_err_set(err, world.refuses, "no such master");
    }
    *ret = m;
    return 0;
}

static int etcd_start(struct rdzv *m, void **ret, struct co_err *err) {
    note("etcd");
    return way_start(m, ret, err);
}

static void way_again(void *way) {
    (void)way;
    note("way_again");
}

static void way_restart(void *way, const char *why) {
    (void)way;
    note("way_restart(%s)", why);
}

static void way_done(void *way) {
    (void)way;
    note("way_done");
}

static void way_leave(void *way, int code, const char *why) {
    (void)way;
    note("way_leave(%d %s)", code, why);
}

static void way_free(void *way) {
    (void)way;
}

static const char *backend_describe(void *way) {
    (void)way;
    return "1 of 2 nodes are here";
}

#define WAY(begin)                                                                                 \
    {                                                                                              \
        .start = (begin), .again = way_again, .restart = way_restart, .done = way_done,            \
        .leave = way_leave, .free = way_free, .describe = backend_describe                         \
    }
const struct rdzv_backend rdzv_kv = WAY(way_start);
const struct rdzv_backend rdzv_etcd = WAY(etcd_start);

static void on_note(void *arg, bool warn, const char *line) {
    (void)arg;
    note("note(%d %s)", (int)warn, line);
}

static void on_met(void *arg, const struct rdzv_roster *r) {
    (void)arg;
    note("met(%d: %s=%s of %zu)", r->round, r->peers[r->self].name, r->peers[r->self].value, r->n);
}

static void on_changed(void *arg, const char *why) {
    (void)arg;
    note("changed(%s)", why);
}

static void on_all_done(void *arg) {
    (void)arg;
    note("all_done");
}

static void on_overdue(void *arg, const struct co_err *err) {
    (void)arg;
    note("overdue(%d %s)", err->code, err->msg);
}

static void on_ended(void *arg, const struct co_err *err) {
    (void)arg;
    note("ended(%d %s)", err->code, err->msg);
}

static void on_gone(void *arg) {
    (void)arg;
    note("gone");
}

static const struct rdzv_fns fns = {.note = on_note,
    .met = on_met,
    .changed = on_changed,
    .all_done = on_all_done,
    .overdue = on_overdue,
    .ended = on_ended};

static struct rdzv_options good(void) {
    return (struct rdzv_options){
        .name = "a", .value = "{}", .rank = -1, .min_nodes = 2, .max_nodes = 2};
}

static int open_world(const struct rdzv_options *o, struct co_err *err) {
    world.trace[0] = '\0';
    world.m = NULL;
    assert_int_equal(co_loop_new(&world.loop, NULL), 0);
    return rdzv_open(world.loop, o, &fns, NULL, &world.m, err);
}

static void close_world(void) {
    rdzv_close(world.m);
    co_loop_free(world.loop);
}

static void meet(int round) {
    const struct rdzv_peer peers[] = {{"a", "{}"}, {"b", "{\"x\":1}"}};
    rdzv_met(world.m, peers, 2, 1, round, true);
}

static void wait_for(const char *text) {
    while (!strstr(world.trace, text)) {
        co_loop_turn(world.loop);
    }
}

/* ---- tests ------------------------------------------------------------------------------- */

static void invalid_options_are_named(void **state) {
    (void)state;
    static char long_value[RDZV_VALUE_MAX + 2], long_name[CO_ERR_MAX];
    memset(long_value, 'x', sizeof(long_value) - 1);
    memset(long_name, 'n', sizeof(long_name) - 1);
    struct {
        struct rdzv_options o;
        const char *text;
    } rows[16];
    size_t n = 0;
#define BAD(field, wrong, message)                                                                 \
    do {                                                                                           \
        rows[n].o = good();                                                                        \
        rows[n].o.field = (wrong);                                                                 \
        rows[n++].text = (message);                                                                \
    } while (0)
    BAD(min_nodes, 0, "--nnodes 0:2: expected 1 <= MIN <= MAX <= 100000");
    BAD(min_nodes, 3, "--nnodes 3:2");
    BAD(max_nodes, 100001, "--nnodes 2:100001");
    BAD(job_id, "a b", "--job_id \"a b\": expected letters");
    BAD(job_id, "", "--job_id \"\"");
    BAD(job_id, "a?b", "--job_id \"a?b\"");
    BAD(name, NULL, "\"\" is not a node's name");
    BAD(name, "a/b", "\"a/b\" is not a node's name");
    BAD(name, long_name, "is not a node's name");
    BAD(host, "h h", "\"h h\" is not a node's name");
    BAD(value, NULL, "a node's value has at most 65536 bytes");
    BAD(value, long_value, "a node's value has at most 65536 bytes");
    BAD(rank, -2, "--rank -2: expected -1 or more");
    BAD(rank, 100000, "--rank 100000");
    for (size_t i = 0; i < n; i++) {
        struct co_err err = {0};
        int r = open_world(&rows[i].o, &err);
        if (r != CO_INVALID || !strstr(err.msg, rows[i].text)) {
            fail_msg("row %zu: %d \"%s\"", i, r, err.msg);
        }
        close_world();
    }
    struct rdzv_options o = good();
    o.job_id = "team/job";
    o.host = "::1";
    assert_int_equal(open_world(&o, NULL), 0);
    assert_string_equal(world.m->options.job_id, "team/job");
    close_world();
}

static void the_master_url_selects_the_backend(void **state) {
    (void)state;
    static const struct {
        const char *master, *trace;
    } rows[] = {
        {NULL, ""},
        {"h:1", ""},
        {"etcd:1", ""},
        {"etcd://h:1", "etcd"},
        {"etcds://h:1", "etcd"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rdzv_options o = good();
        o.master = rows[i].master;
        assert_int_equal(open_world(&o, NULL), 0);
        assert_string_equal(world.trace, rows[i].trace);
        close_world();
    }
    struct rdzv_options o = good();
    world.refuses = CO_UNAVAILABLE;
    assert_int_equal(open_world(&o, NULL), CO_UNAVAILABLE);
    world.refuses = 0;
    close_world();
}

/* Whatever a way sees and the launcher asks for, each callback comes only where it may. */
static void callbacks_come_in_their_order(void **state) {
    (void)state;
    struct rdzv_options o = good();
    assert_int_equal(open_world(&o, NULL), 0);
    /* meeting */
    rdzv_changed(world.m, "x");
    rdzv_all_done(world.m);
    rdzv_overdue(world.m, "x");
    rdzv_again(world.m);
    rdzv_restart(world.m, "x");
    rdzv_done(world.m);
    rdzv_gone(world.m);
    assert_string_equal(world.trace, "");
    rdzv_note(world.m, true, "a line");
    meet(1);
    meet(2);
    assert_string_equal(world.trace, "note(1 a line) met(1: b={\"x\":1} of 2)");
    /* met */
    world.trace[0] = '\0';
    rdzv_again(world.m);
    rdzv_restart(world.m, "oom");
    rdzv_done(world.m);
    rdzv_overdue(world.m, "etcd is away"); /* all_done may still follow */
    rdzv_all_done(world.m);
    rdzv_changed(world.m, "c came");
    rdzv_changed(world.m, "d came");
    rdzv_all_done(world.m);
    rdzv_overdue(world.m, "x");
    rdzv_restart(world.m, "x");
    assert_string_equal(
        world.trace, "way_restart(oom) way_done overdue(-2 etcd is away) all_done changed(c came)");
    /* changed */
    world.trace[0] = '\0';
    rdzv_again(world.m);
    meet(2);
    rdzv_changed(world.m, "x");
    rdzv_again(world.m);
    meet(3);
    assert_string_equal(world.trace,
        "way_again met(2: b={\"x\":1} of 2) changed(x) way_again met(3: b={\"x\":1} of 2)");
    /* ended */
    world.trace[0] = '\0';
    rdzv_end(world.m, CO_PEERLOST, "b is lost");
    rdzv_end(world.m, CO_PEERLOST, "c is lost");
    rdzv_note(world.m, true, "a line");
    rdzv_changed(world.m, "x");
    rdzv_leave(world.m, 1, "too late", on_gone);
    assert_string_equal(world.trace, "ended(-6 b is lost)");
    wait_for("gone");
    assert_string_equal(world.trace, "ended(-6 b is lost) gone");
    close_world();
}

static void a_rendezvous_that_misses_its_deadline_ends(void **state) {
    (void)state;
    struct rdzv_options o = good();
    o.deadline_ms = SOON_MS;
    assert_int_equal(open_world(&o, NULL), 0);
    wait_for("ended");
    assert_string_equal(
        world.trace, "ended(-3 the job's nodes did not meet within 0.02 s: 1 of 2 nodes are here)");
    close_world();
    /* and each time again */
    assert_int_equal(open_world(&o, NULL), 0);
    meet(1);
    rdzv_changed(world.m, "x");
    rdzv_again(world.m);
    world.trace[0] = '\0';
    wait_for("ended");
    assert_non_null(strstr(world.trace, "ended(-3 the job's nodes did not meet"));
    close_world();
}

/* The back end may never learn of it: an etcd may be away. */
static void a_restart_that_nobody_takes_ends(void **state) {
    (void)state;
    struct rdzv_options o = good();
    o.deadline_ms = SOON_MS;
    assert_int_equal(open_world(&o, NULL), 0);
    meet(1);
    rdzv_restart(world.m, "oom");
    assert_true(co_timer_armed(world.m->deadline));
    rdzv_changed(world.m, "x"); /* it was taken: workers have their own time to end */
    assert_false(co_timer_armed(world.m->deadline));
    rdzv_again(world.m);
    meet(2);
    rdzv_restart(world.m, "oom");
    world.trace[0] = '\0';
    wait_for("ended");
    assert_string_equal(world.trace, "ended(-3 the restart of all nodes did not begin within 0.02 "
                                     "s (--join_timeout): 1 of 2 nodes are here)");
    close_world();
}

/* Nobody answers: a second at most.  No other callback runs once it leaves. */
static void leaving_ends_although_nobody_answers(void **state) {
    (void)state;
    struct rdzv_options o = good();
    assert_int_equal(open_world(&o, NULL), 0);
    meet(1);
    world.trace[0] = '\0';
    const int64_t before = co_now_ms();
    rdzv_leave(world.m, 3, NULL, on_gone);
    rdzv_leave(world.m, 4, "twice", on_gone);
    rdzv_end(world.m, CO_PEERLOST, "x");
    rdzv_changed(world.m, "x");
    rdzv_note(world.m, false, "x");
    wait_for("gone");
    assert_string_equal(world.trace, "way_leave(3 ) gone");
    assert_in_range(co_now_ms() - before, 900, 60000);
    rdzv_gone(world.m); /* late: once is enough */
    assert_string_equal(world.trace, "way_leave(3 ) gone");
    close_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_options_are_named),
        cmocka_unit_test(the_master_url_selects_the_backend),
        cmocka_unit_test(callbacks_come_in_their_order),
        cmocka_unit_test(a_rendezvous_that_misses_its_deadline_ends),
        cmocka_unit_test(a_restart_that_nobody_takes_ends),
        cmocka_unit_test(leaving_ends_although_nobody_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
