/* The parser of each format; that of slots, of Criteo's lines, and of counted values. */
#include "runtime/train/data/format.h"

#include <math.h>
#include <string.h>

#include "runtime/train/data/feature.h"

da_parse_fn *da_format_parse(enum rt_data_format format) {
    static da_parse_fn *const parsers[RT_DATA_FORMATS] = {
        [RT_DATA_SLOTS] = da_slots_parse,
        [RT_DATA_CRITEO] = da_criteo_parse,
        [RT_DATA_CSV] = da_csv_parse,
        [RT_DATA_TSV] = da_csv_parse,
        [RT_DATA_MULTISLOT] = da_multislot_parse,
    };

    return parsers[format];
}

bool da_field_number(struct da_text text, float *ret) {
    double x = 0.0;

    if (da_number(text, &x)) {
        *ret = (float)x;
        return true;
    }
    return da_label(text, ret); /* true, false */
}

/* ---- slots ---------------------------------------------------------------------------------- */

/* What a line has shown so far. */
struct slots_line {
    const struct da_fields *fields;
    struct da_samples *samples;
    size_t guess;          /* the field that probably comes next: lines have the same order */
    size_t known, unknown; /* words */
};

static const struct da_field *slot_find(struct slots_line *l, struct da_text name) {
    const struct da_fields *f = l->fields;
    const struct da_field *field = NULL;

    for (size_t i = 0; i < 2 && !field; i++) { /* the same again, or the next one */
        const struct da_field *guess = &f->at[(l->guess + i) % f->n];

        field = da_is(name, guess->name) ? guess : NULL;
    }
    field = field ? field : da_fields_find(f, name);
    l->guess = field ? (size_t)(field - f->at) : l->guess;
    return field;
}

/* The place of the field's next number; NULL: it has all. */
static float *number_place(struct slots_line *l, const struct da_field *field) {
    uint32_t *taken = &l->samples->taken[field - l->fields->at];
    float *at =
        field->kind == RT_DATA_LABEL ? da_samples_labels(l->samples) : da_samples_dense(l->samples);

    return *taken < field->n ? at + field->first + (*taken)++ : NULL;
}

/* Stores a word; returns NULL, or what was expected, and of which kind. */
static const char *word_take(
    struct slots_line *l, struct da_text name, struct da_text value, const char **ret_kind) {
    const struct da_field *field = slot_find(l, name);
    uint64_t id = 0;

    l->known += field != NULL;
    l->unknown += field == NULL;
    if (!field) {
        return NULL;
    }
    if (field->kind == RT_DATA_IDS) {
        *ret_kind = "id";
        if (!da_u64(value, &id)) {
            return "an id, a whole number below 2^64";
        }
        da_samples_add(l->samples, field->first, id);
        return NULL;
    }
    *ret_kind = field->kind == RT_DATA_LABEL ? "label" : "number";
    float *place = number_place(l, field);
    if (!place) {
        return field->n == 1 ? "that name once" : "as many numbers of that name as its field has";
    }
    return da_is_missing(value) || da_field_number(value, place) ? NULL : DA_NUMBER_EXPECTED;
}

int da_slots_parse(const struct da_fields *f, const struct da_header *header, struct da_text line,
    struct da_samples *s, struct da_why *why) {
    struct slots_line l = {.fields = f, .samples = s};
    struct da_text word;
    char text[DA_QUOTE_MAX];

    (void)header;
    da_samples_begin(s);
    for (size_t n = 1; (word = da_word_next(&line)).len > 0; n++) {
        const char *colon = memchr(word.at, ':', word.len), *kind = "word";
        size_t len = colon ? (size_t)(colon - word.at) : 0;
        const char *expected = len > 0 ? word_take(&l, (struct da_text){word.at, len},
                                             (struct da_text){colon + 1, word.len - len - 1}, &kind)
                                       : "name:value";

        if (expected) {
            da_samples_drop(s);
            return da_why_set(
                why, kind, "word %zu is \"%s\", expected %s", n, da_quote(word, text), expected);
        }
    }
    if (l.known == 0) {
        return da_why_set(why, "slots", "none of its %zu names is a field's", l.unknown);
    }
    return da_samples_end(s, why);
}

/* ---- Criteo --------------------------------------------------------------------------------- */

enum { CRITEO_COLUMNS = 1 + DA_CRITEO_NUMBERS + DA_CRITEO_CATEGORIES };

static int column_bad(struct da_why *why, const char *kind, size_t column, struct da_text field,
    const char *expected) {
    char text[DA_QUOTE_MAX];

    return da_why_set(
        why, kind, "column %zu is \"%s\", expected %s", column, da_quote(field, text), expected);
}

static struct da_text tabbed_next(struct da_text *rest) {
    const char *tab = memchr(rest->at, '\t', rest->len);
    struct da_text field = {rest->at, tab ? (size_t)(tab - rest->at) : rest->len};
    size_t used = field.len + (tab != NULL);

