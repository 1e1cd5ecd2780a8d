/* Rows against apimachinery 0.35.4: each is what resource.ParseQuantity, Add and String give. */
#include "operator/api/quantity.h"

#include "operator/api/api_testing.h"

struct row {
    const char *terms; /* separated by spaces */
    const char *sum;   /* NULL: no quantity */
};

static const struct row rows[] = {
    {"0", "0"},
    {"-0", "0"},
    {"0e5", "0"},
    {"100m", "100m"},
    {"0.5", "500m"},
    {".5", "500m"},
    {"1.", "1"},
    {"+1", "1"},
    {"00012", "12"},
    {"2000m", "2"},
    {"0.001k", "1"},
    {"1500k", "1500k"},
    {"100000000000n", "100"},
    {"1u", "1u"},
    {"1P", "1P"},
    {"1E", "1E"},
    {"1Gi", "1Gi"},
    {"1.5Gi", "1536Mi"},
    {"1024", "1024"},
    {"1024Ki", "1Mi"},
    {"1023Ki", "1023Ki"},
    {"1000Mi", "1000Mi"},
    {"0.5Ki", "512"},
    {"0.1Ki", "102400m"},
    {"0.0001Ki", "102400u"},
    {"2Pi", "2Pi"},
    {"7Ei", "7Ei"},
    {"1e3", "1e3"},
    {"1E3", "1e3"},
    {"1e1", "10"},
    {"1e10", "10e9"},
    {"12e-3", "12e-3"},
    /* rounded away from zero, to the billionth */
    {"1n", "1n"},
    {"0.1n", "1n"},
    {"-0.1n", "-1n"},
    {"1e-20", "1e-9"},
    {"1.0000000001", "1000000001n"},
    {"3.141592653589793238462643", "3141592654n"},
    /* no more than 2^63 - 1 */
    {"9223372036854775807", "9223372036854775807"},
    {"8Ei", "9223372036854775807"},
    {"99999999999999999999Ki", "9223372036854775807"},
    {"1e999999999999", "9223372036854775807"},
    {"1e-999999999999", "1e-9"},
    {"-1Gi", "-1Gi"},
    {"-0.5", "-500m"},
    /* sums, in the style of the first that is not nothing */
    {"200m 200m 300m 300m", "1"},
    {"0 10Ki", "10Ki"},
    {"1 10Ki", "10241"},
    {"10Ki 1", "10241"},
    {"1Ti 1Mi", "1048577Mi"},
    {"1Gi 100m", "1073741824100m"},
    {"1Gi 500m 500m", "1073741825"},
    {"1e3 1", "1001"},
    {"1Gi -1Gi", "0"},
    /* none */
    {"", NULL},
    {".", NULL},
    {"-", NULL},
    {"a", NULL},
    {"E", NULL},
    {"1i", NULL},
    {"1K", NULL},
    {"1KiB", NULL},
    {"1Z", NULL},
    {"1m1", NULL},
    {"1e", NULL},
    {"1e+", NULL},
    {"1..2", NULL},
    {"--1", NULL},
};

/* 0, or CO_INVALID as soon as a term is none. */
static int sum_of(const char *terms, struct api_quantity *ret) {
    CO_AUTOFREE char *copy = co_xstrdup(terms);
    char *rest = copy;
    *ret = (struct api_quantity){.nano = 0};
    for (char *term; (term = strsep(&rest, " "));) {
        struct api_quantity q;
        if (api_quantity_parse(term, &q, NULL)) {
            return CO_INVALID;
        }
        api_quantity_add(ret, &q, 1);
    }
    return 0;
}

static void quantities_are_read_and_written_as_by_the_api_server(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct api_quantity sum;
        int r = sum_of(rows[i].terms, &sum);
        if (!rows[i].sum || r) {
            if (rows[i].sum || !r) {
                fail_msg("\"%s\": %s", rows[i].terms, r ? "no quantity" : "taken for one");
            }
            continue;
        }
        char text[API_QUANTITY_TEXT];
        api_quantity_format(&sum, text);
        if (strcmp(text, rows[i].sum) != 0) {
            fail_msg("\"%s\": %s, expected %s", rows[i].terms, text, rows[i].sum);
        }
    }
}

static void many_replicas_add_up_and_never_overflow(void **state) {
    (void)state;
    struct api_quantity q, sum = {.nano = 0};
    char text[API_QUANTITY_TEXT];
    assert_int_equal(api_quantity_parse("0.1", &q, NULL), 0);
    api_quantity_add(&sum, &q, 100000);
    api_quantity_format(&sum, text);
    assert_string_equal(text, "10k");

    assert_int_equal(api_quantity_parse("8Ei", &q, NULL), 0);
    for (int i = 0; i < 1000; i++) {
        api_quantity_add(&sum, &q, INT64_MAX);
    }
    api_quantity_format(&sum, text);
    assert_string_equal(text, "92233720368547758070G");
    q.nano = -q.nano;
    for (int i = 0; i < 1000; i++) {
        api_quantity_add(&sum, &q, INT64_MAX);
    }
    api_quantity_format(&sum, text);
    assert_string_equal(text, "-92233720368547758070G");
}

static void numbers_of_json_are_quantities(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"2", "2"}, {"0.1", "100m"}, {"1e3", "1k"},
        {"'64Mi'", "64Mi"}, {"true", NULL}, {"[]", NULL}};
    for (size_t i = 0; i < CO_ARRAY_LEN(cases); i++) {
        CO_AUTOFREE char *wrapped = co_xasprintf("{'q':%s}", cases[i][0]);
        CO_AUTOJSON json_t *j = tk_json(wrapped);
        struct api_quantity q = {.nano = 0};
        int r = api_quantity_decode(json_object_get(j, "q"), &q, NULL);
        assert_int_equal(r, cases[i][1] ? 0 : CO_INVALID);
        if (!r) {
            char text[API_QUANTITY_TEXT];
            api_quantity_format(&q, text);
            assert_string_equal(text, cases[i][1]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantities_are_read_and_written_as_by_the_api_server),
        cmocka_unit_test(many_replicas_add_up_and_never_overflow),
        cmocka_unit_test(numbers_of_json_are_quantities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
