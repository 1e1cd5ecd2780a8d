/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/parse_budget.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"

static struct ctl_parse_budget budget;
static struct ctl_parse_claim a[6], b[6], c[6];
static char calls[64];

static void granted(void *arg, struct ctl_parse_claim *claim) {
    (void)arg;
    const struct {
        struct ctl_parse_claim *claims;
        char name;
    } rows[] = {{a, 'a'}, {b, 'b'}, {c, 'c'}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (claim >= rows[i].claims && claim < rows[i].claims + 6) {
            size_t n = strlen(calls);
            (void)snprintf(
                calls + n, sizeof(calls) - n, "%c%d ", rows[i].name, (int)(claim - rows[i].claims));
        }
    }
}

static int setup(void **state) {
    (void)state;
    ctl_parse_budget_init(&budget, 100, granted, NULL);
    calls[0] = '\0';
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        ctl_parse_budget_release(&budget, &a[i]);
        ctl_parse_budget_release(&budget, &b[i]);
        ctl_parse_budget_release(&budget, &c[i]);
    }
    assert_int_equal(budget.used + budget.lines.nodes.len, 0);
    assert_true(TAILQ_EMPTY(&budget.turns));
    ctl_parse_budget_done(&budget);
    return 0;
}

static bool claim_bytes(struct ctl_parse_claim *claim, const char *ns, size_t bytes) {
    return ctl_parse_budget_claim(&budget, claim, ns, bytes);
}

static void a_namespace_gets_half_of_the_budget(void **state) {
    (void)state;
    assert_true(claim_bytes(&a[0], "a", 30));
    assert_true(claim_bytes(&a[1], "a", 20));
    assert_false(claim_bytes(&a[2], "a", 1));
    assert_true(claim_bytes(&b[0], "b", 50));
    assert_false(claim_bytes(&c[0], "c", 1));
    assert_true(claim_bytes(&a[0], "a", 99)); /* as before */
    ctl_parse_budget_release(&budget, &a[1]);
    assert_string_equal(calls, "a2 c0 ");
    assert_true(claim_bytes(&a[2], "a", 1));
}

static void a_claim_above_the_budget_is_read_alone(void **state) {
    (void)state;
    assert_true(claim_bytes(&a[0], "a", 1000));
    assert_int_equal(budget.used, ctl_parse_budget_share(&budget));
    assert_false(claim_bytes(&a[1], "a", 1));
    assert_true(claim_bytes(&b[0], "b", 1000));
    ctl_parse_budget_release(&budget, &a[0]);
    assert_string_equal(calls, "a1 ");
}

static void namespaces_take_turns(void **state) {
    (void)state;
    assert_true(claim_bytes(&a[0], "a", 50));
    assert_true(claim_bytes(&b[0], "b", 50));
    assert_false(claim_bytes(&a[1], "a", 50));
    assert_false(claim_bytes(&a[2], "a", 50));
    assert_false(claim_bytes(&a[3], "a", 50));
    assert_false(claim_bytes(&c[0], "c", 40));
    assert_false(claim_bytes(&c[1], "c", 40));
    ctl_parse_budget_release(&budget, &a[0]);
    ctl_parse_budget_release(&budget, &b[0]);
    assert_string_equal(calls, "a1 c0 ");
    ctl_parse_budget_release(&budget, &c[0]);
    ctl_parse_budget_release(&budget, &a[1]);
    assert_string_equal(calls, "a1 c0 c1 a2 ");
}

/* Small ones that come later do not pass it for ever. */
static void small_claims_do_not_overtake_a_large_one(void **state) {
    (void)state;
    assert_true(claim_bytes(&a[0], "a", 40));
    assert_true(claim_bytes(&b[0], "b", 40));
    assert_false(claim_bytes(&c[0], "c", 50));
    assert_false(claim_bytes(&b[1], "b", 5));
    ctl_parse_budget_release(&budget, &a[0]);
    assert_string_equal(calls, "c0 b1 ");
}

static void a_waiting_claim_may_be_released(void **state) {
    (void)state;
    assert_true(claim_bytes(&a[0], "a", 50));
    for (size_t i = 1; i < 5; i++) {
        assert_false(claim_bytes(&a[i], "a", 50));
    }
    ctl_parse_budget_release(&budget, &a[4]);
    ctl_parse_budget_release(&budget, &a[1]);
    ctl_parse_budget_release(&budget, &a[2]);
    assert_string_equal(calls, "");
    assert_false(claim_bytes(&a[5], "a", 50));
    ctl_parse_budget_release(&budget, &a[0]);
    ctl_parse_budget_release(&budget, &a[3]);
    assert_string_equal(calls, "a3 a5 ");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_namespace_gets_half_of_the_budget),
        TEST(a_claim_above_the_budget_is_read_alone),
        TEST(namespaces_take_turns),
        TEST(small_claims_do_not_overtake_a_large_one),
        TEST(a_waiting_claim_may_be_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
