/* Optimizers on one rank; their numbers are checked in golden_test.c and with their rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/rt.h"

static void rules_have_state(void **state) {
    (void)state;
    static const struct {
        const char *rule;
        size_t floats; /* of a parameter of 10 */
    } rows[] = {{"sgd", 0}, {"momentum", 10}, {"nesterov:mu=0.5", 10}, {"adam", 21}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rt_optimizer *o = NULL;
        assert_int_equal(rt_optimizer_new(rows[i].rule, 10, &o, NULL), 0);
        struct rt_values v = rt_optimizer_state(o);
        assert_int_equal(v.n, rows[i].floats);
        for (size_t k = 0; k < v.n; k++) {
            assert_true(v.values[k] == 0);
        }
        rt_optimizer_free(o);
    }
}

static void unknown_rules_are_refused(void **state) {
    (void)state;
    struct co_err err = {0};
    struct rt_optimizer *o = NULL;
    assert_int_equal(rt_optimizer_new("momentums", 10, &o, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "momentums"));
    assert_int_equal(rt_optimizer_new("momentum:mu=x", 10, &o, &err), CO_INVALID);
    assert_null(o);
    rt_optimizer_free(NULL);
}

/* Momentum and l2 are in such a gradient already. */
static void a_compressed_gradient_is_subtracted_as_it_is(void **state) {
    (void)state;
    struct rt_optimizer *o = NULL;
    float w[3] = {1, 2, 3};
    const float g[3] = {4, 0, -8};
    assert_int_equal(rt_optimizer_new("momentum:mu=0.5,l2=0.5", 3, &o, NULL), 0);
    rt_optimizer_step_sgd(o, 0.25, w, g);
    assert_true(w[0] == 0 && w[1] == 2 && w[2] == 5);
    assert_true(rt_optimizer_state(o).values[0] == 0);
    rt_optimizer_step(o, 0.25, w, g); /* v = g + w / 2 */
    assert_true(w[0] == -1 && w[1] == 1.75F && w[2] == 6.375F);
    assert_true(rt_optimizer_state(o).values[2] == -5.5F);
    rt_optimizer_free(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_have_state),
        cmocka_unit_test(unknown_rules_are_refused),
        cmocka_unit_test(a_compressed_gradient_is_subtracted_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
