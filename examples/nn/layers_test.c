/* Tests layers: values against hand-made ones, gradients against differences of the loss in
 * double. */
#include "examples/nn/layers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "examples/nn/rng.h"

enum { B = 5, I = 7, O = 3 };

struct net {
    float x[B * I], w[I * O], b[O], y[B * O];
    float dy[B * O], dw[I * O], db[O], dx[B * I];
};

static struct nn_engine *engine_make(void) {
    struct nn_engine *e = NULL;

    assert_int_equal(nn_engine_new(&e, NULL), 0);
    return e;
}

/* sum of dy * (x w + b), in double. */
static double objective(const struct net *t) {
    double sum = 0.0;

    for (size_t at = 0; at < B * O; at++) {
        double y = (double)t->b[at % O];

        for (size_t k = 0; k < I; k++) {
            y += (double)t->x[at / O * I + k] * (double)t->w[k * O + at % O];
        }
        sum += (double)t->dy[at] * y;
    }
    return sum;
}

/* The objective is linear in each value, so that any step gives its derivative. */
static void gradient_check(struct net *t, float *values, const float *grads, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float kept = values[i];
        double high, low;

        values[i] = kept + 0.5F;
        high = objective(t);
        values[i] = kept - 0.5F;
        low = objective(t);
        values[i] = kept;
        assert_true(fabs(high - low - (double)grads[i]) < 1e-5);
    }
}

static void linear_gradients(void **state) {
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();
    const struct nn_linear l = {.batch = B, .in = I, .out = O};
    struct net t;
    struct nn_rng r;

    (void)state;
    nn_rng_init(&r, 3, 0);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, B * I, t.x);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, I * O, t.w);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, O, t.b);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, B * O, t.dy);
    assert_int_equal(nn_linear_backward_weights(e, &l, t.x, t.dy, t.dw, t.db, NULL), 0);
    assert_int_equal(nn_linear_backward_input(e, &l, t.w, t.dy, t.dx, NULL), 0);
    gradient_check(&t, t.w, t.dw, I * O);
    gradient_check(&t, t.b, t.db, O);
    gradient_check(&t, t.x, t.dx, B * I);
}

static void linear_values(void **state) {
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();
    struct nn_linear l = {.batch = 2, .in = 2, .out = 3};
    const float x[] = {1, 2, 3, 4}, w[] = {1, 0, -1, 0, 1, -2}, b[] = {10, 20, 1};
    const float plain[] = {11, 22, -4, 13, 24, -10}, relu[] = {11, 22, 0, 13, 24, 0};
    float y[6];

    (void)state;
    assert_int_equal(nn_linear_forward(e, &l, x, w, b, y, NULL), 0);
    assert_memory_equal(y, plain, sizeof(y));
    l.relu = true;
    assert_int_equal(nn_linear_forward(e, &l, x, w, b, y, NULL), 0);
    for (size_t i = 0; i < 6; i++) { /* -0 is 0, too, and what oneDNN writes without SSE4.1 */
        assert_true(y[i] == relu[i]);
    }
}

static void relu_lets_gradients_through_where_it_was_open(void **state) {
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();
    const struct nn_linear l = {.batch = 2, .in = 2, .out = 3, .relu = true};
    const float x[] = {1, 2, 3, 4}, y[] = {0, 0.5F, 3, 1, 2, 0};
    const float open[] = {0, 6, 7, 1, 2, 0}, dw_wanted[] = {3, 12, 7, 4, 20, 14},
                db_wanted[] = {1, 8, 7};
    float dy[] = {5, 6, 7, 1, 2, 3}, dw[6], db[3];

    (void)state;
    assert_int_equal(nn_linear_backward_relu(e, &l, x, y, dy, dw, db, NULL), 0);
    assert_memory_equal(dy, open, sizeof(dy));
    assert_memory_equal(dw, dw_wanted, sizeof(dw));
    assert_memory_equal(db, db_wanted, sizeof(db));
}

/* One output has a product of its own. */
static void linear_gradients_of_one_output(void **state) {
    CO_CLEANUP(nn_engine_freep) struct nn_engine *e = engine_make();
    const struct nn_linear l = {.batch = 3, .in = 2, .out = 1};
    const float x[] = {1, 2, 3, 4, 5, 6}, dy[] = {1, 10, -2}, dw_wanted[] = {21, 30};
    float dw[2], db[1];

    (void)state;
    assert_int_equal(nn_linear_backward_weights(e, &l, x, dy, dw, db, NULL), 0);
    assert_memory_equal(dw, dw_wanted, sizeof(dw));
    assert_true(db[0] == 9.0F);
}

static void sigmoid_does_not_overflow(void **state) {
    const float z[] = {-1000, -1, 0, 1, 1000};
    const double expected[] = {0, 0.2689414213699951, 0.5, 0.7310585786300049, 1};
    float p[5];

    (void)state;
    nn_sigmoid_forward(5, z, p);
    for (size_t i = 0; i < 5; i++) {
        assert_true(fabs((double)p[i] - expected[i]) < 1e-7);
    }
}

static void log_loss_and_its_gradient(void **state) {
    const float z[] = {-3.0F, -0.2F, 0.0F, 1.5F, 40.0F, -40.0F}, y[] = {0, 1, 1, 0, 0, 0};
    float p[6], dz[6];
    double want = 0.0;

    (void)state;
    nn_sigmoid_forward(6, z, p);
    nn_log_loss_backward(6, p, y, dz);
    for (size_t i = 0; i < 6; i++) {
        double h = 1e-5, side[2];

        for (size_t k = 0; k < 2; k++) {
            double q = 1.0 / (1.0 + exp(-((double)z[i] + (k ? h : -h))));

            side[k] = -(double)y[i] * log(q + 1e-4) - (1.0 - (double)y[i]) * log(1.0 - q + 1e-4);
        }
        want += (side[0] + side[1]) / 2.0 / 6.0;
        assert_true(fabs((side[1] - side[0]) / (2.0 * h) / 6.0 - (double)dz[i]) < 1e-6);
    }
    assert_true(fabs(nn_log_loss(6, p, y) - want) < 1e-6);
    assert_true(nn_log_loss(0, p, y) == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_gradients),
        cmocka_unit_test(linear_gradients_of_one_output),
        cmocka_unit_test(linear_values),
        cmocka_unit_test(relu_lets_gradients_through_where_it_was_open),
        cmocka_unit_test(sigmoid_does_not_overflow),
        cmocka_unit_test(log_loss_and_its_gradient),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
