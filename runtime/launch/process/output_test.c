#include "runtime/launch/process/output.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 1 << 20 }; /* bytes that may wait for a reader, those in the pipe included */

/* Output into a pipe whose other end the test reads, or does not. */
struct world {
    struct co_loop *loop;
    struct proc_output *out;
    int pipe[2];
    int changes;
};

static void on_change(void *arg) {
    struct world *w = arg;
    w->changes++;
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(pipe2(w->pipe, O_CLOEXEC), 0);
    assert_int_equal(fcntl(w->pipe[0], F_SETFL, O_NONBLOCK), 0);
    const struct proc_output_options o = {
        .fd = w->pipe[1], .width = 1, .change = on_change, .arg = w};
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    w->out = proc_output_open(w->loop, &o);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    co_closep(&w->pipe[0]);
    proc_output_close(w->out);
    co_closep(&w->pipe[1]);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static size_t read_all(struct world *w) {
    static char text[1 << 16];
    size_t sum = 0;
    for (ssize_t n = 1; n > 0; sum += n > 0 ? (size_t)n : 0) {
        n = read(w->pipe[0], text, sizeof(text));
    }
    return sum;
}

static void sources_wait_for_a_reader_and_nothing_is_lost(void **state) {
    static const char line[] = "0123456789012345678901234567890123456789012345678901234567890\n";
    struct world *w = *state;
    struct proc_source source = {.name = "a"};
    size_t added = 0, got = 0;
    while (!proc_output_full(w->out) && added < MOST) {
        proc_output_add(w->out, &source, line, strlen(line));
        added += strlen("a | ") + strlen(line);
    }
    assert_true(proc_output_full(w->out));
    assert_true(added < MOST);
    assert_int_equal(w->changes, 1);
    while (proc_output_full(w->out) && got < added) {
        got += read_all(w);
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->changes, 2);
    for (size_t n = 1; got < added && n;) {
        n = read_all(w);
        got += n;
        co_loop_turn(w->loop);
    }
    assert_int_equal(got, added);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            sources_wait_for_a_reader_and_nothing_is_lost, setup, teardown),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
