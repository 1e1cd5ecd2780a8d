/* The states of a link: how long a server may be away in each of them, and how long a trainer
 * attempts at one that accepts connections and says no more. */
#include <stdio.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/ps/client/proxy_testing.h"

/* SOON_MS: less than any wait of a single greeting, and much more than BOUND_MS. */
enum { WAIT_MS = 60000, BOUND_MS = 300, SOON_MS = 8000 };

/* ---- one link without a server ---- */

struct bare {
    struct rt_client c;
    struct psc_links *k;
    struct psc_link *l;
};

static void bare_start(struct bare *b) {
    *b = (struct bare){.c = {.n_servers = 1}};
    psc_links_open(&b->c, 1, (const char *const[]){"here"});
    b->k = b->c.links;
    b->l = &b->k->at[0];
    b->k->away = 1;
    co_err_set(&b->l->lost, CO_PEERLOST, "server 0 lost");
    b->l->why = b->l->lost;
    b->l->away_ms = 1000;
    b->l->until_ms = 3000;
    b->l->pinged_ms = b->l->received_ms = 5000;
    b->l->welcome.lease_ms = 1000;
}

/* Goes there by the way of all links. */
static void bare_enter(struct bare *b, enum psc_link_state to) {
    for (enum psc_link_state s = PSC_LINK_HELLO; s <= to; s++) {
        psc_link_set(b->l, s);
    }
}

static void a_server_must_be_back_in_time_in_every_state(void **state) {
    (void)state;
    static const struct {
        enum psc_link_state state;
        const char *said;
    } rows[] = {
        {PSC_LINK_DOWN, "server 0 lost, and not back within 2.0 s"},
        {PSC_LINK_HELLO, "back within 2.0 s: it accepts connections and does not answer hello"},
        {PSC_LINK_WELCOME, "back within 2.0 s: it has not answered begin"},
        {PSC_LINK_BEGUN, "back within 2.0 s: its shards do not answer over data lanes"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (int late = 0; late < 2; late++) {
            struct bare b;
            bare_start(&b);
            bare_enter(&b, rows[i].state);
            assert_null(psc_link_tick(b.l, late ? 3000 : 2999));
            assert_int_equal(late ? CO_PEERLOST : 0, b.k->failed.code);
            assert_true(!late || strstr(b.k->failed.msg, rows[i].said));
            psc_links_free(&b.c);
        }
    }
}

/* A trainer that is stopped meanwhile reads nothing: the server may have come back long ago. */
static void a_stopped_trainer_waits_as_long_as_before(void **state) {
    (void)state;
    struct bare b;
    bare_start(&b);
    b.c.options.return_ms = 2000;
    psc_links_tick(&b.c, 2900, 100); /* 100 ms of its time are left */
    psc_links_tick(&b.c, 700000, 100);
    psc_links_tick(&b.c, 700099, 100);
    assert_int_equal(0, b.k->failed.code);
    psc_links_tick(&b.c, 700100, 100);
    assert_int_equal(CO_PEERLOST, b.k->failed.code);
    psc_links_free(&b.c);
}

/* A server that comes back and breaks again, and answers nothing, has less time each time. */
static void only_an_answer_renews_the_return_time(void **state) {
    (void)state;
    static const struct {
        int64_t spare, up; /* left of the return time when it came back; how long it was up then */
        bool answered;
        int64_t least, most; /* how long it may be away now */
    } rows[] = {
        {500, 100, false, 600, 19000},
        {500, 100, true, 20000, 20000},
        {500, 60000, false, 20000, 20000},
        {0, 0, false, 0, 19000},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct bare b;
        bare_start(&b);
        b.c.options.return_ms = 20000;
        bare_enter(&b, PSC_LINK_UP);
        assert_false(psc_link_is_away(&b.c, 0));
        assert_int_equal(b.l->until_ms - b.l->up_ms, b.l->spare_ms);
        b.l->spare_ms = rows[i].answered ? b.c.options.return_ms : rows[i].spare;
        b.l->up_ms = co_now_ms() - rows[i].up;
        const int64_t before = co_now_ms();
        psc_link_lose(b.l, "closed");
        assert_true(b.l->until_ms - before >= rows[i].least);
        assert_true(b.l->until_ms - co_now_ms() <= rows[i].most);
        psc_links_free(&b.c);
    }
}

/* A call of one part, for a shard. */
static struct psc_part *put_in_flight(struct bare *b, uint32_t shard) {
    struct rt_call *call = co_xcalloc(1, sizeof(*call) + sizeof(struct psc_part));
    struct psc_part *p = call->parts;
    call->c = &b->c;
    call->n_parts = call->left = 1;
    p->call = call;
    p->head.kind = RPC_FRAME_PULL_DENSE;
    p->head.shard = shard;
    p->state = PSC_PART_SENT;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_PULL_DENSE, 0, &p->frame, NULL));
    psc_inflight_admit(&b->l->inflight, p);
    psc_slots_take(&b->k->slots, p);
    psc_inflight_sent(&b->l->inflight, p);
    return p;
}

