#include "runtime/launch/rendezvous/service.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "runtime/launch/rendezvous/group.h"
#include "runtime/launch/rendezvous/wire.h"

enum { CLIENTS = 3, ANSWER = 128 << 10, BEAT_MS = 15000 };

/* A service of job j, and clients that send what the test says, each on a connection of its own.
 * A silent node is lost after a minute; tests put the clock forward, which is slow: what takes long
 * on a busy machine is not the nodes' time. */
struct world {
    struct co_loop *loop;
    struct rdzv_service *service;
    int client[CLIENTS];
    char note[CO_ERR_MAX];
    char answer[ANSWER]; /* status and body of the last one */
};

static void on_note(void *arg, bool warn, const char *line) {
    struct world *w = arg;
    (void)warn;
    (void)snprintf(w->note, sizeof(w->note), "%s", line);
}

static void dial(struct world *w, int *ret) {
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_port = htons(rdzv_service_port(w->service)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *ret = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*ret, (struct sockaddr *)&a, sizeof(a)), 0);
}

static void begin_of(struct world *w, int level, int nodes) {
    const struct rdzv_service_options o = {.job_id = "j",
        .rules = {.min = nodes,
            .max = nodes,
            .level = level,
            .max_restart = 1,
            .elastic_ms = 10000,
            .silent_ms = 4 * BEAT_MS},
        .note = on_note,
        .arg = w};
    *w = (struct world){.client = {-1, -1, -1}};
    co_test_clock_slow(true);
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(rdzv_service_open(w->loop, 0, &o, &w->service, NULL), 0);
    for (int i = 0; i < CLIENTS; i++) {
        dial(w, &w->client[i]);
    }
}

static void begin(struct world *w, int level) {
    begin_of(w, level, 2);
}

static void end(struct world *w) {
    for (int i = 0; i < CLIENTS; i++) {
        co_closep(&w->client[i]);
    }
    rdzv_service_close(w->service);
    co_loop_free(w->loop);
    co_test_clock_slow(false);
}

/* hello NULL: as Paddle's launchers ask. */
static void ask(struct world *w, int client, const char *method, const char *path,
    const char *hello, const char *body, size_t len) {
    CO_AUTOFREE char *head = co_xasprintf("%s %s HTTP/1.1\r\nHost: h\r\n%s%s%sContent-Length: "
                                          "%zu\r\n\r\n",
        method, path, hello ? RDZV_WIRE_HEADER ": " : "", hello ? hello : "", hello ? "\r\n" : "",
        len);
    int more = len > 0 ? MSG_MORE : 0; /* else the kernel keeps the body back for a while */
    assert_int_equal(send(w->client[client], head, strlen(head), more), (ssize_t)strlen(head));
    assert_int_equal(send(w->client[client], body, len, 0), (ssize_t)len);
}

static void readable(void *arg, int events) {
    (void)arg;
    (void)events;
}

