#include "common/loop.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* What callbacks did, in order, as letters. */
struct trace {
    struct co_loop *l;
    char text[64];
    size_t len;
    struct co_timer *t, *t2;
    struct co_poll *p;
    struct co_signal *s;
    int fd, events, rounds;
};

static void note(struct trace *tr, char c) {
    assert_true(tr->len + 1 < sizeof(tr->text));
    tr->text[tr->len++] = c;
}

static int setup(void **state) {
    struct trace *tr = co_xcalloc(1, sizeof(*tr));
    struct co_err err;
    assert_int_equal(co_loop_new(&tr->l, &err), 0);
    *state = tr;
    return 0;
}

static int teardown(void **state) {
    struct trace *tr = *state;
    co_loop_free(tr->l);
    free(tr);
    return 0;
}

static void note_a(void *arg) {
    note(arg, 'a');
}

static void note_b(void *arg) {
    note(arg, 'b');
}

static void stop(void *arg) {
    struct trace *tr = arg;
    note(tr, 's');
    co_loop_stop(tr->l);
}

static void timers_fire_in_order_of_their_time(void **state) {
    struct trace *tr = *state;
    struct co_timer *late = co_timer_new(tr->l, note_b, tr);
    struct co_timer *early = co_timer_new(tr->l, note_a, tr);
    int64_t start = co_now_ms();
    co_timer_start(late, 20);
    co_timer_start(early, 5);
    assert_int_equal(tr->len, 0);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "ab");
    assert_true(co_now_ms() - start >= 20);
    assert_false(co_timer_armed(late));
    co_timer_free(late);
    co_timer_free(early);
}

static void rearming_a_timer_replaces_and_stopping_cancels(void **state) {
    struct trace *tr = *state;
    struct co_timer *t = co_timer_new(tr->l, note_a, tr);
    struct co_timer *never = co_timer_new(tr->l, note_b, tr);
    co_timer_start(never, 1);
    co_timer_start(t, 3600 * 1000);
    co_timer_start(t, 2);
    assert_true(co_timer_armed(t));
    co_timer_stop(never);
    assert_false(co_timer_armed(never));
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "a");
    co_timer_free(t);
    co_timer_free(never);
}

static void free_own_timer(void *arg) {
    struct trace *tr = arg;
    note(tr, 'f');
    co_timer_free(co_steal_ptr(tr->t));
}

static void timer_may_be_freed_in_its_own_callback(void **state) {
    struct trace *tr = *state;
    tr->t = co_timer_new(tr->l, free_own_timer, tr);
    co_timer_start(tr->t, 0);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "f");
}

static void timer_freed_by_another_due_one_does_not_fire(void **state) {
    struct trace *tr = *state;
    struct co_timer *killer = co_timer_new(tr->l, free_own_timer, tr);
    tr->t = co_timer_new(tr->l, note_b, tr);
    co_timer_start(killer, 0);
    co_timer_start(tr->t, 0);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "f");
    co_timer_free(killer);
}

static void rearm_at_once(void *arg) {
    struct trace *tr = arg;
    if (tr->rounds++ < 100000 && tr->t) {
        co_timer_start(tr->t, 0);
    }
}

static void timer_that_rearms_itself_does_not_starve_posts(void **state) {
    struct trace *tr = *state;
    tr->t = co_timer_new(tr->l, rearm_at_once, tr);
    co_timer_start(tr->t, 0);
    co_loop_post(tr->l, stop, tr);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "s");
    assert_true(tr->rounds < 100);
    co_timer_free(tr->t);
}

static void busy_then_arm(void *arg) {
    struct trace *tr = arg;
    int64_t until = co_now_ms() + 30;
    while (co_now_ms() < until) {
    }
    tr->rounds = (int)(co_now_ms() - until);
    co_timer_start(tr->t2, 20);
    note(tr, 'x');
}

static void delay_counts_from_the_call_not_from_the_turn(void **state) {
    struct trace *tr = *state;
    struct co_timer *t = co_timer_new(tr->l, busy_then_arm, tr);
    tr->t2 = co_timer_new(tr->l, note_b, tr);
    int64_t start = co_now_ms();
    co_timer_start(t, 0);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "xb");
    assert_true(co_now_ms() - start >= 50);
    co_timer_free(t);
    co_timer_free(tr->t2);
}

