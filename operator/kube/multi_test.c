#include "operator/kube/multi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "operator/kube/fake_server_testing.h"

struct world {
    struct co_loop *loop;
    struct fake_server server;
    struct kube_multi multi;
    CURL *easy;
    bool ended;
    CURLcode result;
    char body[64];
    int64_t turn_ms, read_ms; /* monotonic: before the turn that read the last of it, and then */
};

static void on_acted(void *arg) {
    struct world *w = arg;
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(w->multi.curl, &left))) {
        w->ended = true;
        w->result = m->data.result;
    }
}

static size_t on_body(char *data, size_t size, size_t n, void *arg) {
    struct world *w = arg;
    size_t have = strlen(w->body);
    assert_true(have + size * n < sizeof(w->body));
    memcpy(w->body + have, data, size * n);
    w->read_ms = co_now_ms();
    return size * n;
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_true(fake_start(&w->server, w->loop));
    assert_true(kube_multi_init(&w->multi, w->loop, 100, on_acted, w));
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    curl_multi_remove_handle(w->multi.curl, w->easy);
    curl_easy_cleanup(w->easy);
    kube_multi_done(&w->multi);
    fake_stop(&w->server);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

static void begin(struct world *w, const struct fake_step *step, long timeout_ms) {
    char url[64];
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", w->server.port);
    fake_script(&w->server, step, 1);
    w->easy = curl_easy_init();
    curl_easy_setopt(w->easy, CURLOPT_URL, url);
    curl_easy_setopt(w->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(w->easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl_easy_setopt(w->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(w->easy, CURLOPT_WRITEDATA, w);
    assert_int_equal(curl_multi_add_handle(w->multi.curl, w->easy), CURLM_OK);
}

static void transfer(struct world *w, const struct fake_step *step, long timeout_ms) {
    begin(w, step, timeout_ms);
    while (!w->ended) {
        co_loop_turn(w->loop);
    }
}

static void the_loop_carries_a_transfer_to_its_end(void **state) {
    struct world *w = *state;
    static const struct fake_step step = {"GET / HTTP/1.1", 200, "hello", FAKE_KEEP, NULL};
    transfer(w, &step, 100 * 1000);
    assert_int_equal(w->result, CURLE_OK);
    assert_string_equal(w->body, "hello");
}

static void a_deadline_comes_although_no_byte_does(void **state) {
    struct world *w = *state;
    static const struct fake_step step = {"GET /", 0, NULL, FAKE_HOLD, NULL};
    transfer(w, &step, 200);
    assert_int_equal(w->result, CURLE_OPERATION_TIMEDOUT);
}

static void read_until(struct world *w, const char *body) {
    while (strcmp(w->body, body) != 0) {
        w->turn_ms = co_now_ms();
        co_loop_turn(w->loop);
    }
}

static void send_bytes(const struct world *w, const char *bytes) {
    size_t len = strlen(bytes);
    assert_int_equal(write(w->server.connections[0].fd, bytes, len), len);
}

static void a_burst_is_read_with_pauses(void **state) {
    struct world *w = *state;
    enum { LONG_MS = 60 * 1000, REST_MS = 100 };
    static const struct fake_step step = {"GET /", 0, NULL, FAKE_HOLD, NULL};
    w->multi.rest_ms = LONG_MS;
    begin(w, &step, 100 * 1000);
    while (!w->server.served) { /* until then libcurl looks for itself, unasked */
        co_loop_turn(w->loop);
    }
    send_bytes(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    read_until(w, "a");
    /* What comes after silence is no burst: what follows it is read at once. */
    w->multi.rest_ms = REST_MS;
    int64_t before;
    do { /* where this machine stood still in between it is no burst either */
        before = w->turn_ms;
        w->body[0] = '\0';
        send_bytes(w, "1\r\nb\r\n");
        read_until(w, "b");
        assert_true(w->read_ms - before < LONG_MS / 2); /* a timer may be a little early */
    } while (w->read_ms - before >= 2 * REST_MS);
    int64_t second = w->turn_ms;
    send_bytes(w, "1\r\nc\r\n");
    send_bytes(w, "1\r\nd\r\n");
    read_until(w, "bcd");
    assert_true(w->read_ms - second >= REST_MS - 1); /* both clocks cut to milliseconds */
    /* Nor for ever: the end is read, too, and without a rest once there is to be none. */
    w->multi.rest_ms = 0;
    send_bytes(w, "0\r\n\r\n");
    while (!w->ended) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->result, CURLE_OK);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    /* As on a machine that began a second ago: what was never is not short ago. */
    co_test_clock_forward(1000 - co_now_ms());
    const struct CMUnitTest tests[] = {
        T(the_loop_carries_a_transfer_to_its_end),
        T(a_deadline_comes_although_no_byte_does),
        T(a_burst_is_read_with_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
