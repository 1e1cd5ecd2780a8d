/* Counters, gauges and histograms, their text for Prometheus and a table for docs. */
#include "common/metrics.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *const type_names[] = {
    [CO_COUNTER] = "counter", [CO_GAUGE] = "gauge", [CO_HISTOGRAM] = "histogram"};

static size_t n_values(const struct co_label *l) {
    size_t n = 0;
    while (l->values[n]) {
        n++;
    }
    return n;
}

static size_t n_labels(const struct co_metric *m) {
    size_t n = 0;
    while (n < CO_METRIC_LABELS && m->label[n].name) {
        n++;
    }
    return n;
}

static size_t n_series(const struct co_metric *m) {
    size_t n = 1;
    for (size_t l = 0; l < n_labels(m); l++) {
        n *= n_values(&m->label[l]);
    }
    return n;
}

size_t co_metric_series(const struct co_metric *m, const size_t index[CO_METRIC_LABELS]) {
    size_t series = 0;
    for (size_t l = 0; l < n_labels(m); l++) {
        size_t n = n_values(&m->label[l]);
        assert(index[l] < n);
        series = series * n + index[l];
    }
    return series;
}

static double *value_at(struct co_metric *m, size_t series) {
    assert(series < n_series(m) && m->type != CO_HISTOGRAM);
    if (!m->value) {
        m->value = co_xcalloc(n_series(m), sizeof(*m->value));
    }
    return &m->value[series];
}

void co_metric_add(struct co_metric *m, size_t series, double v) {
    *value_at(m, series) += v;
}

void co_metric_set(struct co_metric *m, size_t series, double v) {
    *value_at(m, series) = v;
}

static struct co_histogram *histogram_at(struct co_metric *m, size_t series) {
    assert(series < n_series(m) && m->type == CO_HISTOGRAM && m->n_bounds <= CO_METRIC_BUCKETS);
    if (!m->hist) {
        m->hist = co_xcalloc(n_series(m), sizeof(*m->hist));
    }
    if (!m->hist[series]) {
        m->hist[series] = co_xcalloc(1, sizeof(struct co_histogram));
    }
    return m->hist[series];
}

void co_metric_merge(struct co_metric *m, size_t series, const struct co_histogram *h) {
    struct co_histogram *to = histogram_at(m, series);
    for (size_t i = 0; i <= m->n_bounds; i++) {
        to->bucket[i] += h->bucket[i];
    }
    to->count += h->count;
    to->sum += h->sum;
}

void co_metric_observe(struct co_metric *m, size_t series, double v) {
    struct co_histogram *h = histogram_at(m, series);
    size_t i = 0;
    while (i < m->n_bounds && !(v <= m->bounds[i])) {
        i++;
    }
    h->bucket[i]++;
    h->count++;
    h->sum += v;
}

/* The shortest text that reads back as the same number; Prometheus' words for NaN and infinity. */
static void format_value(double v, char ret_text[32]) {
    if (isnan(v)) {
        (void)snprintf(ret_text, 32, "NaN");
    } else if (isinf(v)) {
        (void)snprintf(ret_text, 32, v > 0 ? "+Inf" : "-Inf");
    } else {
        int precision = 15;
        do {
            (void)snprintf(ret_text, 32, "%.*g", precision, v);
        } while (strtod(ret_text, NULL) != v && ++precision <= 17);
    }
}

/* Text with backslash, newline and (in label values) quotes escaped. */
static int add_escaped(struct co_buf *out, const char *text, bool quotes, struct co_err *err) {
    for (; *text; text++) {
        if (*text == '\n') {
            CO_TRY(co_buf_adds(out, "\\n", err));
        } else {
            bool escape = *text == '\\' || (quotes && *text == '"');
            if (escape) {
                CO_TRY(co_buf_adds(out, "\\", err));
            }
            CO_TRY(co_buf_add(out, text, 1, err));
        }
    }
    return 0;
}

/* name="value" of one label of a series. */
static int add_label(struct co_buf *out, const struct co_metric *m, size_t label, size_t series,
    const char *separator, struct co_err *err) {
    for (size_t l = n_labels(m) - 1; l > label; l--) {
        series /= n_values(&m->label[l]);
    }
    const struct co_label *row = &m->label[label];
    CO_TRY(co_buf_addf(out, err, "%s%s=\"", separator, row->name));
    CO_TRY(add_escaped(out, row->values[series % n_values(row)], true, err));
    return co_buf_adds(out, "\"", err);
}

/* name + suffix, the labels in braces when there are any, the value. */
static int add_sample(struct co_buf *out, const struct co_metric *m, const char *suffix,
    size_t series, const char *le, double v, struct co_err *err) {
    size_t labels = n_labels(m);
    bool any = labels || m->fixed || le;
    CO_TRY(co_buf_addf(
        out, err, "%s%s%s%s", m->name, suffix, any ? "{" : "", m->fixed ? m->fixed : ""));
    for (size_t l = 0; l < labels; l++) {
        CO_TRY(add_label(out, m, l, series, m->fixed || l ? "," : "", err));
    }
    if (le) {
        CO_TRY(co_buf_addf(out, err, "%sle=\"%s\"", m->fixed || labels ? "," : "", le));
    }
    char value[32];
    format_value(v, value);
    return co_buf_addf(out, err, "%s %s\n", any ? "}" : "", value);
}