static void read_note(void *arg, int events) {
    struct trace *tr = arg;
    char c;
    (void)events;
    assert_int_equal(read(tr->fd, &c, 1), 1);
    note(tr, c);
}

/* As a process that was stopped, or had no processor, finds it: a timer is due, and what came
 * before it has not been read. */
static void a_timer_of_silence_reads_first_after_a_stop(void **state) {
    struct trace *tr = *state;
    struct co_err err;
    int fds[2];
    struct co_timer *t = co_timer_new(tr->l, stop, tr);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    tr->fd = fds[0];
    assert_int_equal(co_poll_new(tr->l, fds[0], read_note, tr, &tr->p, &err), 0);
    co_poll_set(tr->p, CO_POLL_IN);
    const int64_t start = co_now_ms();
    co_timer_start_awake(t, 40);
    assert_true(co_timer_armed(t));
    assert_int_equal(write(fds[1], "d", 1), 1);
    while (co_now_ms() - start < 60) {
    }
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "ds");
    assert_false(co_timer_armed(t));
    assert_true(co_now_ms() - start >= 60 + 40); /* the stop did not count */
    co_timer_start_awake(t, 1);
    co_timer_start(t, 0); /* replaces it */
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "dss");
    co_timer_free(t);
    close(fds[0]);
    close(fds[1]);
}

/* Far more than the timer's parts and excuses: it never ends. */
enum { ROUNDS_MAX = 1000 };

static void stand_still(void *arg) {
    struct trace *tr = arg;
    const int64_t until = co_now_ms() + 5;
    while (co_now_ms() < until) {
    }
    if (++tr->rounds < ROUNDS_MAX) {
        co_timer_start(tr->t2, 1);
    } else {
        stop(tr);
    }
}

static void a_timer_of_silence_ends_in_a_process_that_is_always_late(void **state) {
    struct trace *tr = *state;
    struct co_timer *t = co_timer_new(tr->l, stop, tr);
    tr->t2 = co_timer_new(tr->l, stand_still, tr);
    co_timer_start(tr->t2, 1);
    co_timer_start_awake(t, 8);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "s");
    assert_true(tr->rounds < ROUNDS_MAX);
    co_timer_free(t);
    co_timer_free(tr->t2);
}

static void a_wait_of_weeks_fits_polls_timeout(void **state) {
    (void)state;
    assert_int_equal(co_poll_ms(-5), 0);
    assert_int_equal(co_poll_ms(7), 7);
    assert_int_equal(co_poll_ms((INT64_C(1) << 32) + 1), INT_MAX);
    assert_int_equal(co_poll_ms(INT64_MAX), INT_MAX);
}

static void post_again(void *arg) {
    struct trace *tr = arg;
    note(tr, 'p');
    co_loop_post(tr->l, note_b, tr);
}

static void posts_run_in_order_and_a_post_from_a_post_comes_later(void **state) {
    struct trace *tr = *state;
    co_loop_post(tr->l, post_again, tr);
    co_loop_post(tr->l, note_a, tr);
    assert_int_equal(tr->len, 0);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "pab");
}

static void turn_runs_posts_and_does_not_wait_when_nothing_is_armed(void **state) {
    struct trace *tr = *state;
    co_loop_turn(tr->l);
    co_loop_post(tr->l, note_a, tr);
    co_loop_turn(tr->l);
    assert_string_equal(tr->text, "a");
}

static void stop_before_run_returns_at_once_and_only_once(void **state) {
    struct trace *tr = *state;
    struct co_timer *t = co_timer_new(tr->l, note_a, tr);
    co_timer_start(t, 0);
    co_loop_stop(tr->l);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "");
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "a");
    co_timer_free(t);
}

static void posts_left_at_free_are_dropped(void **state) {
    struct trace *tr = *state;
    co_loop_post(tr->l, note_a, tr);
    struct co_timer *armed = co_timer_new(tr->l, note_b, tr);
    co_timer_start(armed, 0);
    co_loop_free(tr->l); /* frees the timer, too */
    assert_string_equal(tr->text, "");
    tr->l = NULL;
}

enum { THREADS = 4, POSTS = 2000 };

struct poster {
    struct co_loop *l;
    int count;    /* by the loop's thread only */
    int *running; /* posters that have not finished; by the loop's thread only */
};

static void posted_number(void *arg) {
    struct poster *p = arg;
    p->count++;
}

