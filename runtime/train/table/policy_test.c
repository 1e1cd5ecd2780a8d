/* Policies: their parsers, what they do to the heads of rows, and the admission filter. */
#include "runtime/train/table/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static void texts_are_checked(void **state) {
    (void)state;
    static const struct {
        bool admit;
        const char *text, *said; /* NULL: fine */
    } rows[] = {
        {true, NULL, NULL},
        {true, "", NULL},
        {true, "all", NULL},
        {true, "count", NULL},
        {true, "count:n=3", NULL},
        {true, "count:n=2.5", "n 2.5 is not a whole number"},
        {true, "count:n=0", "n"},
        {true, "count:n=70000", "n"},
        {true, "count:m=3", "admit \"count\" has no parameter \"m\""},
        {true, "count:n=1,n=2", "admit \"count\": \"n\" is twice in \"n=1,n=2\""},
        {true, "count:n", "\"n\" is not key=value"},
        {true, "count:", "\"\" is not key=value"},
        {true, "counts:n=1", "admit \"counts:n=1\" is not all, count, probability or show_click"},
        {true, "probability:p=0.25", NULL},
        {true, "probability:p=1.5", "p"},
        {true, "show_click:threshold=3,click_coeff=2", NULL},
        {false, "", NULL},
        {false, "ttl:seconds=60", NULL},
        {false, "ttl:steps=60", NULL},
        {false, "ttl:steps=1.5", "evict \"ttl\": steps 1.5 is not a whole number"},
        {false, "lfu:capacity=1.5", "evict \"lfu\": capacity 1.5 is not a whole number"},
        {false, "ttl", "needs seconds or steps"},
        {false, "ttl:steps=60,seconds=60", "needs seconds or steps"},
        {false, "lfu:capacity=10", NULL},
        {false, "lfu", "needs a capacity"},
        {false, "lru", "evict \"lru\" is not none, ttl, lfu or ctr"},
        {false, "ctr", NULL},
        {false, "ctr:show_click_decay_rate=1.1", "show_click_decay_rate"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct table_policy p;
        struct co_err err = {0};
        int rc = rows[i].admit ? table_admit_parse(rows[i].text, &p, &err)
                               : table_evict_parse(rows[i].text, &p, &err);
        assert_int_equal(rows[i].said ? CO_INVALID : 0, rc);
        if (rows[i].said && !strstr(err.msg, rows[i].said)) {
            fail_msg("'%s' does not say %s", err.msg, rows[i].said);
        }
    }
    struct table_policy a, b;
    assert_int_equal(0, table_evict_parse("ctr", &a, NULL));
    assert_int_equal(0, table_evict_parse("ctr:delete_threshold=0.8", &b, NULL));
    assert_true(table_policy_equal(&a, &b));
    assert_int_equal(0, table_evict_parse("ctr:delete_threshold=0.7", &b, NULL));
    assert_false(table_policy_equal(&a, &b));
}

static struct table_policy evict_of(const char *text) {
    struct table_policy p;
    assert_int_equal(0, table_evict_parse(text, &p, NULL));
    return p;
}

/* A row that was pushed to most is not the first to go after a restore. */
static void the_count_of_lfu_is_kept(void **state) {
    static const uint32_t counts[] = {0, 1, 1 << 24, UINT32_C(1) << 31, 4000000000, UINT32_MAX};
    (void)state;
    struct table_policy lfu = evict_of("lfu:capacity=10");
    for (size_t i = 0; i < CO_ARRAY_LEN(counts); i++) {
        uint32_t head = 7;
        float saved;
        table_evict_save(&lfu, &counts[i], 0, &saved);
        table_evict_load(&lfu, &head, 0, &saved);
        assert_int_equal(counts[i], head);
    }
}

static void a_row_lives_as_long_as_ttl_says(void **state) {
    (void)state;
    struct table_policy ttl = evict_of("ttl:seconds=100");
    uint32_t head = 0, other = 0;
    table_evict_seen(&ttl, &head, 5000, 1, 0);
    assert_false(table_evict_expired(&ttl, &head, 5100));
    assert_true(table_evict_expired(&ttl, &head, 5101));
    assert_false(table_evict_expired(&ttl, &head, 4000)); /* the clock was set back */
    float age;
    table_evict_save(&ttl, &head, 5060, &age);
    table_evict_load(&ttl, &other, 9000, &age); /* 60 s of its life are over there, too */
    assert_false(table_evict_expired(&ttl, &other, 9040));
    assert_true(table_evict_expired(&ttl, &other, 9041));
}

/* The example is worked by hand: nonclk 0.1, click 1. */
static void shows_and_clicks_are_counted_and_decay(void **state) {
    (void)state;
    struct table_policy ctr = evict_of("ctr:show_click_decay_rate=0.5,delete_threshold=1,"
                                       "delete_after_unseen_days=2,delta_keep_days=1");
    float head[4] = {0}, copy[4] = {0};
    table_evict_seen(&ctr, head, 0, 12, 2);          /* scores 10 * 0.1 + 2 = 3 */
    assert_false(table_evict_shrink(&ctr, head, 0)); /* 1.5 */
    assert_true(head[0] == 6 && head[1] == 1);
    table_evict_save(&ctr, head, 0, copy);
    assert_true(table_evict_shrink(&ctr, head, 0)); /* 0.75 */
    table_evict_load(&ctr, head, 0, copy);
    assert_memory_equal(copy, head, sizeof(head));
    for (int day = 0; day < 3; day++) {
        head[0] = 1000;
        assert_false(table_evict_shrink(&ctr, head, 0));
        table_evict_saved(&ctr, head, RT_SAVE_DAY);
    }
    assert_true(table_evict_shrink(&ctr, head, 0)); /* not pushed to for 3 days */
    table_evict_seen(&ctr, head, 0, 1, 1);
    assert_false(table_evict_shrink(&ctr, head, 0));
}

