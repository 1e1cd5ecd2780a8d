/* Where a job begins, by what its servers say, and by what becomes of them while a trainer begins:
 * all of them begin in one era, and whoever goes back goes to the step of the checkpoint.  The
 * servers are stand-ins that do as admit.c does. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/listen.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/rpc/rpc.h"

enum { SERVERS = 2, WAIT_MS = 60000 };

/* One life of a server, as its welcome says. */
struct life {
    uint64_t incarnation, era, restored, restored_step, step;
    bool fresh, dirty;
};

/* When a server's next life begins, or it is the same one, and others have been there. */
enum change { NEVER, LOST_AT_BEGIN, LOST_WHEN_ASKED_AGAIN, WHEN_ASKED_AGAIN };

struct stand_in {
    struct rpc *rpc;
    char endpoint[32];
    pthread_mutex_t m; /* guards what follows */
    struct life now, next;
    enum change change;
    bool busy; /* others train there as soon as it has gone back */
    unsigned begins;
};

static void change(struct stand_in *k) {
    k->change = NEVER;
    k->now = k->next;
}

static void answer(struct rpc_stream *s, const struct rpc_frame *f, const Rpc__Control *c) {
    struct rpc_frame *a = NULL;
    assert_int_equal(0, ps_control_pack(c, &f->head, &a, NULL));
    (void)!rpc_stream_send(s, a, NULL);
}

static void do_hello(struct stand_in *k, struct rpc_stream *s, const struct rpc_frame *f) {
    bool again = rpc_stream_user(s) != NULL;
    rpc_stream_set_user(s, k);
    if (again && k->change == LOST_WHEN_ASKED_AGAIN) {
        change(k);
        rpc_stream_cancel(s);
        return;
    }
    if (again && k->change == WHEN_ASKED_AGAIN) {
        change(k);
    }
    Rpc__Welcome w = RPC__WELCOME__INIT;
    w.shards = 1;
    w.lease_ms = WAIT_MS;
    w.incarnation = k->now.incarnation;
    w.era = k->now.era;
    w.restored = k->now.restored;
    w.restored_step = k->now.restored_step;
    w.step = k->now.step;
    w.fresh = k->now.fresh;
    w.dirty = k->now.dirty;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_WELCOME;
    c.welcome = &w;
    answer(s, f, &c);
}

static void do_begin(
    struct stand_in *k, struct rpc_stream *s, const struct rpc_frame *f, const Rpc__Begin *b) {
    struct life *l = &k->now;
    if (k->change == LOST_AT_BEGIN) {
        change(k);
        rpc_stream_cancel(s);
        return;
    }
    if (b->era < l->era) {
        (void)!rpc_stream_send(s, rpc_frame_error(&f->head, CO_CONFLICT, "gone back"), NULL);
        return;
    }
    bool differs = b->restored > 0 && (b->restored != l->restored || l->dirty);
    if ((b->era > l->era || l->fresh) && differs) {
        l->restored = b->restored;
        l->restored_step = l->step = b->step;
        l->dirty = k->busy;
    }
    l->era = b->era;
    l->fresh = false;
    k->begins++;
    Rpc__Control c = RPC__CONTROL__INIT;
    answer(s, f, &c);
}

static void on_frame(void *arg, struct rpc_stream *s, struct rpc_frame *f_own) {
    struct stand_in *k = arg;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = f_own;
    CO_CLEANUP(ps_control_freep) Rpc__Control *c = NULL;
    if (f->head.kind != RPC_FRAME_CONTROL || ps_control_unpack(f, &c, NULL) < 0) {
        return;
    }
    pthread_mutex_lock(&k->m);
    if (c->body_case == RPC__CONTROL__BODY_HELLO) {
        do_hello(k, s, f);
    } else if (c->body_case == RPC__CONTROL__BODY_BEGIN) {
        do_begin(k, s, f, c->begin);
    } else if (c->body_case == RPC__CONTROL__BODY_LEAVE) {
        rpc_stream_end(s);
    }
    pthread_mutex_unlock(&k->m);
}

static void on_open(void *arg, struct rpc_stream *s) {
    (void)arg;
    rpc_stream_set_user(s, NULL);
}

static void on_close(void *arg, struct rpc_stream *s, const struct co_err *why) {
    (void)arg;
    (void)s;
    (void)why;
}

static const struct rpc_ops ops = {on_open, on_frame, on_close, NULL};

