/* Names the fields of a line for runtime/train/data, and takes what that makes of it. */
#include "examples/ctr/parser.h"

#include <stdlib.h>
#include <string.h>

#include "examples/ctr/slots.h"
#include "runtime/train/data/feature.h"
#include "runtime/train/data/format.h"

enum { FIELDS_MAX = 1 + CTR_NUMBERS + CTR_SLOTS };

struct ctr_parser {
    const struct ctr_format *format;
    struct da_fields fields; /* label, numbers, categories */
    struct da_samples one;
    struct da_header *header; /* NULL: none was taken */
};

void ctr_parser_free(struct ctr_parser *p) {
    if (p) {
        da_header_free(p->header);
        da_samples_done(&p->one);
        da_fields_done(&p->fields);
        free(p);
    }
}

const struct ctr_format *ctr_parser_format(const struct ctr_parser *p) {
    return p->format;
}

/* ---- names ---------------------------------------------------------------------------------- */

struct names {
    struct rt_data_field at[FIELDS_MAX]; /* [n] their names are owned */
    size_t n;
};

static void names_done(struct names *names) {
    for (size_t i = 0; i < names->n; i++) {
        free((char *)names->at[i].name);
    }
}

static void name_add(struct names *names, enum rt_data_kind kind, const char *name_own) {
    names->at[names->n++] = (struct rt_data_field){.name = name_own, .kind = kind};
}

/* Takes the names of a list, with commas between. */
static int names_take(struct names *names, const char *flag, const char *list,
    enum rt_data_kind kind, size_t most, struct co_err *err) {
    CO_AUTOFREE char *copy = co_xstrdup(list);
    char *rest = NULL;
    size_t n = 0;

    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        struct da_text t = da_trim((struct da_text){name, strlen(name)});

        for (size_t i = 0; i < names->n; i++) {
            if (da_is(t, names->at[i].name)) {
                return co_err_set(
                    err, CO_INVALID, "%s: column \"%s\" is named twice", flag, names->at[i].name);
            }
        }
        if (n++ == most) {
            return co_err_set(err, CO_INVALID, "%s: more than %zu columns", flag, most);
        }
        name_add(names, kind, co_xasprintf("%.*s", (int)t.len, t.at));
    }
    return n > 0 || list[0] == '\0'
               ? 0
               : co_err_set(err, CO_INVALID,
                     "%s is \"%.40s\", expected names of columns, commas between", flag, list);
}

static void names_default(struct names *names, enum rt_data_kind kind, char letter, size_t n) {
    for (size_t i = 0; i < n; i++) {
        name_add(names, kind, co_xasprintf("%c%zu", letter, i + 1));
    }
}

static int columns_fields(
    struct da_fields *f, const struct ctr_columns *columns, struct co_err *err) {
    CO_CLEANUP(names_done) struct names names = {.n = 0};
    bool own = columns->numbers[0] != '\0' || columns->categories[0] != '\0';

    name_add(
        &names, RT_DATA_LABEL, co_xstrdup(columns->label[0] != '\0' ? columns->label : "label"));
    if (own) {
        CO_TRY(
            names_take(&names, "--csv-numbers", columns->numbers, RT_DATA_DENSE, CTR_NUMBERS, err));
        CO_TRY(names_take(
            &names, "--csv-categories", columns->categories, RT_DATA_IDS, CTR_SLOTS, err));
    } else {
        names_default(&names, RT_DATA_DENSE, 'I', CTR_NUMBERS);
        names_default(&names, RT_DATA_IDS, 'C', CTR_SLOTS);
    }
    CO_TRY(da_fields_init(f,
        &(struct rt_data_options){
            .format = RT_DATA_CSV, .fields = names.at, .n_fields = names.n, .raw = own},
        err));
    f->advice = "--csv-label, --csv-numbers and --csv-categories say which columns there are";
    return 0;
}

int ctr_parser_new(const struct ctr_format *format, const struct ctr_columns *columns,
    struct ctr_parser **ret_parser, struct co_err *err) {
    CO_CLEANUP(ctr_parser_freep) struct ctr_parser *p = co_xcalloc(1, sizeof(*p));

    p->format = format;
    CO_TRY(format->header ? columns_fields(&p->fields, columns, err)
                          : da_fields_init(&p->fields,
                                &(struct rt_data_options){.format = RT_DATA_CRITEO}, err));
    p->fields.clicks = true;
    da_samples_init(&p->one, &p->fields);
    *ret_parser = co_steal_ptr(p);
    return 0;
}

/* ---- the header ----------------------------------------------------------------------------- */

int ctr_parser_header(struct ctr_parser *p, const char *where, struct da_text line,
    bool needs_label, struct co_err *err) {
    struct da_header *h = NULL;

    p->fields.unlabelled = !needs_label;
    CO_TRY(da_header_new(&p->fields, where, line, &h, err));
    da_header_free(p->header);
    p->header = h;
    return 0;
}

const char *ctr_parser_between(const struct ctr_parser *p) {
    return p->header->between;
}

bool ctr_parser_labelled(const struct ctr_parser *p) {
    return da_header_has(p->header, 0);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* A category that no column gives is an empty one, and such a number is 0. */
static void sample_take(const struct da_samples *one, struct ctr_sample *s) {
    const struct da_fields *f = one->fields;

    s->label = one->labels[0];
    memset(s->dense, 0, CTR_NUMBERS * sizeof(*s->dense));
    memcpy(s->dense, one->dense, f->dense * sizeof(*s->dense));
    for (size_t i = 0; i < CTR_SLOTS; i++) {
        s->ids[i] = i < f->slots
                        ? one->ids[i]
                        : da_feature_id((unsigned)(DA_CRITEO_CATEGORY + i), "", 0, s->vocabulary);
    }
}

/* A line of slots has a colon before any tab. */
static bool is_slots(struct da_text line) {
    const char *tab = memchr(line.at, '\t', line.len);

    return memchr(line.at, ':', tab ? (size_t)(tab - line.at) : line.len) != NULL;
}

int ctr_parser_parse(
    struct ctr_parser *p, struct da_text line, struct ctr_sample *s, struct da_why *why) {
    const struct ctr_format *format = p->format;

    if (format->line == CTR_SLOTS_LINE || (format->line == CTR_ANY_LINE && is_slots(line))) {
        return ctr_slots_parse(line, s, why);
    }
    da_samples_clear(&p->one);
    p->fields.vocabulary = s->vocabulary;
    if (da_format_parse(p->fields.format)(&p->fields, p->header, line, &p->one, why) < 0) {
        return -1;
    }
    sample_take(&p->one, s);
    return 0;
}