/* As when the link is up again. */
static void send_again(struct bare *b, struct psc_part *p) {
    struct psc_inflight *f = &b->l->inflight;
    assert_ptr_equal(p, psc_inflight_unqueue(f, psc_inflight_line(f, p->head.shard)));
    psc_inflight_sent(f, p);
    p->state = PSC_PART_SENT;
}

static void answer(struct bare *b, struct psc_part *p) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_PULL_DENSE, 0, &f, NULL));
    f->head.seq = p->frame->head.seq;
    psc_client_answer(&b->c, b->l, f);
    assert_int_equal(PSC_PART_DONE, p->state);
    rpc_frame_free(p->frame);
    free(p->call);
}

/* A request of which a server dies each time is sent again each time.  Answers to others, old and
 * new ones, show nothing: the server must not be waited for again and again. */
static void a_request_that_has_no_answer_again_is_no_recovery(void **state) {
    (void)state;
    struct bare b;
    bare_start(&b);
    b.c.options.return_ms = 20000;
    psc_inflight_begin(&b.l->inflight, 2);
    bare_enter(&b, PSC_LINK_UP);
    struct psc_part *poison = put_in_flight(&b, 0), *old = put_in_flight(&b, 1);
    for (int i = 0; i < 2; i++) { /* what is lost twice counts once */
        psc_link_lose(b.l, "closed");
        bare_enter(&b, PSC_LINK_UP);
        b.l->spare_ms = 500;
        send_again(&b, poison);
        send_again(&b, old);
    }
    answer(&b, old);
    assert_int_equal(500, b.l->spare_ms);
    answer(&b, put_in_flight(&b, 1));
    assert_int_equal(500, b.l->spare_ms);
    answer(&b, poison);
    assert_int_equal(20000, b.l->spare_ms);
    psc_links_free(&b.c);
}

/* A server that has come back, greets and then is silent for longer than its lease has no more time
 * for that: the loss of a link is the loss of one that was up. */
static void a_silent_greeting_does_not_begin_the_return_time_again(void **state) {
    (void)state;
    for (enum psc_link_state s = PSC_LINK_WELCOME; s <= PSC_LINK_BEGUN; s++) {
        struct bare b;
        bare_start(&b);
        b.c.options.return_ms = 20000;
        bare_enter(&b, s);
        b.l->stream = (struct rpc_stream *)&b; /* nothing is sent or closed */
        b.l->pinged_ms = 2900;
        b.l->received_ms = 1000;
        assert_null(psc_link_tick(b.l, 2999));
        assert_int_equal(s, b.l->state);
        assert_int_equal(3000, b.l->until_ms);
        psc_links_free(&b.c);
    }
}

/* Waits of calls do not count the time in which a server is away, which has a limit of its own. */
static void the_clock_of_calls_stands_still_while_a_link_is_away(void **state) {
    (void)state;
    struct bare b;
    bare_start(&b);
    b.k->still_ms = 200;
    b.k->still_since_ms = 1000;
    assert_int_equal(800, psc_client_time(&b.c));
    bare_enter(&b, PSC_LINK_UP);
    int64_t at = co_now_ms() - b.l->up_ms;
    assert_in_range(b.k->back_ms, 800, 800 + at);
    assert_true(psc_client_time(&b.c) >= 800);
    psc_links_free(&b.c);
}

