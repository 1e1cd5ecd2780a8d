/* Compares areas and bucket counts with eight stored cases (testdata/auc.json, made by PaddlePaddle
 * 3.3.1): counts exactly, areas to 1e-7. */
#include "examples/nn/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"

#define GOLDENS "examples/nn/testdata/auc.json"

static json_t *goldens_load(void) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};
    json_t *root = NULL;

    if (co_file_read(GOLDENS, 1 << 20, &text, &err) < 0 ||
        co_json_parse(text.data, text.len, &root, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return root;
}

static void case_add(struct nn_metrics *m, const json_t *c) {
    const json_t *scores = co_json_at(c, "score", "data"), *labels = co_json_at(c, "label", "data");

    for (size_t i = 0; i < json_array_size(scores); i++) {
        float score = (float)json_number_value(json_array_get(scores, i));
        float label = (float)json_number_value(json_array_get(labels, i));

        nn_metrics_add(m, 1, &score, &label);
    }
}

static void buckets_check(const struct nn_metrics *m, const json_t *rows, const char *name) {
    size_t at, used = 0;
    json_t *row;

    json_array_foreach(rows, at, row) {
        size_t bucket = (size_t)json_integer_value(json_array_get(row, 0));

        if ((json_int_t)m->positive[bucket] != json_integer_value(json_array_get(row, 1)) ||
            (json_int_t)m->negative[bucket] != json_integer_value(json_array_get(row, 2))) {
            fail_msg("%s: bucket %zu", name, bucket);
        }
    }
    for (size_t i = 0; i < NN_AUC_BUCKETS; i++) {
        used += m->positive[i] || m->negative[i];
    }
    assert_int_equal(used, json_array_size(rows));
}

static void areas_and_buckets_of_the_goldens(void **state) {
    CO_AUTOJSON json_t *root = goldens_load();
    static struct nn_metrics m;
    size_t at;
    json_t *c;

    (void)state;
    assert_int_equal(json_array_size(json_object_get(root, "cases")), 8);
    json_array_foreach(json_object_get(root, "cases"), at, c) {
        const char *name = co_json_str(c, "name");
        double want = json_number_value(json_object_get(c, "auc_4096_buckets"));

        nn_metrics_clear(&m);
        case_add(&m, c);
        buckets_check(&m, json_object_get(c, "buckets_used"), name);
        if (!(fabs(nn_metrics_auc(&m) - want) <= 1e-7)) {
            fail_msg("%s: area %.9g, stored %.9g", name, nn_metrics_auc(&m), want);
        }
    }
}

static void means_by_hand(void **state) {
    const float score[] = {0.9F, 0.2F, 0.5F, 0.4F, NAN}, label[] = {1, 0, 0, 1, 1};
    static struct nn_metrics m;

    (void)state;
    nn_metrics_clear(&m);
    assert_true(nn_metrics_auc(&m) == 0.0 && nn_metrics_loss(&m) == 0.0);
    nn_metrics_add(&m, 5, score, label);
    assert_int_equal(m.not_numbers, 1);
    assert_int_equal(m.n, 4);
    assert_true(fabs(nn_metrics_accuracy(&m) - 0.5) < 1e-12);
    assert_true(fabs(nn_metrics_mae(&m) - 0.35) < 1e-7);
    assert_true(fabs(nn_metrics_mse(&m) - 0.165) < 1e-7);
    assert_true(fabs(nn_metrics_rmse(&m) - sqrt(0.165)) < 1e-7);
    assert_true(fabs(nn_metrics_loss(&m) - 0.4841) < 1e-3);
}

static void scores_beyond_the_range_count_in_the_outermost_buckets(void **state) {
    const float score[] = {-5.0F, 7.0F, INFINITY}, label[] = {0, 1, 1};
    static struct nn_metrics m;

    (void)state;
    nn_metrics_clear(&m);
    nn_metrics_add(&m, 3, score, label);
    assert_int_equal(m.negative[0], 1);
    assert_int_equal(m.positive[NN_AUC_BUCKETS - 1], 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(areas_and_buckets_of_the_goldens),
        cmocka_unit_test(means_by_hand),
        cmocka_unit_test(scores_beyond_the_range_count_in_the_outermost_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
