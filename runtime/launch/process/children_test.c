#include "runtime/launch/process/children.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "common/mem.h"

enum { MEMBERS = 4 };

struct world {
    struct co_loop *loop;
    struct proc_children *children;
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

static const struct proc_children_fns fns = {
    .ended = on_ended, .killing = on_killing, .empty = on_empty};

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(proc_children_new(w->loop, &fns, w, &w->children, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    proc_children_free(w->children);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static void start(struct world *w, const char *script) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const struct proc_spawn s = proc_spawn_session(argv);
    assert_int_equal(proc_children_start(w->children, &s, NULL), 0);
}

static void run(struct world *w) {
    proc_children_started(w->children);
    co_loop_run(w->loop);
    assert_true(w->empty);
    assert_int_equal(w->lost, 0);
}

static void each_end_is_reported_with_its_number(void **state) {
    struct world *w = *state;
    start(w, "exit 3");
    start(w, "kill -KILL $$");
    start(w, "exit 0");
    assert_int_equal(proc_children_running(w->children), 3);
    run(w);
    assert_int_equal(w->n_ended, 3);
    assert_int_equal(proc_exit_code(w->status[0]), 3);
    assert_int_equal(proc_exit_code(w->status[1]), 128 + SIGKILL);
    assert_int_equal(proc_exit_code(w->status[2]), 0);
    assert_int_equal(proc_children_running(w->children), 0);
}

static void a_group_without_members_is_reported_as_empty(void **state) {
    struct world *w = *state;
    const char *const argv[] = {"/nonexistent/program", NULL};
    const struct proc_spawn s = proc_spawn_session(argv);
    assert_int_equal(proc_children_start(w->children, &s, NULL), CO_NOTFOUND);
    run(w);
    assert_int_equal(w->n_ended, 0);
}

static void a_child_that_ignores_sigterm_is_killed(void **state) {
    struct world *w = *state;
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    const char *const argv[] = {"/bin/sh", "-c", "trap '' TERM; echo; exec sleep 100", NULL};
    struct proc_spawn s = proc_spawn_session(argv);
    s.out = ready[1];
    assert_int_equal(proc_children_start(w->children, &s, NULL), 0);
    assert_int_equal(read(ready[0], &c, 1), 1);
    proc_children_stop(w->children, 100 * 1000);
    proc_children_stop(w->children, 200 * 1000); /* only ever sooner */
    proc_children_stop(w->children, 0);
    run(w);
    (void)close(ready[0]);
    (void)close(ready[1]);
    assert_int_equal(w->killed, 1);
    assert_int_equal(proc_exit_code(w->status[0]), 128 + SIGKILL);
}

/* A member whose child says on stdout that it is there; returns where that was read, and where the
 * end of all that hold it is seen. */
static int start_parent(struct world *w, int in, const char *script) {
    int ready[2];
    char c;
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct proc_spawn s = proc_spawn_session(argv);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    s.in = in;
    s.out = ready[1];
    assert_int_equal(proc_children_start(w->children, &s, NULL), 0);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    return ready[0];
}

static bool has_ended(int fd) {
    char c;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 60 * 1000) == 1 && read(fd, &c, 1) == 0;
}

/* It is for saving, which a stopped process does not do. */
static void the_grace_time_stands_still_with_stopped_members(void **state) {
    struct world *w = *state;
    int fd = start_parent(w, -1, "trap '' TERM; echo; exec sleep 100");
    int status;
    proc_children_started(w->children);
    proc_children_stop(w->children, 100 * 1000);
    proc_children_pause(w->children, true);
    /* no deadline: SIGSTOP was sent */
    assert_true(waitpid(-1, &status, WUNTRACED) > 0 && WIFSTOPPED(status));
    co_test_clock_forward(200 * 1000);
    proc_children_pause(w->children, false);
    assert_true(waitpid(-1, &status, WCONTINUED) > 0 && WIFCONTINUED(status));
    co_loop_turn(w->loop);
    assert_int_equal(w->killed, 0);
    proc_children_stop(w->children, 0);
    run(w);
    assert_int_equal(w->killed, 1);
    assert_int_equal(close(fd), 0);
}

static void a_signal_reaches_what_a_member_has_started(void **state) {
    struct world *w = *state;
    CO_AUTOCLOSE int fd = start_parent(w, -1,
        "trap : USR1; (trap - USR1; echo; exec sleep 100) & exec >&- 2>&-; wait $!; wait $!");
    proc_children_signal(w->children, SIGUSR1);
    assert_true(has_ended(fd));
    run(w);
}

/* While others run: nobody waits for the last one. */
static void processes_that_a_child_leaves_in_its_session_end_with_it(void **state) {
    static const struct {
        bool at_once;
        const char *script;
    } rows[] = {
        {false, "(echo; exec sleep 100) & exec >&-; read -r line"},
        {true, "(trap '' TERM; echo; exec sleep 100) & exec >&-; read -r line"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        if (rows[i].at_once) {
            proc_children_leave_nothing(w->children);
        }
        int in[2];
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        start(w, "exec sleep 100");
        CO_AUTOCLOSE int fd = start_parent(w, in[0], rows[i].script);
        proc_children_started(w->children);
        (void)close(in[0]);
        (void)close(in[1]); /* the member's end */
        while (w->n_ended == 0) {
            co_loop_turn(w->loop);
        }
        assert_true(has_ended(fd));
        proc_children_stop(w->children, 100 * 1000);
        run(w);
        assert_int_equal(w->n_ended, 2);
        teardown(state);
        setup(state);
    }
}

/* What left its member's session ends when the last member has: asked first, or not. */
static void processes_that_left_their_session_are_ended(void **state) {
    static const struct {
        bool at_once;
        size_t strays_killed;
    } rows[] = {{false, 1}, {true, 0}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        if (rows[i].at_once) {
            proc_children_leave_nothing(w->children);
        }
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        const char *const argv[] = {"/bin/sh", "-c",
            "setsid sh -c 'trap \"\" TERM; echo; exec sleep 100' & read -r ready", NULL};
        struct proc_spawn s = proc_spawn_session(argv);
        s.in = ready[0];
        s.out = ready[1];
        assert_int_equal(proc_children_start(w->children, &s, NULL), 0);
        run(w);
        (void)close(ready[0]);
        (void)close(ready[1]);
        assert_int_equal(w->strays_killed, rows[i].strays_killed);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        teardown(state);
        setup(state);
    }
}

/* A process whose parent does not get notice of its end, as of one that hangs in the kernel: a
 * tracer is notified first.  The tracer is a child of this process, too. */
static void hold(pid_t victim) {
    int ready[2];
    char c = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        c = ptrace(PTRACE_SEIZE, victim, NULL, NULL) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &c, 1);
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(c, 'y');
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static int be_held(void) {
    pid_t pid = getpid();
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    (void)!write(STDOUT_FILENO, &pid, sizeof(pid));
    return pause();
}

static bool has_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Who is given up and ends after all is nobody's any more. */
static void a_child_that_could_not_be_killed_is_not_reported_later(void **state) {
    struct world *w = *state;
    static const char *const argv[] = {"/proc/self/exe", "held", NULL};
    struct proc_spawn s = proc_spawn_session(argv);
    int out[2];
    pid_t victim = 0;
    assert_int_equal(pipe(out), 0);
    s.out = out[1];
    assert_int_equal(proc_children_start(w->children, &s, NULL), 0);
    assert_int_equal(read(out[0], &victim, sizeof(victim)), sizeof(victim));
    hold(victim);
    proc_children_stop(w->children, 0);
    proc_children_started(w->children);
    co_loop_run(w->loop);
    assert_true(w->empty);
    assert_int_equal(w->lost, 2);
    while (has_children()) { /* the tracer was killed, which releases the child */
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->n_ended, 0);
    assert_int_equal(proc_children_running(w->children), 0);
    (void)close(out[0]);
    (void)close(out[1]);
}

static void a_group_can_be_used_again(void **state) {
    struct world *w = *state;
    for (int i = 0; i < 2; i++) {
        w->empty = false;
        start(w, "exit 5");
        run(w);
        assert_int_equal(proc_exit_code(w->status[0]), 5);
        proc_children_clear(w->children);
    }
    assert_int_equal(w->n_ended, 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "held") == 0) {
        return be_held();
    }
    const struct CMUnitTest tests[] = {
        T(each_end_is_reported_with_its_number),
        T(a_group_without_members_is_reported_as_empty),
        T(a_child_that_ignores_sigterm_is_killed),
        T(the_grace_time_stands_still_with_stopped_members),
        T(a_signal_reaches_what_a_member_has_started),
        T(processes_that_a_child_leaves_in_its_session_end_with_it),
        T(processes_that_left_their_session_are_ended),
        T(a_child_that_could_not_be_killed_is_not_reported_later),
        T(a_group_can_be_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
