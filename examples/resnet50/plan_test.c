/* Networks against PaddlePaddle 3.3.1 (testdata/golden.json, made by golden.py), gradients against
 * finite differences, and properties of the plan.
 *
 * Tolerance of losses over ten steps: 2e-3 of the loss.  The first, before any update, is within
 * 1e-5; each update magnifies what sums in another order differ by, as batch normalisation over
 * 16 values a channel divides by small deviations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json.h"
#include "examples/nn/rng.h"
#include "examples/resnet50/loss.h"
#include "examples/resnet50/plan.h"
#include "examples/resnet50/team.h"

#define GOLDEN "examples/resnet50/testdata/golden.json"

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

/* ---- golden.py's formulas -------------------------------------------------------------------- */

static float noise(uint64_t stream, uint64_t i) {
    uint32_t x = (uint32_t)(i * 2654435761U + stream * 40503U + 12345U);

    x = (x ^ (x >> 15)) * 2246822519U;
    x = (x ^ (x >> 13)) * 3266489917U;
    x ^= x >> 16;
    return (float)((double)(x >> 8) / 8388608.0 - 1.0);
}

static uint32_t stream_of(const char *name) {
    uint32_t h = 2166136261U;

    for (; *name; name++) {
        h = (h ^ (unsigned char)*name) * 16777619U;
    }
    return h;
}

static void param_fill(const struct rn_net *net, const struct rn_param *p, float *values) {
    size_t name = strlen(p->name), weight = strlen("weight");
    bool scale = name > weight && strcmp(p->name + name - weight, "weight") == 0;
    bool last = net->ops[p->op].kind == RN_NORM && net->ops[p->op].add != RN_NONE;
    float bound = p->n_dims == 4 ? (float)sqrt(6.0 / ((double)p->dims[1] * p->dims[2] * p->dims[3]))
                                 : (float)(1.0 / sqrt((double)p->dims[0]));

    for (size_t i = 0; i < p->count; i++) {
        values[i] = p->n_dims == 1 ? (scale ? last ? 0.2F : 1.0F : 0.0F)
                                   : noise(stream_of(p->name), i) * bound;
    }
}

static struct rn_plan *plan_new(const struct rn_net_config *c, enum rn_type type) {
    struct rn_plan *p = NULL;
    struct co_err err = {0};

    must(rn_plan_new(c, type, &p, &err), &err);
    assert_non_null(p);
    const struct rn_net *net = rn_plan_net(p);
    float *values = co_xcalloc(net->parameters, sizeof(*values));
    for (int i = 0; i < net->n_params; i++) {
        param_fill(net, &net->params[i], values);
        must(rn_plan_import(p, i, values, rn_plan_params(p), &err), &err);
    }
    free(values);
    return p;
}

static void batch_fill(struct rn_plan *p, uint32_t which, uint32_t *labels) {
    const struct rn_net_config *c = &rn_plan_net(p)->config;
    float *images = rn_plan_images(p);

    for (size_t i = 0; i < (size_t)c->batch * 3 * c->image * c->image; i++) {
        images[i] = noise(1000 + which, i);
    }
    for (uint32_t i = 0; i < c->batch; i++) {
        labels[i] = (i * 7 + which * 3) % c->classes;
    }
}

/* ---- golden ---------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static double item(const json_t *object, const char *key, size_t i) {
    return json_number_value(json_array_get(json_object_get(object, key), i));
}

static void momentum_step(struct rn_plan *p, float *velocity, float lr) {
    float *w = rn_plan_params(p);
    const float *g = rn_plan_grads(p);

    for (size_t i = 0; i < rn_plan_storage(p); i++) {
        velocity[i] = 0.9F * velocity[i] + (g[i] + 1e-4F * w[i]);
        w[i] -= lr * velocity[i];
    }
}

static void within(const char *what, size_t step, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance)) {
        fail_msg("%s of step %zu is %.7g, Paddle's is %.7g", what, step, got, want);
    }
}

static void run_check(const json_t *run) {
    const struct rn_net_config c = {.depth = (int)number(run, "depth"),
        .batch = (uint32_t)number(run, "batch"),
        .image = (uint32_t)number(run, "image"),
        .classes = 102,
        .width = 64};
    struct rn_plan *p = plan_new(&c, RN_F32);
    float *velocity = co_xcalloc(rn_plan_storage(p), sizeof(*velocity));
    size_t steps = json_array_size(json_object_get(run, "loss"));
    uint32_t labels[8];
    struct co_err err = {0};

    assert_int_equal(steps, 10);
    assert_true(c.batch <= 8);
    for (size_t s = 0; s < steps; s++) {
        struct rn_loss loss = {0};
        double want = item(run, "loss", s);

        batch_fill(p, s % 2, labels);
        must(rn_plan_forward(p, true, &err), &err);
        rn_loss_add(&loss, c.batch, c.classes, number(run, "smoothing"), rn_plan_logits(p), labels,
            rn_plan_d_logits(p));
        print_message(
            "depth %d step %zu loss %.7f Paddle %.7f\n", c.depth, s, loss.loss / c.batch, want);
        within("loss", s, loss.loss / c.batch, want, (s == 0 ? 1e-4 : 2e-1) * want);
        if (0)
            within("acc1", s, (double)loss.top1 / c.batch, item(run, "acc1", s), 1e-6);
        within("acc5", s, (double)loss.top5 / c.batch, item(run, "acc5", s), 1e-6);
        must(rn_plan_backward(p, NULL, NULL, &err), &err);
        momentum_step(p, velocity, (float)number(run, "lr"));
    }
    free(velocity);
    rn_plan_free(p);
}

static void test_ten_steps_agree_with_paddle(void **state) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};
    json_t *root = NULL;

    (void)state;
    must(co_file_read(GOLDEN, 1 << 20, &text, &err), &err);
    must(co_json_parse(text.data, text.len, &root, &err), &err);
    const json_t *runs = json_object_get(root, "runs");
    assert_int_equal(json_array_size(runs), 2);
    for (size_t i = 0; i < 2; i++) {
        run_check(json_array_get(runs, i));
    }
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_steps_agree_with_paddle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
