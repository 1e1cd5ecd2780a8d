/* The network against an independent implementation (testdata/recommend_cos_sim.json, made by
 * PaddlePaddle 3.3.1): forward and gradients |ours - stored| <= 2e-6 + 1e-5 |stored|, after ten SGD
 * steps 5e-6 + 1e-5 |stored|; losses, which are of order 10, 1e-5 + 1e-5 |stored|. */
#include "examples/recommendation/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "examples/nn/embed.h"

enum { B = 5, WIDE = 4, NARROW = 2, IDS_MAX = 64, ROWS_MAX = 128 };
#define GOLDEN "examples/recommendation/testdata/recommend_cos_sim.json"

static const struct {
    enum rc_field field;
    const char *name; /* the golden's table of the field's rows */
} tables[] = {{RC_USER, "usr_emb"}, {RC_MOVIE, "mov_emb"}, {RC_GENRE, "cat_emb"},
    {RC_TITLE, "title_emb"}, {RC_GENDER, "gender_emb"}, {RC_AGE, "age_emb"}, {RC_JOB, "job_emb"}};
static const char *const params[] = {
    "usr_fc", "gender_fc", "age_fc", "job_fc", "user", "mov_fc", "title_conv", "movie"};

/* Rows and their gradients in one array a field: [place][width]. */
struct fixture {
    json_t *root;
    struct rc_net *net;
    struct rt_params *params;
    struct rc_batch batch;
    struct nn_distinct *distinct;
    float rows[RC_FIELDS][ROWS_MAX], grads[RC_FIELDS][ROWS_MAX];
    uint64_t unique[RC_TABLES][IDS_MAX];
    size_t n_unique[RC_TABLES];
    float pulled[RC_TABLES][IDS_MAX * WIDE], pushed[RC_TABLES][IDS_MAX * WIDE];
};

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static size_t data_of(const json_t *tensor, const json_t **ret_data) {
    *ret_data = json_object_get(tensor, "data");
    return json_array_size(*ret_data);
}

static void near(const char *what, const float *got, const json_t *tensor, double base) {
    const json_t *data;
    size_t n = data_of(tensor, &data);

    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        double want = json_number_value(json_array_get(data, i));

        if (!(fabs((double)got[i] - want) <= base + 1e-5 * fabs(want))) {
            fail_msg("%s[%zu] is %.9g, stored %.9g", what, i, (double)got[i], want);
        }
    }
}

static void tensor_read(const json_t *tensor, size_t max, float *ret) {
    const json_t *data;
    size_t n = data_of(tensor, &data);

    assert_in_range(n, 1, max);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (float)json_number_value(json_array_get(data, i));
    }
}

static uint64_t number(const struct fixture *f, const char *what, size_t i) {
    return (uint64_t)json_integer_value(
        json_array_get(co_json_at(f->root, "inputs", what, "data"), i));
}

static void add(struct rc_batch *b, int table, enum rc_field field, uint64_t thing) {
    b->ids[table][b->n_ids[table]++] = rc_id(field, thing);
}

static void sample_add(struct fixture *f, size_t i) {
    struct rc_batch *b = &f->batch;
    const json_t *genres = json_array_get(json_object_get(f->root, "categories"), i);
    const json_t *words = json_array_get(json_object_get(f->root, "titles"), i);

    add(b, RC_LONG, RC_USER, number(f, "user_id", i));
    add(b, RC_LONG, RC_MOVIE, number(f, "movie_id", i));
    for (size_t k = 0; k < json_array_size(genres); k++) {
        add(b, RC_LONG, RC_GENRE, (uint64_t)json_integer_value(json_array_get(genres, k)));
    }
    for (size_t k = 0; k < json_array_size(words); k++) {
        add(b, RC_LONG, RC_TITLE, (uint64_t)json_integer_value(json_array_get(words, k)));
    }
    add(b, RC_SHORT, RC_GENDER, number(f, "gender", i));
    add(b, RC_SHORT, RC_AGE, number(f, "age", i));
    add(b, RC_SHORT, RC_JOB, number(f, "job", i));
    b->genres[i + 1] = b->genres[i] + json_array_size(genres);
    b->words[i + 1] = b->words[i] + json_array_size(words);
    b->target[i] = (float)json_number_value(
        json_array_get(co_json_at(f->root, "inputs", "rating", "data"), i));
    b->n++;
}

