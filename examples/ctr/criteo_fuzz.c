/* Parses any bytes as a line of each format: no crash, and accepted values are in range. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/ctr/parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds) {
        abort();
    }
}

static void parse(struct ctr_parser *p, struct da_text line) {
    const struct ctr_format *f = ctr_parser_format(p);
    uint64_t ids[CTR_SLOTS];
    float dense[CTR_NUMBERS];
    struct ctr_values more = {.n = 0};
    struct ctr_sample s = {
        .vocabulary = 1000001, .ids = ids, .dense = dense, .more = f->several ? &more : NULL};
    struct da_why why = {.kind = NULL};

    if (ctr_parser_parse(p, line, &s, &why) < 0) {
        must(why.kind && why.text[0] != '\0' && strlen(why.text) < sizeof(why.text));
    } else {
        for (size_t i = 0; i < CTR_SLOTS; i++) {
            must(ids[i] < 1000001);
        }
        for (size_t i = 0; i < CTR_NUMBERS; i++) {
            must(isfinite(dense[i]));
        }
        must(isnan(s.label) || s.label == 0.0F || fabsf(s.label) == 1.0F); /* -1 is the reader's */
    }
    for (size_t i = 0; i < more.n; i++) {
        must(more.at[i].id < 1000001 && more.at[i].cell < CTR_SLOTS);
    }
    free(more.at);
}

/* CSV: the first line is the header, or one that is known where it is none. */
static void header_take(struct ctr_parser *p, struct da_text *line) {
    static const char known[] = "a,y,b";
    const char *end = memchr(line->at, '\n', line->len);
    struct da_text header = {line->at, end ? (size_t)(end - line->at) : 0};
    struct co_err err = {0};

    if (ctr_parser_header(p, "f:1", header, false, &err) < 0) {
        must(ctr_parser_header(p, "f:1", (struct da_text){known, sizeof(known) - 1}, true, &err) ==
             0);
    } else {
        line->at += header.len + 1;
        line->len -= header.len + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct ctr_columns columns = {"y", "a", "b"};

    for (size_t i = 0; i < CTR_FORMATS; i++) {
        struct da_text line = {size > 0 ? (const char *)data : "", size};
        struct ctr_parser *p = NULL;
        struct co_err err = {0};

        must(ctr_parser_new(&ctr_formats[i], &columns, &p, &err) == 0);
        if (ctr_formats[i].header) {
            header_take(p, &line);
        }
        parse(p, line);
        ctr_parser_free(p);
    }
    return 0;
}
