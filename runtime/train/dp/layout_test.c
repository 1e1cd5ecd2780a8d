/* The assignment of gradients to buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/dp/dp.h"

enum { MOST = 8 };

/* Limits: 100 floats, 40 for the last bucket; a gradient takes multiples of 16. */
static const struct {
    const char *what;
    size_t n, floats[MOST];
    bool sparse[MOST];
    uint32_t buckets, bucket[MOST];
    size_t at[MOST];
} rows[] = {
    {"one", 1, {5}, {0}, 1, {0}, {0}},
    {"hardly too much for the last", 2, {16, 17}, {0}, 2, {0, 1}, {0, 0}},
    {"the last is small", 4, {16, 16, 16, 16}, {0}, 2, {0, 0, 1, 1}, {0, 16, 0, 16}},
    {"what is too large is alone", 4, {16, 500, 16, 16}, {0}, 3, {0, 1, 2, 2}, {0, 0, 0, 16}},
    {"too large for the last", 2, {16, 500}, {0}, 2, {0, 1}, {0, 0}},
    {"the first is what is left", 5, {64, 64, 32, 16, 16}, {0}, 3, {0, 1, 1, 2, 2},
        {0, 0, 64, 0, 16}},
    /* Complete with their last member: the sparse one, with gradient 2, is so before gradient 3. */
    {"kinds apart", 4, {16, 32, 32, 16}, {0, 1, 1, 0}, 2, {1, 0, 0, 1}, {0, 0, 32, 16}},
    {"kinds apart, the last is sparse", 3, {16, 16, 16}, {1, 0, 1}, 2, {1, 0, 1}, {0, 0, 16}},
};

static void gradients_are_laid_out(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct dp_layout_item items[MOST];
        for (size_t k = 0; k < rows[i].n; k++) {
            items[k] =
                (struct dp_layout_item){.floats = rows[i].floats[k], .sparse = rows[i].sparse[k]};
        }
        if (dp_layout(items, rows[i].n, 100, 40) != rows[i].buckets) {
            fail_msg("%s: number of buckets", rows[i].what);
        }
        for (size_t k = 0; k < rows[i].n; k++) {
            if (items[k].bucket != rows[i].bucket[k] || items[k].at != rows[i].at[k]) {
                fail_msg("%s: gradient %zu: bucket %u at %zu", rows[i].what, k, items[k].bucket,
                    items[k].at);
            }
        }
    }
}

/* The gradients of ResNet50, last layer first: a whole megabyte is the last bucket's, 32 MB the
 * others'. */
static void resnet50_is_laid_out(void **state) {
    (void)state;
    struct dp_layout_item items[161];
    size_t n = 0, total = 0, filled[161] = {0};
    static const size_t blocks[4] = {3, 4, 6, 3};
    items[n++].floats = 1000;
    items[n++].floats = 2048 * 1000;
    for (size_t s = 4; s-- > 0;) {
        size_t mid = (size_t)64 << s, out = mid * 4;
        for (size_t b = blocks[s]; b-- > 0;) {
            size_t in = b > 0 ? out : s > 0 ? out / 2 : 64;
            size_t weights[4] = {mid * out, mid * mid * 9, in * mid, in * out};
            size_t norms[4] = {out, mid, mid, out};
            for (size_t k = 0; k < (b > 0 ? 3U : 4U); k++) {
                items[n++].floats = norms[k];
                items[n++].floats = norms[k];
                items[n++].floats = weights[k];
            }
        }
    }
    items[n++].floats = 64;
    items[n++].floats = 64;
    items[n++].floats = (size_t)64 * 3 * 49;
    assert_int_equal(n, 161);
    for (size_t i = 0; i < n; i++) {
        items[i].sparse = false;
        total += items[i].floats;
    }
    assert_int_equal(total, 25557032);
    uint32_t buckets = dp_layout(items, n, (32 << 20) / 4, (1 << 20) / 4);
    assert_int_equal(buckets, 5); /* as Paddle makes of them */
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || items[i].bucket == items[i - 1].bucket ||
                    items[i].bucket == items[i - 1].bucket + 1);
        assert_int_equal(items[i].at, filled[items[i].bucket]);
        filled[items[i].bucket] += (items[i].floats + 15) / 16 * 16;
    }
    for (uint32_t b = 0; b < buckets; b++) {
        assert_true(filled[b] <= (b == buckets - 1 ? 1 << 18 : 1 << 23));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_laid_out),
        cmocka_unit_test(resnet50_is_laid_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
