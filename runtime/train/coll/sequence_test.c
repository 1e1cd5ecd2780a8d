/* Makes random sequences of calls, in a group and in groups of its ranks, some of them started, and
 * compares them with the serial reference.  Making a sequence twice must give the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/map.h"
#include "runtime/train/coll/reference_testing.h"

enum { STEPS = 60, PARTS = 3, STARTED = 6, STARTED_MAX = 30000 };

/* Groups that this rank is in: the one of all, and parts of it, in which others may be alone. */
struct parts {
    struct rt_group *of[1 + PARTS];
    uint32_t n;
};

/* Sums of i32, started one after the other; the last ends first here. */
static int started_calls(struct rt_group *g, uint32_t h, struct co_err *err) {
    static int32_t v[STARTED][STARTED_MAX];
    struct rt_work *work[STARTED];
    uint32_t me = rt_group_rank(g), P = rt_group_size(g), n = 1 + h % STARTED;
    size_t len[STARTED];
    for (uint32_t k = 0; k < n; k++) {
        len[k] = mix(h, k, 11) % STARTED_MAX;
        for (size_t i = 0; i < len[k]; i++) {
            v[k][i] = (int32_t)(mix(h, k, (uint32_t)i) % 1000 + me);
        }
        struct rt_coll c = {
            .kind = RT_ALL_REDUCE, .dtype = RT_I32, .in = v[k], .out = v[k], .n = len[k]};
        CO_TRY(rt_coll_start(g, &c, &work[k], err));
    }
    for (uint32_t k = n; k-- > 0;) {
        CO_TRY(rt_work_wait(work[k], err));
        for (size_t i = 0; i < len[k]; i++) {
            uint32_t want = mix(h, k, (uint32_t)i) % 1000 * P + P * (P - 1) / 2;
            if (v[k][i] != (int32_t)want) {
                return co_err_set(err, CO_INTERNAL, "started call %u of %u, element %zu", k, n, i);
            }
        }
    }
    return 0;
}

static int some_call(struct coll_world *w, struct rt_group *g, uint32_t h, struct co_err *err) {
    static const enum rt_kind kinds[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
        RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_BARRIER};
    static const size_t most[] = {1, 40, 3000, 70000};
    uint32_t P = rt_group_size(g);
    size_t counts[WORLD_MAX] = {0};
    struct rt_coll c = {.kind = kinds[h % CO_ARRAY_LEN(kinds)],
        .dtype = (h >> 8) % RT_DTYPES,
        .op = (h >> 12) % RT_OPS,
        .root = (h >> 16) % P,
        .n = mix(h, 1, 1) % most[(h >> 20) % CO_ARRAY_LEN(most)]};
    for (uint32_t r = 0; r < P; r++) {
        counts[r] = mix(h, r, 2) % 5 * 1000;
    }
    c.counts = c.kind == RT_ALL_GATHERV ? counts : NULL;
    c.op = average_of_integers(&c) ? RT_SUM : c.op;
    return one_call(w, g, c, h >> 24 & 1, (h >> 25) % LAYOUTS, err);
}

static int one_step(
    struct coll_world *w, struct parts *p, uint32_t rank, uint32_t step, struct co_err *err) {
    uint32_t h = mix(w->seed, step, 99), which = (h >> 4) % p->n;
    if (h % 20 == 0 && p->n <= PARTS) {
        int32_t colour = (int32_t)(mix(h, rank, 3) % 2), key = (int32_t)(mix(h, rank, 4) % 8);
        int rc = rt_group_split(p->of[0], colour, key, &p->of[p->n], err);
        p->n += rc == 0;
        return rc;
    }
    h = mix(h, 5, 5);
    return h % 6 ? some_call(w, p->of[which], h, err) : started_calls(p->of[which], h, err);
}

static int sequence(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct parts p = {.of = {g}, .n = 1};
    int rc = 0;
    for (uint32_t step = 0; step < STEPS && rc == 0; step++) {
        rc = one_step(w, &p, rank, step, err);
        rc = rc < 0 ? co_err_wrap(err, "step %u", step) : rc;
    }
    while (p.n > 1) {
        rt_group_close(p.of[--p.n]);
    }
    return rc;
}

static void random_calls_give_what_a_serial_program_gives(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= 5; n++) {
        for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
            struct coll_world w = {.n = n,
                .seed = seed_now(),
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .encrypt = world_places[p].encrypt};
            assert_int_equal(world_run(&w, sequence), 0);
        }
    }
}

/* Of values whose sums depend on the order. */
static int hash_of_sums(
    struct rt_group *g, enum rt_dtype t, size_t n, uint64_t *ret, struct co_err *err) {
    CO_AUTOFREE unsigned char *v = co_xcalloc(n, rt_dtype_size(t));
    for (size_t i = 0; i < n; i++) {
        put(t, v, i, 1.0 / (1 + mix(rt_group_rank(g), (uint32_t)i, 6) % 1009));
    }
    int rc = rt_all_reduce(g, v, v, n, t, RT_SUM, err);
    *ret = co_hash(v, n * rt_dtype_size(t));
    return rc;
}

static int same_bits(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const enum rt_dtype floats[] = {RT_F32, RT_F64, RT_F16, RT_BF16};
    static const size_t sizes[] = {7, 1000, 9001, 70001, 300007};
    uint64_t all = 0;
    int rc = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(floats) * CO_ARRAY_LEN(sizes) && rc == 0; i++) {
        uint64_t h[2];
        for (uint32_t k = 0; k < 2 && rc == 0; k++) {
            rc = hash_of_sums(
                g, floats[i % CO_ARRAY_LEN(floats)], sizes[i / CO_ARRAY_LEN(floats)], &h[k], err);
        }
        if (rc == 0 && h[0] != h[1]) {
            rc = co_err_set(err, CO_INTERNAL, "other bits, size %zu", i / CO_ARRAY_LEN(floats));
        }
        all = all * 31 + h[0];
    }
    w->shared->rank[rank].hash = all;
    return rc;
}

static void the_same_calls_give_the_same_bits_on_all_ranks(void **state) {
    (void)state;
    for (uint32_t n = 3; n <= 4; n++) {
        for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
            uint64_t before = 0;
            for (uint32_t again = 0; again < 2; again++) {
                struct coll_world w = {.n = n,
                    .transport = world_places[p].transport,
                    .nodes = world_places[p].nodes,
                    .encrypt = world_places[p].encrypt};
                world_start(&w, same_bits);
                assert_int_equal(world_end(&w, 0), 0);
                before = again ? before : w.shared->rank[0].hash;
                for (uint32_t r = 0; r < n; r++) {
                    assert_int_equal(w.shared->rank[r].hash, before);
                }
                world_done(&w);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_give_what_a_serial_program_gives),
        cmocka_unit_test(the_same_calls_give_the_same_bits_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
