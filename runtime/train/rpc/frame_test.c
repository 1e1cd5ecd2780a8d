#include "runtime/train/rpc/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/huge.h"

enum { ROOM = 4096 };

/* A head as bytes, for any values. */
static void head(unsigned char *w, int version, int kind, uint32_t count, uint32_t bytes) {
    memset(w, 0, RPC_FRAME_HEAD);
    w[0] = (unsigned char)version;
    w[1] = (unsigned char)kind;
    co_put_u32(w + 24, count);
    co_put_u32(w + 28, bytes);
}

static void heads_are_checked(void **state) {
    (void)state;
    static const struct {
        int version, kind;
        uint32_t count, bytes;
        const char *said; /* NULL: fine */
    } rows[] = {
        {2, RPC_FRAME_PING, 0, 0, NULL},
        {2, RPC_FRAME_PUSH_DENSE, 10, 40, NULL},
        {2, RPC_FRAME_PULL_SPARSE, 10, 80, NULL},
        {2, RPC_FRAME_PUSH_SPARSE, 10, 120, NULL},
        {2, RPC_FRAME_PUSH_SPARSE, 0, 0, NULL},
        {2, RPC_FRAME_PULL_DENSE | RPC_FRAME_ANSWER, 10, 40, NULL},
        {2, RPC_FRAME_ERROR, 0, 100, NULL},
        {9, RPC_FRAME_PING, 0, 0, "version 9"},
        {0, RPC_FRAME_PING, 0, 0, "version 0"},
        {2, 0, 0, 0, "kind 0"},
        {2, 0x80, 0, 0, "kind 128"},
        {2, RPC_FRAME_KINDS, 0, 0, "unknown"},
        {2, 0xfe, 0, 0, "unknown"},
        {2, RPC_FRAME_PING, 0, 1, "ping"},
        {2, RPC_FRAME_PUSH_DENSE, 10, 44, "push-dense"},
        {2, RPC_FRAME_PUSH_DENSE, 0x40000001, 4, "push-dense"},
        {2, RPC_FRAME_PULL_SPARSE, 0x20000001, 8, "pull-sparse"},
        {2, RPC_FRAME_PUSH_SPARSE, 10, 80, "push-sparse"},
        {2, RPC_FRAME_PUSH_SPARSE, 0, 12, "push-sparse"},
        {2, RPC_FRAME_CONTROL, 0, RPC_FRAME_CONTROL_MAX + 1, "control"},
        {2, RPC_FRAME_ERROR, 0, RPC_FRAME_BYTES_MAX + 1, "limit"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        unsigned char w[RPC_FRAME_HEAD];
        struct rpc_frame_head h;
        struct co_err err = {0};
        head(w, rows[i].version, rows[i].kind, rows[i].count, rows[i].bytes);
        int rc = rpc_frame_head_read(w, &h, &err);
        if (rc != (rows[i].said ? CO_INVALID : 0) ||
            (rows[i].said && !strstr(err.msg, rows[i].said))) {
            fail_msg("row %zu: %d '%s'", i, rc, err.msg);
        }
    }
}

/* A message of `n` frames with payloads of 0, 4, 8, ... bytes. */
static size_t compose(unsigned char *to, unsigned n) {
    size_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        struct rpc_frame *f = NULL;
        assert_int_equal(0, rpc_frame_new(RPC_FRAME_PUSH_DENSE, i * 4UL, &f, NULL));
        f->head.count = i;
        f->head.table = (uint16_t)(i + 1);
        f->head.shard = i + 2;
        f->head.seq = 0x0102030405060708ULL + i;
        f->head.aux = UINT64_MAX - i;
        f->head.number = i + 3;
        memset(f->payload, (int)i, i * 4UL);
        rpc_frame_seal(f);
        memcpy(to + at, f->wire, RPC_FRAME_HEAD + i * 4UL);
        at += RPC_FRAME_HEAD + i * 4UL;
        rpc_frame_free(f);
    }
    return at;
}

static int split(
    const unsigned char *msg, size_t announced, size_t len, size_t piece, struct rpc_frame **ret) {
    CO_CLEANUP(rpc_splitter_done) struct rpc_splitter sp;
    rpc_splitter_init(&sp, announced);
    for (size_t at = 0; at < len; at += piece) {
        CO_TRY(rpc_splitter_feed(&sp, msg + at, len - at < piece ? len - at : piece, NULL));
    }
    return rpc_splitter_take(&sp, ret, NULL);
}

