#include "runtime/launch/children.h"

#include <stdarg.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

enum { MEMBERS = 4 };

struct world {
    struct co_loop *loop;
    struct rt_children *children;
    size_t n_ended, killed, strays_killed;
    int status[MEMBERS];
    bool empty;
    size_t lost;
};

static void on_ended(void *arg, size_t i, int status) {
    struct world *w = arg;
    assert_true(i < MEMBERS);
    w->status[i] = status;
    w->n_ended++;
}

static void on_killing(void *arg, size_t n, bool strays) {
    struct world *w = arg;
    *(strays ? &w->strays_killed : &w->killed) += n;
}

static void on_empty(void *arg, size_t n_lost) {
    struct world *w = arg;
    assert_false(w->empty);
    w->empty = true;
    w->lost = n_lost;
    co_loop_stop(w->loop);
}

static const struct rt_children_fns fns = {
    .ended = on_ended, .killing = on_killing, .empty = on_empty};

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(rt_children_new(w->loop, &fns, w, &w->children, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    rt_children_free(w->children);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static struct rt_spawn program(const char *const *argv) {
    return (struct rt_spawn){.argv = (char *const *)(uintptr_t)argv,
        .envp = environ,
        .in = -1,
        .out = -1,
        .err = -1,
        .session = true};
}

static void start(struct world *w, const char *script) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const struct rt_spawn s = program(argv);
    assert_int_equal(rt_children_start(w->children, &s, NULL), 0);
}

static void run(struct world *w) {
    rt_children_started(w->children);
    co_loop_run(w->loop);
    assert_true(w->empty);
    assert_int_equal(w->lost, 0);
}

static void each_end_is_told_with_its_number(void **state) {
    struct world *w = *state;
    start(w, "exit 3");
    start(w, "kill -KILL $$");
    start(w, "exit 0");
    assert_int_equal(rt_children_running(w->children), 3);
    run(w);
    assert_int_equal(w->n_ended, 3);
    assert_int_equal(rt_exit_code(w->status[0]), 3);
    assert_int_equal(rt_exit_code(w->status[1]), 128 + SIGKILL);
    assert_int_equal(rt_exit_code(w->status[2]), 0);
    assert_int_equal(rt_children_running(w->children), 0);
}

static void nobody_at_all_is_empty_too(void **state) {
    struct world *w = *state;
    const char *const argv[] = {"/nonexistent/program", NULL};
    const struct rt_spawn s = program(argv);
    assert_int_equal(rt_children_start(w->children, &s, NULL), CO_NOTFOUND);
    run(w);
    assert_int_equal(w->n_ended, 0);
}

static void who_does_not_obey_is_killed(void **state) {
    struct world *w = *state;
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    const char *const argv[] = {"/bin/sh", "-c", "trap '' TERM; echo; exec sleep 100", NULL};
    struct rt_spawn s = program(argv);
    s.out = ready[1];
    assert_int_equal(rt_children_start(w->children, &s, NULL), 0);
    assert_int_equal(read(ready[0], &c, 1), 1);
    rt_children_stop(w->children, 100 * 1000);
    rt_children_stop(w->children, 200 * 1000); /* only ever sooner */
    rt_children_stop(w->children, 0);
    run(w);
    (void)close(ready[0]);
    (void)close(ready[1]);
    assert_int_equal(w->killed, 1);
    assert_int_equal(rt_exit_code(w->status[0]), 128 + SIGKILL);
}

/* What left its member's session ends when the last member has: asked first, or not. */
static void nothing_is_left_behind(void **state) {
    static const struct {
        bool at_once;
        size_t strays_killed;
    } rows[] = {{false, 1}, {true, 0}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        if (rows[i].at_once) {
            rt_children_leave_nothing(w->children);
        }
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        const char *const argv[] = {"/bin/sh", "-c",
            "setsid sh -c 'trap \"\" TERM; echo; exec sleep 100' & read -r ready", NULL};
        struct rt_spawn s = program(argv);
        s.in = ready[0];
        s.out = ready[1];
        assert_int_equal(rt_children_start(w->children, &s, NULL), 0);
        run(w);
        (void)close(ready[0]);
        (void)close(ready[1]);
        assert_int_equal(w->strays_killed, rows[i].strays_killed);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        teardown(state);
        setup(state);
    }
}

static void a_group_can_be_used_again(void **state) {
    struct world *w = *state;
    for (int i = 0; i < 2; i++) {
        w->empty = false;
        start(w, "exit 5");
        run(w);
        assert_int_equal(rt_exit_code(w->status[0]), 5);
        rt_children_clear(w->children);
    }
    assert_int_equal(w->n_ended, 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(each_end_is_told_with_its_number),
        T(nobody_at_all_is_empty_too),
        T(who_does_not_obey_is_killed),
        T(nothing_is_left_behind),
        T(a_group_can_be_used_again),
    };
    (void)alarm(150);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
