/* Every algorithm, whether it is the cheapest or not, against the serial reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/message.h"
#include "runtime/train/coll/reference_testing.h"

static const size_t sizes[] = {0, 1, 3, 100, 4099, 70001, 200003};

static const struct {
    enum rt_kind kind;
    enum cost_algorithm first, end;
} kinds[] = {{RT_ALL_REDUCE, COST_ALGORITHM_DOUBLING, COST_ALGORITHM_REDUCE_TREE},
    {RT_REDUCE, COST_ALGORITHM_REDUCE_TREE, COST_ALGORITHM_BROADCAST_TREE},
    {RT_BROADCAST, COST_ALGORITHM_BROADCAST_TREE, COST_ALGORITHMS}};

static int one_algorithm(struct coll_world *w, struct rt_group *g, enum cost_algorithm algorithm,
    struct rt_coll c, bool in_place, struct co_err *err) {
    struct coll_members all = {.rank = g->all, .n = g->size, .me = g->rank};
    size_t size = rt_dtype_size(c.dtype), n_in, n_out;
    struct buffers b = {0};
    if (!buffers_get(g, &b, c.n * size, false, err)) {
        return CO_NOMEMORY;
    }
    prepare(&c, &b, g->rank, w->n, mix(algorithm, (uint32_t)c.n, 5), &n_in, &n_out);
    if (in_place && c.kind != RT_BROADCAST) {
        memcpy(b.out, b.in, n_in * size);
    }
    c.in = in_place ? b.out : b.in;
    c.out = b.out;
    g->patience =
        (struct coll_patience){0}; /* as coll_call_host: the time limit is for each call */
    int rc = coll_msg_algorithms[algorithm](g, &all, &c);
    if (rc < 0) {
        (void)rt_group_check(g, err);
    } else if (memcmp(b.out, b.want, n_out * size) != 0) {
        rc = co_err_set(err, CO_INTERNAL, "%s by %s, %s %s, n %zu, root %u",
            cost_algorithm_call(algorithm), cost_algorithm_name(algorithm), rt_dtype_name(c.dtype),
            rt_op_name(c.op), c.n, c.root);
    }
    buffers_done(g, &b, false);
    return rc;
}

static int all_algorithms(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const enum rt_dtype dtypes[] = {RT_F32, RT_BF16, RT_U8};
    (void)rank;
    for (size_t k = 0; k < CO_ARRAY_LEN(kinds); k++) {
        for (enum cost_algorithm algorithm = kinds[k].first; algorithm < kinds[k].end;
             algorithm++) {
            for (size_t s = 0; s < CO_ARRAY_LEN(sizes); s++) {
                struct rt_coll c = {.kind = kinds[k].kind,
                    .dtype = dtypes[(s + algorithm) % CO_ARRAY_LEN(dtypes)],
                    .op = s % 2 ? RT_SUM : RT_MAX,
                    .n = sizes[s],
                    .root = (uint32_t)(s + algorithm) % w->n};
                CO_TRY(one_algorithm(w, g, algorithm, c, false, err));
                CO_TRY(one_algorithm(w, g, algorithm, c, true, err));
            }
        }
    }
    return 0;
}

static void all_algorithms_give_the_same_result(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= WORLD_MAX; n++) {
        struct coll_world w = {.n = n, .transport = RT_TRANSPORT_TCP};
        assert_int_equal(world_run(&w, all_algorithms), 0);
    }
}

/* Two ranks in place, one of which can send only little at a time: what it receives must not
 * overtake what it still has to send.  It does not always, so there are several turns. */
static int sends_slowly(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { TURNS = 20 };
    int small = 16 << 10, rc = 0;
    for (uint32_t k = 0; k < g->lanes && rank == 1; k++) {
        rc |= setsockopt(g->peers[0].lanes[k].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    }
    for (uint32_t i = 0; i < TURNS && rc == 0; i++) {
        struct rt_coll c = {.kind = RT_REDUCE_SCATTER, .dtype = RT_F32, .n = 200003};
        rc = one_call(w, g, c, false, SAME, err);
    }
    return rc;
}

static void an_in_place_receive_does_not_overwrite_unsent_bytes(void **state) {
    (void)state;
    struct coll_world w = {.n = 2, .transport = RT_TRANSPORT_TCP};
    assert_int_equal(world_run(&w, sends_slowly), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_algorithms_give_the_same_result),
        cmocka_unit_test(an_in_place_receive_does_not_overwrite_unsent_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
