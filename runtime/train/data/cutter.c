/* Finds the fields of a line of CSV. */
#include "runtime/train/data/cutter.h"

#include <string.h>

const char da_cutter_any[] = ",;\t|";

/* The text between quotes, where two stand for one.  Returns NULL, or what is wrong. */
static const char *quoted_next(struct da_cutter *c, struct da_text *ret) {
    const char *at = c->rest.at + 1, *end = c->rest.at + c->rest.len;

    *ret = (struct da_text){c->scratch, 0};
    for (; at < end && (*at != '"' || (at + 1 < end && at[1] == '"')); at++) {
        at += *at == '"';
        *c->scratch++ = *at;
        ret->len++;
    }
    if (at == end) {
        return "a quote is not closed";
    }
    for (at++; at < end && *at == ' ';) {
        at++;
    }
    c->rest = (struct da_text){at, (size_t)(end - at)};
    return at == end || *at == c->between ? NULL : "something follows a closing quote";
}

const char *da_cutter_next(struct da_cutter *c, struct da_text *ret) {
    while (c->rest.len > 0 && c->rest.at[0] == ' ') {
        c->rest.at++;
        c->rest.len--;
    }
    if (c->rest.len > 0 && c->rest.at[0] == '"') {
        const char *wrong = quoted_next(c, ret);

        if (wrong) {
            return wrong;
        }
    } else {
        const char *end = memchr(c->rest.at, c->between, c->rest.len);
        size_t len = end ? (size_t)(end - c->rest.at) : c->rest.len;

        *ret = da_trim((struct da_text){c->rest.at, len});
        c->rest.at += len;
        c->rest.len -= len;
    }
    da_cutter_step(c);
    return NULL;
}

char da_cutter_between(struct da_text header) {
    size_t most = 0;
    char best = ',';

    for (const char *c = da_cutter_any; *c; c++) {
        bool quoted = false;
        size_t n = 0;

        for (size_t i = 0; i < header.len; i++) {
            quoted ^= header.at[i] == '"';
            n += header.at[i] == *c && !quoted;
        }
        best = n > most ? *c : best;
        most = n > most ? n : most;
    }
    return best;
}
