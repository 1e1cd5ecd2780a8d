#include "runtime/launch/process/training_end.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/http/httpd.h"
#include "common/parse.h"

/* An operator that answers as its script says, one word a question: "hold" after 1.1 s that it is
 * not over, "wait", "no", "web" and "over" at once. */
static struct {
    struct co_loop *loop;
    struct co_httpd *httpd;
    const char *script;
    int asked;
    char path[200];
    int64_t over_at, answered_at;
} world;

static void not_over(void *arg, struct co_http_req *req) {
    (void)arg;
    co_http_replyf(req, 202, "not over\n");
}

static void gone(void *arg, struct co_http_req *req) {
    (void)arg;
    (void)req;
    fail_msg("the client went away");
}

static void asked(void *arg, struct co_http_req *req) {
    (void)arg;
    char word[16] = "";
    int n = 0;
    assert_int_equal(sscanf(world.script, " %15s%n", word, &n), 1);
    world.script += n;
    world.asked++;
    world.answered_at = co_now_ms();
    (void)snprintf(world.path, sizeof(world.path), "%s wait=%s", co_http_path(req),
        co_http_query(req, "wait"));
    if (strcmp(word, "hold") == 0) {
        co_http_defer(req, 1100, not_over, gone, NULL);
    } else if (strcmp(word, "wait") == 0) {
        not_over(NULL, req);
    } else if (strcmp(word, "no") == 0) {
        co_http_replyf(req, 404, "not known here\n");
    } else {
        co_http_replyf(req, 200, "%s", strcmp(word, "over") == 0 ? "over\n" : "<html>over\n");
    }
}

static void over(void *arg) {
    world.over_at = co_now_ms();
    proc_training_end_free(*(struct proc_training_end **)arg);
    co_loop_stop(world.loop);
}

/* The first address refuses; the second is the operator's. */
static void the_operator_is_asked_until_it_answers(void **state) {
    (void)state;
    static const struct co_http_route routes[] = {{"GET", "/end/v1/*", asked}};
    world.script = "no web hold over";
    assert_int_equal(co_loop_new(&world.loop, NULL), 0);
    assert_int_equal(
        co_httpd_open(world.loop, "127.0.0.1:0", routes, 1, NULL, NULL, &world.httpd, NULL), 0);
    char where[100];
    (void)snprintf(where, sizeof(where), "127.0.0.2:9,127.0.0.1:%u/end/v1/ns/job/uid",
        co_httpd_port(world.httpd));
    struct proc_training_end *training_end = NULL;
    struct co_err err = {0};
    int64_t start = co_now_ms();
    training_end = proc_training_end_new(world.loop, where, over, &training_end, &err);
    assert_non_null(training_end);
    co_loop_run(world.loop);
    assert_int_equal(world.asked, 4);
    assert_string_equal(world.path, "/end/v1/ns/job/uid wait=50");
    /* It pauses where nobody holds the question, longer each time. */
    assert_in_range(world.answered_at - start, 500 + 1000 + 1100, 30000);
    assert_in_range(world.over_at - world.answered_at, PROC_TRAINING_END_LEAVE_MS - 5, 60000);
    co_httpd_close(world.httpd);
    co_loop_free(world.loop);
}

static void an_address_that_cannot_be_asked_is_named(void **state) {
    (void)state;
    static const struct {
        const char *where;
        bool said;
    } rows[] = {{NULL, false}, {"", false}, {"10.0.0.1:8082", true}, {"/end/v1/a/b/c", true},
        {"10.0.0.1/end", true}, {"10.0.0.1:1,x/end", true}, {"10.0.0.1:1/a b", true}};
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        assert_null(proc_training_end_new(loop, rows[i].where, over, NULL, &err));
        assert_int_equal(err.code != 0, rows[i].said);
        assert_true(!rows[i].said || strstr(err.msg, "PADDLE_TRAINING_END"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_operator_is_asked_until_it_answers),
        cmocka_unit_test(an_address_that_cannot_be_asked_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
