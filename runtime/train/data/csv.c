/* Columns of CSV and TSV by their names, and their lines. */
#include <stdio.h>
#include <string.h>

#include "common/near.h"
#include "runtime/train/data/cutter.h"
#include "runtime/train/data/feature.h"
#include "runtime/train/data/format.h"

enum { NEAR_MAX = 128 };

void da_header_free(struct da_header *h) {
    if (h) {
        free(h->text);
        free(h->field);
        free(h);
    }
}

/* ", did you mean ...?", or nothing: the column of the header whose name is nearest. */
static void near_find(struct da_text line, char between, const char *missing, char *ret_text) {
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

/* Notes what a column is wanted for. */
static int column_take(const struct da_fields *f, struct da_header *h, const char *where,
    struct da_text name, struct co_err *err) {
    const struct da_field *field = da_fields_find(f, name);

    for (size_t i = 0; field && i < h->columns; i++) {
        if (h->field[i] == (uint32_t)(field - f->at)) {
            return co_err_set(
                err, CO_INVALID, "%s: column \"%s\" is there twice", where, field->name);
        }
    }
    h->field[h->columns++] = field ? (uint32_t)(field - f->at) : DA_NONE;
    return 0;
}

bool da_header_has(const struct da_header *h, size_t field) {
    for (size_t i = 0; i < h->columns; i++) {
        if (h->field[i] == field) {
            return true;
        }
    }
    return false;
}

/* All fields have columns; labels need none where lines need no label. */
static int columns_check(
    const struct da_fields *f, const struct da_header *h, const char *where, struct co_err *err) {
    struct da_text line = {h->text, strlen(h->text)};
    char near[NEAR_MAX];

    for (size_t i = 0; i < f->n; i++) {
        if (!da_header_has(h, i) && !(f->at[i].kind == RT_DATA_LABEL && f->unlabelled)) {
            near_find(line, h->between[0], f->at[i].name, near);
            return co_err_set(err, CO_INVALID,
                "%s: no column \"%s\" in the header \"%.200s\"%s%s%s", where, f->at[i].name,
                h->text, near, f->advice ? ": " : "", f->advice ? f->advice : "");
        }
    }
    return 0;
}

int da_header_new(const struct da_fields *f, const char *where, struct da_text line,
    struct da_header **ret_header, struct co_err *err) {
    CO_CLEANUP(da_header_freep) struct da_header *h = co_xcalloc(1, sizeof(*h));
    CO_AUTOFREE char *scratch = co_xmalloc(line.len + 1);
    struct da_cutter cut = {.rest = line,
        .between = f->format == RT_DATA_TSV ? '\t' : da_cutter_between(line),
        .scratch = scratch,
        .more = true};

    h->text = co_xstrndup(line.at, line.len);
    h->between[0] = cut.between;
    h->field = co_xcalloc(line.len + 1, sizeof(*h->field));
    while (cut.more) {
        struct da_text name;
        const char *wrong = da_cutter_next(&cut, &name);

        if (wrong) {
            return co_err_set(err, CO_INVALID, "%s: column %zu: %s", where, h->columns + 1, wrong);
        }
        CO_TRY(column_take(f, h, where, name, err));
    }
    CO_TRY(columns_check(f, h, where, err));
    *ret_header = co_steal_ptr(h);
    return 0;
}

int da_header_named(const struct da_fields *f, struct da_header **ret_header, struct co_err *err) {
    CO_CLEANUP(da_header_freep) struct da_header *h = co_xcalloc(1, sizeof(*h));

    h->text = co_xstrdup("");
    h->between[0] = f->format == RT_DATA_TSV ? '\t' : ',';
    h->field = co_xcalloc(f->n_columns, sizeof(*h->field));
    for (size_t i = 0; i < f->n_columns; i++) {
        struct da_text name = {f->columns[i], strlen(f->columns[i])};

        CO_TRY(column_take(f, h, "columns", name, err));
    }
    for (size_t i = 0; i < f->n; i++) {
        if (!da_header_has(h, i) && !(f->at[i].kind == RT_DATA_LABEL && f->unlabelled)) {
            return co_err_set(err, CO_INVALID,
                "field \"%s\" is none of the %zu columns that are named", f->at[i].name,
                f->n_columns);
        }
    }
    *ret_header = co_steal_ptr(h);
    return 0;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int column_bad(struct da_why *why, const struct da_field *field, size_t column,
    struct da_text text, const char *expected) {
    static const char *const kinds[RT_DATA_KINDS] = {"label", "number", "id"};
    char quoted[DA_QUOTE_MAX];

    return da_why_set(why, kinds[field->kind], "column %zu (%.40s) is \"%s\", expected %s",
        column + 1, field->name, da_quote(text, quoted), expected);
}

static int id_take(const struct da_field *field, size_t column, struct da_text text,
    struct da_samples *s, struct da_why *why) {
    uint64_t id = 0;

    if (!s->fields->whole) {
        /* as examples/ctr has it for the columns of Criteo's data */
        da_samples_add(s, field->first,
            da_feature_id(DA_CRITEO_CATEGORY + field->first, text.at, text.len, 0));
        return 0;
    }
    text = da_trim(text);
    if (da_u64(text, &id)) {
        da_samples_add(s, field->first, id);
        return 0;
    }
    return da_is_missing(text)
               ? 0
               : column_bad(why, field, column, text, "a whole number below 2^64, or nothing");
}

/* Stores a label or a number; false: it is neither. */
static bool number_take(const struct da_field *field, struct da_text text, struct da_samples *s) {
    float *at = field->kind == RT_DATA_LABEL ? da_samples_labels(s) : da_samples_dense(s);
    double x = 0.0;

    if (!s->fields->clicks) {
        return da_field_number(text, at + field->first);
    }
    if (field->kind == RT_DATA_LABEL) {
        return da_label(text, at + field->first);
    }
    if (!da_number(text, &x)) {
        return false;
    }
    at[field->first] = s->fields->raw ? (float)x : da_feature_scale(field->first, x);
    return true;
}

static int column_parse(const struct da_field *field, size_t column, struct da_text text,
    struct da_samples *s, struct da_why *why) {
    bool click = s->fields->clicks && field->kind == RT_DATA_LABEL;

    if (field->kind == RT_DATA_IDS) {
        return id_take(field, column, text, s, why);
    }
    text = da_trim(text);
    return number_take(field, text, s) || da_is_missing(text)
               ? 0
               : column_bad(
                     why, field, column, text, click ? DA_LABEL_EXPECTED : DA_NUMBER_EXPECTED);
}

/* What most fields are, read where it stands: digits up to the next column or the end of the line,
 * with a point among them where `point` is.  Their value is that of the digits, without it; 15
 * digits at most have a double of their own, and 10 to the number of those behind the point has,
 * too (text.c).  False: it is something else. */
static bool digits_take(
    struct da_text *rest, char between, bool point, uint64_t *ret_value, size_t *ret_decimals) {
    const char *at = rest->at, *end = rest->at + rest->len, *after = NULL;
    uint64_t value = 0;

    for (unsigned digit; at < end; at++) {
        digit = (unsigned)(unsigned char)*at - '0';
        if (digit <= 9) {
            value = value * 10 + digit;
        } else if (*at == '.' && point && !after && at > rest->at) {
            after = at + 1;
        } else {
            break;
        }
    }
    size_t n = (size_t)(at - rest->at);
    if (n == 0 || n > 15 || after == at || (at < end && *at != between)) {
        return false;
    }
    *ret_value = value;
    *ret_decimals = after ? (size_t)(at - after) : 0;
    *rest = (struct da_text){at, (size_t)(end - at)};
    return true;
}

/* Stores a field that digits_take reads; false: it is for column_parse. */
static bool column_take_digits(
    const struct da_field *field, struct da_text *rest, char between, struct da_samples *s) {
    static const double powers[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    bool id = field->kind == RT_DATA_IDS;
    uint64_t value = 0;
    size_t decimals = 0;

    if ((id ? !s->fields->whole : s->fields->clicks) ||
        !digits_take(rest, between, !id, &value, &decimals)) {
        return false;
    }
    if (id) {
        da_samples_add(s, field->first, value);
    } else {
        float *at = field->kind == RT_DATA_LABEL ? da_samples_labels(s) : da_samples_dense(s);
        at[field->first] = (float)((double)value / powers[decimals]);
    }
    return true;
}

/* scratch: as long as the line, where it has quotes. */
static int columns_parse(const struct da_fields *f, const struct da_header *h, struct da_text line,
    char *scratch, struct da_samples *s, struct da_why *why) {
    struct da_cutter cut = {.rest = line, .between = h->between[0], .more = true};
    size_t column = 0;

    cut.scratch = scratch;
    for (; cut.more; column++) {
        struct da_text text;
        bool wanted = column < h->columns && h->field[column] != DA_NONE;

        if (wanted && column_take_digits(&f->at[h->field[column]], &cut.rest, cut.between, s)) {
            da_cutter_step(&cut);
            continue;
        }
        const char *wrong = da_cutter_next(&cut, &text);

        if (wrong) {
            return da_why_set(why, "quotes", "column %zu: %s", column + 1, wrong);
        }
        if (wanted && column_parse(&f->at[h->field[column]], column, text, s, why) < 0) {
            return -1;
        }
    }
    return column == h->columns ? 0
                                : da_why_set(why, "columns", "%zu columns, %s %zu", column,
                                      f->n_columns > 0 ? "expected" : "the header has", h->columns);
}

int da_csv_parse(const struct da_fields *f, const struct da_header *header, struct da_text line,
    struct da_samples *s, struct da_why *why) {
    CO_AUTOFREE char *scratch = memchr(line.at, '"', line.len) ? co_xmalloc(line.len) : NULL;

    da_samples_begin(s);
    if (columns_parse(f, header, line, scratch, s, why) < 0) {
        da_samples_drop(s);
        return -1;
    }
    return da_samples_end(s, why);
}