static void poster_finished(void *arg) {
    struct poster *p = arg;
    assert_int_equal(p->count, POSTS);
    if (--*p->running == 0) {
        co_loop_stop(p->l);
    }
}

static void *poster_main(void *arg) {
    struct poster *p = arg;
    for (int i = 0; i < POSTS; i++) {
        co_loop_post(p->l, posted_number, p);
    }
    co_loop_post(p->l, poster_finished, p);
    return NULL;
}

static void posts_from_threads_all_run_in_the_order_of_each(void **state) {
    struct trace *tr = *state;
    int running = THREADS;
    struct poster posters[THREADS];
    pthread_t threads[THREADS];
    struct co_timer *keep = co_timer_new(tr->l, note_a, tr);
    co_timer_start(keep, 3600 * 1000);
    for (int i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){.l = tr->l, .running = &running};
        assert_int_equal(pthread_create(&threads[i], NULL, poster_main, &posters[i]), 0);
    }
    co_loop_run(tr->l);
    assert_int_equal(running, 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    co_timer_free(keep);
}

static void read_one(void *arg, int events) {
    struct trace *tr = arg;
    tr->events = events;
    char c = '?';
    if (read(tr->fd, &c, 1) == 1) {
        note(tr, c);
    } else {
        note(tr, '.');
        co_poll_free(co_steal_ptr(tr->p));
    }
}

static void poll_sees_bytes_then_the_end_and_may_be_freed_inside(void **state) {
    struct trace *tr = *state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    tr->fd = fds[0];
    struct co_err err;
    assert_int_equal(co_poll_new(tr->l, fds[0], read_one, tr, &tr->p, &err), 0);
    assert_int_equal(write(fds[1], "xy", 2), 2);
    co_loop_turn(tr->l); /* paused until asked for */
    assert_string_equal(tr->text, "");
    co_poll_set(tr->p, CO_POLL_IN);
    close(fds[1]);
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "xy.");
    assert_int_equal(tr->events & CO_POLL_IN, CO_POLL_IN);
    close(fds[0]);
}

static void a_thread_that_polls_by_itself_serves_the_loop(void **state) {
    struct trace *tr = *state;
    assert_int_equal(co_loop_patience(tr->l), -1); /* nothing is armed */
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    tr->fd = fds[0];
    assert_int_equal(co_poll_new(tr->l, fds[0], read_one, tr, &tr->p, NULL), 0);
    co_poll_set(tr->p, CO_POLL_IN);
    assert_int_equal(co_loop_patience(tr->l), 0); /* the kernel has yet to learn what to watch */
    struct pollfd p = {.fd = co_loop_fd(tr->l), .events = POLLIN};
    co_loop_serve(tr->l);
    assert_int_equal(co_loop_patience(tr->l), -1); /* as long as it likes */
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(poll(&p, 1, 60000), 1);
    co_loop_serve(tr->l);
    assert_string_equal(tr->text, "x");
    struct co_timer *t = co_timer_new(tr->l, note_b, tr);
    co_timer_start(t, 60000); /* however long this thread stands still meanwhile */
    assert_in_range(co_loop_patience(tr->l), 1, 60001);
    co_timer_start(t, 50);
    int patience = co_loop_patience(tr->l);
    assert_in_range(patience, 0, 51);
    assert_int_equal(poll(&p, 1, patience), 0);
    while (tr->len < 2) {
        co_loop_serve(tr->l);
    }
    assert_string_equal(tr->text, "xb");
    co_close(fds[0]);
    co_close(fds[1]);
}

static void count_events(void *arg, int events) {
    struct trace *tr = arg;
    tr->events = events;
    if (++tr->rounds == 3) {
        co_loop_stop(tr->l);
    }
}

static void a_descriptor_error_reports_in_and_out_and_stays_armed(void **state) {
    struct trace *tr = *state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    close(fds[0]); /* the write end now has POLLERR */
    struct co_err err;
    assert_int_equal(co_poll_new(tr->l, fds[1], count_events, tr, &tr->p, &err), 0);
    co_poll_set(tr->p, CO_POLL_OUT);
    co_loop_run(tr->l);
    assert_int_equal(tr->events, CO_POLL_IN | CO_POLL_OUT);
    assert_int_equal(tr->rounds, 3);
    co_poll_free(tr->p);
    close(fds[1]);
}

