/* The event loop of a shard over socket pairs: order, frames that must wait, peers that break the
 * rules or do not read, and lanes that are too many or of an earlier connection. */
#include "runtime/train/ps/shard/lanes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "runtime/train/ps/shard/step.h"

enum { SHARD = 3, ENDS = 8, SEEN = 256 };

/* A lane or a connection: the shard has one end, the test the other. */
struct end {
    struct rpc_lane *lane; /* a connection: counted */
    int fd;
    struct rpc_splitter answers;
    struct rpc_frame *waiting; /* answers that were read, in order */
};

struct world {
    struct shard_lanes *all;
    struct end ends[ENDS];
    uint32_t n;
    struct {
        uint32_t trainer;
        uint64_t seq;
    } seen[SEEN];
    uint32_t n_seen;
    bool hold;           /* frames with a number must wait */
    size_t answer_bytes; /* of each answer */
};

static void on_frame(void *arg, uint32_t trainer, struct rpc_frame *f_own) {
    struct world *w = arg;
    struct rpc_frame *a = NULL;
    assert_true(w->n_seen < SEEN);
    w->seen[w->n_seen].trainer = trainer;
    w->seen[w->n_seen++].seq = f_own->head.seq;
    assert_int_equal(
        0, rpc_frame_new(f_own->head.kind | RPC_FRAME_ANSWER, w->answer_bytes, &a, NULL));
    memset(a->payload, 0, w->answer_bytes);
    shard_answer(rpc_frame_stream(f_own), &f_own->head, a);
    rpc_frame_free(f_own);
}

static bool is_early(void *arg, uint32_t trainer, const struct rpc_frame *f) {
    (void)trainer;
    return ((struct world *)arg)->hold && f->head.number > 0;
}

static const struct shard_lanes_ops ops = {on_frame, is_early};

/* A lane may use a millisecond a turn: here no time passes, so a turn handles all of a read. */
static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    co_test_clock_hold(true);
    *state = w;
    return shard_lanes_new(SHARD, &ops, w, &w->all, NULL);
}

static int teardown(void **state) {
    struct world *w = *state;
    shard_lanes_free(w->all);
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->ends[i].lane) {
            rpc_stream_unref(rpc_lane_stream(w->ends[i].lane));
        }
        if (w->ends[i].fd >= 0) {
            co_close(w->ends[i].fd);
        }
        rpc_splitter_done(&w->ends[i].answers);
        for (struct rpc_frame *f = w->ends[i].waiting, *next; f; f = next) {
            next = f->next;
            rpc_frame_free(f);
        }
    }
    free(w);
    return 0;
}

static struct rpc_lane *add_end(struct world *w, struct end **ret) {
    int fds[2];
    struct end *e = *ret = &w->ends[w->n++];
    assert_true(w->n <= ENDS);
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
    e->fd = fds[1];
    rpc_splitter_init(&e->answers, SIZE_MAX);
    return rpc_lane_new(fds[0], NULL, "10.0.0.7:4711");
}

static struct end *connect_one(struct world *w) {
    struct end *e;
    struct rpc_lane *lane = add_end(w, &e);
    e->lane = lane;
    return e;
}

static struct end *add_lane(struct world *w, uint32_t trainer, const struct end *connection) {
    struct end *e;
    struct rpc_lane *lane = add_end(w, &e);
    shard_lanes_add(w->all, trainer, rpc_lane_stream(connection->lane), lane);
    return e;
}

/* number > 0: it must wait if the world says so. */
static void post(const struct end *e, uint8_t kind, uint32_t shard, uint64_t seq, uint64_t number) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(kind, 0, &f, NULL));
    f->head.shard = shard;
    f->head.seq = seq;
    f->head.number = number;
    rpc_frame_seal(f);
    assert_int_equal(RPC_FRAME_HEAD, write(e->fd, f->wire, RPC_FRAME_HEAD));
    rpc_frame_free(f);
}

static void send_frame(const struct end *e, uint64_t seq, uint64_t number) {
    post(e, RPC_FRAME_PING, SHARD, seq, number);
}

static void turn(struct world *w) {
    (void)shard_lanes_turn(w->all, 0);
    shard_lanes_flush(w->all);
}