static int add_histogram(
    struct co_buf *out, const struct co_metric *m, size_t series, struct co_err *err) {
    static const struct co_histogram none;
    const struct co_histogram *h = m->hist && m->hist[series] ? m->hist[series] : &none;
    uint64_t sum = 0;
    for (size_t i = 0; i <= m->n_bounds; i++) {
        char le[32];
        format_value(i < m->n_bounds ? m->bounds[i] : INFINITY, le);
        sum += h->bucket[i];
        CO_TRY(add_sample(out, m, "_bucket", series, le, (double)sum, err));
    }
    CO_TRY(add_sample(out, m, "_sum", series, NULL, h->sum, err));
    return add_sample(out, m, "_count", series, NULL, (double)h->count, err);
}

static bool has_happened(const struct co_metric *m, size_t series) {
    return m->type == CO_HISTOGRAM ? m->hist && m->hist[series] : m->value && m->value[series] > 0;
}

static int add_series(
    struct co_buf *out, const struct co_metric *m, size_t series, struct co_err *err) {
    if (n_labels(m) > 1 && !has_happened(m, series)) {
        return 0;
    }
    return m->type == CO_HISTOGRAM
               ? add_histogram(out, m, series, err)
               : add_sample(out, m, "", series, NULL, m->value ? m->value[series] : 0, err);
}

int co_metrics_render(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        const struct co_metric *m = &rows[i];
        CO_TRY(co_buf_addf(ret, err, "# HELP %s ", m->name));
        CO_TRY(add_escaped(ret, m->help, false, err));
        CO_TRY(co_buf_addf(ret, err, "\n# TYPE %s %s\n", m->name, type_names[m->type]));
        for (size_t s = 0; s < n_series(m); s++) {
            CO_TRY(add_series(ret, m, s, err));
        }
    }
    return 0;
}

int co_metrics_markdown(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err) {
    CO_TRY(
        co_buf_adds(ret, "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n", err));
    for (size_t i = 0; i < n; i++) {
        const struct co_metric *m = &rows[i];
        CO_TRY(co_buf_addf(ret, err, "| `%s` | %s | ", m->name, type_names[m->type]));
        for (size_t l = 0; l < n_labels(m); l++) {
            CO_TRY(co_buf_addf(ret, err, "%s%s: ", l ? "; " : "", m->label[l].name));
            for (size_t v = 0; m->label[l].values[v]; v++) {
                CO_TRY(co_buf_addf(ret, err, "%s`%s`", v ? ", " : "", m->label[l].values[v]));
            }
        }
        if (m->fixed) {
            CO_TRY(co_buf_addf(ret, err, "%s`%s`", n_labels(m) ? "; " : "", m->fixed));
        }
        CO_TRY(co_buf_addf(ret, err, " | %s |\n", m->help));
    }
    return 0;
}

/* A field of /proc/self/stat after the name in parentheses, numbered from 1 as in proc(5). */
static int read_stat(int field, double *ret, struct co_err *err) {
    CO_AUTOBUF struct co_buf b = CO_BUF(4096);
    CO_TRY(co_file_read("/proc/self/stat", b.max, &b, err));
    const char *p = strrchr(b.data, ')');
    for (int i = 2; p && i < field; i++) {
        p = strchr(p + 1, ' ');
    }
    if (!p) {
        return co_err_set(err, CO_INTERNAL, "/proc/self/stat has no field %d", field);
    }
    *ret = strtod(p, NULL);
    return 0;
}

static double seconds_of(struct timeval tv) {
    return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

static double count_fds(void) {
    DIR *dir = opendir("/proc/self/fd");
    double n = 0;
    /* cppcheck-suppress readdirCalled */
    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return dir ? n - 3 : 0; /* ".", ".." and the directory itself */
}

int co_metrics_process(struct co_buf *ret, struct co_err *err) {
    double pages = 0, virtual = 0, started = 0;
    CO_TRY(read_stat(22, &started, err));
    CO_TRY(read_stat(23, &virtual, err));
    CO_TRY(read_stat(24, &pages, err));
    struct rusage use;
    struct rlimit files;
    struct timespec boot, wall;
    (void)getrusage(RUSAGE_SELF, &use);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)clock_gettime(CLOCK_BOOTTIME, &boot);
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    double since_boot = (double)boot.tv_sec + (double)boot.tv_nsec / 1e9;
    double now = (double)wall.tv_sec + (double)wall.tv_nsec / 1e9;
    struct co_metric rows[] = {
        {"process_cpu_seconds_total", CO_COUNTER, "User and system CPU time spent.",
            .value = (double[]){seconds_of(use.ru_utime) + seconds_of(use.ru_stime)}},
        {"process_resident_memory_bytes", CO_GAUGE, "Resident memory size.",
            .value = (double[]){pages * (double)sysconf(_SC_PAGESIZE)}},
        {"process_virtual_memory_bytes", CO_GAUGE, "Virtual memory size.",
            .value = (double[]){virtual}},
        {"process_open_fds", CO_GAUGE, "Open file descriptors.", .value = (double[]){count_fds()}},
        {"process_max_fds", CO_GAUGE, "Most file descriptors that may be open.",
            .value = (double[]){(double)files.rlim_cur}},
        {"process_start_time_seconds", CO_GAUGE,
            "Start of the process, in seconds since the epoch.",
            .value = (double[]){now - since_boot + started / (double)sysconf(_SC_CLK_TCK)}},
    };
    return co_metrics_render(rows, CO_ARRAY_LEN(rows), ret, err);
}

void co_metrics_done(struct co_metric *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t s = 0; rows[i].hist && s < n_series(&rows[i]); s++) {
            free(rows[i].hist[s]);
        }
        free(co_steal_ptr(rows[i].hist));
        free(co_steal_ptr(rows[i].value));
    }
}
