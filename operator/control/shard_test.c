/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/shard.h"

#include <stdio.h>
#include <string.h>

static void a_shard_is_i_of_n(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        unsigned index, count;
    } rows[] = {
        {"0/1", 0, 0, 1},
        {"63/64", 0, 63, 64},
        {"2/3", 0, 2, 3},
        {"3/3", CO_INVALID, 0, 0},
        {"-1/3", CO_INVALID, 0, 0},
        {"0/0", CO_INVALID, 0, 0},
        {"0/65", CO_INVALID, 0, 0},
        {"0", CO_INVALID, 0, 0},
        {"/2", CO_INVALID, 0, 0},
        {"1/2/3", CO_INVALID, 0, 0},
        {"", CO_INVALID, 0, 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct ctl_shard_id id = {0};
        assert_int_equal(ctl_shard_parse(rows[i].text, &id, NULL), rows[i].code);
        assert_int_equal(id.index, rows[i].index);
        assert_int_equal(id.count, rows[i].count);
    }
}

static void a_shard_without_an_index_names_the_required_kubernetes_version(void **state) {
    (void)state;
    struct ctl_shard_id id;
    struct co_err err;
    assert_int_equal(ctl_shard_parse("/2", &id, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "1.28"));
    assert_int_equal(ctl_shard_parse("2/2", &id, &err), CO_INVALID);
    assert_null(strstr(co_err_text(&err), "1.28"));
}

/* Of every layout one shard has a namespace, and no shard has much more than its part. */
static void each_namespace_has_one_shard(void **state) {
    (void)state;
    enum { NAMESPACES = 2000 };
    static const unsigned counts[] = {1, 2, 3, 7, 64};
    for (size_t c = 0; c < CO_ARRAY_LEN(counts); c++) {
        size_t have[CTL_SHARDS_MAX] = {0};
        for (int n = 0; n < NAMESPACES; n++) {
            char ns[32];
            (void)snprintf(ns, sizeof(ns), "team-%d", n);
            size_t owners = 0;
            for (unsigned i = 0; i < counts[c]; i++) {
                bool has = ctl_shard_has(&(struct ctl_shard_id){i, counts[c]}, ns);
                owners += has;
                have[i] += has;
            }
            assert_int_equal(owners, 1);
        }
        for (unsigned i = 0; i < counts[c]; i++) {
            assert_in_range(have[i], NAMESPACES / counts[c] / 2, NAMESPACES / counts[c] * 2);
        }
    }
    assert_true(ctl_shard_has(&(struct ctl_shard_id){0, 0}, "any"));
}

/* Another version must agree on who has what. */
static void the_shard_of_a_namespace_never_changes(void **state) {
    (void)state;
    static const struct {
        const char *ns;
        unsigned of_2, of_3, of_64;
    } rows[] = {{"default", 0, 0, 40}, {"team-a", 1, 2, 39}, {"x", 1, 2, 11}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_true(ctl_shard_has(&(struct ctl_shard_id){rows[i].of_2, 2}, rows[i].ns));
        assert_true(ctl_shard_has(&(struct ctl_shard_id){rows[i].of_3, 3}, rows[i].ns));
        assert_true(ctl_shard_has(&(struct ctl_shard_id){rows[i].of_64, 64}, rows[i].ns));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_is_i_of_n),
        cmocka_unit_test(a_shard_without_an_index_names_the_required_kubernetes_version),
        cmocka_unit_test(each_namespace_has_one_shard),
        cmocka_unit_test(the_shard_of_a_namespace_never_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
