/* The rules, fast form and reference, against independent implementations: optimizers.json by
 * PaddlePaddle 3.3.1, rules.json by rules.py beside it, which says from where each case comes.
 *
 * Tolerances: one step 1e-6 + 1e-5 |stored|; ten steps 2e-6 + 1e-5 |stored|; AdaGrad and Adam
 * after more than one step 1e-5 + 1e-5 |stored|, because a gradient near zero is divided by its
 * own size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "runtime/train/optim/optim.h"
#include "runtime/train/optim/reference_testing.h"

#define GOLDENS "runtime/train/optim/testdata/"

enum { STEPS = 10, WIDTH_MAX = 12, W = 12, B = 5 };

typedef void (*update_fn)(const struct optim *o, size_t n, float *w, const float *g, float *s);
static const update_fn forms[] = {optim_apply, optim_apply_reference};

/* An array of n numbers, or the data of a stored tensor. */
static void tensor_read(const json_t *tensor, size_t n, float *ret) {
    const json_t *data = json_is_array(tensor) ? tensor : json_object_get(tensor, "data");

    assert_int_equal(json_array_size(data), n);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (float)json_number_value(json_array_get(data, i));
    }
}

static json_t *goldens_load(const char *file) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};
    json_t *root = NULL;

    char path[128];

    (void)snprintf(path, sizeof(path), GOLDENS "%s", file);
    if (co_file_read(path, 1 << 20, &text, &err) < 0 ||
        co_json_parse(text.data, text.len, &root, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return root;
}

/* Our rule for a stored case: two of theirs are one rule with other hyper-parameters. */
static void optim_of_case(const json_t *c, struct optim *ret_o) {
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"momentum_nesterov", "nesterov"}, {"adagrad_init", "adagrad"},
        {"rmsprop_momentum", "rmsprop"}, {"initial_accumulator_value", "initial"}};
    const char *name = co_json_str(c, "optimizer"), *key;
    struct co_err err = {0};
    json_t *value;

    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        name = strcmp(name, names[i].theirs) == 0 ? names[i].ours : name;
    }
    if (optim_parse(name, ret_o, &err) < 0 ||
        optim_set(ret_o, "l2", json_number_value(json_object_get(c, "l2")), &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    json_object_foreach(json_object_get(c, "hyper"), key, value) {
        const char *ours = key;

        for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
            ours = strcmp(key, names[i].theirs) == 0 ? names[i].ours : ours;
        }
        if (json_is_boolean(value)) {
            continue; /* nesterov and centered are rules of their own */
        }
        if (optim_set(ret_o, ours, json_number_value(value), &err) < 0) {
            fail_msg("%s", co_err_text(&err));
        }
    }
}

static double tolerance(const struct optim *o, size_t step, double stored) {
    bool by_size = strncmp(o->rule->name, "ada", 3) == 0;

    if (step == 0) {
        return 1e-6 + 1e-5 * fabs(stored);
    }
    return (by_size ? 1e-5 : 2e-6) + 1e-5 * fabs(stored);
}

/* Ten steps of one parameter of so many rows, each compared with what was stored. */
static size_t trajectory_check(const struct optim *o, update_fn apply, size_t n, size_t rows,
    const json_t *tensors, const json_t *c, const char *which) {
    float p[WIDTH_MAX], g[STEPS * WIDTH_MAX], stored[STEPS * WIDTH_MAX], state[4 * WIDTH_MAX];
    size_t row = n / rows, stride = optim_state_floats(o, row);
    char key[16];

    (void)snprintf(key, sizeof(key), "%s0", which);
    tensor_read(json_object_get(tensors, key), n, p);
    (void)snprintf(key, sizeof(key), "grad_%s", which);
    tensor_read(json_object_get(tensors, key), STEPS * n, g);
    tensor_read(json_object_get(c, which), STEPS * n, stored);
    for (size_t r = 0; r < rows; r++) {
        optim_state_init(o, row, state + r * stride);
    }
    for (size_t t = 0; t < STEPS; t++) {
        for (size_t r = 0; r < rows; r++) {
            apply(o, row, p + r * row, g + t * n + r * row, state + r * stride);
        }
        for (size_t i = 0; i < n; i++) {
            double want = (double)stored[t * n + i];

            if (!(fabs((double)p[i] - want) <= tolerance(o, t, want))) {
                fail_msg("%s l2 %g %s[%zu] step %zu: %.9g, stored %.9g", o->rule->name,
                    (double)o->hyper[OPTIM_L2], which, i, t + 1, (double)p[i], want);
            }
        }
    }
    return STEPS * n;
}

static void rules_follow_paddle(void **state) {
    CO_AUTOJSON json_t *root = goldens_load("optimizers.json");
    const json_t *tensors = json_object_get(root, "tensors"), *c;
    size_t at, compared = 0;

    (void)state;
    json_array_foreach(json_object_get(root, "cases"), at, c) {
        struct optim o;

        optim_of_case(c, &o);
        for (size_t f = 0; f < CO_ARRAY_LEN(forms); f++) {
            compared += trajectory_check(&o, forms[f], W, 1, tensors, c, "w");
            compared += trajectory_check(&o, forms[f], B, 1, tensors, c, "b");
        }
    }
    assert_int_equal(compared, 18 * 2 * STEPS * (W + B));
}

static void table_rules_equal_the_goldens(void **state) {
    CO_AUTOJSON json_t *inputs = goldens_load("optimizers.json");
    CO_AUTOJSON json_t *root = goldens_load("rules.json");
    const json_t *tensors = json_object_get(inputs, "tensors"), *c;
    size_t at, compared = 0;

    (void)state;
    json_array_foreach(root, at, c) {
        struct co_err err = {0};
        struct optim o;
        size_t rows = (size_t)json_integer_value(json_object_get(c, "rows"));

        if (optim_parse(co_json_str(c, "rule"), &o, &err) < 0) {
            fail_msg("%s", co_err_text(&err));
        }
        for (size_t f = 0; f < CO_ARRAY_LEN(forms); f++) {
            compared += trajectory_check(&o, forms[f], W, rows, tensors, c, "w");
            compared += trajectory_check(&o, forms[f], B, 1, tensors, c, "b");
        }
    }
    assert_int_equal(compared, 18 * 2 * STEPS * (W + B));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_follow_paddle),
        cmocka_unit_test(table_rules_equal_the_goldens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