static void a_save_has_the_rows_of_its_mode(void **state) {
    (void)state;
    static const struct {
        float show, click, delta, days;
        bool saves[RT_SAVE_MODES]; /* all, delta, base, day */
    } rows[] = {
        {20, 0, 2, 0, {true, true, true, true}},
        {20, 0, 2, 17, {true, false, false, true}},   /* too long ago */
        {20, 0, 0.2F, 0, {true, false, true, true}},  /* nothing much new */
        {14, 0, 1.4F, 0, {true, false, false, true}}, /* scores 1.4, base is 1.5 */
        {2, 2, 2, 16, {true, true, true, true}},
    };
    struct table_policy ctr = evict_of("ctr"), ttl = evict_of("ttl:steps=1");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (int mode = 0; mode < RT_SAVE_MODES; mode++) {
            float head[4] = {rows[i].show, rows[i].click, rows[i].delta, rows[i].days};
            assert_int_equal(
                rows[i].saves[mode], table_evict_saves(&ctr, head, (enum rt_save_mode)mode));
            assert_true(table_evict_saves(&ttl, head, (enum rt_save_mode)mode));
            table_evict_saved(&ctr, head, (enum rt_save_mode)mode);
            bool resets = mode == RT_SAVE_DELTA || mode == RT_SAVE_BASE;
            assert_true(head[2] == (resets ? 0 : rows[i].delta));
            assert_true(head[3] == rows[i].days + (mode == RT_SAVE_DAY ? 1 : 0));
        }
    }
}

/* ---- the admission filter ---- */

static struct table_admission *gate_of(const char *text, struct table_budget *budget) {
    struct table_policy p;
    struct table_admission *g = NULL;
    assert_int_equal(0, table_admit_parse(text, &p, NULL));
    assert_int_equal(0, table_admission_new(&p, budget, &g, NULL));
    return g;
}

static void an_id_is_admitted_after_its_nth_push(void **state) {
    (void)state;
    struct table_budget budget = {.max = 64 << 20};
    struct table_admission *g = gate_of("count:n=3", &budget);
    uint32_t early = 0, at_three = 0;
    enum { N = 20000 };
    for (int round = 1; round <= 3; round++) {
        for (uint64_t id = 0; id < N; id++) {
            bool in = table_admission_ask(g, id, 1, 0);
            early += round < 3 && in;
            at_three += round == 3 && in;
        }
    }
    assert_int_equal(N, at_three);
    assert_in_range(early, 0, N / 100);
    table_admission_free(g);

    g = gate_of("show_click:threshold=2,nonclk_coeff=0.1,click_coeff=1", &budget);
    for (int push = 1; push < 20; push++) {
        assert_int_equal(
            0, table_admission_ask(g, 5, 1, 0) && push < 19); /* 0.1 each, as parts of a unit */
    }
    assert_false(table_admission_ask(g, 6, 1, 1));
    assert_true(table_admission_ask(g, 6, 1, 1));
    table_admission_free(g);

    g = gate_of("probability:p=0.25", &budget);
    uint32_t in = 0;
    for (uint64_t id = 0; id < N; id++) {
        in += table_admission_ask(g, id, 1, 0);
    }
    assert_in_range(in, N / 4 - 300, N / 4 + 300);
    table_admission_free(g);
    assert_null(gate_of("all", &budget));
    assert_int_equal(0, atomic_load(&budget.used));
}

/* Ids that come once do not fill the counters up: one that comes now still needs its three times.
 */
static void old_counts_decay(void **state) {
    (void)state;
    struct table_admission *g = gate_of("count:n=3", NULL);
    uint32_t let_in = 0;
    for (uint64_t id = 0; id < 5000000; id++) {
        let_in += table_admission_ask(g, id, 1, 0);
    }
    assert_in_range(let_in, 0, 5000000 / 50);
    assert_false(table_admission_ask(g, 1, 1, 0) && table_admission_ask(g, 2, 1, 0) &&
                 table_admission_ask(g, 3, 1, 0) && table_admission_ask(g, 4, 1, 0) &&
                 table_admission_ask(g, 5, 1, 0) && table_admission_ask(g, 6, 1, 0));
    struct table_budget small = {.max = 1 << 20};
    struct table_policy p;
    struct table_admission *none = NULL;
    struct co_err err = {0};
    assert_int_equal(0, table_admit_parse("count:n=3", &p, NULL));
    assert_int_equal(CO_NORESOURCE, table_admission_new(&p, &small, &none, &err));
    table_admission_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_checked),
        cmocka_unit_test(the_count_of_lfu_is_kept),
        cmocka_unit_test(a_row_lives_as_long_as_ttl_says),
        cmocka_unit_test(shows_and_clicks_are_counted_and_decay),
        cmocka_unit_test(a_save_has_the_rows_of_its_mode),
        cmocka_unit_test(an_id_is_admitted_after_its_nth_push),
        cmocka_unit_test(old_counts_decay),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
