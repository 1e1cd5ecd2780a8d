#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "operator/kube/client.h"

/* This program's resolver: it says when it is asked, and answers when it is let. */
static sem_t asked, let, answered;

int getaddrinfo(const char *restrict host, const char *restrict port,
    const struct addrinfo *restrict hints, struct addrinfo **restrict ret) {
    (void)host;
    (void)port;
    (void)hints;
    (void)ret;
    (void)sem_post(&asked);
    (void)sem_wait(&let);
    (void)sem_post(&answered);
    return EAI_AGAIN;
}

static void on_done(void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    (void)reply;
    (void)err;
    *(int *)arg = code;
}

/* The resolver's thread may begin late on a busy machine. */
static bool asked_within(time_t seconds) {
    struct timespec until;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += seconds;
    return sem_timedwait(&asked, &until) == 0;
}

static void client_start(struct co_loop **ret_loop, struct kube_client **ret_client) {
    struct kube_config *cfg = co_xcalloc(1, sizeof(*cfg));
    cfg->source = co_xstrdup("test");
    cfg->server = co_xstrdup("http://api.test");
    cfg->ns = co_xstrdup("default");
    assert_int_equal(co_loop_new(ret_loop, NULL), 0);
    assert_int_equal(kube_client_new(*ret_loop, cfg, NULL, ret_client, NULL), 0);
}

/* What libcurl had is freed by its threads. */
static void resolvers_end(int n) {
    for (int i = 0; i < n; i++) {
        assert_int_equal(sem_post(&let), 0);
        assert_int_equal(sem_wait(&answered), 0);
    }
}

/* A request that is made late in a turn of the loop, as on a machine that stands still. */
static void a_deadline_counts_from_the_call(void **state) {
    (void)state;
    struct co_loop *loop;
    struct kube_client *client;
    client_start(&loop, &client);
    int code = 0;
    struct kube_req req = {
        .path = "/version", .done = on_done, .arg = &code, .deadline_ms = 3600 * 1000};
    co_loop_turn(loop);
    co_test_clock_forward(2 * 3600 * 1000);
    struct kube_op *op = kube_do(client, &req);
    while (sem_trywait(&asked) && !code) {
        co_loop_turn(loop);
    }
    assert_int_equal(0, code);
    kube_cancel(op);
    kube_client_free(client);
    co_loop_free(loop);
    resolvers_end(1);
}

/* An API server that has a name, and a cluster without DNS. */
static void a_resolver_that_does_not_answer_holds_nobody_up(void **state) {
    (void)state;
    struct co_loop *loop;
    struct kube_client *client;
    client_start(&loop, &client);
    int code = 0;
    struct kube_req req = {.path = "/version", .done = on_done, .arg = &code};
    /* On a machine that stands still the deadline passes before the resolver is asked at all. */
    bool is_asked = false;
    for (req.deadline_ms = 50; !is_asked && req.deadline_ms < 10000; req.deadline_ms *= 4) {
        code = 0;
        (void)kube_do(client, &req);
        while (!code) {
            co_loop_turn(loop);
        }
        assert_int_equal(code, CO_TIMEOUT);
        is_asked = asked_within(10);
    }
    assert_true(is_asked);
    req.deadline_ms = 0;
    struct kube_op *op = kube_do(client, &req);
    while (sem_trywait(&asked)) {
        co_loop_turn(loop);
    }
    kube_cancel(op);
    kube_client_free(client);
    co_loop_free(loop);
    assert_int_equal(sem_trywait(&answered), -1);
    resolvers_end(2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_counts_from_the_call),
        cmocka_unit_test(a_resolver_that_does_not_answer_holds_nobody_up),
    };
    assert_int_equal(sem_init(&asked, 0, 0) | sem_init(&let, 0, 0) | sem_init(&answered, 0, 0), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
