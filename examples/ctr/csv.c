/* Finds the columns of a CSV file by its header, and parses its lines. */
#include "examples/ctr/csv.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/near.h"
#include "examples/ctr/criteo.h"
#include "runtime/train/data/cutter.h"
#include "runtime/train/data/feature.h"

enum { WANTED_MAX = 1 + CTR_NUMBERS + CTR_SLOTS, NONE = 255, NEAR_MAX = 64 };

/* What is wanted of a line: a label, then numbers, then categories. */
struct ctr_csv {
    char *names[WANTED_MAX]; /* NULL: no column gives it */
    bool scaled;             /* the columns are Criteo's */
    char between[2];         /* columns */
    size_t columns;
    uint8_t *wanted; /* [columns]: index in names, or NONE */
};

void ctr_csv_free(struct ctr_csv *c) {
    if (!c) {
        return;
    }
    for (size_t i = 0; i < WANTED_MAX; i++) {
        free(c->names[i]);
    }
    free(c->wanted);
    free(c);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Takes the names of a list, with commas between, from `first` on. */
static int names_take(struct ctr_csv *c, const char *flag, const char *list, size_t first,
    size_t most, struct co_err *err) {
    CO_AUTOFREE char *copy = co_xstrdup(list);
    char *rest = NULL;
    size_t n = 0;

    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        struct da_text t = da_trim((struct da_text){name, strlen(name)});

        for (size_t i = 0; i < WANTED_MAX; i++) {
            if (c->names[i] && da_is(t, c->names[i])) {
                return co_err_set(
                    err, CO_INVALID, "%s: column \"%s\" is named twice", flag, c->names[i]);
            }
        }
        if (n == most) {
            return co_err_set(err, CO_INVALID, "%s: more than %zu columns", flag, most);
        }
        c->names[first + n++] = co_xasprintf("%.*s", (int)t.len, t.at);
    }
    return n > 0 || list[0] == '\0'
               ? 0
               : co_err_set(err, CO_INVALID,
                     "%s is \"%.40s\", expected names of columns, commas between", flag, list);
}

static void names_default(struct ctr_csv *c, char letter, size_t first, size_t n) {
    for (size_t i = 0; i < n; i++) {
        c->names[first + i] = co_xasprintf("%c%zu", letter, i + 1);
    }
}

int ctr_csv_new(const struct ctr_columns *columns, struct ctr_csv **ret_csv, struct co_err *err) {
    CO_CLEANUP(ctr_csv_freep) struct ctr_csv *c = co_xcalloc(1, sizeof(*c));
    bool own = columns->numbers[0] != '\0' || columns->categories[0] != '\0';
    int rc = 0;

    c->names[0] = co_xstrdup(columns->label[0] != '\0' ? columns->label : "label");
    c->scaled = !own;
    if (own) {
        rc = names_take(c, "--csv-numbers", columns->numbers, 1, CTR_NUMBERS, err);
        rc = rc == 0 ? names_take(c, "--csv-categories", columns->categories, CTR_CRITEO_CATEGORY,
                           CTR_SLOTS, err)
                     : rc;
    } else {
        names_default(c, 'I', 1, CTR_NUMBERS);
        names_default(c, 'C', CTR_CRITEO_CATEGORY, CTR_SLOTS);
    }
    if (rc == 0) {
        *ret_csv = co_steal_ptr(c);
    }
    return rc;
}

/* ---- the header ----------------------------------------------------------------------------- */

static uint8_t wanted_find(const struct ctr_csv *c, struct da_text name) {
    for (size_t i = 0; i < WANTED_MAX; i++) {
        if (c->names[i] && da_is(name, c->names[i])) {
            return (uint8_t)i;
        }
    }
    return NONE;
}

/* ", did you mean ...?", or nothing: the column of the header whose name is nearest. */
static void near_find(
    struct da_text line, char between, const char *missing, char ret_text[NEAR_MAX]) {
    CO_AUTOFREE char *scratch = co_xmalloc(line.len + 1);
    struct da_cutter cut = {.rest = line, .between = between, .scratch = scratch, .more = true};
    struct co_near near = co_near_begin(missing, strlen(missing));
    struct da_text name;

    ret_text[0] = '\0';
    while (cut.more && !da_cutter_next(&cut, &name)) {
        CO_AUTOFREE char *text = co_xstrndup(name.at, name.len);

        if (co_near_try(&near, text)) {
            (void)snprintf(ret_text, NEAR_MAX, ", did you mean \"%.40s\"?", text);
        }
    }
}