static void stand_in_start(struct stand_in *k) {
    int fd = -1;
    *k = (struct stand_in){.m = PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(0, rpc_open(&ops, k, NULL, &k->rpc, NULL));
    assert_int_equal(0, net_listen("127.0.0.1:0", &fd, NULL));
    (void)snprintf(k->endpoint, sizeof(k->endpoint), "127.0.0.1:%u", co_listen_port(fd));
    assert_int_equal(0, rpc_accept(k->rpc, fd, NULL));
}

static void become(struct stand_in *k, struct life now, struct life next, enum change when) {
    pthread_mutex_lock(&k->m);
    k->now = now;
    k->next = next;
    k->change = when;
    pthread_mutex_unlock(&k->m);
}

struct row {
    const char *what;
    bool rejoins; /* it has trained, in era 5, on servers whose incarnation was 9 */
    struct {
        struct life now;
        enum change change;
        struct life next;
        bool busy;
    } server[SERVERS];
    uint64_t era, step;
    unsigned begins; /* at server 1 */
};

static const struct row rows[] = {
    {"a server is lost before this trainer began there, after it began at the other", false,
        {{{1, 0, 67, 489, 489, .fresh = true}, LOST_AT_BEGIN, {2, 0, 67, 489, 489, .fresh = true}},
            {{1, 0, 66, 480, 491, .dirty = true}}},
        .era = 1, .step = 489, .begins = 2},
    {"and another trainer has begun at its next life", false,
        {{{1, 0, 67, 489, 489, .fresh = true}, LOST_AT_BEGIN, {2, 1, 67, 489, 489}},
            {{1, 0, 66, 480, 491, .dirty = true}}},
        .era = 1, .step = 489, .begins = 2},
    {"of one that was there before, while others train", true,
        {{{10, 0, 67, 489, 489, .fresh = true}, LOST_AT_BEGIN, {11, 6, 67, 489, 489}},
            {{9, 5, 66, 480, 491, .dirty = true}, .busy = true}},
        .era = 6, .step = 489, .begins = 2},
    {"a server is lost when it is asked again", false,
        {{{1, 0, 67, 489, 489, .fresh = true}, LOST_WHEN_ASKED_AGAIN,
             {2, 0, 67, 489, 489, .fresh = true}},
            {{1, 0, 66, 480, 491, .dirty = true}}},
        .era = 1, .step = 489, .begins = 1},
    {"the other has gone back before it is asked again, and was used since", false,
        {{{1, 0, 67, 489, 489, .fresh = true}},
            {{1, 0, 66, 480, 491, .dirty = true}, WHEN_ASKED_AGAIN,
                {1, 1, 67, 489, 489, .dirty = true}}},
        .era = 2, .step = 489, .begins = 1},
    {"whoever sent one server back was lost before it reached the other", false,
        {{{2, 1, 67, 489, 489}}, {{1, 0, 66, 480, 491, .dirty = true}}}, .era = 1, .step = 489,
        .begins = 1},
    {"steps were made since, of which a server in an older era knows nothing", false,
        {{{2, 2, 67, 489, 574, .dirty = true}}, {{1, 1, 67, 489, 574, .dirty = true}}}, .era = 3,
        .step = 489, .begins = 1},
};

static struct rt_client *enter(struct stand_in *k) {
    static const struct rt_table_spec table = {
        .name = "w", .kind = RT_DENSE, .size = 20, .optimizer = "sgd"};
    const char *endpoints[] = {k[0].endpoint, k[1].endpoint};
    struct psc_client_config config = {
        .trainers = 2, .servers = SERVERS, .endpoints = endpoints, .job = "job", .token = ""};
    struct rt_client_options o = {.mode = RT_SYNC,
        .return_ms = WAIT_MS,
        .start_timeout_ms = WAIT_MS,
        .call_timeout_ms = WAIT_MS,
        .barrier_timeout_ms = WAIT_MS};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    if (psc_client_connect(&config, &o, &table, 1, &c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return c;
}

static void become_all(struct stand_in *k, const struct row *r) {
    for (int i = 0; i < SERVERS; i++) {
        become(&k[i], r->server[i].now, r->server[i].next, r->server[i].change);
        k[i].busy = r->server[i].busy;
        k[i].begins = 0;
    }
}

static void check(const struct stand_in *k, const struct row *r) {
    for (int i = 0; i < SERVERS; i++) {
        const struct life *l = &k[i].now;
        if (l->era != r->era || l->restored != 67 || l->restored_step != r->step) {
            fail_msg("%s: server %d is in era %d, from checkpoint %d, step %d", r->what, i,
                (int)l->era, (int)l->restored, (int)l->restored_step);
        }
    }
    if (k[1].begins != r->begins) {
        fail_msg("%s: began %u times at server 1, expected %u", r->what, k[1].begins, r->begins);
    }
}

static void all_servers_begin_in_one_era(void **state) {
    (void)state;
    for (size_t n = 0; n < CO_ARRAY_LEN(rows); n++) {
        const struct row *r = &rows[n];
        struct stand_in k[SERVERS];
        struct rt_client *c = NULL;
        for (int i = 0; i < SERVERS; i++) {
            stand_in_start(&k[i]);
        }
        if (r->rejoins) {
            for (int i = 0; i < SERVERS; i++) {
                become(&k[i], (struct life){9, 5, 66, 480, 491}, (struct life){0}, NEVER);
            }
            c = enter(k);
            become_all(k, r);
            struct co_err err = {0};
            if (psc_client_rejoin(c, &err) < 0) {
                fail_msg("%s: %s", r->what, err.msg);
            }
        } else {
            become_all(k, r);
            c = enter(k);
        }
        assert_int_equal(r->era, c->progress.era);
        assert_int_equal(r->step, c->progress.steps);
        rt_client_close(c);
        for (int i = 0; i < SERVERS; i++) {
            assert_int_equal(0, rpc_close(k[i].rpc, NULL));
        }
        check(k, r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_servers_begin_in_one_era)};
    return cmocka_run_group_tests_name("muster", tests, NULL, NULL);
}
