/* Tests products against three plain loops in double, and the cache of primitives. */
#include "examples/nn/engine.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "examples/nn/dnn_isa_testing.h"
#include "examples/nn/rng.h"

enum { SIDE_MAX = 48 };

static struct nn_engine *engine_make(void) {
    struct nn_engine *e = NULL;
    struct co_err err = {0};

    if (nn_engine_new(&e, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return e;
}

static void product_check(struct nn_engine *e, const struct nn_product *p) {
    static float a[SIDE_MAX * SIDE_MAX], b[SIDE_MAX * SIDE_MAX], c[SIDE_MAX * SIDE_MAX],
        bias[SIDE_MAX];
    struct co_err err = {0};
    struct nn_rng r;

    nn_rng_init(&r, p->m * 1000 + p->n, p->k);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, p->m * p->k, a);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, p->k * p->n, b);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, p->n, bias);
    if (nn_engine_multiply(e, p, a, b, p->bias ? bias : NULL, c, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    for (size_t at = 0; at < p->m * p->n; at++) {
        size_t i = at / p->n, j = at % p->n;
        double want = p->bias ? (double)bias[j] : 0.0;

        for (size_t k = 0; k < p->k; k++) {
            want += (double)a[p->a_transposed ? k * p->m + i : i * p->k + k] *
                    (double)b[p->b_transposed ? j * p->k + k : k * p->n + j];
        }
        want = p->relu ? fmax(want, 0.0) : want;
        if (!(fabs((double)c[at] - want) <= 1e-5)) {
            fail_msg("(%zu, %zu, %zu) [%zu, %zu]: %g, want %g", p->m, p->n, p->k, i, j,
                (double)c[at], want);
        }
    }
}

static void products_in_every_form(void **state) {
    static const size_t sides[] = {1, 3, 10, 16, 17, SIDE_MAX};
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();

    (void)state;
    for (size_t at = 0; at < 6 * 6 * 6; at++) {
        struct nn_product p = {.m = sides[at % 6], .n = sides[at / 6 % 6], .k = sides[at / 36]};

        /* Each size in one of the forms that the layers use. */
        p.bias = p.relu = at % 3 == 0;
        p.a_transposed = at % 3 == 1;
        p.b_transposed = at % 3 == 2;
        product_check(e, &p);
    }
    product_check(e, &(struct nn_product){.m = 4, .n = 5, .k = 6, .bias = true});
    product_check(e, &(struct nn_product){.m = 4, .n = 5, .k = 6, .relu = true});
}

static void primitives_are_kept_and_bounded(void **state) {
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();

    (void)state;
    for (size_t i = 0; i < 10; i++) {
        product_check(e, &(struct nn_product){.m = 4, .n = 5, .k = 6});
        product_check(e, &(struct nn_product){.m = 4, .n = 5, .k = 7});
    }
    assert_int_equal(nn_engine_made(e), 2);
    for (size_t m = 1; m <= SIDE_MAX; m++) {
        product_check(e, &(struct nn_product){.m = m, .n = 2, .k = 2});
        product_check(e, &(struct nn_product){.m = 2, .n = m, .k = 3});
    }
    assert_int_equal(nn_engine_made(e), 2 + 2 * SIDE_MAX);
    product_check(e, &(struct nn_product){.m = 4, .n = 5, .k = 6}); /* was evicted */
    assert_int_equal(nn_engine_made(e), 3 + 2 * SIDE_MAX);
}

static void an_impossible_product_is_an_error(void **state) {
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();
    const struct nn_product p = {.m = (size_t)1 << 63, .n = 1, .k = 1};
    struct co_err err = {0};
    float x[1] = {0};

    (void)state;
    assert_true(nn_engine_multiply(e, &p, x, x, NULL, x, &err) < 0);
    assert_non_null(strstr(co_err_text(&err), "matrix product (9223372036854775808, 1)"));
    assert_int_equal(nn_engine_made(e), 0);
}

/* What oneDNN's OpenMP library would use; 0: there is none. */
static int threads_of_products(void) {
    void *symbol = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    int (*get)(void);

    memcpy(&get, &symbol, sizeof(get));
    return symbol ? get() : 0;
}

static void trainer_count_is_the_number_of_threads(void **state) {
    const struct {
        const char *count;
        int threads;
    } rows[] = {{"3", 3}, {"", 1}, {"none", 1}, {"2", 2}};

    (void)state;
    (void)unsetenv("OMP_NUM_THREADS");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows) && threads_of_products() > 0; i++) {
        (void)setenv("PADDLE_INIT_TRAINER_COUNT", rows[i].count, 1);
        CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();
        assert_non_null(e);
        assert_int_equal(threads_of_products(), rows[i].threads);
    }
    (void)unsetenv("PADDLE_INIT_TRAINER_COUNT");
}

static int products(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_every_form),
        cmocka_unit_test(primitives_are_kept_and_bounded),
        cmocka_unit_test(an_impossible_product_is_an_error),
        cmocka_unit_test(trainer_count_is_the_number_of_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
    return nn_isa_tests(products) + products();
}
