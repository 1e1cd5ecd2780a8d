#include "runtime/launch/process/relay.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BIG = 200000 /* more than a pipe holds */ };

static struct proc_relay *open_relay(struct co_loop *loop, int to) {
    struct proc_relay *r = NULL;
    assert_int_equal(proc_relay_new(loop, to, &r, NULL), 0);
    return r;
}

static void say(struct proc_relay *r, const char *text) {
    ssize_t n = (ssize_t)strlen(text);
    assert_int_equal(write(proc_relay_fd(r), text, (size_t)n), n);
}

static void output_of_children_is_copied_and_its_last_lines_are_kept(void **state) {
    (void)state;
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    int to[2];
    char text[128];
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    assert_int_equal(pipe(to), 0);
    struct proc_relay *a = open_relay(loop, to[1]), *b = open_relay(loop, to[1]);
    say(a, "Traceback\nValueError: bad\n");
    say(b, "well\n");
    proc_relay_started(a);
    proc_relay_started(b);
    proc_relay_finish(a);
    proc_relay_finish(b);
    assert_int_equal(read(to[0], text, sizeof(text)), 31);
    assert_memory_equal(text, "Traceback\nValueError: bad\nwell\n", 31);
    assert_int_equal(proc_tail_copy(proc_relay_tail(a), text, sizeof(text)), 25);
    assert_string_equal(text, "Traceback\nValueError: bad");
    proc_relay_free(a);
    proc_relay_free(b);
    co_close(to[0]);
    co_close(to[1]);
}

static char byte_at(size_t i) {
    return (char)(i % 251);
}

struct reader {
    struct co_loop *loop;
    int fd;
    size_t n;
};

/* Less at a time than the relay passes on, so that the pipe between them is full soon. */
static void read_some(void *arg, int events) {
    struct reader *r = arg;
    char buf[100];
    (void)events;
    ssize_t n = read(r->fd, buf, sizeof(buf));
    for (ssize_t i = 0; i < n; i++) {
        assert_int_equal(buf[i], byte_at(r->n++));
    }
    if (r->n == BIG) {
        co_loop_stop(r->loop);
    }
}

/* A stream that takes no more holds nothing up but the child, and loses nothing. */
static void a_slow_reader_gets_all(void **state) {
    (void)state;
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    int to[2];
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    assert_int_equal(pipe(to), 0);
    struct proc_relay *r = open_relay(loop, to[1]);
    pid_t pid = fork();
    if (pid == 0) {
        static char text[BIG];
        for (size_t i = 0; i < sizeof(text); i++) {
            text[i] = byte_at(i);
        }
        for (size_t n = 0; n < sizeof(text);) {
            ssize_t w = write(proc_relay_fd(r), text + n, sizeof(text) - n);
            n += w > 0 ? (size_t)w : 0;
        }
        _exit(0);
    }
    proc_relay_started(r);
    struct reader reader = {.loop = loop, .fd = to[0]};
    struct co_poll *poll = NULL;
    assert_int_equal(co_poll_new(loop, to[0], read_some, &reader, &poll, NULL), 0);
    co_poll_set(poll, CO_POLL_IN);
    co_loop_run(loop);
    assert_int_equal(reader.n, BIG);
    co_poll_free(poll);
    proc_relay_free(r);
    co_close(to[0]);
    co_close(to[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_of_children_is_copied_and_its_last_lines_are_kept),
        cmocka_unit_test(a_slow_reader_gets_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
