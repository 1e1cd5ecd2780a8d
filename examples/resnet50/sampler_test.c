/* Tests the sampler against paddle.io.DistributedBatchSampler 3.3.1 (testdata/golden.json, made by
 * golden.py). */
#include "examples/resnet50/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "common/mem.h"

static size_t whole(const json_t *object, const char *key) {
    return (size_t)json_integer_value(json_object_get(object, key));
}

static void row_check(const json_t *group, const json_t *row) {
    const struct rn_sampler s = {.samples = whole(group, "samples"),
        .batch = whole(group, "batch"),
        .rank = whole(row, "rank"),
        .ranks = whole(group, "ranks")};
    const json_t *want = json_object_get(row, "indices");
    CO_AUTOFREE uint32_t *got = co_xcalloc(rn_sampler_count(&s), sizeof(*got));

    assert_int_equal(json_array_size(want), rn_sampler_count(&s));
    rn_sampler_epoch(&s, (uint32_t)whole(row, "epoch"), got);
    for (size_t i = 0; i < rn_sampler_count(&s); i++) {
        assert_int_equal(got[i], json_integer_value(json_array_get(want, i)));
    }
}

static void shares_are_paddles(void **state) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    json_t *root = NULL;

    (void)state;
    assert_int_equal(
        co_file_read("examples/resnet50/testdata/golden.json", 1 << 20, &text, NULL), 0);
    assert_int_equal(co_json_parse(text.data, text.len, &root, NULL), 0);
    const json_t *groups = json_object_get(root, "sampler");
    assert_int_equal(json_array_size(groups), 4);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i);
        const json_t *rows = json_object_get(group, "rows");

        assert_true(json_array_size(rows) > 0);
        for (size_t k = 0; k < json_array_size(rows); k++) {
            row_check(group, json_array_get(rows, k));
        }
    }
    json_decref(root);
}

/* What one rank sees in a step, two see together. */
static void ranks_share_the_batches_of_one(void **state) {
    enum { SAMPLES = 64, BATCH = 8 };
    const struct rn_sampler one = {.samples = SAMPLES, .batch = 2 * BATCH, .ranks = 1};
    uint32_t all[SAMPLES], part[SAMPLES / 2];

    (void)state;
    rn_sampler_epoch(&one, 5, all);
    for (size_t rank = 0; rank < 2; rank++) {
        const struct rn_sampler s = {.samples = SAMPLES, .batch = BATCH, .rank = rank, .ranks = 2};

        rn_sampler_epoch(&s, 5, part);
        for (size_t i = 0; i < SAMPLES / 2; i++) {
            assert_int_equal(part[i], all[i / BATCH * 2 * BATCH + rank * BATCH + i % BATCH]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_paddles),
        cmocka_unit_test(ranks_share_the_batches_of_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
