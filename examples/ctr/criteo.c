/* Parses lines of the Criteo format. */
#include "examples/ctr/criteo.h"

#include <math.h>
#include <string.h>

#include "runtime/train/data/feature.h"

/* A field that is wrong, in the column of a line without label, too. */
static int bad_field(struct da_why *why, const char *kind, size_t column, struct da_text field,
    const char *expected) {
    char text[DA_QUOTE_MAX];

    return da_why_set(
        why, kind, "column %zu is \"%s\", expected %s", column, da_quote(field, text), expected);
}

static size_t columns_count(struct da_text line) {
    size_t columns = 1;

    for (size_t i = 0; i < line.len; i++) {
        columns += line.at[i] == '\t';
    }
    return columns;
}

static struct da_text field_next(struct da_text *rest) {
    const char *tab = memchr(rest->at, '\t', rest->len);
    struct da_text field = {rest->at, tab ? (size_t)(tab - rest->at) : rest->len};
    size_t used = field.len + (tab != NULL);

    rest->at += used;
    rest->len -= used;
    return field;
}

/* Field i of a line with label, whose column is another in a line without. */
static int field_take(
    size_t i, size_t column, struct da_text field, struct ctr_sample *s, struct da_why *why) {
    double x = 0.0;

    if (i >= CTR_CRITEO_CATEGORY) {
        s->ids[i - CTR_CRITEO_CATEGORY] =
            da_feature_id((unsigned)i, field.at, field.len, s->vocabulary);
        return 0;
    }
    field = da_trim(field);
    if (i == 0) {
        return da_is_missing(field) || da_label(field, &s->label)
                   ? 0
                   : bad_field(why, "label", column, field, DA_LABEL_EXPECTED);
    }
    bool missing = da_is_missing(field);
    if (!missing && !da_number(field, &x)) {
        return bad_field(why, "number", column, field, DA_NUMBER_EXPECTED);
    }
    s->dense[i - 1] = missing ? 0.0F : da_feature_scale(i - 1, x);
    return 0;
}

int ctr_criteo_parse(struct da_text line, struct ctr_sample *s, struct da_why *why) {
    size_t columns;

    while (line.len > 0 && (line.at[line.len - 1] == '\r' || line.at[line.len - 1] == ' ')) {
        line.len--;
    }
    columns = columns_count(line);
    if (columns != CTR_CRITEO_COLUMNS && columns != CTR_CRITEO_COLUMNS - 1) {
        return da_why_set(why, "columns",
            "%zu columns, expected 40 with tabs between: label, 13 numbers, 26 categories",
            columns);
    }
    s->label = NAN;
    for (size_t column = 1; column <= columns; column++) {
        size_t i = column - 1 + (CTR_CRITEO_COLUMNS - columns);

        if (field_take(i, column, field_next(&line), s, why) < 0) {
            return -1;
        }
    }
    return 0;
}