static void messages_are_cut_into_frames_whatever_the_pieces(void **state) {
    (void)state;
    unsigned char msg[ROOM];
    size_t len = compose(msg, 6);
    for (size_t piece = 1; piece <= len; piece++) {
        struct rpc_frame *f = NULL;
        assert_int_equal(0, split(msg, len, len, piece, &f));
        unsigned i = 0;
        for (; f; i++) {
            assert_int_equal(i * 4, f->head.bytes);
            assert_int_equal(i + 1, f->head.table);
            assert_int_equal(i + 2, f->head.shard);
            assert_true(f->head.seq == 0x0102030405060708ULL + i);
            assert_true(f->head.aux == UINT64_MAX - i);
            assert_int_equal(i + 3, f->head.number);
            assert_true((uintptr_t)f->payload % 32 == 0);
            for (unsigned k = 0; k < i * 4; k++) {
                assert_int_equal(i, f->payload[k]);
            }
            struct rpc_frame *next = f->next;
            rpc_frame_free(f);
            f = next;
        }
        assert_int_equal(6, i);
    }
}

static void messages_that_end_early_or_late_are_refused(void **state) {
    (void)state;
    unsigned char msg[ROOM];
    size_t len = compose(msg, 3);
    struct rpc_frame *f = NULL;
    for (size_t cut = 1; cut < len; cut++) {
        bool boundary = cut == RPC_FRAME_HEAD || cut == 2 * RPC_FRAME_HEAD + 4;
        int rc = split(msg, cut, cut, 7, &f);
        assert_int_equal(boundary ? 0 : CO_INVALID, rc);
        while (rc == 0 && f) {
            struct rpc_frame *next = f->next;
            rpc_frame_free(f);
            f = next;
        }
    }
    assert_int_equal(CO_INVALID, split(msg, len - 1, len, len, &f));
    assert_int_equal(CO_INVALID, split(msg, len + 1, len, len, &f));
}

/* A few bytes that declare 32 MiB must not cost 32 MiB. */
static void a_frame_longer_than_its_message_is_refused_at_once(void **state) {
    (void)state;
    unsigned char w[RPC_FRAME_HEAD];
    head(w, 2, RPC_FRAME_PUSH_DENSE, 1 << 20, 4 << 20);
    struct rpc_frame *f = NULL;
    assert_int_equal(CO_INVALID, split(w, sizeof(w), sizeof(w), sizeof(w), &f));
}

static void errors_travel(void **state) {
    (void)state;
    struct rpc_frame_head request = {.seq = 77, .table = 3};
    struct rpc_frame *f = rpc_frame_error(&request, CO_PEERLOST, "trainer 1 lost");
    struct co_err err = {0};
    assert_true(f->head.seq == 77);
    assert_int_equal(CO_PEERLOST, rpc_frame_error_read(f, &err));
    assert_string_equal("trainer 1 lost", err.msg);
    f->head.aux = 12345; /* no code of ours */
    assert_int_equal(CO_INTERNAL, rpc_frame_error_read(f, &err));
    rpc_frame_free(f);
}

/* More than are kept for reuse, around the size from which they have huge pages. */
static void large_frames_hold_their_payloads(void **unused) {
    enum { N = 24 };
    (void)unused;
    for (int round = 0; round < 2; round++) {
        struct rpc_frame *all[N];
        for (size_t i = 0; i < N; i++) {
            size_t bytes = CO_HUGE_MIN - 1200 + i * 100;
            assert_int_equal(0, rpc_frame_new(RPC_FRAME_PUSH_DENSE, bytes, &all[i], NULL));
            assert_int_equal(0, (uintptr_t)all[i]->payload % 32);
            memset(all[i]->payload, (int)i, bytes);
        }
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(i, all[i]->payload[0]);
            assert_int_equal(i, all[i]->payload[all[i]->head.bytes - 1]);
            rpc_frame_free(all[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_checked),
        cmocka_unit_test(messages_are_cut_into_frames_whatever_the_pieces),
        cmocka_unit_test(messages_that_end_early_or_late_are_refused),
        cmocka_unit_test(a_frame_longer_than_its_message_is_refused_at_once),
        cmocka_unit_test(errors_travel),
        cmocka_unit_test(large_frames_hold_their_payloads),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
