/* Parses any bytes as a line of each format: no crash, and what is accepted is within its limits.
 */
#include "runtime/train/data/format.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds) {
        abort();
    }
}

static const struct rt_data_field fields[] = {{.name = "y", .kind = RT_DATA_LABEL},
    {.name = "a", .kind = RT_DATA_DENSE}, {.name = "b", .kind = RT_DATA_IDS},
    {.name = "c", .kind = RT_DATA_IDS}};

static void samples_check(const struct da_samples *s) {
    const struct da_fields *f = s->fields;
    uint32_t begin = 0;

    for (size_t i = 0; i < s->n * f->labels; i++) {
        must(isnan(s->labels[i]) || fabsf(s->labels[i]) <= 1e15F);
    }
    for (size_t i = 0; i < s->n * f->dense; i++) {
        must(isfinite(s->dense[i]));
    }
    for (size_t i = 0; i < s->n * f->slots; i++) {
        must(s->ends[i] >= begin && s->ends[i] - begin <= (f->pad ? f->pad : s->n_ids));
        begin = s->ends[i];
    }
    must(begin == s->n_ids);
    for (size_t i = 0; i < s->n_ids; i++) {
        must(s->ids[i] < f->vocabulary);
    }
}

/* Twice: a sample that is dropped leaves nothing behind. */
static void parse(const struct da_fields *f, const struct da_header *h, struct da_text line) {
    struct da_samples s, copies;

    da_samples_init(&s, f);
    da_samples_init(&copies, f);
    for (int i = 0; i < 2; i++) {
        struct da_why why = {.kind = NULL};
        size_t n = s.n;

        if (da_format_parse(f->format)(f, h, line, &s, &why) < 0) {
            must(s.n == n && why.kind && why.text[0] != '\0');
        } else {
            must(s.n == n + 1);
            da_samples_copy(&copies, &s, n);
        }
        samples_check(&s);
        samples_check(&copies);
    }
    must(copies.n_ids == s.n_ids);
    da_samples_done(&s);
    da_samples_done(&copies);
}

/* CSV: the first line is the header, or one that is known where it is none. */
static struct da_header *header_make(const struct da_fields *f, struct da_text *line) {
    const char *known = f->format == RT_DATA_TSV ? "a\ty\tb\tc" : "a,y,b,c";
    const char *end = memchr(line->at, '\n', line->len);
    struct da_text header = {line->at, end ? (size_t)(end - line->at) : 0};
    struct da_header *h = NULL;
    struct co_err err = {0};

    if (da_header_new(f, "f:1", header, &h, &err) < 0) {
        must(da_header_new(f, "f:1", (struct da_text){known, strlen(known)}, &h, &err) == 0);
    } else {
        line->at += header.len + 1;
        line->len -= header.len + 1;
    }
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int i = 0; i < 2 * (RT_DATA_FORMATS - 1); i++) {
        struct da_text line = {size > 0 ? (const char *)data : "", size};
        struct rt_data_options o = {.format = (enum rt_data_format)(1 + i / 2),
            .fields = fields,
            .n_fields = i / 2 + 1 == RT_DATA_CRITEO ? 0 : CO_ARRAY_LEN(fields),
            .vocabulary = 1000001,
            .pad = (uint32_t)(i % 2 * 2),
            .whole = i % 2 == 1,
            .unlabelled = i % 2 == 0};
        struct da_fields f = {.n = 0};
        struct da_header *h = NULL;
        struct co_err err = {0};

        must(da_fields_init(&f, &o, &err) == 0);
        if (da_fields_headed(&f)) {
            h = header_make(&f, &line);
        }
        parse(&f, h, line);
        da_header_free(h);
        da_fields_done(&f);
    }
    return 0;
}
