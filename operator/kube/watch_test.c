#include "operator/kube/watch.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "operator/kube/fake_server_testing.h"

/* The same in both forms that an API server has. */
static const struct kube_type pods[] = {
    {"", "v1", "pods", "Pod"}, {"", "v1", "pods", "Pod", &fake_object}};

struct world {
    struct co_loop *loop;
    struct fake_server server;
    struct kube_client *client;
    struct kube_watch *watch;
    struct co_timer *deadline;
    bool late, proto;
    char free_at; /* the letter of the trace at which the consumer frees the watch */
    struct co_buf trace;
};

/* B begin, A begin again, E end, +a ~a -a objects, !code errors (with ">" when the pause is a
 * second or more). */
static void note(struct world *w, char letter, const char *text) {
    assert_int_equal(
        co_buf_addf(&w->trace, NULL, "%s%c%s", w->trace.len ? " " : "", letter, text), 0);
    if (letter == w->free_at) {
        kube_watch_free(co_steal_ptr(w->watch));
    }
}

static void on_begin(void *arg, uint64_t upto) {
    struct world *w = arg;
    bool relist = upto == UINT64_MAX;
    assert_true(!relist || !kube_watch_version(w->watch));
    note(w, relist ? 'A' : 'B', "");
}

static void on_end(void *arg) {
    struct world *w = arg;
    assert_true(kube_watch_synced(w->watch));
    note(w, 'E', "");
}

static int on_object(
    void *arg, enum kube_event type, const struct kube_object *object, struct co_err *err) {
    const struct world *w = arg;
    CO_AUTOFREE char *copy = co_xstrndup(object->text, object->len);
    (void)err;
    assert_true(w->proto ? !*copy : strstr(copy, "\"metadata\"") != NULL);
    note(arg, "+~-"[type], co_jnode_str(object->nodes, "metadata", "name"));
    return 0;
}

static void on_error(void *arg, const struct co_err *err, int64_t retry_ms) {
    CO_AUTOFREE char *text =
        co_xasprintf("%s%s", co_code_name(err->code), retry_ms >= 1000 ? ">" : "");
    note(arg, '!', text);
}

static const struct kube_watch_ops ops = {
    .sync_begin = on_begin, .object = on_object, .sync_end = on_end, .error = on_error};

static void on_deadline(void *arg) {
    struct world *w = arg;
    w->late = true;
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    w->trace = CO_BUF(4096);
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_true(fake_start(&w->server, w->loop));
    assert_int_equal(kube_client_new(w->loop, fake_config(&w->server), NULL, &w->client, NULL), 0);
    w->deadline = co_timer_new(w->loop, on_deadline, w);
    co_timer_start(w->deadline, 60 * 1000);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    kube_watch_free(w->watch);
    kube_client_free(w->client);
    fake_stop(&w->server);
    co_timer_free(w->deadline);
    co_loop_free(w->loop);
    co_buf_done(&w->trace);
    free(w);
    return 0;
}

static void start(struct world *w, int64_t idle_ms) {
    const struct kube_watch_opts opts = {
        .type = &pods[w->proto],
        .label_selector = "a=b",
        .ops = &ops,
        .arg = w,
        .page = 2,
        .backoff_min_ms = 2,
        .backoff_max_ms = 8,
        .idle_max_ms = idle_ms,
        .list_idle_ms = 1000,
    };
    w->watch = kube_watch_new(w->client, &opts);
}

/* Until the script is used up and the trace says so, or the deadline. */
static void run(struct world *w, const char *expected) {
    while (!w->late && !w->server.wrong &&
           (w->server.served < w->server.n_steps || !w->trace.data ||
               strcmp(w->trace.data, expected) != 0)) {
        co_loop_turn(w->loop);
        if (w->trace.len > strlen(expected)) {
            break;
        }
    }
    assert_string_equal(w->trace.data ? w->trace.data : "", expected);
    assert_false(w->server.wrong);
    assert_int_equal(w->server.served, w->server.n_steps);
}

#define OBJECT(name, version)                                                                      \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define LIST(version, next, items)                                                                 \
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" next \
    "\"},\"items\":" items "}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" OBJECT(name, version) "}\n"
#define GONE "{\"kind\":\"Status\",\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410}"
#define EMPTY                                                                                      \
    { "GET /api/v1/pods?limit=2&labelSelector=a%3Db HTTP", 200, LIST("10", "", "[]") }
#define HELD(version)                                                                              \
    { "&resourceVersion=" version "&", 200, "", FAKE_HOLD }

