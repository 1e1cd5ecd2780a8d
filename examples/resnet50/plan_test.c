/* Tests networks against PaddlePaddle 3.3.1 (testdata/golden.json, made by golden.py), gradients
 * against differences of the loss, and properties of the plan.
 *
 * Tolerance of losses over ten steps: 5e-4 of the loss, of the first one, before any update, 1e-6.
 * Batch normalisation over 16 values a channel, as here, magnifies at each step what sums in
 * another order differ by.  Parameters and running values after them: 1e-4 of the root of their
 * mean square, each for mean and root. */
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
#include "examples/nn/dnn_isa_testing.h"
#include "examples/nn/rng.h"
#include "examples/resnet50/loss.h"
#include "examples/resnet50/plan_internal.h"
#include "examples/resnet50/team.h"

enum { TEN = 10 }; /* steps in the goldens */

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

static struct rn_plan *plan_new_in(
    const struct rn_net_config *c, enum rn_type type, enum rn_order order) {
    struct rn_plan *p = NULL;
    struct co_err err = {0};

    must(rn_plan_new(c, type, order, &p, &err), &err);
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

static struct rn_plan *plan_new(const struct rn_net_config *c, enum rn_type type) {
    return plan_new_in(c, type, RN_ORDER_FAST);
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

/* A parameter, or a norm's running values, by Paddle's name; caller frees. */
static float *values_of(struct rn_plan *p, const char *name, size_t *ret_n) {
    const struct rn_net *net = rn_plan_net(p);

    for (int i = 0; i < net->n_params; i++) {
        if (co_streq(net->params[i].name, name)) {
            float *v = co_xcalloc(*ret_n = net->params[i].count, sizeof(*v));
            must(rn_plan_export(p, i, rn_plan_params(p), v, NULL), NULL);
            return v;
        }
    }
    for (int i = 0; i < net->n_ops; i++) {
        const struct rn_op *op = &net->ops[i];
        CO_AUTOFREE char *mean = co_xasprintf("%s._mean", op->name);
        CO_AUTOFREE char *variance = co_xasprintf("%s._variance", op->name);
        if (co_streq(name, mean) || co_streq(name, variance)) {
            const float *all =
                co_streq(name, mean) ? rn_plan_running_mean(p) : rn_plan_running_variance(p);
            *ret_n = net->tensors[i + 1].channels;
            float *v = co_xcalloc(*ret_n, sizeof(*v));
            memcpy(v, all + op->running, *ret_n * sizeof(*v));
            return v;
        }
    }
    fail_msg("the network has no %s", name);
    return NULL;
}

static void after_check(struct rn_plan *p, const json_t *after) {
    const char *name;
    json_t *want;

    json_object_foreach((json_t *)after, name, want) {
        size_t n = 0;
        double sum = 0.0, squares = 0.0;
        CO_AUTOFREE float *v = values_of(p, name, &n);

        for (size_t i = 0; i < n; i++) {
            sum += v[i];
            squares += (double)v[i] * v[i];
        }
        double root = json_number_value(json_array_get(want, 1));
        within(name, 10, sum / (double)n, json_number_value(json_array_get(want, 0)), 1e-4 * root);
        within(name, 10, sqrt(squares / (double)n), root, 1e-4 * root);
    }
}

static void run_check(const json_t *run, size_t steps) {
    const struct rn_net_config c = {.depth = (int)number(run, "depth"),
        .batch = (uint32_t)number(run, "batch"),
        .image = (uint32_t)number(run, "image"),
        .classes = 102,
        .width = 64};
    struct rn_plan *p = plan_new(&c, RN_F32);
    float *velocity = co_xcalloc(rn_plan_storage(p), sizeof(*velocity));
    uint32_t labels[8];
    struct co_err err = {0};

    assert_int_equal(json_array_size(json_object_get(run, "loss")), TEN);
    assert_true(c.batch <= 8);
    for (size_t s = 0; s < steps; s++) {
        struct rn_loss loss = {0};
        double want = item(run, "loss", s);

        batch_fill(p, s % 2, labels);
        must(rn_plan_forward(p, true, &err), &err);
        rn_loss_add(&loss, c.batch, c.classes, number(run, "smoothing"), rn_plan_logits(p), labels,
            rn_plan_d_logits(p));
        within("loss", s, loss.loss / c.batch, want, (s == 0 ? 1e-6 : 5e-4) * want);
        within("acc1", s, (double)loss.top1 / c.batch, item(run, "acc1", s), 1e-6);
        within("acc5", s, (double)loss.top5 / c.batch, item(run, "acc5", s), 1e-6);
        must(rn_plan_backward(p, NULL, NULL, &err), &err);
        momentum_step(p, velocity, (float)number(run, "lr"));
    }
    assert_int_equal(json_object_size(json_object_get(run, "after")), 6);
    if (steps == TEN) {
        after_check(p, json_object_get(run, "after"));
    }
    free(velocity);
    rn_plan_free(p);
}

/* From the first-th run on. */
static void golden_check(size_t first, size_t steps) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};
    json_t *root = NULL;

    must(co_file_read(GOLDEN, 1 << 20, &text, &err), &err);
    must(co_json_parse(text.data, text.len, &root, &err), &err);
    const json_t *runs = json_object_get(root, "runs");
    assert_int_equal(json_array_size(runs), 2);
    for (size_t i = first; i < 2; i++) {
        run_check(json_array_get(runs, i), steps);
    }
    json_decref(root);
}