static void descriptor_may_be_watched_again_after_free(void **state) {
    struct trace *tr = *state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct co_err err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(co_poll_new(tr->l, fds[0], count_events, tr, &tr->p, &err), 0);
        co_poll_set(tr->p, CO_POLL_OUT);
        co_loop_turn(tr->l);
        assert_int_equal(tr->events, CO_POLL_OUT);
        co_poll_free(tr->p);
    }
    close(fds[0]);
    close(fds[1]);
}

static void bad_descriptor_is_refused_by_number(void **state) {
    struct trace *tr = *state;
    struct co_err err;
    assert_true(co_poll_new(tr->l, 987654, count_events, tr, &tr->p, &err) < 0);
    assert_non_null(strstr(err.msg, "987654"));
}

static void on_usr1(void *arg, int signo) {
    struct trace *tr = arg;
    note(tr, signo == SIGUSR1 ? '1' : '?');
    if (tr->len == 2) {
        co_signal_free(co_steal_ptr(tr->s));
    } else {
        raise(signo);
    }
}

static void old_handler(int signo) {
    (void)signo;
}

static void signals_arrive_on_the_loop_and_the_old_handler_returns(void **state) {
    struct trace *tr = *state;
    struct sigaction before = {.sa_handler = old_handler}, now;
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    struct co_err err;
    struct co_signal *other;
    assert_int_equal(co_signal_new(tr->l, SIGUSR1, on_usr1, tr, &tr->s, &err), 0);
    assert_int_equal(co_signal_new(tr->l, SIGUSR2, on_usr1, tr, &other, &err), 0);
    co_signal_free(other);
    raise(SIGUSR1);
    assert_string_equal(tr->text, "");
    co_loop_run(tr->l);
    assert_string_equal(tr->text, "11");
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, old_handler);
    signal(SIGUSR1, SIG_DFL);
}

static void signals_that_cannot_be_caught_are_an_error(void **state) {
    struct trace *tr = *state;
    struct co_err err;
    assert_int_equal(co_signal_new(tr->l, SIGKILL, on_usr1, tr, &tr->s, &err), CO_INVALID);
    assert_int_equal(co_signal_new(tr->l, 0, on_usr1, tr, &tr->s, &err), CO_INVALID);
    assert_int_equal(co_signal_new(tr->l, 1000, on_usr1, tr, &tr->s, &err), CO_INVALID);
}

static void free_restores_signals_and_frees_open_handles(void **state) {
    struct trace *tr = *state;
    struct co_err err;
    assert_int_equal(co_signal_new(tr->l, SIGUSR1, on_usr1, tr, &tr->s, &err), 0);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(co_poll_new(tr->l, fds[0], count_events, tr, &tr->p, &err), 0);
    co_loop_free(co_steal_ptr(tr->l));
    struct sigaction now;
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_DFL);
    close(fds[0]);
    close(fds[1]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(timers_fire_in_order_of_their_time),
        T(rearming_a_timer_replaces_and_stopping_cancels),
        T(timer_may_be_freed_in_its_own_callback),
        T(timer_freed_by_another_due_one_does_not_fire),
        T(timer_that_rearms_itself_does_not_starve_posts),
        T(delay_counts_from_the_call_not_from_the_turn),
        T(a_timer_of_silence_reads_first_after_a_stop),
        T(a_timer_of_silence_ends_in_a_process_that_is_always_late),
        T(a_wait_of_weeks_fits_polls_timeout),
        T(posts_run_in_order_and_a_post_from_a_post_comes_later),
        T(turn_runs_posts_and_does_not_wait_when_nothing_is_armed),
        T(stop_before_run_returns_at_once_and_only_once),
        T(posts_left_at_free_are_dropped),
        T(posts_from_threads_all_run_in_the_order_of_each),
        T(poll_sees_bytes_then_the_end_and_may_be_freed_inside),
        T(a_thread_that_polls_by_itself_serves_the_loop),
        T(a_descriptor_error_reports_in_and_out_and_stays_armed),
        T(descriptor_may_be_watched_again_after_free),
        T(bad_descriptor_is_refused_by_number),
        T(signals_arrive_on_the_loop_and_the_old_handler_returns),
        T(signals_that_cannot_be_caught_are_an_error),
        T(free_restores_signals_and_frees_open_handles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