static void each_server_behavior_gives_its_trace_of_events(void **state) {
    (void)state;
    static const struct {
        const char *what;
        struct fake_step steps[6];
        const char *trace;
        uint64_t version;
        bool json_only; /* lines of JSON that are none */
    } rows[] = {
        {"pages, events, bookmark, an end in order",
            {{"?limit=2&", 200, LIST("10", "t/1", "[" OBJECT("a", "3") "," OBJECT("b", "4") "]")},
                {"&continue=t%2F1 ", 200, LIST("10", "", "[" OBJECT("c", "5") "]")},
                {"&resourceVersion=10&", 200,
                    EVENT("ADDED", "d", "11") EVENT("MODIFIED", "d", "12")
                        EVENT("DELETED", "d", "13") EVENT("BOOKMARK", "", "20"),
                    FAKE_END},
                HELD("20")},
            "B +a +b +c E +d ~d -d", 20},
        {"an end in order before anything was told",
            {EMPTY, {"&resourceVersion=10&", 200, "", FAKE_END}, HELD("10")}, "B E !unavailable",
            10},
        {"items that are null", {{NULL, 200, LIST("10", "", "null")}, HELD("10")}, "B E", 10},
        {"a list as API servers do not write it",
            {{NULL, 200,
                 "{\"items\": [" OBJECT("a", "3") ", " OBJECT(
                     "b", "4") "], \"metadata\": "
                               "{\"resourceVersion\": \"10\"}}"},
                HELD("10")},
            "B +a +b E", 10},
        {"a continue token that has expired",
            {{NULL, 200, LIST("10", "t", "[" OBJECT("a", "3") "]")}, {"continue=t", 410, GONE},
                EMPTY, HELD("10")},
            "B +a B E", 10},
        {"a page that fails for want of a server is asked for again",
            {{NULL, 200, LIST("10", "t", "[" OBJECT("a", "3") "]")}, {"continue=t", 503, ""},
                {"continue=t", 200, LIST("10", "", "[]")}, HELD("10")},
            "B +a !unavailable E", 10},
        {"an item that is none, on a page that is not the last",
            {{NULL, 200, LIST("10", "t", "[" OBJECT("a", "3") ",{\"metadata\":x}]")}, EMPTY,
                HELD("10")},
            "B +a !unavailable B E", 10, .json_only = true},
        {"410 as an event",
            {EMPTY, {NULL, 200, "{\"type\":\"ERROR\",\"object\":" GONE "}\n", FAKE_HOLD},
                {"?limit", 200, LIST("30", "", "[" OBJECT("a", "3") "]")}, HELD("30")},
            "B E B +a E", 30},
        {"410 as the answer",
            {EMPTY, {"watch=true", 410, GONE}, {"?limit", 200, LIST("30", "", "[]")}, HELD("30")},
            "B E B E", 30},
        {"another error as an event",
            {EMPTY,
                {NULL, 200,
                    EVENT("ADDED", "a", "11") "{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n",
                    FAKE_HOLD},
                HELD("11")},
            "B E +a !unavailable", 11},
        {"a torn line",
            {EMPTY,
                {NULL, 200, EVENT("ADDED", "a", "11") "{\"type\":\"ADDED\",\"object\":{\"meta",
                    FAKE_CUT},
                HELD("11")},
            "B E +a !unavailable", 11, .json_only = true},
        {"an end in order inside a line",
            {EMPTY, {NULL, 200, "{\"type\":\"AD", FAKE_END}, HELD("10")}, "B E !unavailable", 10,
            .json_only = true},
        {"a line that is no event",
            {EMPTY, {NULL, 200, "<html>\n" EVENT("ADDED", "a", "11"), FAKE_HOLD}, HELD("10")},
            "B E !invalid", 10, .json_only = true},
        {"an event in another order",
            {EMPTY, {NULL, 200, "{\"object\": " OBJECT("a", "11") ", \"type\": \"ADDED\"}\n",
                        FAKE_HOLD}},
            "B E +a", 11},
        {"a version that goes back inside a stream",
            {EMPTY,
                {NULL, 200,
                    EVENT("ADDED", "a", "11") EVENT("DELETED", "a", "12") EVENT("ADDED", "a", "11"),
                    FAKE_HOLD},
                {"?limit", 200, LIST("12", "", "[]")}, HELD("12")},
            "B E +a -a !unavailable B E", 12},
        {"the same event twice",
            {EMPTY, {NULL, 200, EVENT("ADDED", "a", "11") EVENT("ADDED", "a", "11"), FAKE_HOLD}},
            "B E +a +a", 11},
        {"a list that lags behind, or the first of another history",
            {{NULL, 200, LIST("20", "", "[]")}, {"watch=true", 410, GONE},
                {"?limit", 200, LIST("19", "", "[]")},
                {"?limit", 200, LIST("20", "", "[" OBJECT("a", "20") "]")}, HELD("20")},
            "B E !unavailable B +a E", 20},
        {"lists that stay behind: restored from a backup",
            {{NULL, 200, LIST("20", "", "[]")}, {"watch=true", 410, GONE},
                {"?limit", 200, LIST("9", "", "[]")}, {"?limit", 200, LIST("9", "", "[]")},
                {"?limit", 200, LIST("9", "", "[" OBJECT("a", "3") "]")}, HELD("9")},
            "B E !unavailable !unavailable A +a E", 9},
        {"a list that does not come", {{NULL, 0, NULL, FAKE_HOLD}, EMPTY, HELD("10")},
            "!timeout B E", 10},
        {"a reset instead of a list", {{NULL, 0, NULL, FAKE_CUT}, EMPTY, HELD("10")},
            "!unavailable B E", 10},
        {"a list cut short", {{NULL, 200, "{\"kind\":\"PodList\",", FAKE_CUT}, EMPTY, HELD("10")},
            "!unavailable B E", 10},
        {"a list that is no list", {{NULL, 200, "[]"}, EMPTY, HELD("10")}, "!unavailable B E", 10},
        {"no right to list", {{NULL, 403, ""}, EMPTY, HELD("10")}, "!permission B E", 10},
        {"a watch refused for now", {EMPTY, {NULL, 429, "{}", FAKE_KEEP, "Retry-After: 1\r\n"}},
            "B E !unavailable>", 10},
        {"a list refused for now", {{NULL, 429, "{\"details\":{\"retryAfterSeconds\":2}}"}},
            "!unavailable>", 0},
    };
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        size_t k = i / 2;
        bool proto = i % 2;
        void *s;
        if (proto && rows[k].json_only) {
            continue;
        }
        setup(&s);
        struct world *w = s;
        w->proto = proto;
        size_t n = 0;
        while (n < CO_ARRAY_LEN(rows[k].steps) && (rows[k].steps[n].status || n == 0)) {
            n++;
        }
        fake_script(&w->server, rows[k].steps, n);
        start(w, 0);
        print_message("%s%s\n", rows[k].what, proto ? ", in protobuf" : "");
        run(w, rows[k].trace);
        assert_int_equal(kube_watch_version(w->watch), rows[k].version);
        teardown(&s);
    }
}

