#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/conn.h"

/* This program's resolver: it knows "there", and answers for "slow" when it is let. */
static sem_t let, freed;

int getaddrinfo(const char *restrict host, const char *restrict port,
    const struct addrinfo *restrict hints, struct addrinfo **restrict ret) {
    (void)port;
    bool slow = strcmp(host, "slow") == 0;
    if (hints->ai_flags & AI_NUMERICHOST || (!slow && strcmp(host, "there") != 0)) {
        return EAI_NONAME;
    }
    if (slow) {
        (void)sem_wait(&let);
    }
    *ret = co_xcalloc(1, sizeof(**ret));
    return 0;
}

void freeaddrinfo(struct addrinfo *list) {
    free(list);
    (void)sem_post(&freed);
}

struct result {
    struct co_loop *loop;
    int n;
    bool found;
    struct co_err err;
};

static void on_lookup(void *arg, const struct addrinfo *list, const struct co_err *err) {
    struct result *t = arg;
    t->n++;
    t->found = list != NULL;
    t->err = *err;
    co_loop_stop(t->loop);
}

static void a_lookup_returns_once(void **state) {
    (void)state;
    static const struct {
        const char *host, *error; /* NULL: found */
    } rows[] = {
        {"there", NULL},
        {"nowhere", "cannot find host nowhere: Name or service not known"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct result t = {.n = 0};
        assert_int_equal(co_loop_new(&t.loop, NULL), 0);
        (void)co_lookup_start(t.loop, rows[i].host, 80, on_lookup, &t);
        assert_int_equal(t.n, 0);
        co_loop_run(t.loop);
        co_loop_free(t.loop);
        assert_int_equal(t.n, 1);
        assert_int_equal(t.found, rows[i].error == NULL);
        assert_string_equal(t.err.msg, rows[i].error ? rows[i].error : "");
    }
    assert_int_equal(sem_wait(&freed), 0);
}

/* A program that is asked to stop stops at once, however long the resolver takes. */
static void a_loop_that_ends_leaves_the_resolver_alone(void **state) {
    (void)state;
    struct result t = {.n = 0};
    assert_int_equal(co_loop_new(&t.loop, NULL), 0);
    struct co_lookup *q = co_lookup_start(t.loop, "slow", 80, on_lookup, &t);
    co_lookup_cancel(q);
    co_loop_free(t.loop);
    assert_int_equal(sem_trywait(&freed), -1);
    assert_int_equal(sem_post(&let), 0);
    assert_int_equal(sem_wait(&freed), 0); /* by its thread */
    assert_int_equal(t.n, 0);
}

static void a_canceled_lookup_calls_nobody_back(void **state) {
    (void)state;
    struct result t = {.n = 0};
    assert_int_equal(co_loop_new(&t.loop, NULL), 0);
    struct co_lookup *q = co_lookup_start(t.loop, "slow", 80, on_lookup, &t);
    assert_int_equal(sem_post(&let), 0);
    co_lookup_cancel(q);
    co_loop_turn(t.loop);
    co_loop_free(t.loop);
    assert_int_equal(sem_wait(&freed), 0);
    assert_int_equal(t.n, 0);
}

/* Each of these has a thread. */
static void concurrent_lookups_are_bounded(void **state) {
    (void)state;
    enum { MOST = 256 };
    struct result t = {.n = 0}, late = {.n = 0};
    struct co_lookup *all[MOST];
    assert_int_equal(co_loop_new(&t.loop, NULL), 0);
    late.loop = t.loop;
    for (int i = 0; i < MOST; i++) {
        all[i] = co_lookup_start(t.loop, "slow", 80, on_lookup, &t);
    }
    (void)co_lookup_start(t.loop, "slow", 80, on_lookup, &late);
    co_loop_run(t.loop);
    assert_int_equal(t.n, 0);
    assert_int_equal(late.n, 1);
    assert_non_null(strstr(late.err.msg, "Temporary failure"));
    for (int i = 0; i < MOST; i++) {
        co_lookup_cancel(all[i]);
        assert_int_equal(sem_post(&let), 0);
    }
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(sem_wait(&freed), 0);
    }
    co_loop_free(t.loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lookup_returns_once),
        cmocka_unit_test(a_loop_that_ends_leaves_the_resolver_alone),
        cmocka_unit_test(a_canceled_lookup_calls_nobody_back),
        cmocka_unit_test(concurrent_lookups_are_bounded),
    };
    assert_int_equal(sem_init(&let, 0, 0) | sem_init(&freed, 0, 0), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