    rest->at += used;
    rest->len -= used;
    return field;
}

static int criteo_label(
    size_t column, struct da_text field, struct da_samples *s, struct da_why *why) {
    float *to = da_samples_labels(s);

    if (!da_label(field, to)) {
        return da_is_missing(field) ? 0
                                    : column_bad(why, "label", column, field, DA_LABEL_EXPECTED);
    }
    *to = *to < 0.0F && !s->fields->clicks ? 0.0F : *to;
    return 0;
}

/* Field i of a line with label, whose column is another in a line without. */
static int criteo_take(
    size_t i, size_t column, struct da_text field, struct da_samples *s, struct da_why *why) {
    double x = 0.0;

    if (i >= DA_CRITEO_CATEGORY) {
        da_samples_add(s, (uint32_t)(i - DA_CRITEO_CATEGORY),
            da_feature_id((unsigned)i, field.at, field.len, 0));
        return 0;
    }
    field = da_trim(field);
    if (i == 0) {
        return criteo_label(column, field, s, why);
    }
    if (da_number(field, &x)) {
        da_samples_dense(s)[i - 1] = s->fields->raw ? (float)x : da_feature_scale(i - 1, x);
        return 0;
    }
    return da_is_missing(field) ? 0 : column_bad(why, "number", column, field, DA_NUMBER_EXPECTED);
}

int da_criteo_parse(const struct da_fields *f, const struct da_header *header, struct da_text line,
    struct da_samples *s, struct da_why *why) {
    size_t columns = 1;

    (void)f;
    (void)header;
    while (line.len > 0 && (line.at[line.len - 1] == '\r' || line.at[line.len - 1] == ' ')) {
        line.len--;
    }
    for (size_t i = 0; i < line.len; i++) {
        columns += line.at[i] == '\t';
    }
    if (columns != CRITEO_COLUMNS && columns != CRITEO_COLUMNS - 1) {
        return da_why_set(why, "columns",
            "%zu columns, expected 40 with tabs between: label, 13 numbers, 26 categories",
            columns);
    }
    da_samples_begin(s);
    for (size_t column = 1; column <= columns; column++) {
        if (criteo_take(
                column - 1 + (CRITEO_COLUMNS - columns), column, tabbed_next(&line), s, why) < 0) {
            da_samples_drop(s);
            return -1;
        }
    }
    return da_samples_end(s, why);
}

/* ---- counted values ------------------------------------------------------------------------- */

static const char *value_take(
    const struct da_field *field, uint64_t i, struct da_text word, struct da_samples *s) {
    uint64_t id = 0;

    if (field->kind == RT_DATA_IDS) {
        if (!da_u64(word, &id)) {
            return "an id, a whole number below 2^64";
        }
        da_samples_add(s, field->first, id);
        return NULL;
    }
    float *at = field->kind == RT_DATA_LABEL ? da_samples_labels(s) : da_samples_dense(s);
    return da_field_number(word, at + field->first + i) ? NULL : "a number from -1e15 to 1e15";
}

/* One field: how many values, and these. */
static int values_take(
    const struct da_field *field, struct da_text *rest, struct da_samples *s, struct da_why *why) {
    char text[DA_QUOTE_MAX];
    struct da_text word = da_word_next(rest);
    uint64_t n = 0;

    if (!da_u64(word, &n)) {
        return da_why_set(why, "count",
            "field \"%.40s\" begins with \"%s\", expected how many values "
            "follow",
            field->name, da_quote(word, text));
    }
    if (field->kind != RT_DATA_IDS && n != field->n) {
        return da_why_set(why, "count", "field \"%.40s\" has %s values, expected %u", field->name,
            da_quote(word, text), field->n);
    }
    for (uint64_t i = 0; i < n; i++) {
        word = da_word_next(rest);
        const char *expected = value_take(field, i, word, s);

        if (expected) {
            return da_why_set(why, "value", "a value of field \"%.40s\" is \"%s\", expected %s",
                field->name, da_quote(word, text), expected);
        }
    }
    return 0;
}

int da_multislot_parse(const struct da_fields *f, const struct da_header *header,
    struct da_text line, struct da_samples *s, struct da_why *why) {
    char text[DA_QUOTE_MAX];

    (void)header;
    da_samples_begin(s);
    for (size_t i = 0; i < f->n; i++) {
        if (values_take(&f->at[i], &line, s, why) < 0) {
            da_samples_drop(s);
            return -1;
        }
    }
    struct da_text word = da_word_next(&line);
    if (word.len > 0) {
        da_samples_drop(s);
        return da_why_set(
            why, "columns", "\"%s\" behind the last field, expected the end", da_quote(word, text));
    }
    return da_samples_end(s, why);
}
