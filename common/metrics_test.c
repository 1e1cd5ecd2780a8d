#include "common/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char *const results[] = {"ok", "fai\"led\\\n", NULL};
static const double bounds[] = {0.1, 1, 10};

static struct co_metric rows[] = {
    {"jobs_total", CO_COUNTER, "Jobs\nseen \\ done."},
    {"results_total", CO_COUNTER, "Results.", .label = {{"result", results}},
        .fixed = "kind=\"x\""},
    {"depth", CO_GAUGE, "Depth.", .fixed = "name=\"paddlejob\""},
    {"took_seconds", CO_HISTOGRAM, "Time taken.", .label = {{"result", results}}, .bounds = bounds,
        .n_bounds = 3},
    {"plain_seconds", CO_HISTOGRAM, "Time.", .bounds = bounds, .n_bounds = 2},
};
enum { N = CO_ARRAY_LEN(rows) };

static void rows_print_in_prometheus_text(void **state) {
    (void)state;
    co_metric_add(&rows[0], 0, 1);
    co_metric_add(&rows[0], 0, 1e6);
    co_metric_add(&rows[1], 1, 0.1);
    co_metric_set(&rows[2], 0, 3);
    co_metric_set(&rows[2], 0, -INFINITY);
    co_metric_observe(&rows[3], 0, 0.1); /* a bound belongs to its bucket */
    co_metric_observe(&rows[3], 0, 5);
    co_metric_observe(&rows[3], 0, 50);
    CO_AUTOBUF struct co_buf b = CO_BUF(65536);
    struct co_err err;
    assert_int_equal(co_metrics_render(rows, N, &b, &err), 0);
    assert_string_equal(b.data, "# HELP jobs_total Jobs\\nseen \\\\ done.\n"
                                "# TYPE jobs_total counter\n"
                                "jobs_total 1000001\n"
                                "# HELP results_total Results.\n"
                                "# TYPE results_total counter\n"
                                "results_total{kind=\"x\",result=\"ok\"} 0\n"
                                "results_total{kind=\"x\",result=\"fai\\\"led\\\\\\n\"} 0.1\n"
                                "# HELP depth Depth.\n"
                                "# TYPE depth gauge\n"
                                "depth{name=\"paddlejob\"} -Inf\n"
                                "# HELP took_seconds Time taken.\n"
                                "# TYPE took_seconds histogram\n"
                                "took_seconds_bucket{result=\"ok\",le=\"0.1\"} 1\n"
                                "took_seconds_bucket{result=\"ok\",le=\"1\"} 1\n"
                                "took_seconds_bucket{result=\"ok\",le=\"10\"} 2\n"
                                "took_seconds_bucket{result=\"ok\",le=\"+Inf\"} 3\n"
                                "took_seconds_sum{result=\"ok\"} 55.1\n"
                                "took_seconds_count{result=\"ok\"} 3\n"
                                "took_seconds_bucket{result=\"fai\\\"led\\\\\\n\",le=\"0.1\"} 0\n"
                                "took_seconds_bucket{result=\"fai\\\"led\\\\\\n\",le=\"1\"} 0\n"
                                "took_seconds_bucket{result=\"fai\\\"led\\\\\\n\",le=\"10\"} 0\n"
                                "took_seconds_bucket{result=\"fai\\\"led\\\\\\n\",le=\"+Inf\"} 0\n"
                                "took_seconds_sum{result=\"fai\\\"led\\\\\\n\"} 0\n"
                                "took_seconds_count{result=\"fai\\\"led\\\\\\n\"} 0\n"
                                "# HELP plain_seconds Time.\n"
                                "# TYPE plain_seconds histogram\n"
                                "plain_seconds_bucket{le=\"0.1\"} 0\n"
                                "plain_seconds_bucket{le=\"1\"} 0\n"
                                "plain_seconds_bucket{le=\"+Inf\"} 0\n"
                                "plain_seconds_sum 0\n"
                                "plain_seconds_count 0\n");
    co_metrics_done(rows, N);
    assert_null(rows[3].hist);
}