/* The next answer that has come; NULL: none. */
static struct rpc_frame *answer_of(struct end *e) {
    unsigned char bytes[4096];
    ssize_t n;
    while (!e->waiting && (n = read(e->fd, bytes, sizeof(bytes))) > 0) {
        assert_int_equal(0, rpc_splitter_feed(&e->answers, bytes, (size_t)n, NULL));
        e->waiting = rpc_splitter_pop(&e->answers);
    }
    struct rpc_frame *f = e->waiting;
    if (f) {
        e->waiting = f->next;
        f->next = NULL;
    }
    return f;
}

static void assert_answer(struct end *e, uint64_t seq) {
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = answer_of(e);
    assert_non_null(f);
    assert_int_equal(seq, f->head.seq);
}

static bool is_closed(const struct end *e) {
    char byte;
    ssize_t n = read(e->fd, &byte, 1);
    assert_true(n <= 0);
    return n == 0 || errno == ECONNRESET;
}

static void assert_seen(const struct world *w, uint32_t i, uint32_t trainer, uint64_t seq) {
    assert_true(i < w->n_seen);
    assert_int_equal(trainer, w->seen[i].trainer);
    assert_int_equal(seq, w->seen[i].seq);
}

/* ---- tests ---- */

static void frames_are_handled_in_their_order_and_answered(void **state) {
    struct world *w = *state;
    struct end *connection = connect_one(w);
    struct end *lane = add_lane(w, 5, connection), *other = add_lane(w, 6, connection);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        send_frame(lane, seq, 0);
    }
    turn(w);
    send_frame(other, 9, 0);
    turn(w);
    assert_int_equal(4, w->n_seen);
    for (uint32_t i = 0; i < 3; i++) {
        assert_seen(w, i, 5, i + 1);
        assert_answer(lane, i + 1);
    }
    assert_seen(w, 3, 6, 9);
    assert_answer(other, 9);
    assert_null(answer_of(lane));
    assert_false(shard_lanes_turn(w->all, 0));
    assert_false(is_closed(connection));
}

static void a_frame_that_must_wait_holds_up_its_lane_alone(void **state) {
    struct world *w = *state;
    struct end *connection = connect_one(w);
    struct end *lane = add_lane(w, 1, connection), *other = add_lane(w, 2, connection);
    w->hold = true;
    send_frame(lane, 1, 0);
    send_frame(lane, 2, 7); /* waits */
    send_frame(lane, 3, 0); /* behind it */
    send_frame(other, 4, 0);
    for (int i = 0; i < 3; i++) {
        turn(w);
        assert_int_equal(2, w->n_seen);
    }
    shard_lanes_again(w->all); /* still too early */
    turn(w);
    assert_int_equal(2, w->n_seen);
    w->hold = false;
    turn(w);
    assert_int_equal(2, w->n_seen); /* nobody said to try again */
    shard_lanes_again(w->all);
    turn(w);
    assert_int_equal(4, w->n_seen);
    assert_seen(w, 2, 1, 2);
    assert_seen(w, 3, 1, 3);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        assert_answer(lane, seq);
    }
    assert_answer(other, 4);
}

/* The trainer is lost as a whole; others are not. */
static void a_lane_that_breaks_the_rules_breaks_its_stream(void **state) {
    static const struct {
        uint8_t kind;
        uint32_t shard;
    } rows[] = {{RPC_FRAME_PING, SHARD + 1}, {RPC_FRAME_PING, UINT32_MAX},
        {RPC_FRAME_PING | RPC_FRAME_ANSWER, SHARD}, {0, 0}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world *w = *state;
        struct end *connection = connect_one(w), *stays = connect_one(w);
        struct end *lane = add_lane(w, 1, connection), *other = add_lane(w, 2, stays);
        send_frame(lane, 1, 0);
        if (rows[i].kind > 0) {
            post(lane, rows[i].kind, rows[i].shard, 2, 0);
            send_frame(lane, 3, 0);
        } else { /* the peer closes it */
            co_close(lane->fd);
            lane->fd = -1;
        }
        send_frame(other, 4, 0);
        for (int k = 0; k < 3; k++) {
            turn(w);
        }
        assert_int_equal(2, w->n_seen); /* what came before, and what another sent */
        assert_true(is_closed(connection));
        assert_false(is_closed(stays));
        assert_answer(other, 4);
        (void)teardown(state);
        assert_int_equal(0, setup(state));
    }
}