static void a_server_that_was_restarted_is_named(void **state) {
    (void)state;
    struct bare b;
    struct co_err err = {0};
    uint64_t was = 0;
    bare_start(&b);
    b.l->welcome.incarnation = 7;
    psc_client_servers(&b.c, &was);
    assert_int_equal(0, psc_client_same_servers(&b.c, &was, &err));
    assert_int_equal(0, err.code);
    b.l->welcome.incarnation = 8;
    assert_int_equal(CO_CONFLICT, psc_client_same_servers(&b.c, &was, &err));
    assert_string_equal("server 0 (here) was restarted meanwhile", err.msg);
    psc_links_free(&b.c);
}

/* The return of a link gives its requests their time once more, and only once. */
static void a_call_ends_at_most_twice_its_time_after_its_last_part(void **state) {
    (void)state;
    static const struct {
        int64_t from, back, end;
    } rows[] = {
        {1000, 0, 1020},    /* no link was away */
        {1000, 999, 1020},  /* it came back before */
        {1000, 1001, 1021}, /* it came back meanwhile */
        {1000, 1020, 1040},
        {1000, 1021, 1040}, /* it came back again and again */
        {1000, 9000, 1040},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(rows[i].end, psc_call_until(rows[i].from, rows[i].back, 20));
    }
}

/* ---- a server that connects and says no more ---- */

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = 10, .optimizer = "sgd:lr=1"},
};

/* What arrives from the server: part of its greeting; the greeting; the same on data lanes only. */
static const struct {
    size_t says;
    unsigned whole;
} silences[] = {
    {NET_ANSWER_BYTES, 0},
    {NET_ANSWER_BYTES + NET_WELCOME_BYTES, 0},
    {NET_ANSWER_BYTES + NET_WELCOME_BYTES, 1},
};

struct link_job {
    struct pss_server *server;
    struct proxy proxy;
    char endpoint[32];
};

static void job_start(struct link_job *j) {
    struct pss_server_config config = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .job = own_job(),
        .lease_ms = WAIT_MS,
        .start_timeout_ms = WAIT_MS,
        .shards = 2,
        .memory_max = 1 << 26,
        .quiet = true};
    assert_int_equal(0, pss_server_start(&config, &j->server, NULL));
    proxy_bind(&j->proxy);
    proxy_start(&j->proxy, pss_server_port(j->server), 0, 0);
    (void)snprintf(j->endpoint, sizeof(j->endpoint), "127.0.0.1:%d", j->proxy.port);
}

static int job_enter_as(enum rt_mode mode, struct link_job *j, int64_t start_ms, int64_t return_ms,
    struct rt_client **ret, struct co_err *err) {
    struct psc_client_config config = {.servers = 1,
        .trainers = 1,
        .endpoints = (const char *const[]){j->endpoint},
        .job = own_job()};
    const struct rt_client_options o = {.mode = mode,
        .transport = RT_PS_LANES,
        .start_timeout_ms = start_ms,
        .return_ms = return_ms,
        .lease_ms = WAIT_MS,
        .call_timeout_ms = WAIT_MS};
    return psc_client_connect(&config, &o, specs, 1, ret, err);
}

static int job_enter(struct link_job *j, int64_t start_ms, int64_t return_ms,
    struct rt_client **ret, struct co_err *err) {
    return job_enter_as(RT_ASYNC, j, start_ms, return_ms, ret, err);
}

static void job_stop(struct link_job *j) {
    pss_server_stop(j->server);
    proxy_stop(&j->proxy);
}

static void silence(struct link_job *j, size_t row) {
    j->proxy.says = silences[row].says;
    j->proxy.whole = silences[row].whole;
}