/* An event that is none, or too long, might be one that matters: a list says what there is. */
static void events_in_protobuf_that_cannot_be_read(void **state) {
    (void)state;
    static const struct {
        const char *what;
        struct fake_step steps[4];
        const char *trace;
    } rows[] = {
        {"longer than allowed",
            {EMPTY, {NULL, 200, EVENT("ADDED", "a", "11") "no length", FAKE_HOLD},
                {"?limit", 200, LIST("11", "", "[]")}, HELD("11")},
            "B E +a !no resource B E"},
        {"an end in order inside one",
            {EMPTY, {NULL, 200, EVENT("ADDED", "a", "11") "no", FAKE_END}, HELD("11")},
            "B E +a !unavailable"},
        {"a connection that is cut inside one",
            {EMPTY, {NULL, 200, EVENT("ADDED", "a", "11") "no", FAKE_CUT}, HELD("11")},
            "B E +a !unavailable"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        void *s;
        setup(&s);
        struct world *w = s;
        w->proto = true;
        size_t n = 0;
        while (n < CO_ARRAY_LEN(rows[i].steps) && rows[i].steps[n].status) {
            n++;
        }
        fake_script(&w->server, rows[i].steps, n);
        start(w, 0);
        print_message("%s\n", rows[i].what);
        run(w, rows[i].trace);
        teardown(&s);
    }
}

static void a_server_that_closes_watches_again_and_again_is_given_time(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {EMPTY,
        {"&resourceVersion=10&", 200, EVENT("ADDED", "a", "11"), FAKE_END},
        {"&resourceVersion=11&", 200, EVENT("ADDED", "b", "12"), FAKE_END},
        {"&resourceVersion=12&", 200, EVENT("ADDED", "c", "13"), FAKE_END}, HELD("13")};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    const struct kube_watch_opts opts = {.type = &pods[w->proto],
        .label_selector = "a=b",
        .ops = &ops,
        .arg = w,
        .page = 2,
        .backoff_min_ms = 80,
        .backoff_max_ms = 400};
    int64_t begun = co_now_ms();
    w->watch = kube_watch_new(w->client, &opts);
    run(w, "B E +a +b +c");
    assert_true(co_now_ms() - begun >= 20 + 40 + 40);
}

/* The connection stands, and nothing comes: only time distinguishes it from an idle one. */
static void silence_is_noticed_and_the_connection_not_used_again(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {EMPTY, HELD("10"), EMPTY, HELD("10")};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    start(w, 100);
    run(w, "B E !timeout B E");
    assert_int_equal(w->server.n_connections, 3);
}

static void a_page_that_does_not_come_is_waited_for_longer_each_time(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {
        {NULL, 0, NULL, FAKE_HOLD}, {NULL, 0, NULL, FAKE_HOLD}, EMPTY, HELD("10")};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    int64_t begun = co_now_ms();
    start(w, 0);
    run(w, "!timeout !timeout B E");
    assert_true(co_now_ms() - begun >= 1000 + 2000);
}

enum { TRIES = 4, CONNECT_MS = 100, BACKOFF_MS = 64 };

/* How long each connection lasted until it was abandoned, and the pause after it. */
struct tries {
    int64_t began, lasted[TRIES], pause[TRIES];
    int n;
};

static void on_failed_try(void *arg, const struct co_err *err, int64_t retry_ms) {
    struct tries *h = arg;
    (void)err;
    h->lasted[h->n] = co_now_ms() - h->began;
    h->pause[h->n++] = retry_ms;
    h->began = co_now_ms() + retry_ms;
}

/* The kernel accepts connections, and the program has no processor to answer them. */
static void a_slow_handshake_gets_more_time_each_time(void **state) {
    struct world *w = *state;
    struct kube_config *cfg = fake_config(&w->server);
    struct kube_client *client;
    struct tries h = {.began = co_now_ms()};
    const struct kube_watch_ops slow = {.error = on_failed_try};
    const struct kube_watch_opts opts = {.type = pods,
        .ops = &slow,
        .arg = &h,
        .backoff_min_ms = BACKOFF_MS,
        .backoff_max_ms = 100 * BACKOFF_MS};
    free(cfg->server);
    cfg->server = co_xasprintf("https://127.0.0.1:%u", w->server.port);
    co_poll_set(w->server.poll, 0);
    assert_int_equal(kube_client_new(w->loop, cfg,
                         &(struct kube_client_opts){.connect_ms = CONNECT_MS}, &client, NULL),
        0);
    struct kube_watch *watch = kube_watch_new(client, &opts);
    while (h.n < TRIES && !w->late) {
        co_loop_turn(w->loop);
    }
    kube_watch_free(watch);
    kube_client_free(client);
    assert_int_equal(h.n, TRIES);
    for (int i = 0; i < TRIES; i++) {
        print_message("connection %d: %" PRId64 " ms, then a pause of %" PRId64 " ms\n", i,
            h.lasted[i], h.pause[i]);
        assert_true(h.lasted[i] >= (CONNECT_MS << (i < 2 ? i : 2)) * 9 / 10); /* as curl counts */
        assert_true(h.pause[i] >= (BACKOFF_MS << i) / 2);
    }
}

static void ignore_begin(void *arg, uint64_t upto) {
    (void)arg;
    (void)upto;
}

static void ignore_end(void *arg) {
    (void)arg;
}

static void close_newest(void *arg) {
    struct world *w = arg;
    fake_close(&w->server.connections[w->server.n_connections - 1]);
}

/* Each of these streams lives long enough, as time goes; but none is ever answered. */
static void a_stream_that_was_not_answered_does_not_reset_the_backoff(void **state) {
    struct world *w = *state;
    static const struct fake_step unanswered = {"watch=true", 0, NULL, FAKE_HOLD};
    const struct fake_step steps[] = {EMPTY, unanswered, unanswered, unanswered, unanswered};
    struct tries h = {.n = 0};
    const struct kube_watch_ops recording = {
        .sync_begin = ignore_begin, .sync_end = ignore_end, .error = on_failed_try};
    const struct kube_watch_opts opts = {.type = pods,
        .label_selector = "a=b",
        .page = 2,
        .ops = &recording,
        .arg = &h,
        .backoff_min_ms = BACKOFF_MS,
        .backoff_max_ms = 100 * BACKOFF_MS,
        .healthy_ms = 1};
    struct co_timer *close = co_timer_new(w->loop, close_newest, w);
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    w->watch = kube_watch_new(w->client, &opts);
    for (int i = 0; i < TRIES; i++) {
        while (w->server.served < (size_t)i + 2 && !w->late) {
            co_loop_turn(w->loop);
        }
        co_timer_start(close, 10);
        while (h.n == i && !w->late) {
            co_loop_turn(w->loop);
        }
        assert_true(h.pause[i] >= (BACKOFF_MS << i) / 2);
    }
    co_timer_free(close);
}

/* A process that was stopped has not read what came meanwhile. */
static void a_stop_of_this_process_is_no_silence(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {EMPTY, HELD("10")};
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    start(w, 60 * 1000);
    run(w, "B E");
    co_test_clock_forward(3600 * 1000);
    for (int i = 0; i < 10; i++) {
        co_loop_serve(w->loop);
    }
    assert_string_equal(w->trace.data, "B E");
}

static void set_true(void *arg) {
    *(bool *)arg = true;
}

static void a_held_watch_sends_nothing_before_it_begins(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {EMPTY, HELD("10")};
    bool drained = false;
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    const struct kube_watch_opts opts = {.type = &pods[w->proto],
        .label_selector = "a=b",
        .ops = &ops,
        .arg = w,
        .page = 2,
        .held = true};
    w->watch = kube_watch_new(w->client, &opts);
    kube_client_drain(w->client, set_true, &drained);
    while (!drained && !w->late) {
        co_loop_turn(w->loop);
    }
    assert_int_equal(w->server.served, 0);
    assert_int_equal(w->server.n_connections, 0);
    kube_watch_begin(w->watch);
    run(w, "B E");
    kube_watch_begin(w->watch);
    assert_false(w->server.wrong);
}

/* What is restored is the server's data, not a kind's. */
static void a_data_reset_found_by_another_watch_relists(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {EMPTY, HELD("10"),
        {"?limit", 200, LIST("5", "", "[]")},
        {"?limit", 200, LIST("11", "", "[" OBJECT("a", "3") "]")}, HELD("11")};
    fake_script(&w->server, steps, 2);
    start(w, 0);
    run(w, "B E");
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    kube_watch_relist(w->watch);
    run(w, "B E !unavailable B +a E");
    assert_int_equal(kube_watch_version(w->watch), 11);
}

/* The world went back to before a write of ours, which no event had shown yet. */
static void a_list_shows_what_was_answered_before_it_began(void **state) {
    struct world *w = *state;
    static const struct fake_step steps[] = {EMPTY, {"watch=true", 410, GONE},
        {"?limit", 200, LIST("14", "", "[]")},
        {"?limit", 200, LIST("15", "", "[" OBJECT("a", "15") "]")}, HELD("15")};
    fake_script(&w->server, steps, 1);
    start(w, 0);
    run(w, "B E");
    fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
    kube_watch_expect(w->watch, 15);
    kube_watch_expect(w->watch, 13);
    run(w, "B E !unavailable B +a E");
}

static void a_watch_may_be_freed_in_each_callback(void **state) {
    (void)state;
    static const struct fake_step steps[] = {
        {NULL, 200, LIST("10", "", "[" OBJECT("a", "3") "," OBJECT("b", "4") "]")},
        {NULL, 200, EVENT("MODIFIED", "a", "11") EVENT("DELETED", "a", "12") "x\n", FAKE_HOLD}};
    static const struct {
        char at;
        const char *trace;
    } rows[] = {{'B', "B"}, {'+', "B +a"}, {'E', "B +a +b E"}, {'~', "B +a +b E ~a"},
        {'-', "B +a +b E ~a -a"}, {'!', "B +a +b E ~a -a !invalid"}};
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        const char at = rows[i / 2].at;
        void *s;
        if (at == '!' && i % 2) {
            continue; /* a line that is none */
        }
        setup(&s);
        struct world *w = s;
        w->proto = i % 2;
        fake_script(&w->server, steps, CO_ARRAY_LEN(steps));
        w->free_at = at;
        start(w, 0);
        while (w->watch && !w->late) {
            co_loop_turn(w->loop);
        }
        assert_string_equal(w->trace.data, rows[i / 2].trace);
        assert_int_equal(kube_client_pending(w->client), 0);
        teardown(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_server_behavior_gives_its_trace_of_events),
        cmocka_unit_test(events_in_protobuf_that_cannot_be_read),
        cmocka_unit_test_setup_teardown(
            a_server_that_closes_watches_again_and_again_is_given_time, setup, teardown),
        cmocka_unit_test_setup_teardown(
            silence_is_noticed_and_the_connection_not_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_of_this_process_is_no_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_page_that_does_not_come_is_waited_for_longer_each_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_handshake_gets_more_time_each_time, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_stream_that_was_not_answered_does_not_reset_the_backoff, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_data_reset_found_by_another_watch_relists, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_list_shows_what_was_answered_before_it_began, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_held_watch_sends_nothing_before_it_begins, setup, teardown),
        cmocka_unit_test(a_watch_may_be_freed_in_each_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