static void several_labels_print_what_has_happened(void **state) {
    (void)state;
    static const char *const verbs[] = {"get", "put", NULL};
    static const char *const codes[] = {"200", "404", "500", NULL};
    struct co_metric m[] = {
        {"requests_total", CO_COUNTER, "Requests.", .label = {{"verb", verbs}, {"code", codes}}},
        {"seconds", CO_HISTOGRAM, "Time.",
            .label = {{"verb", verbs}, {"result", results}, {"code", codes}}, .bounds = bounds,
            .n_bounds = 1},
    };
    co_metric_add(&m[0], co_metric_series(&m[0], (size_t[3]){1, 2}), 7);
    co_metric_observe(&m[1], co_metric_series(&m[1], (size_t[3]){1, 0, 1}), 0.5);
    CO_AUTOBUF struct co_buf b = CO_BUF(65536);
    struct co_err err;
    assert_int_equal(co_metrics_render(m, 2, &b, &err), 0);
    assert_string_equal(b.data,
        "# HELP requests_total Requests.\n"
        "# TYPE requests_total counter\n"
        "requests_total{verb=\"put\",code=\"500\"} 7\n"
        "# HELP seconds Time.\n"
        "# TYPE seconds histogram\n"
        "seconds_bucket{verb=\"put\",result=\"ok\",code=\"404\",le=\"0.1\"} 0\n"
        "seconds_bucket{verb=\"put\",result=\"ok\",code=\"404\",le=\"+Inf\"} 1\n"
        "seconds_sum{verb=\"put\",result=\"ok\",code=\"404\"} 0.5\n"
        "seconds_count{verb=\"put\",result=\"ok\",code=\"404\"} 1\n");
    co_metrics_done(m, 2);
}

static void not_a_number_counts_in_the_last_bucket(void **state) {
    (void)state;
    co_metric_observe(&rows[4], 0, NAN);
    assert_int_equal(rows[4].hist[0]->bucket[2], 1);
    CO_AUTOBUF struct co_buf b = CO_BUF(65536);
    struct co_err err;
    assert_int_equal(co_metrics_render(&rows[4], 1, &b, &err), 0);
    assert_non_null(strstr(b.data, "plain_seconds_sum NaN\n"));
    co_metrics_done(rows, N);
}

static void values_print_shortest_and_exact(void **state) {
    (void)state;
    static const struct {
        double v;
        const char *text;
    } values[] = {{0, "v 0\n"}, {0.1, "v 0.1\n"}, {1.0 / 3, "v 0.3333333333333333\n"},
        {9007199254740993.0, "v 9007199254740992\n"}, {1e300, "v 1e+300\n"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(values); i++) {
        struct co_metric m = {"v", CO_GAUGE, "V.", .value = (double[]){values[i].v}};
        CO_AUTOBUF struct co_buf b = CO_BUF(1024);
        struct co_err err;
        assert_int_equal(co_metrics_render(&m, 1, &b, &err), 0);
        assert_non_null(strstr(b.data, values[i].text));
    }
}

static void a_full_buffer_is_an_error(void **state) {
    (void)state;
    for (size_t max = 0; max < 400; max += 7) {
        CO_AUTOBUF struct co_buf b = CO_BUF(max);
        struct co_err err;
        assert_int_equal(co_metrics_render(rows, N, &b, &err), CO_NORESOURCE);
        CO_AUTOBUF struct co_buf b2 = CO_BUF(max / 2);
        assert_int_equal(co_metrics_markdown(rows, N, &b2, &err), CO_NORESOURCE);
    }
}

static void markdown_lists_labels(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(65536);
    struct co_err err;
    assert_int_equal(co_metrics_markdown(&rows[1], 3, &b, &err), 0);
    assert_non_null(strstr(b.data, "| `results_total` | counter | result: `ok`, "));
    assert_non_null(strstr(b.data, "; `kind=\"x\"` | Results. |\n"));
    assert_non_null(strstr(b.data, "| `depth` | gauge | `name=\"paddlejob\"` | Depth. |\n"));
}

static double value_of(const struct co_buf *b, const char *name) {
    CO_AUTOFREE char *line = co_xasprintf("\n%s ", name);
    const char *p = strstr(b->data, line);
    assert_non_null(p);
    return strtod(p + strlen(line), NULL);
}

static void process_metrics_are_plausible(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(65536);
    struct co_err err;
    assert_int_equal(co_metrics_process(&b, &err), 0);
    double rss = value_of(&b, "process_resident_memory_bytes");
    assert_true(rss > 100 * 1024 && rss < 64e9);
    assert_true(value_of(&b, "process_virtual_memory_bytes") >= rss);
    double fds = value_of(&b, "process_open_fds");
    assert_true(fds >= 3 && fds < value_of(&b, "process_max_fds"));
    assert_true(value_of(&b, "process_cpu_seconds_total") >= 0);
    double age = (double)time(NULL) - value_of(&b, "process_start_time_seconds");
    assert_true(age > -2 && age < 600);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_print_in_prometheus_text),
        cmocka_unit_test(several_labels_print_what_has_happened),
        cmocka_unit_test(not_a_number_counts_in_the_last_bucket),
        cmocka_unit_test(values_print_shortest_and_exact),
        cmocka_unit_test(a_full_buffer_is_an_error),
        cmocka_unit_test(markdown_lists_labels),
        cmocka_unit_test(process_metrics_are_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
