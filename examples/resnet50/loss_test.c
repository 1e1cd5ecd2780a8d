#include "examples/resnet50/loss.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "examples/nn/rng.h"

enum { BATCH = 3, CLASSES = 7 };

static double loss_of(const float *logits, const uint32_t *labels, double smoothing) {
    struct rn_loss l = {0};

    rn_loss_add(&l, BATCH, CLASSES, smoothing, logits, labels, NULL);
    return l.loss / BATCH;
}

static void the_gradient_is_that_of_the_loss(void **state) {
    const uint32_t labels[BATCH] = {0, 6, 3};
    float logits[BATCH * CLASSES], gradient[BATCH * CLASSES];
    struct nn_rng r;

    (void)state;
    nn_rng_init(&r, 5, 0);
    nn_rng_fill_normal(&r, 0.0F, 2.0F, BATCH * CLASSES, logits);
    for (int smooth = 0; smooth < 2; smooth++) {
        struct rn_loss l = {0};
        double smoothing = 0.1 * smooth;

        rn_loss_add(&l, BATCH, CLASSES, smoothing, logits, labels, gradient);
        for (size_t i = 0; i < BATCH * CLASSES; i++) {
            float kept = logits[i], step = 0.0078125F;

            logits[i] = kept + step;
            double more = loss_of(logits, labels, smoothing);
            logits[i] = kept - step;
            double less = loss_of(logits, labels, smoothing);
            logits[i] = kept;
            assert_true(fabs((more - less) / (2.0 * (double)step) - (double)gradient[i]) < 1e-5);
        }
    }
}

static void large_logits_do_not_overflow(void **state) {
    const uint32_t labels[1] = {1};
    const float logits[] = {1000.0F, -1000.0F};
    float gradient[2];
    struct rn_loss l = {0};

    (void)state;
    rn_loss_add(&l, 1, 2, 0.0, logits, labels, gradient);
    assert_true(fabs(l.loss - 2000.0) < 1e-9);
    assert_true(fabsf(gradient[0] - 1.0F) < 1e-6F && fabsf(gradient[1] + 1.0F) < 1e-6F);
}

static void a_nan_is_no_hit(void **state) {
    const uint32_t labels[2] = {0, 1};
    const float logits[] = {NAN, NAN, 1.0F, NAN};
    struct rn_loss l = {0};

    (void)state;
    rn_loss_add(&l, 2, 2, 0.0, logits, labels, NULL);
    assert_true(isnan(l.loss) && l.top1 == 0 && l.top5 == 0 && l.samples == 2);
}

static void the_five_largest_are_counted(void **state) {
    const float logits[CLASSES] = {7, 6, 5, 5, 4, 3, 2};
    static const struct {
        uint32_t label;
        size_t top1, top5;
    } rows[] = {{0, 1, 1}, {1, 0, 1}, {3, 0, 1}, {4, 0, 1}, {5, 0, 0}, {6, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rn_loss l = {0};

        rn_loss_add(&l, 1, CLASSES, 0.0, logits, &rows[i].label, NULL);
        assert_int_equal(l.top1, rows[i].top1);
        assert_int_equal(l.top5, rows[i].top5);
        assert_int_equal(l.samples, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_is_that_of_the_loss),
        cmocka_unit_test(large_logits_do_not_overflow),
        cmocka_unit_test(a_nan_is_no_hit),
        cmocka_unit_test(the_five_largest_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