static void a_lane_too_many_gets_an_error(void **state) {
    struct world *w = *state;
    struct end *connection = connect_one(w), *lanes[SHARD_LANES_EACH];
    for (uint32_t i = 0; i < SHARD_LANES_EACH; i++) {
        lanes[i] = add_lane(w, 1, connection);
    }
    struct end *more = add_lane(w, 1, connection), *other = add_lane(w, 2, connection);
    struct co_err err = {0};
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = answer_of(more);
    assert_non_null(f);
    assert_int_equal(CO_NORESOURCE, rpc_frame_error_read(f, &err));
    assert_non_null(strstr(err.msg, "trainer 1 has 4 lanes to shard 3 already"));
    assert_true(is_closed(more));
    for (uint32_t i = 0; i < SHARD_LANES_EACH; i++) {
        send_frame(lanes[i], i, 0);
    }
    send_frame(other, 8, 0);
    turn(w);
    assert_int_equal(SHARD_LANES_EACH + 1, w->n_seen);
    assert_false(is_closed(connection));
}

/* Those of an earlier connection are shut, and count no more. */
static void a_new_connection_replaces_the_lanes_of_the_former(void **state) {
    for (int drop = 0; drop < 2; drop++) {
        struct world *w = *state;
        struct end *former = connect_one(w), *now = connect_one(w);
        struct end *old = add_lane(w, 1, former), *other = add_lane(w, 2, former);
        struct end *lane = add_lane(w, 1, now);
        send_frame(old, 1, 0);
        if (drop) {
            shard_lanes_drop(w->all, rpc_lane_stream(former->lane));
        } else {
            shard_lanes_keep(w->all, 1, rpc_lane_stream(now->lane));
        }
        shard_lanes_flush(w->all);
        assert_true(is_closed(old));
        assert_int_equal(drop, is_closed(other));
        send_frame(lane, 2, 0);
        turn(w);
        assert_int_equal(1, w->n_seen); /* not that of the old one */
        assert_seen(w, 0, 1, 2);
        assert_false(is_closed(former)); /* they were shut, not lost */
        (void)teardown(state);
        assert_int_equal(0, setup(state));
    }
}

/* Its answers wait up to a limit; beyond it, its requests do. */
static void a_peer_that_does_not_read_is_not_read(void **state) {
    enum { FRAMES = 100, BYTES = 200 << 10 };
    struct world *w = *state;
    struct end *connection = connect_one(w);
    struct end *lane = add_lane(w, 1, connection), *other = add_lane(w, 2, connection);
    w->answer_bytes = BYTES;
    for (uint64_t seq = 0; seq < FRAMES; seq++) {
        send_frame(lane, seq, 0);
    }
    uint32_t before;
    do {
        before = w->n_seen;
        turn(w);
    } while (w->n_seen > before);
    /* What the socket holds comes on top. */
    assert_in_range(before, SHARD_LANE_UNSENT / BYTES, FRAMES - 1);
    w->answer_bytes = 0;
    send_frame(other, 7, 0);
    turn(w);
    assert_int_equal(before + 1, w->n_seen);
    assert_answer(other, 7);
    w->answer_bytes = BYTES;
    for (uint64_t seq = 0; seq < FRAMES;) {
        CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = answer_of(lane);
        if (f) {
            assert_int_equal(seq, f->head.seq);
            seq++;
        } else {
            turn(w);
        }
    }
    assert_int_equal(FRAMES + 1, w->n_seen);
}

/* It was called before the wait, which then does not begin. */
static void a_wake_ends_the_wait(void **state) {
    struct world *w = *state;
    for (int i = 0; i < 3; i++) {
        shard_lanes_wake(w->all);
        shard_lanes_wake(w->all);
        assert_false(shard_lanes_turn(w->all, -1));
    }
    assert_false(shard_lanes_turn(w->all, 1));
}

static void lanes_end_with_frames_that_wait(void **state) {
    struct world *w = *state;
    struct end *connection = connect_one(w);
    struct end *lane = add_lane(w, 1, connection);
    w->hold = true;
    send_frame(lane, 1, 1);
    send_frame(lane, 2, 0);
    turn(w);
    assert_int_equal(0, w->n_seen); /* teardown frees them */
    shard_lanes_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            frames_are_handled_in_their_order_and_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_frame_that_must_wait_holds_up_its_lane_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_lane_that_breaks_the_rules_breaks_its_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lane_too_many_gets_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_new_connection_replaces_the_lanes_of_the_former, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_does_not_read_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wake_ends_the_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(lanes_end_with_frames_that_wait, setup, teardown),
    };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
