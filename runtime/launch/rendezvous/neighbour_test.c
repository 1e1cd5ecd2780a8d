#include "runtime/launch/rendezvous/neighbour.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/http/httpd.h"
#include "common/ports_testing.h"

struct world {
    struct co_loop *loop;
    struct rdzv_neighbour *one;
    struct co_httpd *other;
    bool late;
    const char *name; /* as which the other answers */
    int asked, changes;
};

static void on_changed(void *arg) {
    ((struct world *)arg)->changes++;
}

static void on_close(void *arg, struct co_http_req *r) {
    (void)arg, (void)r;
}

static void answer(void *arg, struct co_http_req *r) {
    struct world *w = arg;
    w->asked++;
    if (w->late) {
        co_http_defer(r, 60 * 1000, NULL, on_close, NULL);
    } else {
        co_http_replyf(r, 200, "%s", w->name);
    }
}

static const struct co_http_route routes[] = {{"GET", "/paddlerun/alive", answer}};

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    char other[32];
    w->name = "bb";
    /* Nobody else listens there when the other one has closed it. */
    (void)snprintf(other, sizeof(other), "127.0.0.1:%u", co_test_ports(1));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(rdzv_neighbour_new(w->loop, "aa", on_changed, w, &w->one, NULL), 0);
    assert_int_equal(co_httpd_open(w->loop, other, routes, 1, w, NULL, &w->other, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    rdzv_neighbour_free(w->one);
    co_httpd_close(w->other);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static void until(struct world *w, enum rdzv_neighbour_state state) {
    while (rdzv_neighbour_state(w->one) != state) {
        co_loop_turn(w->loop);
    }
}

static void until_asked(struct world *w, int more) {
    for (int n = w->asked + more; w->asked < n;) {
        co_loop_turn(w->loop);
    }
}

static void watch(struct world *w) {
    rdzv_neighbour_watch(w->one, "127.0.0.1", co_httpd_port(w->other), "bb");
}

static void watch_until_answered(struct world *w) {
    watch(w);
    until(w, RDZV_NEIGHBOUR_ANSWERED);
}

static void watch_until_late(struct world *w) {
    watch_until_answered(w);
    w->late = true;
    until(w, RDZV_NEIGHBOUR_LATE);
    w->late = false;
}

static void two_neighbours_see_each_other(void **state) {
    struct world *w = *state;
    rdzv_neighbour_watch(w->one, "127.0.0.1", rdzv_neighbour_port(w->one), "aa");
    until(w, RDZV_NEIGHBOUR_ANSWERED);
    rdzv_neighbour_watch(w->one, "127.0.0.1", rdzv_neighbour_port(w->one), "aa");
    assert_int_equal(
        rdzv_neighbour_state(w->one), RDZV_NEIGHBOUR_ANSWERED); /* the same: continues */
    rdzv_neighbour_watch(w->one, NULL, 0, NULL);
    assert_int_equal(rdzv_neighbour_state(w->one), RDZV_NEIGHBOUR_NONE);
}

static void a_neighbour_that_ended_well_is_not_gone(void **state) {
    struct world *w = *state;
    rdzv_neighbour_watch(w->one, "127.0.0.1", rdzv_neighbour_port(w->one), "aa");
    until(w, RDZV_NEIGHBOUR_ANSWERED);
    rdzv_neighbour_ended_well(w->one, true);
    while (rdzv_neighbour_state(w->one) == RDZV_NEIGHBOUR_ANSWERED) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(rdzv_neighbour_state(w->one), RDZV_NEIGHBOUR_DONE);
    watch_until_answered(w);                  /* another one */
    rdzv_neighbour_ended_well(w->one, false); /* it trains again, in another round */
    rdzv_neighbour_watch(w->one, "127.0.0.1", rdzv_neighbour_port(w->one), "aa");
    until(w, RDZV_NEIGHBOUR_ANSWERED);
}

static void late_neighbour_is_late_until_it_answers(void **state) {
    struct world *w = *state;
    watch_until_late(w);
    until(w, RDZV_NEIGHBOUR_ANSWERED);
    assert_true(w->changes >= 3);
}

static void a_neighbour_that_closes_is_gone(void **state) {
    struct world *w = *state;
    watch_until_answered(w);
    co_httpd_close(co_steal_ptr(w->other));
    until(w, RDZV_NEIGHBOUR_GONE);
}

static void a_neighbour_with_another_name_at_its_port_is_gone(void **state) {
    struct world *w = *state;
    watch_until_answered(w);
    w->name = "cc";
    until(w, RDZV_NEIGHBOUR_GONE);
}

/* Its port may be closed to this machine, or it may be no node at all. */
static void a_neighbour_that_never_answered_is_not_reported_gone(void **state) {
    struct world *w = *state;
    w->late = true;
    watch(w);
    until_asked(w, 2); /* it was late once */
    w->late = false;
    w->name = "cc";
    until_asked(w, 8); /* for longer than a connection may be broken */
    assert_int_equal(w->changes, 0);
    assert_int_equal(rdzv_neighbour_state(w->one), RDZV_NEIGHBOUR_NONE);
}

/* Many things can be between here and a machine that was cut off. */
static void late_neighbour_is_left_to_its_lease(void **state) {
    struct world *w = *state;
    watch_until_late(w);
    w->name = "cc";
    until_asked(w, 8);
    assert_int_equal(rdzv_neighbour_state(w->one), RDZV_NEIGHBOUR_LATE);
}

int main(void) {
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(two_neighbours_see_each_other),
        T(a_neighbour_that_ended_well_is_not_gone),
        T(late_neighbour_is_late_until_it_answers),
        T(a_neighbour_that_closes_is_gone),
        T(a_neighbour_with_another_name_at_its_port_is_gone),
        T(a_neighbour_that_never_answered_is_not_reported_gone),
        T(late_neighbour_is_left_to_its_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