/* "200 body" into w->answer. */
static const char *receive(struct world *w, int client) {
    char text[ANSWER + 1024];
    size_t n = 0, len = 0;
    const char *end_of_head = NULL;
    struct co_poll *wakes = NULL;
    assert_int_equal(co_poll_new(w->loop, w->client[client], readable, NULL, &wakes, NULL), 0);
    co_poll_set(wakes, CO_POLL_IN);
    for (;;) {
        co_loop_turn(w->loop);
        ssize_t got = recv(w->client[client], text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
        text[n] = '\0';
        end_of_head = strstr(text, "\r\n\r\n");
        const char *length = strcasestr(text, "\r\ncontent-length: ");
        if (end_of_head && length && sscanf(length + 18, "%zu", &len) == 1 &&
            text + n - (end_of_head + 4) >= (ptrdiff_t)len) {
            break;
        }
    }
    co_poll_free(wakes);
    (void)snprintf(w->answer, sizeof(w->answer), "%.3s %.*s", text + strlen("HTTP/1.1 "), (int)len,
        end_of_head + 4);
    return w->answer;
}

static const char *talk(
    struct world *w, const char *method, const char *path, const char *hello, const char *body) {
    ask(w, 0, method, path, hello, body, strlen(body));
    return receive(w, 0);
}

#define SAYS(id, state) "1 " id " " state " 2:2 h"

static void post(struct world *w, int client, const char *name, const char *hello) {
    CO_AUTOFREE char *path = co_xasprintf("/j/info/%s/-1", name);
    ask(w, client, "POST", path, hello, "{}", 2);
}

static void leave(struct world *w, int client, const char *name, const char *hello) {
    CO_AUTOFREE char *path = co_xasprintf("/j/info/%s/-1", name);
    ask(w, client, "DELETE", path, hello, "oom", 3);
}

/* The answer begins so, behind "200 paddlerun ". */
static void expect(struct world *w, int client, const char *text) {
    static const char head[] = "200 paddlerun ";
    const char *answer = receive(w, client);
    if (strncmp(answer, head, strlen(head)) != 0 ||
        strncmp(answer + strlen(head), text, strlen(text)) != 0) {
        fail_msg("client %d: \"%s\", expected \"%s\"", client, answer, text);
    }
}

/* a (client 0) and b (client 1) have met; a has asked again. */
static void begin_running(struct world *w, int level) {
    begin(w, level);
    post(w, 0, "a", SAYS("1", "join 0"));
    post(w, 1, "b", SAYS("2", "join 0"));
    expect(w, 0, "met 1 0 2 ");
    expect(w, 1, "met 1 1 2 ");
    post(w, 0, "a", SAYS("1", "run 1"));
}

/* What was asked before has been read by the time that the last client has its second answer: two
 * connections that are ready at once are served in any order.  Then time passes. */
static void pass(struct world *w, int64_t ms) {
    for (int i = 0; i < 2; i++) {
        ask(w, CLIENTS - 1, "GET", "/healthy", NULL, "", 0);
        (void)receive(w, CLIENTS - 1);
    }
    co_test_clock_forward(ms);
}

/* Of two clients that asked for one node the one that waits: the other was notified. */
static int find_waiting(struct world *w, int one, int other) {
    struct pollfd p[] = {
        {.fd = w->client[one], .events = POLLIN}, {.fd = w->client[other], .events = POLLIN}};
    while (poll(p, CO_ARRAY_LEN(p), 0) == 0) {
        co_loop_turn(w->loop);
    }
    expect(w, p[0].revents ? one : other, "wait 1 asked again");
    return p[0].revents ? other : one;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void keys_are_kept_and_nonsense_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *method, *path, *hello, *body, *answer;
    } rows[] = {
        {"GET", "/healthy", NULL, "", "200 {\"/healthy\":\"ok\"}"},
        {"GET", "/nothing", NULL, "", "404 "},
        {"PUT", "/x/1", NULL, "one", "200 "},
        {"POST", "/x/2", NULL, "two", "200 "},
        {"GET", "/x", NULL, "", "200 {\"/x/1\":\"one\",\"/x/2\":\"two\"}"},
        {"POST", "/x/2", NULL, "again", "200 "},
        {"GET", "/x/2", NULL, "", "200 {\"/x/2\":\"again\"}"},
        {"DELETE", "/x/2", NULL, "", "200 "},
        {"DELETE", "/x/2", NULL, "", "404 "},
        {"GET", "/x/2", NULL, "", "404 "},
        {"POST", "/\xff", NULL, "", "400 a key in UTF-8 is expected\n"},
        /* nodes of the job */
        {"POST", "/j/info/a", NULL, "{}",
            "400 key \"a\" is not that of a node, expected name/rank\n"},
        {"POST", "/j/info/a/x", NULL, "{}",
            "400 key \"a/x\" is not that of a node, expected name/rank\n"},
        {"POST", "/j/info/a/-1", "9 1 join 0 2:2 h", "{}", "400 "},
        {"POST", "/j/info/a/0", NULL, "{}", "200 "},
        {"POST", "/j/info/c/0", NULL, "{}", "409 "},
        {"POST", "/j/info/c/-1", SAYS("3", "join 0"), "{}", "200 paddlerun refused -7 "},
        {"GET", "/j/info", NULL, "", "200 {\"/j/info/a/0\":\"{}\"}"},
        {"DELETE", "/j/info/b/0", NULL, "", "404 "},
        {"DELETE", "/j/info/a/1", NULL, "", "404 "},
        {"DELETE", "/j/info/a/0", SAYS("5", "leave 0"), "", "404 "},
        {"DELETE", "/j/info/a/0", "nonsense", "", "404 "},
        {"DELETE", "/j/info/a/0", NULL, "", "200 "},
        {"GET", "/j/info", NULL, "", "404 "},
    };
    struct world w;
    begin(&w, -1);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const char *answer = talk(&w, rows[i].method, rows[i].path, rows[i].hello, rows[i].body);
        const size_t len = strlen(rows[i].answer);
        const bool open = len > 4 ? rows[i].answer[len - 1] == ' ' : rows[i].answer[0] == '4';
        if (open ? strncmp(answer, rows[i].answer, len) != 0
                 : strcmp(answer, rows[i].answer) != 0) {
            fail_msg("%s %s: \"%s\"", rows[i].method, rows[i].path, answer);
        }
    }
    assert_string_equal(w.note,
        "refused: node a asks for rank 0 and node c for none: give every node a rank, or none");
    ask(&w, 0, "POST", "/x/3", NULL, "a\0b", 3);
    assert_string_equal(receive(&w, 0), "400 a value without NUL is expected\n");
    end(&w);
}

