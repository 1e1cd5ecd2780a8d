/* Holds and parses some lines. */
#include "runtime/train/data/chunk.h"

#include <inttypes.h>
#include <string.h>

struct da_chunk *da_chunk_new(const struct da_fields *f) {
    struct da_chunk *c = co_xcalloc(1, sizeof(*c));

    c->text = co_xmalloc(DA_CHUNK_BYTES + RT_LINE_MAX + 1);
    c->lines = co_xcalloc(DA_CHUNK_LINES, sizeof(*c->lines));
    da_samples_init(&c->samples, f);
    return c;
}

void da_chunk_free(struct da_chunk *c) {
    if (c) {
        da_samples_done(&c->samples);
        free(c->lines);
        free(c->text);
        free(c);
    }
}

void da_chunk_clear(struct da_chunk *c) {
    c->next = NULL;
    c->path = NULL;
    c->header = NULL;
    c->used = c->n = 0;
    da_samples_clear(&c->samples);
    memset(&c->tally, 0, sizeof(c->tally));
    c->parsed = c->last = false;
    c->rc = 0;
}

bool da_chunk_full(const struct da_chunk *c) {
    return c->n + c->tally.n >= DA_CHUNK_LINES || c->used >= DA_CHUNK_BYTES;
}

void da_chunk_add(struct da_chunk *c, const char *line, size_t len, uint64_t number) {
    memcpy(c->text + c->used, line, len);
    c->lines[c->n++] =
        (struct da_line){.at = (uint32_t)c->used, .len = (uint32_t)len, .number = number};
    c->used += len;
}

static void line_parse(struct da_chunk *c, da_parse_fn *parse, const struct da_line *line) {
    const struct da_text text = {c->text + line->at, line->len};
    struct da_why why = {.kind = NULL};
    struct co_err said = {0};

    if (da_trim(text).len == 0 ||
        parse(c->samples.fields, c->header, text, &c->samples, &why) == 0) {
        return;
    }
    if (c->tally.n == 0) {
        (void)co_err_set(&said, CO_INVALID, "%s:%" PRIu64 ": %s", c->path, line->number, why.text);
    }
    da_tally_add(&c->tally, why.kind, co_err_text(&said));
}

void da_chunk_parse(struct da_chunk *c) {
    da_parse_fn *parse = da_format_parse(c->samples.fields->format);

    for (size_t i = 0; i < c->n; i++) {
        line_parse(c, parse, &c->lines[i]);
    }
}