static int columns_check(const struct ctr_csv *c, const char *where, struct da_text line,
    bool needs_label, struct co_err *err) {
    char near[NEAR_MAX];

    for (size_t i = needs_label ? 0 : 1; i < WANTED_MAX; i++) {
        if (c->names[i] && !memchr(c->wanted, (int)i, c->columns)) {
            near_find(line, c->between[0], c->names[i], near);
            return co_err_set(err, CO_INVALID,
                "%s: no column \"%.100s\" in the header \"%.*s\"%s: --csv-label, --csv-numbers and "
                "--csv-categories say which columns there are",
                where, c->names[i], line.len < 200 ? (int)line.len : 200, line.at, near);
        }
    }
    return 0;
}

int ctr_csv_header(struct ctr_csv *c, const char *where, struct da_text line, bool needs_label,
    struct co_err *err) {
    CO_AUTOFREE char *scratch = co_xmalloc(line.len + 1);
    struct da_cutter cut = {
        .rest = line, .between = da_cutter_between(line), .scratch = scratch, .more = true};

    free(c->wanted);
    c->wanted = co_xcalloc(line.len + 1, sizeof(*c->wanted));
    c->between[0] = cut.between;
    for (c->columns = 0; cut.more; c->columns++) {
        struct da_text name;
        const char *wrong = da_cutter_next(&cut, &name);

        if (wrong) {
            return co_err_set(err, CO_INVALID, "%s: column %zu: %s", where, c->columns + 1, wrong);
        }
        uint8_t wanted = wanted_find(c, name);
        if (wanted != NONE && memchr(c->wanted, wanted, c->columns)) {
            return co_err_set(
                err, CO_INVALID, "%s: column \"%s\" is there twice", where, c->names[wanted]);
        }
        c->wanted[c->columns] = wanted;
    }
    return columns_check(c, where, line, needs_label, err);
}

const char *ctr_csv_between(const struct ctr_csv *c) {
    return c ? c->between : da_cutter_any;
}

bool ctr_csv_labelled(const struct ctr_csv *c) {
    return memchr(c->wanted, 0, c->columns) != NULL;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int field_take(const struct ctr_csv *c, size_t column, struct da_text field,
    struct ctr_sample *s, struct da_why *why) {
    size_t i = c->wanted[column];
    char text[DA_QUOTE_MAX];
    double x = 0.0;

    if (i == NONE) {
        return 0;
    }
    if (i >= CTR_CRITEO_CATEGORY) {
        s->ids[i - CTR_CRITEO_CATEGORY] =
            da_feature_id((unsigned)i, field.at, field.len, s->vocabulary);
        return 0;
    }
    field = da_trim(field);
    if (da_is_missing(field)) {
        return 0;
    }
    if (i == 0 ? !da_label(field, &s->label) : !da_number(field, &x)) {
        return da_why_set(why, i == 0 ? "label" : "number",
            "column %zu (%.40s) is \"%s\", expected %s", column + 1, c->names[i],
            da_quote(field, text), i == 0 ? DA_LABEL_EXPECTED : DA_NUMBER_EXPECTED);
    }
    if (i > 0) {
        s->dense[i - 1] = c->scaled ? da_feature_scale(i - 1, x) : (float)x;
    }
    return 0;
}

int ctr_csv_parse(
    const struct ctr_csv *c, struct da_text line, struct ctr_sample *s, struct da_why *why) {
    CO_AUTOFREE char *scratch = memchr(line.at, '"', line.len) ? co_xmalloc(line.len) : NULL;
    struct da_cutter cut = {
        .rest = line, .between = c->between[0], .scratch = scratch, .more = true};
    size_t column = 0;

    memset(s->dense, 0, CTR_NUMBERS * sizeof(*s->dense));
    for (size_t i = 0; i < CTR_SLOTS; i++) {
        s->ids[i] = da_feature_id((unsigned)(CTR_CRITEO_CATEGORY + i), "", 0, s->vocabulary);
    }
    s->label = NAN;
    for (; cut.more; column++) {
        struct da_text field;

        const char *wrong = da_cutter_next(&cut, &field);

        if (wrong) {
            return da_why_set(why, "quotes", "column %zu: %s", column + 1, wrong);
        }
        if (column < c->columns && field_take(c, column, field, s, why) < 0) {
            return -1;
        }
    }
    return column == c->columns
               ? 0
               : da_why_set(why, "columns", "%zu columns, the header has %zu", column, c->columns);
}
