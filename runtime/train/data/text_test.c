/* Tests fields of lines, and what is reported about lines that are malformed. */
#include "runtime/train/data/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/data/tally.h"

static struct da_text text(const char *s) {
    return (struct da_text){s, strlen(s)};
}

static void whole_numbers_of_64_bits(void **state) {
    static const struct {
        const char *text;
        bool is;
        uint64_t value;
    } rows[] = {{"0", true, 0}, {"18446744073709551615", true, UINT64_MAX}, {"007", true, 7},
        {"18446744073709551616", false, 0}, {"99999999999999999999", false, 0}, {"", false, 0},
        {"-1", false, 0}, {"+1", false, 0}, {"0x1f", false, 0}, {"1.0", false, 0}, {" 1", false, 0},
        {"1e3", false, 0}};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        uint64_t value = 0;

        assert_int_equal(da_u64(text(rows[i].text), &value), rows[i].is);
        assert_true(!rows[i].is || value == rows[i].value);
    }
}

static void numbers_and_labels(void **state) {
    static const struct {
        const char *text;
        bool number;
        double value;
        bool label;
    } rows[] = {{"0", true, 0, true}, {"1", true, 1, true}, {"1.0", true, 1, true},
        {"0.", true, 0, true}, {"-1", true, -1, true}, {"-1.00", true, -1, true},
        {"+1", true, 1, true}, {"1e0", true, 1, true}, {"TRUE", false, 1, true},
        {"False", false, 0, true}, {"true ", false, 0, false}, {"tru", false, 0, false},
        {"0.00000000000000000000000000000000000000", true, 0, true}, {"2", true, 2, false},
        {"0.5", true, .5, false}, {"1e2", true, 100, false}, {"01", true, 1, true},
        {"1e300", false, 0, false}, {"nan", false, 0, false}, {"-inf", false, 0, false},
        {"", false, 0, false}, {"1 2", false, 0, false}, {"1x", false, 0, false},
        {"-", false, 0, false}, {"1234567890123456789012345678901234567890", false, 0, false}};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        double value = 0.0;
        float label = 0.0F;

        assert_int_equal(da_number(text(rows[i].text), &value), rows[i].number);
        assert_true(!rows[i].number || value == rows[i].value);
        assert_false(da_is_missing(text(rows[i].text)) && (rows[i].number || rows[i].label));
        assert_int_equal(da_label(text(rows[i].text), &label), rows[i].label);
        assert_true(!rows[i].label || (double)label == rows[i].value);
    }
}

/* Bit by bit what strtod gives, whatever way they go. */
static void decimals_are_rounded_as_by_strtod(void **state) {
    uint64_t x = 7;

    (void)state;
    for (int i = 0; i < 30000; i++) {
        char copy[64];
        double got = 0.0;

        x = x * 6364136223846793005U + 1442695040888963407U;
        double value = (double)(int64_t)x / (double)(1ULL << (20 + x % 40));
        int digits = (int)(x >> 33) % 12;
        switch (x % 3) {
        case 0:
            (void)snprintf(copy, sizeof(copy), "%.*f", digits, value);
            break;
        case 1:
            (void)snprintf(copy, sizeof(copy), "%.*e", digits, value);
            break;
        default:
            (void)snprintf(copy, sizeof(copy), "%.*g", digits, value);
        }
        assert_true(da_number(text(copy), &got));
        assert_true(got == strtod(copy, NULL));
    }
}

static void the_usual_words_for_missing_values_are_known(void **state) {
    static const char *const yes[] = {"", "NA", "n/a", "nan", "NaN", "null", "NULL", "None", "\\N",
        "?"},
                             *const no[] = {"0", "N", "nul", "-", "NAN1", "\\"};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(yes); i++) {
        assert_true(da_is_missing(text(yes[i])));
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(no); i++) {
        assert_false(da_is_missing(text(no[i])));
    }
}

static void words(void **state) {
    struct da_text rest = text(" \t a\tbc  d\r"), word = da_word_next(&rest);

    (void)state;
    assert_true(da_is(word, "a") && !da_is(word, "ab") && !da_is(word, ""));
    assert_true(da_is(da_word_next(&rest), "bc") && da_is(da_word_next(&rest), "d"));
    assert_int_equal(da_word_next(&rest).len, 0);
}

static void a_tally_names_the_first_and_counts_kinds(void **state) {
    struct da_tally t = {.n = 0};
    char said[DA_SUMMARY_MAX];
    struct co_err err = {0};

    (void)state;
    assert_int_equal(da_tally_unusable(&t, "d", &err), CO_INVALID);
    assert_string_equal(
        co_err_text(&err), "no usable line in \"d\": it is empty, or has only blank lines");
    da_tally_add(&t, "columns", "f:1: 3 columns");
    da_tally_add(&t, "columns", "f:2: 4 columns");
    da_tally_text(&t, said);
    assert_string_equal(said, "2 skipped, first: f:1: 3 columns");
    da_tally_add(&t, "label", "f:3: x");
    da_tally_text(&t, said);
    assert_string_equal(said, "3 skipped (2 columns, 1 label), first: f:1: 3 columns");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_of_64_bits),
        cmocka_unit_test(numbers_and_labels),
        cmocka_unit_test(decimals_are_rounded_as_by_strtod),
        cmocka_unit_test(the_usual_words_for_missing_values_are_known),
        cmocka_unit_test(words),
        cmocka_unit_test(a_tally_names_the_first_and_counts_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