static void ten_steps_agree_with_paddle(void **state) {
    (void)state;
    golden_check(0, TEN);
}

/* Of ResNet18, both passes and an update: what instruction sets differ in.  Ten steps of both
 * networks would take ten seconds with the oldest. */
static void two_steps_agree_with_paddle(void **state) {
    (void)state;
    golden_check(1, 2);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static double loss_now(struct rn_plan *p, const uint32_t *labels, bool gradient) {
    const struct rn_net_config *c = &rn_plan_net(p)->config;
    struct rn_loss loss = {0};
    struct co_err err = {0};

    must(rn_plan_forward(p, true, &err), &err);
    rn_loss_add(&loss, c->batch, c->classes, 0.1, rn_plan_logits(p), labels,
        gradient ? rn_plan_d_logits(p) : NULL);
    if (gradient) {
        must(rn_plan_backward(p, NULL, NULL, &err), &err);
    }
    return loss.loss / c->batch;
}

/* Along each parameter's own gradient the loss must change as the gradient says.  Steps are small
 * enough for few ReLUs to turn, and large enough for the difference to have digits. */
static void differences_check(int depth) {
    const struct rn_net_config c = {
        .depth = depth, .batch = 4, .image = 64, .classes = 10, .width = 16};
    struct rn_plan *p = plan_new(&c, RN_F32);
    const struct rn_net *net = rn_plan_net(p);
    CO_AUTOFREE float *kept = co_xcalloc(rn_plan_storage(p), sizeof(*kept));
    float *w = rn_plan_params(p);
    const float *g = rn_plan_grads(p);
    uint32_t labels[4];

    batch_fill(p, 0, labels);
    (void)loss_now(p, labels, true);
    memcpy(kept, w, rn_plan_storage(p) * sizeof(*kept));
    for (int i = 0; i < net->n_params; i++) {
        size_t n, place = rn_plan_place(p, i, &n);
        double square = 0.0, side[2];

        for (size_t k = place; k < place + n; k++) {
            square += (double)g[k] * (double)g[k];
        }
        for (int s = 0; s < 2; s++) {
            double step = (s ? 1.0 : -1.0) * 5e-4 / sqrt(square);

            for (size_t k = place; k < place + n; k++) {
                w[k] = kept[k] + (float)(step * (double)g[k]);
            }
            side[s] = loss_now(p, labels, false);
        }
        memcpy(w + place, kept + place, n * sizeof(*w));
        double got = (side[1] - side[0]) / (2.0 * 5e-4), want = sqrt(square);
        if (!(fabs(got - want) <= 0.02 * want + 2e-3)) {
            fail_msg(
                "%s: the loss grows by %g, the gradient says %g", net->params[i].name, got, want);
        }
    }
    rn_plan_free(p);
}

static void gradients_are_those_of_the_loss(void **state) {
    (void)state;
    differences_check(10);
    differences_check(14);
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* oneDNN's reference is a hundred times slower than any other primitive. */
static void no_pass_is_the_reference(void **state) {
    static const struct rn_net_config rows[] = {
        {.depth = 10, .batch = 8, .image = 32, .classes = 4, .width = 16},
        {.depth = 14, .batch = 4, .image = 64, .classes = 10, .width = 16},
        {.depth = 50, .batch = 1, .image = 224, .classes = 102, .width = 64},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(rn_plan_freep) struct rn_plan *p = NULL;

        must(rn_plan_new(&rows[i], RN_F32, RN_ORDER_FAST, &p, NULL), NULL);
        for (int k = 0; k < 3 * p->net.n_ops; k++) {
            const struct node *n = &p->nodes[k / 3];
            dnnl_primitive_t run =
                n->op->kind == RN_CONV ? n->conv.passes[k % 3].run.primitive : NULL;
            const_dnnl_primitive_desc_t chosen = NULL;

            if (run) {
                assert_int_equal(dnnl_primitive_get_primitive_desc(run, &chosen), dnnl_success);
                assert_false(rn_dnn_is_reference(chosen));
            }
        }
    }
}

/* ---- properties ------------------------------------------------------------------------------ */

static const struct rn_net_config small = {
    .depth = 14, .batch = 4, .image = 64, .classes = 10, .width = 16};

static int ready_note(void *arg, int param, struct co_err *err) {
    int *expected = arg;

    (void)err;
    assert_int_equal(param, --*expected);
    return 0;
}

static void parameters_are_ready_from_the_last_to_the_first(void **state) {
    struct rn_plan *p = plan_new(&small, RN_F32);
    int expected = rn_plan_net(p)->n_params;
    uint32_t labels[4];

    (void)state;
    batch_fill(p, 0, labels);
    (void)loss_now(p, labels, true);
    must(rn_plan_backward(p, ready_note, &expected, NULL), NULL);
    assert_int_equal(expected, 0);
    rn_plan_free(p);
}

static void parameters_come_back_in_their_order(void **state) {
    struct rn_plan *p = plan_new(&small, RN_F32);
    const struct rn_net *net = rn_plan_net(p);
    CO_AUTOFREE float *want = co_xcalloc(net->parameters, sizeof(*want));
    CO_AUTOFREE float *got = co_xcalloc(net->parameters, sizeof(*got));

    (void)state;
    for (int i = 0; i < net->n_params; i++) {
        param_fill(net, &net->params[i], want);
        must(rn_plan_export(p, i, rn_plan_params(p), got, NULL), NULL);
        assert_memory_equal(got, want, net->params[i].count * sizeof(*got));
    }
    rn_plan_free(p);
}

/* The same primitives run on copies: all bits are equal, and where each value is, is known. */
static void the_plain_order_changes_nothing_but_places(void **state) {
    struct rn_plan *fast = plan_new(&small, RN_F32);
    struct rn_plan *plain = plan_new_in(&small, RN_F32, RN_ORDER_PLAIN);
    const struct rn_net *net = rn_plan_net(plain);
    CO_AUTOFREE float *want = co_xcalloc(net->parameters, sizeof(*want));
    uint32_t labels[4];

    (void)state;
    batch_fill(fast, 0, labels);
    batch_fill(plain, 0, labels);
    float *moved = NULL;
    assert_int_equal(
        posix_memalign((void **)&moved, 64, rn_plan_storage(plain) * sizeof(*moved)), 0);
    for (int i = 0; i < net->n_params; i++) {
        size_t count, place = rn_plan_place(plain, i, &count);
        must(rn_plan_move_grad(plain, i, moved + place, NULL), NULL);
    }
    assert_true(loss_now(fast, labels, true) == loss_now(plain, labels, true));
    for (int i = 0; i < net->n_params; i++) {
        size_t n = net->params[i].count, count, place = rn_plan_place(plain, i, &count);

        param_fill(net, &net->params[i], want);
        assert_memory_equal(rn_plan_params(plain) + place, want, n * sizeof(*want));
        must(rn_plan_export(fast, i, rn_plan_grads(fast), want, NULL), NULL);
        assert_memory_equal(moved + place, want, n * sizeof(*want));
    }
    free(moved);
    rn_plan_free(fast);
    rn_plan_free(plain);
}

static void threads_change_nothing_but_the_order_of_sums(void **state) {
    double losses[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rn_team_set(1 + 2 * i);
        struct rn_plan *p = plan_new(&small, RN_F32);
        uint32_t labels[4];

        batch_fill(p, 0, labels);
        losses[i] = loss_now(p, labels, false);
        rn_plan_free(p);
    }
    rn_team_set(1);
    assert_true(fabs(losses[0] - losses[1]) <= 1e-5 * losses[0]);
}

/* bf16 has eight bits: two or three digits of the loss. */
static void bf16_is_near(void **state) {
    uint32_t labels[4];
    struct co_err err = {0};

    (void)state;
    if (rn_plan_supported(RN_BF16, &err) == CO_UNSUPPORTED) {
        assert_non_null(strstr(err.msg, "no bf16 convolutions for this processor"));
        skip();
    }
    struct rn_plan *p = plan_new(&small, RN_F32), *half = plan_new(&small, RN_BF16);
    batch_fill(p, 0, labels);
    batch_fill(half, 0, labels);
    double want = loss_now(p, labels, false), got = loss_now(half, labels, true);
    assert_true(fabs(got - want) <= 0.03 * want);
    assert_true(got != want);
    rn_plan_free(p);
    rn_plan_free(half);
}

static void values_share_memory(void **state) {
    const struct rn_net_config c = {
        .depth = 50, .batch = 2, .image = 64, .classes = 102, .width = 64};
    struct rn_plan *p = NULL;
    size_t apart;

    (void)state;
    must(rn_plan_new(&c, RN_F32, RN_ORDER_FAST, &p, NULL), NULL);
    assert_true(rn_plan_arena(p, &apart) < apart / 2);
    rn_plan_free(p);
}

/* With running values that are the batch's own, evaluation gives what training gave. */
static void evaluation_uses_running_values(void **state) {
    struct rn_plan *p = plan_new(&small, RN_F32);
    uint32_t labels[4];
    double trained = 0.0;

    (void)state;
    batch_fill(p, 0, labels);
    for (int i = 0; i < 150; i++) { /* 0.9^150 is below a float's digits */
        trained = loss_now(p, labels, false);
    }
    struct rn_loss l = {0};
    must(rn_plan_forward(p, false, NULL), NULL);
    rn_loss_add(&l, 4, 10, 0.1, rn_plan_logits(p), labels, NULL);
    assert_true(fabs(l.loss / 4.0 - trained) <= 1e-4 * trained);
    rn_plan_free(p);
}

static int each_instruction_set(void) {
    const struct CMUnitTest speed[] = {
        cmocka_unit_test(no_pass_is_the_reference),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_steps_agree_with_paddle),
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(parameters_come_back_in_their_order),
        cmocka_unit_test(the_plain_order_changes_nothing_but_places),
        cmocka_unit_test(threads_change_nothing_but_the_order_of_sums),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(evaluation_uses_running_values),
    };

    rn_team_set(1);
    int failed = cmocka_run_group_tests(speed, NULL, NULL);
    if (failed == 0) { /* else they would take minutes */
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_agree_with_paddle),
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(parameters_are_ready_from_the_last_to_the_first),
        cmocka_unit_test(parameters_come_back_in_their_order),
        cmocka_unit_test(the_plain_order_changes_nothing_but_places),
        cmocka_unit_test(threads_change_nothing_but_the_order_of_sums),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(values_share_memory),
        cmocka_unit_test(evaluation_uses_running_values),
    };

    int failed = nn_isa_tests(each_instruction_set);

    rn_team_set(1);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
