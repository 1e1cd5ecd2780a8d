/* Which saved tables fit a table of the job, and what becomes of a row. */
#include "runtime/train/ps/fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 2 };

static struct ps_table make(const char *optimizer, const char *evict) {
    const struct rt_table_spec spec = {
        .name = "rows", .kind = RT_SPARSE, .dim = DIM, .optimizer = optimizer, .evict = evict};
    struct ps_table t;
    struct co_err err = {0};
    if (ps_table_make(&spec, &t, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return t;
}

#define CTR "ctr:delete_threshold=0.5"

/* The count of a row is 7, the first one of ctr's four; its optimizer's state 3. */
static void saved_counts_are_loaded_only_into_the_same_meaning(void **state) {
    (void)state;
    static const struct {
        const char *was, *is;
        bool old; /* by a release that did not say what they mean */
        float want;
    } rows[] = {
        {"lfu:capacity=10", "lfu:capacity=99", false, 7},
        {"ttl:steps=10", "ttl:steps=99", false, 7},
        {"ttl:seconds=10", "ttl:seconds=99", false, 7},
        {CTR, "ctr:delete_threshold=9", false, 7},
        {"lfu:capacity=10", "ttl:steps=10", false, 0},
        {"lfu:capacity=10", "ttl:seconds=10", false, 0},
        {"ttl:steps=10", "lfu:capacity=10", false, 0},
        {"ttl:steps=10", "ttl:seconds=10", false, 0},
        {"ttl:seconds=10", "ttl:steps=10", false, 0},
        {"lfu:capacity=10", CTR, false, 0},
        {CTR, "lfu:capacity=10", false, 0},
        {NULL, "lfu:capacity=10", false, 0},
        {"lfu:capacity=10", "lfu:capacity=99", true, 7},
        {"lfu:capacity=10", CTR, true, 0},
        {NULL, "ttl:steps=10", true, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (int other_rule = 0; other_rule < 2; other_rule++) {
            struct ps_table was = make("adagrad:lr=0.1", rows[i].was);
            struct ps_table is = make(other_rule ? "sgd:lr=0.1" : "adagrad:lr=0.5", rows[i].is);
            size_t state_floats = ps_table_state(&is, DIM);
            float saved[16] = {1, 2, 3, 3}, row[16];
            struct ckpt_table described;
            saved[DIM + ps_table_state(&was, DIM)] = 7;
            ps_table_describe(&was, &described);
            if (rows[i].old) {
                described.keeps[0] = '\0';
            }
            assert_int_equal(0, ps_fit_check(&is, &described, NULL));
            memset(row, 0xff, sizeof(row));
            ps_fit_row(&is, &described, saved, row);
            float want = rows[i].old && other_rule ? 0 : rows[i].want;
            if (row[0] != 1 || row[1] != 2 || row[DIM + state_floats] != want) {
                fail_msg(
                    "row %zu: %g, expected %g", i, (double)row[DIM + state_floats], (double)want);
            }
            assert_true(other_rule || row[DIM] == 3);
        }
    }
}

static void errors_name_the_differing_field_of_a_table(void **state) {
    (void)state;
    static const struct {
        struct ckpt_table saved;
        const char *says[2];
    } rows[] = {
        {{.name = "rows", .sparse = true, .dim = 3, .optimizer = "sgd:lr=0.1", .init = "zero"},
            {"\"rows\" is sparse there, size 0, dim 3", "here it is sparse, size 0, dim 2"}},
        {{.name = "rows", .size = 3, .optimizer = "sgd:lr=0.1", .init = "zero"},
            {"\"rows\" is dense there, size 3", "here it is sparse"}},
        {{.name = "rows", .sparse = true, .dim = DIM, .optimizer = "sgd:lr=0.1", .init = "zero"},
            {"\"rows\" has 0 floats of state there", "here that has 2"}},
        {{.name = "rows", .sparse = true, .dim = DIM, .optimizer = "lars", .init = "zero"},
            {"\"rows\"", "lars"}},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct ps_table t = make(i == 2 ? "adagrad:lr=0.1" : "sgd:lr=0.1", NULL);
        struct ckpt_table saved = rows[i].saved;
        struct co_err err = {0};
        if (i == 2) {
            (void)snprintf(saved.optimizer, sizeof(saved.optimizer), "adagrad:lr=0.1");
        }
        assert_int_equal(CO_INVALID, ps_fit_check(&t, &saved, &err));
        for (size_t k = 0; k < 2; k++) {
            if (!strstr(err.msg, rows[i].says[k])) {
                fail_msg("'%s' does not say '%s'", err.msg, rows[i].says[k]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_counts_are_loaded_only_into_the_same_meaning),
        cmocka_unit_test(errors_name_the_differing_field_of_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
