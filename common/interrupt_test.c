#include "common/interrupt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/thread.h"

static int asked;
static int true_at; /* the question to which the answer is true; 0: none */

static bool check(void) {
    return ++asked == true_at;
}

static int begin(void **state) {
    (void)state;
    asked = true_at = 0;
    co_interrupt_set(check);
    return 0;
}

static int end(void **state) {
    (void)state;
    co_interrupt_set(NULL);
    return 0;
}

static void a_program_is_asked_when_it_is_time(void **state) {
    (void)state;
    int64_t ask_ms = co_interrupt_next(), later = INT64_MAX;
    assert_true(ask_ms > co_now_ms());
    assert_false(co_interrupted(&later));
    assert_int_equal(asked, 0);
    ask_ms = 0;
    assert_false(co_interrupted(&ask_ms));
    assert_int_equal(asked, 1);
    assert_true(ask_ms > 0);
}

/* Also waits that come after it, as of the same call's other parts. */
static void once_it_has_said_so_all_waits_end(void **state) {
    (void)state;
    true_at = 1;
    int64_t ask_ms = 0;
    assert_true(co_interrupted(&ask_ms));
    ask_ms = co_interrupt_next();
    assert_true(ask_ms <= co_now_ms());
    assert_true(co_interrupted(&ask_ms));
    assert_int_equal(asked, 1);
    co_interrupt_set(check);
    ask_ms = 0;
    assert_false(co_interrupted(&ask_ms));
    assert_int_equal(asked, 2);
}

/* Its parts may be short: the time of the question is theirs together. */
static void a_wait_for_descriptors_asks(void **state) {
    (void)state;
    int64_t ask_ms = co_interrupt_next(), far_ms = INT64_MAX;
    true_at = 2;
    assert_int_equal(co_interrupt_poll(NULL, 0, co_now_ms(), &ask_ms), 0); /* its own deadline */
    assert_int_equal(asked, 0);
    assert_int_equal(co_interrupt_poll(NULL, 0, INT64_MAX, &ask_ms), 0);
    assert_int_equal(asked, 2);
    assert_true(co_interrupted(&ask_ms));
    assert_true(co_interrupted(&far_ms)); /* also a wait around it, whose time has not come */
    assert_int_equal(asked, 2);
}

static void *look(void *arg) {
    *(int64_t *)arg = co_interrupt_next();
    return NULL;
}

static void a_thread_is_not_asked_for_another(void **state) {
    (void)state;
    int64_t ask_ms = 0;
    pthread_t t;
    assert_int_equal(co_thread_start(&t, look, &ask_ms), 0);
    pthread_join(t, NULL);
    assert_true(ask_ms == INT64_MAX);
    co_interrupt_set(NULL);
    ask_ms = 0;
    assert_false(co_interrupted(&ask_ms));
    assert_int_equal(asked, 0);
}

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

/* It may make calls, which take locks. */
static bool check_takes_the_lock(void) {
    asked++;
    assert_int_equal(pthread_mutex_lock(&m), 0);
    pthread_mutex_unlock(&m);
    return asked == 2;
}

static void a_wait_for_a_condition_asks_without_the_lock(void **state) {
    (void)state;
    co_interrupt_set(check_takes_the_lock);
    co_cond_init(&changed);
    pthread_mutex_lock(&m);
    int64_t ask_ms = co_interrupt_next(), end_ms = co_now_ms();
    assert_false(co_interrupt_wait(&changed, &m, end_ms, &ask_ms)); /* its own deadline */
    assert_int_equal(asked, 0);
    while (!co_interrupt_wait(&changed, &m, INT64_MAX, &ask_ms)) {
    }
    assert_int_equal(asked, 2);
    pthread_mutex_unlock(&m);
    pthread_cond_destroy(&changed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_program_is_asked_when_it_is_time, begin, end),
        cmocka_unit_test_setup_teardown(once_it_has_said_so_all_waits_end, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_for_descriptors_asks, begin, end),
        cmocka_unit_test_setup_teardown(a_thread_is_not_asked_for_another, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_for_a_condition_asks_without_the_lock, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