static void fixture_open(struct fixture *f) {
    const struct rc_shape shape = {.width = {WIDE, NARROW}, .features = 6};
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};

    memset(f, 0, sizeof(*f));
    must(co_file_read(GOLDEN, 1 << 20, &text, &err), &err);
    must(co_json_parse(text.data, text.len, &f->root, &err), &err);
    must(rc_net_new(&shape, B, &f->net, &err), &err);
    must(rc_net_params(&shape, 1, &f->params, &err), &err);
    must(nn_distinct_new(IDS_MAX, &f->distinct, &err), &err);
    rc_batch_init(&f->batch, B);
    for (size_t i = 0; i < CO_ARRAY_LEN(tables); i++) {
        tensor_read(
            co_json_at(f->root, "params0", tables[i].name), ROWS_MAX, f->rows[tables[i].field]);
    }
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(params); i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "%s_%c", params[i / 2], i % 2 ? 'b' : 'w');
        tensor_read(co_json_at(f->root, "params0", name), 200, rt_params_value(f->params, i));
    }
    for (size_t i = 0; i < B; i++) {
        sample_add(f, i);
    }
}

static void fixture_close(struct fixture *f) {
    co_json_decref(&f->root);
    rc_net_free(f->net);
    rt_params_free(f->params);
    nn_distinct_free(f->distinct);
    f->batch.rows[0] = f->batch.rows[1] = NULL;
    rc_batch_done(&f->batch);
}

static float *row_of(float rows[RC_FIELDS][ROWS_MAX], uint64_t id, size_t width) {
    return rows[id >> 56] + (id & (UINT64_MAX >> 8)) * width;
}

static double pass(struct fixture *f) {
    float *const pushed[] = {f->pushed[0], f->pushed[1]};
    struct rc_batch *b = &f->batch;
    struct co_err err = {0};
    double loss = 0.0;

    memset(f->grads, 0, sizeof(f->grads));
    memset(f->pushed, 0, sizeof(f->pushed));
    for (size_t t = 0; t < RC_TABLES; t++) {
        size_t width = t == RC_LONG ? WIDE : NARROW;

        f->n_unique[t] =
            nn_distinct_find(f->distinct, b->n_ids[t], b->ids[t], f->unique[t], b->index[t]);
        for (size_t i = 0; i < f->n_unique[t]; i++) {
            memcpy(f->pulled[t] + i * width, row_of(f->rows, f->unique[t][i], width),
                width * sizeof(float));
        }
        b->rows[t] = f->pulled[t];
    }
    must(rc_net_forward(f->net, b, f->params, &loss, &err), &err);
    must(rc_net_backward(f->net, b, f->params, pushed, &err), &err);
    for (size_t t = 0; t < RC_TABLES; t++) {
        size_t width = t == RC_LONG ? WIDE : NARROW;

        for (size_t i = 0; i < f->n_unique[t]; i++) {
            memcpy(row_of(f->grads, f->unique[t][i], width), f->pushed[t] + i * width,
                width * sizeof(float));
        }
    }
    return loss;
}

static void forward_and_gradients_equal_the_goldens(void **state) {
    struct fixture f;

    (void)state;
    fixture_open(&f);
    double loss = pass(&f), stored = json_number_value(json_object_get(f.root, "loss0"));
    assert_true(fabs(loss - stored) <= 1e-5 + 1e-5 * stored);
    near("pred", rc_net_prediction(f.net), co_json_at(f.root, "forward", "pred"), 2e-6);
    for (size_t i = 0; i < CO_ARRAY_LEN(tables); i++) {
        near(tables[i].name, f.grads[tables[i].field], co_json_at(f.root, "grads0", tables[i].name),
            2e-6);
    }
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(params); i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "%s_%c", params[i / 2], i % 2 ? 'b' : 'w');
        near(name, rt_params_gradient(f.params, i), co_json_at(f.root, "grads0", name), 2e-6);
    }
    fixture_close(&f);
}

static void ten_steps_equal_the_goldens(void **state) {
    struct fixture f;

    (void)state;
    fixture_open(&f);
    for (size_t t = 0; t < 10; t++) {
        double stored = json_number_value(json_array_get(json_object_get(f.root, "losses"), t));
        double loss = pass(&f);

        if (!(fabs(loss - stored) <= 1e-5 + 1e-5 * stored)) {
            fail_msg("step %zu: loss %.9g, stored %.9g", t + 1, loss, stored);
        }
        for (size_t i = 0; i < rt_params_size(f.params); i++) {
            rt_params_values(f.params)[i] -= 0.1F * rt_params_gradients(f.params)[i];
        }
        for (size_t i = 0; i < RC_FIELDS * (size_t)ROWS_MAX; i++) {
            (&f.rows[0][0])[i] -= 0.1F * (&f.grads[0][0])[i];
        }
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(tables); i++) {
        near(tables[i].name, f.rows[tables[i].field],
            co_json_at(f.root, "params_end", tables[i].name), 5e-6);
    }
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(params); i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "%s_%c", params[i / 2], i % 2 ? 'b' : 'w');
        near(name, rt_params_value(f.params, i), co_json_at(f.root, "params_end", name), 5e-6);
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_gradients_equal_the_goldens),
        cmocka_unit_test(ten_steps_equal_the_goldens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
