/* Counts of parameters are those of paddle.vision.models with 1000 classes. */
#include "examples/resnet50/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static struct rn_net *net_new(struct rn_net_config c) {
    struct rn_net *net = co_xcalloc(1, sizeof(*net));
    struct co_err err = {0};

    if (rn_net_make(&c, net, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return net;
}

static void sizes_are_those_of_the_published_networks(void **state) {
    static const struct {
        int depth, n_params, ops;
        size_t parameters;
    } rows[] = {
        {18, 62, 43, 11689512},
        {34, 110, 75, 21797672},
        {50, 161, 109, 25557032},
        {101, 314, 211, 44549160},
        {152, 467, 313, 60192808},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rn_net *net = net_new((struct rn_net_config){rows[i].depth, 2, 224, 1000, 64});

        assert_int_equal(net->n_params, rows[i].n_params);
        assert_int_equal(net->n_ops, rows[i].ops);
        assert_int_equal(net->parameters, rows[i].parameters);
        free(net);
    }
}

static void the_last_stage_sees_seven_by_seven(void **state) {
    struct rn_net *net = net_new((struct rn_net_config){50, 2, 224, 102, 64});
    const struct rn_tensor *last = &net->tensors[net->n_ops - 2];

    (void)state;
    assert_int_equal(last->channels, 2048);
    assert_int_equal(last->height, 7);
    assert_int_equal(last->width, 7);
    assert_string_equal(net->params[0].name, "conv1.weight");
    assert_string_equal(net->params[net->n_params - 1].name, "fc.bias");
    free(net);
}

static void no_tensor_has_three_readers(void **state) {
    struct rn_net *net = net_new((struct rn_net_config){152, 2, 224, 102, 64});

    (void)state;
    for (int t = 1; t <= net->n_ops; t++) {
        int readers = 0;

        for (int i = 0; i < net->n_ops; i++) {
            readers += (net->ops[i].in == t) + (net->ops[i].add == t);
            assert_true(net->ops[i].in <= i && net->ops[i].add <= i);
        }
        assert_true(t == net->n_ops ? readers == 0 : readers == 1 || readers == 2);
    }
    free(net);
}

static void impossible_sizes_are_named(void **state) {
    static const struct {
        struct rn_net_config config;
        const char *says;
    } rows[] = {
        {{51, 2, 224, 102, 64}, "depth 51"},
        {{50, 0, 224, 102, 64}, "batch size 0"},
        {{50, 2, 31, 102, 64}, "image size 31"},
        {{50, 2, 224, 1, 64}, "1 classes"},
        {{50, 2, 224, 102, 24}, "width 24"},
    };
    struct rn_net *net = co_xcalloc(1, sizeof(*net));

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};

        assert_int_equal(rn_net_make(&rows[i].config, net, &err), CO_INVALID);
        assert_non_null(strstr(err.msg, rows[i].says));
    }
    free(net);
}

static void initial_values_have_the_deviation_they_should(void **state) {
    struct rn_net *net = net_new((struct rn_net_config){18, 2, 64, 102, 64});
    float *values = co_xcalloc(net->parameters, sizeof(*values));

    (void)state;
    for (int i = 0; i < net->n_params; i++) {
        const struct rn_param *p = &net->params[i];
        double sum = 0.0, square = 0.0, n = (double)p->count;

        rn_net_init_param(net, i, 1, values);
        for (size_t k = 0; k < p->count; k++) {
            sum += (double)values[k];
            square += (double)values[k] * (double)values[k];
        }
        if (p->n_dims == 1) {
            assert_true(sum == 0.0 || sum == n);
            continue;
        }
        double want = p->n_dims == 4 ? sqrt(2.0 / ((double)p->dims[1] * p->dims[2] * p->dims[3]))
                                     : 1.0 / sqrt(3.0 * (double)p->dims[0]);
        assert_true(fabs(sqrt(square / n) / want - 1.0) < 5.0 / sqrt(n));
        assert_true(fabs(sum / n) < 5.0 * want / sqrt(n));
    }
    free(values);
    free(net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_published_networks),
        cmocka_unit_test(the_last_stage_sees_seven_by_seven),
        cmocka_unit_test(no_tensor_has_three_readers),
        cmocka_unit_test(impossible_sizes_are_named),
        cmocka_unit_test(initial_values_have_the_deviation_they_should),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