static void the_number_of_keys_is_bounded(void **state) {
    (void)state;
    struct world w;
    char path[32];
    begin(&w, -1);
    for (int i = 1; i < 4096; i++) { /* one is there from the beginning */
        (void)snprintf(path, sizeof(path), "/x/%d", i);
        assert_string_equal(talk(&w, "POST", path, NULL, ""), "200 ");
    }
    assert_string_equal(talk(&w, "POST", "/x/0", NULL, ""), "507 no more than 4096 keys\n");
    assert_string_equal(talk(&w, "POST", "/x/1", NULL, "new"), "200 ");
    assert_string_equal(talk(&w, "DELETE", "/x/2", NULL, ""), "200 ");
    assert_string_equal(talk(&w, "POST", "/x/0", NULL, ""), "200 ");
    end(&w);
}

/* A value of which every byte is six in JSON. */
enum { VALUE = 60000 };
static char control[VALUE + 1];

static void bytes_of_keys_have_a_bound(void **state) {
    (void)state;
    struct world w;
    char path[32];
    size_t n = 0;
    begin(&w, -1);
    do {
        (void)snprintf(path, sizeof(path), "/x/%zu", n++);
    } while (strcmp(talk(&w, "PUT", path, NULL, control), "200 ") == 0 && n < 1000);
    assert_string_equal(w.answer, "507 no more than 1048576 bytes of keys and values\n");
    assert_int_equal(n - 1, (1 << 20) / VALUE);
    assert_string_equal(talk(&w, "PUT", "/x/0", NULL, control), "200 "); /* as many as before */
    assert_string_equal(talk(&w, "DELETE", "/x/1", NULL, ""), "200 ");
    assert_string_equal(talk(&w, "PUT", path, NULL, control), "200 ");
    assert_string_equal(talk(&w, "DELETE", "/x/1", NULL, ""), "404 ");
    assert_memory_equal(talk(&w, "PUT", "/x/1", NULL, control), "507 ", 4);
    end(&w);
}

static void a_listing_has_a_bound(void **state) {
    (void)state;
    struct world w;
    begin_of(&w, -1, 40);
    for (int i = 0; i < 40; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/j/info/n%d/%d", i, i);
        assert_string_equal(talk(&w, "PUT", path, NULL, control), "200 ");
    }
    assert_string_equal(
        talk(&w, "GET", "/j", NULL, ""), "507 a listing has at most 8388608 bytes\n");
    assert_string_equal(talk(&w, "GET", "/healthy", NULL, ""), "200 {\"/healthy\":\"ok\"}");
    end(&w);
}

/* Readers that do not read share what they are sent, and a new key makes them no new listing. */
static void large_listings_are_few(void **state) {
    (void)state;
    struct world w;
    enum { READERS = 40 };
    int reader[READERS];
    begin(&w, -1);
    for (int i = 0; i < 16; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/x/%d", i);
        assert_string_equal(talk(&w, "PUT", path, NULL, control), "200 ");
    }
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < READERS; i++) {
        static const char get[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        dial(&w, &reader[i]);
        assert_int_equal(send(reader[i], get, strlen(get), 0), (ssize_t)strlen(get));
        assert_string_equal(talk(&w, "PUT", "/y", NULL, i % 2 ? "1" : "2"), "200 ");
        assert_string_equal(
            talk(&w, "GET", "/y", NULL, ""), i % 2 ? "200 {\"/y\":\"1\"}" : "200 {\"/y\":\"2\"}");
    }
    struct mallinfo2 after = mallinfo2();
    assert_true(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + (48 << 20));
    for (int i = 0; i < READERS; i++) {
        char head[] = "HTTP/1.1 ...";
        assert_int_equal(recv(reader[i], head, strlen(head), 0), (ssize_t)strlen(head));
        assert_string_equal(head, "HTTP/1.1 200");
        close(reader[i]);
    }
    end(&w);
}

