/* Parses Prometheus' text format in place, and sums or looks up samples. */
#include "runtime/tools/top/samples.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

/* `name{labels} value`, in place; false: it is none. */
static bool parse_line(char *line, struct top_sample *ret) {
    char *brace = strchr(line, '{'), *space = strchr(line, ' ');
    char *labels = line + strlen(line), *value = space;
    if (brace && (!space || brace < space)) {
        char *end = strrchr(brace, '}');
        if (!end || end[1] != ' ') {
            return false;
        }
        *brace = *end = '\0';
        labels = brace + 1;
        value = end + 1;
    }
    if (!value || value == line) {
        return false;
    }
    char *stop = NULL;
    *value = '\0';
    *ret = (struct top_sample){line, labels, strtod(value + 1, &stop)};
    return stop != value + 1 && *line;
}

int top_samples_parse(
    const char *text, size_t len, double at, struct top_samples *ret, struct co_err *err) {
    struct top_samples s = {.text = co_xstrndup(text, len), .at = at};
    char *state = NULL;
    for (char *line = strtok_r(s.text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        struct top_sample one;
        if (*line == '#' || !parse_line(line, &one)) {
            continue;
        }
        if (s.n == TOP_SAMPLES_MAX) {
            top_samples_done(&s);
            return co_err_set(err, CO_NORESOURCE, "more than %d samples", TOP_SAMPLES_MAX);
        }
        s.all = co_xgrow(s.all, s.n, sizeof(*s.all));
        s.all[s.n++] = one;
    }
    *ret = s;
    return 0;
}

void top_samples_done(struct top_samples *s) {
    free(s->text);
    free(s->all);
    *s = (struct top_samples){0};
}

static bool has_value(const char *labels, const char *value) {
    size_t len = strlen(value);
    for (const char *p = strchr(labels, '"'); p; p = strchr(p + 1, '"')) {
        if (strncmp(p + 1, value, len) == 0 && p[1 + len] == '"') {
            return true;
        }
    }
    return false;
}

static bool is_of(const struct top_sample *s, const char *name, const char *value) {
    return strcmp(s->name, name) == 0 && (!value || has_value(s->labels, value));
}

double top_samples_sum(const struct top_samples *s, const char *name, const char *value) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        sum += is_of(&s->all[i], name, value) ? s->all[i].value : 0;
    }
    return sum;
}

bool top_samples_have(const struct top_samples *s, const char *name, const char *value) {
    for (size_t i = 0; i < s->n; i++) {
        if (is_of(&s->all[i], name, value)) {
            return true;
        }
    }
    return false;
}

/* The bound of a bucket: the text behind le=. */
static double bound_of(const struct top_sample *s) {
    const char *le = strstr(s->labels, "le=\"");
    while (le && le > s->labels && le[-1] != ',') { /* the end of another label: scale="1" */
        le = strstr(le + 1, "le=\"");
    }
    return !le ? NAN : strncmp(le + 4, "+Inf", 4) == 0 ? INFINITY : strtod(le + 4, NULL);
}

/* The same series, as it was before. */
static double value_before(const struct top_samples *before, const struct top_sample *of) {
    for (size_t i = 0; before && i < before->n; i++) {
        const struct top_sample *s = &before->all[i];
        if (strcmp(s->name, of->name) == 0 && strcmp(s->labels, of->labels) == 0) {
            return s->value;
        }
    }
    return 0;
}

double top_samples_quantile(const struct top_samples *s, const struct top_samples *before,
    const char *name, const char *value, double quantile) {
    char bucket[160];
    double all = 0;
    (void)snprintf(bucket, sizeof(bucket), "%s_bucket", name);
    for (size_t i = 0; i < s->n; i++) {
        if (is_of(&s->all[i], bucket, value) && isinf(bound_of(&s->all[i]))) {
            all = s->all[i].value - value_before(before, &s->all[i]);
            if (all < 0) { /* another process: all of it has come since */
                return top_samples_quantile(s, NULL, name, value, quantile);
            }
        }
    }
    for (size_t i = 0; i < s->n && all > 0; i++) {
        if (is_of(&s->all[i], bucket, value) &&
            s->all[i].value - value_before(before, &s->all[i]) >= quantile * all) {
            return bound_of(&s->all[i]);
        }
    }
    return NAN;
}