/* How long a trainer waits for a server that is away and then silent. */
static int64_t wait_for_return(size_t row) {
    struct link_job j = {0};
    struct co_err err = {0};
    struct rt_client *c = NULL;
    float w[10];
    job_start(&j);
    assert_int_equal(0, job_enter(&j, WAIT_MS, BOUND_MS, &c, &err));
    assert_int_equal(0, rt_pull_dense(c, 0, w, &err));
    proxy_set(&j.proxy, PROXY_CUT);
    silence(&j, row);
    int64_t begin = co_now_ms();
    proxy_set(&j.proxy, PROXY_PASS);
    assert_int_equal(CO_PEERLOST, rt_pull_dense(c, 0, w, &err));
    int64_t took = co_now_ms() - begin;
    assert_non_null(strstr(err.msg, "and not back within 0."));
    rt_client_close(c);
    job_stop(&j);
    return took;
}

static int64_t wait_at_start(size_t row) {
    struct link_job j = {0};
    struct co_err err = {0};
    struct rt_client *c = NULL;
    job_start(&j);
    silence(&j, row);
    int64_t begin = co_now_ms();
    assert_int_equal(CO_TIMEOUT, job_enter(&j, BOUND_MS, WAIT_MS, &c, &err));
    int64_t took = co_now_ms() - begin;
    assert_non_null(strstr(err.msg, "servers not ready within 0.3 s"));
    job_stop(&j);
    return took;
}

/* A machine that stands still makes one of several tries long; a wait of a greeting, all. */
static void assert_soon(int64_t (*wait)(size_t row)) {
    enum { TRIES = 3 };
    for (size_t i = 0; i < CO_ARRAY_LEN(silences); i++) {
        int64_t took = INT64_MAX;
        for (int k = 0; k < TRIES && took >= SOON_MS; k++) {
            took = wait(i);
        }
        assert_true(took < SOON_MS);
    }
}

static void a_server_that_is_silent_after_its_welcome_has_not_returned(void **state) {
    (void)state;
    assert_soon(wait_for_return);
}

static void a_server_that_is_silent_after_its_welcome_fails_the_start(void **state) {
    (void)state;
    assert_soon(wait_at_start);
}

static void *release_late(void *arg) {
    struct proxy *x = arg;
    while (x->taken == 0) {
        (void)poll(NULL, 0, 5);
    }
    (void)poll(NULL, 0, 5500); /* longer than a lane may take in a job that has begun */
    x->holds = false;
    proxy_set(x, PROXY_PASS);
    return NULL;
}

/* A server on a machine that stands still: to give a lane up closes the connection of a trainer
 * that has joined, and without it the job is over. */
static void lanes_have_the_time_of_the_lease_at_the_start(void **state) {
    (void)state;
    struct link_job j = {0};
    struct co_err err = {0};
    struct rt_client *c = NULL;
    float w[10];
    pthread_t thread;
    job_start(&j);
    j.proxy.whole = 1;
    j.proxy.holds = true;
    assert_int_equal(0, pthread_create(&thread, NULL, release_late, &j.proxy));
    if (job_enter_as(RT_SYNC, &j, WAIT_MS, -1, &c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(0, rt_pull_dense(c, 0, w, &err));
    pthread_join(thread, NULL);
    assert_int_equal(0, rt_finish(c, &err));
    assert_int_equal(0, pss_server_wait(j.server, &err));
    job_stop(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_must_be_back_in_time_in_every_state),
        cmocka_unit_test(a_stopped_trainer_waits_as_long_as_before),
        cmocka_unit_test(only_an_answer_renews_the_return_time),
        cmocka_unit_test(a_silent_greeting_does_not_begin_the_return_time_again),
        cmocka_unit_test(the_clock_of_calls_stands_still_while_a_link_is_away),
        cmocka_unit_test(a_server_that_was_restarted_is_named),
        cmocka_unit_test(a_call_ends_at_most_twice_its_time_after_its_last_part),
        cmocka_unit_test(a_request_that_has_no_answer_again_is_no_recovery),
        cmocka_unit_test(a_server_that_is_silent_after_its_welcome_has_not_returned),
        cmocka_unit_test(a_server_that_is_silent_after_its_welcome_fails_the_start),
        cmocka_unit_test(lanes_have_the_time_of_the_lease_at_the_start),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