/* Within a moment of a large one no other is made, whatever changed: readers get that one. */
static void a_large_listing_serves_for_a_moment(void **state) {
    (void)state;
    struct world w;
    char value[40 << 10];
    memset(value, 'a', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    begin(&w, -1);
    assert_string_equal(talk(&w, "PUT", "/z/0", NULL, value), "200 ");
    assert_string_equal(talk(&w, "PUT", "/z/1", NULL, value), "200 ");
    bool in_time = false;
    for (int i = 0; i < 100 && !in_time; i++) { /* until the machine is fast enough once */
        char key[32];
        (void)snprintf(key, sizeof(key), "/z/new%d", i);
        co_test_clock_forward(210);
        assert_string_equal(talk(&w, "PUT", "/z/0", NULL, value), "200 "); /* one is to be made */
        int64_t begin_ms = co_now_ms();
        assert_memory_equal(talk(&w, "GET", "/z", NULL, ""), "200 ", 4);
        assert_string_equal(talk(&w, "PUT", key, NULL, "1"), "200 ");
        bool shows = strstr(talk(&w, "GET", "/z", NULL, ""), key);
        in_time = co_now_ms() - begin_ms < 150;
        assert_true(!shows || !in_time);
    }
    assert_true(in_time);
    co_test_clock_forward(210);
    assert_non_null(strstr(talk(&w, "GET", "/z", NULL, ""), "/z/new0"));
    end(&w);
}

static void nodes_that_gather_learn_who_is_missing(void **state) {
    (void)state;
    struct world w;
    begin(&w, -1);
    post(&w, 0, "a", SAYS("1", "join 0"));
    pass(&w, BEAT_MS);
    expect(&w, 0, "wait 1 1 of 2 nodes are here: a (h)");
    post(&w, 0, "a", SAYS("1", "join 0"));
    post(&w, 2, "a", SAYS("1", "join 0"));
    int waiting = find_waiting(&w, 0, 2), other = 2 - waiting;
    assert_false(rdzv_service_settled(w.service));
    leave(&w, other, "a", SAYS("9", "leave 0")); /* another of its name */
    assert_string_equal(receive(&w, other), "404 ");
    leave(&w, other, "a", SAYS("1", "leave 0"));
    assert_string_equal(receive(&w, other), "200 ");
    expect(&w, waiting, "wait 1 left");
    assert_true(rdzv_service_settled(w.service));
    end(&w);
}

static bool is_beat(const char *answer) {
    return strncmp(answer, "200 paddlerun wait", 18) == 0 ||
           strncmp(answer, "200 paddlerun mute", 18) == 0;
}

static void slow_connections_keep_no_job_from_forming(void **state) {
    (void)state;
    struct world w;
    enum { SLOW = 300 };
    int slow[SLOW];
    begin(&w, -1);
    int64_t before = co_now_ms();
    for (int i = 0; i < SLOW; i++) {
        dial(&w, &slow[i]);
        assert_int_equal(send(slow[i], "P", 1, MSG_NOSIGNAL), 1);
    }
    for (int i = 0; i < 2; i++) {
        co_closep(&w.client[i]);
        dial(&w, &w.client[i]);
    }
    post(&w, 0, "a", SAYS("1", "join 0"));
    post(&w, 1, "b", SAYS("2", "join 0"));
    expect(&w, 0, "met 1 0 2 ");
    expect(&w, 1, "met 1 1 2 ");
    post(&w, 0, "a", SAYS("1", "run 1"));
    post(&w, 1, "b", SAYS("2", "run 1"));
    for (int i = 0; i < SLOW; i++) { /* again, while it runs */
        close(slow[i]);
        dial(&w, &slow[i]);
    }
    assert_true(co_now_ms() - before < 8000); /* not when their time was over */
    assert_true(is_beat(receive(&w, 0)));
    assert_true(is_beat(receive(&w, 1)));
    for (int i = 0; i < SLOW; i++) {
        close(slow[i]);
    }
    end(&w);
}

static void nodes_that_run_learn_of_one_anothers_end(void **state) {
    (void)state;
    static const struct {
        int level;
        const char *state;    /* b's, when it leaves; NULL: its connection breaks */
        const char *a, *late; /* what a receives, and who comes then */
    } rows[] = {
        {-1, "leave 3", "over -6 node b (rank 1, h) failed: oom", "over -6 node b (rank 1, h)"},
        {-1, "leave -1", "over -6 node b (rank 1, h) left: oom", "over -6 node b"},
        {-1, NULL, "over -6 node b (rank 1, h)", "over -6 node b"},
        {0, "leave 3", "changed 2 node b (rank 1, h) failed: oom", "wait 2"},
        {0, NULL, "changed 2 node b (rank 1, h)", "wait 2"},
        {1, "restart 1", "changed 2 node b (rank 1, h)", "refused"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world w;
        begin_running(&w, rows[i].level);
        if (rows[i].state) {
            CO_AUTOFREE char *hello = co_xasprintf(SAYS("2", "%s"), rows[i].state);
            leave(&w, 1, "b", hello);
        } else {
            co_closep(&w.client[1]);
            w.client[1] = -1;
        }
        for (pass(&w, RDZV_GROUP_BEAT_MS); is_beat(receive(&w, 0)); pass(&w, RDZV_GROUP_BEAT_MS)) {
            post(&w, 0, "a", SAYS("1", "run 1"));
        }
        if (strncmp(w.answer + strlen("200 paddlerun "), rows[i].a, strlen(rows[i].a)) != 0) {
            fail_msg("row %zu: \"%s\"", i, w.answer);
        }
        post(&w, 0, "c", SAYS("3", "join 0"));
        pass(&w, BEAT_MS);
        expect(&w, 0, rows[i].late);
        end(&w);
    }
}

/* Turns of which each is a beat of a, which asks again.  False: a learns something else. */
static bool beats(struct world *w, int n) {
    for (int i = 0; i < n; i++) {
        pass(w, RDZV_GROUP_BEAT_MS);
        if (!is_beat(receive(w, 0))) {
            return false;
        }
        post(w, 0, "a", SAYS("1", "run 1"));
    }
    return true;
}

/* The machine stands still, and all processes on it, after b got an answer and before it asks
 * again.  The master is the first to continue. */
static void nodes_that_stood_still_with_the_master_are_not_lost(void **state) {
    (void)state;
    enum { SECONDS_4 = 4000 / RDZV_GROUP_BEAT_MS, EVER = 120 * 1000 / RDZV_GROUP_BEAT_MS };
    struct world w;
    begin_running(&w, -1);
    pass(&w, 8 * BEAT_MS);
    assert_true(beats(&w, SECONDS_4));
    post(&w, 1, "b", SAYS("2", "run 1"));
    pass(&w, RDZV_GROUP_BEAT_MS);
    assert_true(is_beat(receive(&w, 1)));
    assert_false(beats(&w, EVER)); /* b has ended this time */
    assert_non_null(strstr(w.answer, "over -6 node b (rank 1, h) has been silent for 60.0 s"));
    end(&w);
}

static void all_nodes_are_notified_when_all_are_done(void **state) {
    (void)state;
    struct world w;
    begin_running(&w, -1);
    pass(&w, RDZV_GROUP_BEAT_MS);
    assert_true(is_beat(receive(&w, 0)));
    post(&w, 0, "a", SAYS("1", "done 1"));
    post(&w, 1, "b", SAYS("2", "done 1"));
    expect(&w, 0, "done 1");
    expect(&w, 1, "done 1");
    end(&w);
}

static void a_service_that_ends_notifies_all(void **state) {
    (void)state;
    struct world w;
    begin_running(&w, -1);
    post(&w, 2, "a", SAYS("1", "run 1"));
    int waiting = find_waiting(&w, 0, 2); /* b asks after the end */
    rdzv_service_part(w.service, "the master has done its work");
    expect(&w, waiting, "over 0 the master has done its work");
    assert_false(rdzv_service_settled(w.service));
    post(&w, 1, "b", SAYS("2", "run 1"));
    expect(&w, 1, "over 0 the master has done its work");
    assert_true(rdzv_service_settled(w.service));
    end(&w);
}

int main(void) {
    memset(control, 1, VALUE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_kept_and_nonsense_is_refused),
        cmocka_unit_test(the_number_of_keys_is_bounded),
        cmocka_unit_test(bytes_of_keys_have_a_bound),
        cmocka_unit_test(a_listing_has_a_bound),
        cmocka_unit_test(large_listings_are_few),
        cmocka_unit_test(a_large_listing_serves_for_a_moment),
        cmocka_unit_test(slow_connections_keep_no_job_from_forming),
        cmocka_unit_test(nodes_that_gather_learn_who_is_missing),
        cmocka_unit_test(nodes_that_run_learn_of_one_anothers_end),
        cmocka_unit_test(nodes_that_stood_still_with_the_master_are_not_lost),
        cmocka_unit_test(all_nodes_are_notified_when_all_are_done),
        cmocka_unit_test(a_service_that_ends_notifies_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
