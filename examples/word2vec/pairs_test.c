/* Skip-gram against an independent implementation (testdata/skipgram.json, made by golden.py with
 * PaddlePaddle 3.3.1): loss and gradients |ours - stored| <= 1e-6 + 1e-5 |stored|, ten SGD steps
 * 5e-6 + 1e-5 |stored|. */
#include "examples/word2vec/pairs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"

enum { B = 6, N = 5, K = 3, V = 20, E = 8, PAIRS = B * (N - 1) };

struct fixture {
    json_t *root;
    uint32_t middle[B], other[PAIRS * (1 + K)];
    float rows[V * E], other_rows[V * (E + 1)];
    float grads[V * E], other_grads[V * (E + 1)];
};

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static double item(const json_t *list, size_t i) {
    assert_true(i < json_array_size(list));
    return json_number_value(json_array_get(list, i));
}

static const json_t *data(const struct fixture *f, const char *group, const char *name) {
    const json_t *list = co_json_at(f->root, group, name, "data");
    assert_non_null(list);
    return list;
}

/* Which of Paddle's tables has value k of row u of ours. */
static double stored(const struct fixture *f, const char *group, size_t u, size_t k) {
    return k < E ? item(data(f, group, "emb_w"), u * E + k) : item(data(f, group, "emb_b"), u);
}

static void fixture_open(struct fixture *f) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};
    *f = (struct fixture){0};
    must(co_file_read("examples/word2vec/testdata/skipgram.json", 1 << 20, &text, &err), &err);
    must(co_json_parse(text.data, text.len, &f->root, &err), &err);
    const json_t *words = data(f, "inputs", "words"), *drawn = data(f, "inputs", "drawn");
    uint32_t *other = f->other;
    for (size_t i = 0; i < B; i++) {
        f->middle[i] = (uint32_t)item(words, i * N + N / 2);
        for (size_t k = 0; k < N; k++) {
            size_t pair = i * (N - 1) + k - (k > N / 2);
            for (size_t d = 0; k != N / 2 && d <= K; d++) {
                *other++ =
                    (uint32_t)(d == 0 ? item(words, i * N + k) : item(drawn, pair * K + d - 1));
            }
        }
    }
    for (size_t i = 0; i < V * E; i++) {
        f->rows[i] = (float)item(data(f, "params0", "emb"), i);
    }
    for (size_t i = 0; i < V * (E + 1); i++) {
        f->other_rows[i] = (float)stored(f, "params0", i / (E + 1), i % (E + 1));
    }
}

static double pass(struct fixture *f) {
    const struct wv_pairs p = {.n = B,
        .others = (N - 1) * (1 + K),
        .each = 1 + K,
        .embed = E,
        .middle = f->middle,
        .other = f->other,
        .rows = f->rows,
        .other_rows = f->other_rows};
    memset(f->grads, 0, sizeof(f->grads));
    memset(f->other_grads, 0, sizeof(f->other_grads));
    return wv_pairs_loss(&p, f->grads, f->other_grads);
}

static void near(const char *what, size_t i, double got, double want, double base) {
    if (!(fabs(got - want) <= base + 1e-5 * fabs(want))) {
        fail_msg("%s[%zu] is %.9g, stored %.9g", what, i, got, want);
    }
}

static void near_all(const struct fixture *f, const char *group, const float *rows,
    const float *other_rows, double base) {
    for (size_t i = 0; i < V * E; i++) {
        near("emb", i, (double)rows[i], item(data(f, group, "emb"), i), base);
    }
    for (size_t i = 0; i < V * (E + 1); i++) {
        near("other", i, (double)other_rows[i], stored(f, group, i / (E + 1), i % (E + 1)), base);
    }
}

static void gradients_equal_the_goldens(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f);
    near("loss", 0, pass(&f), item(json_object_get(f.root, "losses"), 0), 1e-6);
    near_all(&f, "grads0", f.grads, f.other_grads, 1e-6);
    co_json_decref(&f.root);
}

static void ten_steps_equal_the_goldens(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f);
    for (size_t step = 0; step < 10; step++) {
        near("loss", step, pass(&f), item(json_object_get(f.root, "losses"), step), 5e-6);
        for (size_t i = 0; i < V * E; i++) { /* lr 1 */
            f.rows[i] -= f.grads[i];
        }
        for (size_t i = 0; i < V * (E + 1); i++) {
            f.other_rows[i] -= f.other_grads[i];
        }
    }
    near_all(&f, "params_end", f.rows, f.other_rows, 5e-6);
    co_json_decref(&f.root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_the_goldens),
        cmocka_unit_test(ten_steps_equal_the_goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
