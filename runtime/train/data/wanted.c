/* Checks the options of a reader of samples. */
#include "runtime/train/data/wanted.h"

#include <stdio.h>
#include <string.h>

#include "common/spare.h"
#include "runtime/train/data/feature.h"

enum { NUMBERS_MAX = 1 << 20 };

void da_fields_done(struct da_fields *f) {
    for (size_t i = 0; i < f->n; i++) {
        free(f->at[i].name);
    }
    for (size_t i = 0; i < f->n_columns; i++) {
        free(f->columns[i]);
    }
    free(f->at);
    free(f->columns);
    co_map_done(&f->names);
    memset(f, 0, sizeof(*f));
}

static bool has_columns(const struct da_fields *f) {
    return f->format == RT_DATA_CSV || f->format == RT_DATA_TSV;
}

bool da_fields_headed(const struct da_fields *f) {
    return has_columns(f) && f->n_columns == 0;
}

const struct da_field *da_fields_find(const struct da_fields *f, struct da_text name) {
    char key[DA_NAME_MAX + 1];

    if (name.len > DA_NAME_MAX) {
        return NULL;
    }
    memcpy(key, name.at, name.len);
    key[name.len] = '\0';
    return co_map_get(&f->names, key);
}

/* ---- fields --------------------------------------------------------------------------------- */

static size_t *total_of(struct da_fields *f, enum rt_data_kind kind) {
    size_t *const totals[RT_DATA_KINDS] = {&f->labels, &f->dense, &f->slots};

    return totals[kind];
}

static int field_check(
    const struct da_fields *f, const struct rt_data_field *given, size_t i, struct co_err *err) {
    size_t len = given->name ? strlen(given->name) : 0;

    CO_TRY(CO_SPARE_CHECK(given, "rt_data_field", err));
    if (len == 0 || len > DA_NAME_MAX) {
        return co_err_set(err, CO_INVALID, "the name of field %zu has %zu bytes, expected 1 to %d",
            i + 1, len, DA_NAME_MAX);
    }
    if ((unsigned)given->kind >= RT_DATA_KINDS) {
        return co_err_set(err, CO_INVALID,
            "field \"%s\" is of kind %d, expected a label, dense numbers or ids", given->name,
            (int)given->kind);
    }
    if (given->n > (has_columns(f) ? 1 : NUMBERS_MAX) ||
        (given->kind == RT_DATA_IDS && given->n > 0)) {
        return co_err_set(err, CO_INVALID, "field \"%s\" has %u numbers, expected %s", given->name,
            given->n,
            given->kind == RT_DATA_IDS ? "0, as it is a slot"
            : has_columns(f)           ? "1, as it is a column"
                                       : "at most 1048576");
    }
    return 0;
}

static int field_add(struct da_fields *f, const struct rt_data_field *given, struct co_err *err) {
    size_t *total = total_of(f, given->kind);
    uint32_t n = given->kind == RT_DATA_IDS ? 0 : given->n > 0 ? given->n : 1;
    struct da_field *to = &f->at[f->n];

    CO_TRY(field_check(f, given, f->n, err));
    if (co_map_get(&f->names, given->name)) {
        return co_err_set(err, CO_INVALID, "field \"%s\" is there twice", given->name);
    }
    *to = (struct da_field){
        .name = co_xstrdup(given->name), .kind = given->kind, .n = n, .first = (uint32_t)*total};
    f->n++;
    (void)co_map_set(&f->names, to->name, to);
    *total += given->kind == RT_DATA_IDS ? 1 : n;
    return *total <= NUMBERS_MAX
               ? 0
               : co_err_set(err, CO_NORESOURCE, "fields have more than %d numbers", NUMBERS_MAX);
}

static int criteo_add(
    struct da_fields *f, char letter, enum rt_data_kind kind, size_t n, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "%c%zu", letter, i + 1);
        CO_TRY(field_add(f, &(struct rt_data_field){.name = name, .kind = kind}, err));
    }
    return 0;
}

static int criteo_fields(struct da_fields *f, struct co_err *err) {
    const struct rt_data_field label = {.name = "label", .kind = RT_DATA_LABEL};

    f->at = co_xcalloc(1 + DA_CRITEO_NUMBERS + DA_CRITEO_CATEGORIES, sizeof(*f->at));
    CO_TRY(field_add(f, &label, err));
    CO_TRY(criteo_add(f, 'I', RT_DATA_DENSE, DA_CRITEO_NUMBERS, err));
    return criteo_add(f, 'C', RT_DATA_IDS, DA_CRITEO_CATEGORIES, err);
}

static int fields_add(struct da_fields *f, const struct rt_data_options *o, struct co_err *err) {
    if (f->format == RT_DATA_CRITEO) {
        return o->n_fields == 0
                   ? criteo_fields(f, err)
                   : co_err_set(err, CO_INVALID,
                         "%zu fields, expected none: those of Criteo's lines are fixed",
                         o->n_fields);
    }
    if (o->n_fields == 0 || o->n_fields > DA_FIELDS_MAX) {
        return co_err_set(err, CO_INVALID,
            "%zu fields, expected 1 to %d: what a line has of them "
            "becomes labels, numbers and ids",
            o->n_fields, DA_FIELDS_MAX);
    }
    f->at = co_xcalloc(o->n_fields, sizeof(*f->at));
    for (size_t i = 0; i < o->n_fields; i++) {
        CO_TRY(field_add(f, &o->fields[i], err));
    }
    return 0;
}

/* ---- columns, and all of it ----------------------------------------------------------------- */

static int columns_add(struct da_fields *f, const struct rt_data_options *o, struct co_err *err) {
    if (o->n_columns > 0 && !has_columns(f)) {
        return co_err_set(err, CO_INVALID,
            "columns are named, expected none: lines of this format have no columns");
    }
    if (o->n_columns > DA_FIELDS_MAX) {
        return co_err_set(
            err, CO_INVALID, "%zu columns, expected at most %d", o->n_columns, DA_FIELDS_MAX);
    }
    f->columns = o->n_columns > 0 ? co_xcalloc(o->n_columns, sizeof(*f->columns)) : NULL;
    for (; f->n_columns < o->n_columns; f->n_columns++) {
        f->columns[f->n_columns] = co_xstrdup(o->columns[f->n_columns]);
    }
    return 0;
}

int da_fields_init(struct da_fields *f, const struct rt_data_options *o, struct co_err *err) {
    CO_CLEANUP(da_fields_done)
    struct da_fields made = {.format = o->format,
        .vocabulary = o->vocabulary,
        .fill = o->fill,
        .pad = o->pad,
        .whole = o->whole,
        .raw = o->raw,
        .unlabelled = o->unlabelled};

    if (o->format <= RT_DATA_UNSET || o->format >= RT_DATA_FORMATS) {
        return co_err_set(err, CO_INVALID, "format is %d, expected 1 to %d (enum rt_data_format)",
            (int)o->format, RT_DATA_FORMATS - 1);
    }
    CO_TRY(columns_add(&made, o, err));
    CO_TRY(fields_add(&made, o, err));
    *f = made;
    memset(&made, 0, sizeof(made));
    return 0;
}
