/* Parses one line of the slot format. */
#include "examples/ctr/slots.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum { GROWS_BY = 256 };

void ctr_values_add(struct ctr_values *v, uint32_t cell, uint64_t id) {
    if (v->n == v->room) {
        v->room += v->room / 2 + GROWS_BY;
        v->at = co_xrealloc(v->at, v->room, sizeof(*v->at));
    }
    v->at[v->n++] = (struct ctr_value){.cell = cell, .id = id};
}

/* What a line has shown so far. */
struct seen {
    bool slot[CTR_SLOTS];
    size_t numbers, known, unknown;
};

/* Stores a pair; returns NULL, or what was expected, and of which kind. */
static const char *pair_take(struct ctr_sample *s, struct seen *seen, struct da_text slot,
    struct da_text value, const char **ret_kind) {
    uint64_t number = 0, id = 0;
    double x = 0.0;

    *ret_kind = "label";
    if (da_is(slot, "click")) {
        return !isnan(s->label) || !(da_is_missing(value) || da_label(value, &s->label))
                   ? "click once, " DA_LABEL_EXPECTED
                   : NULL;
    }
    *ret_kind = "number";
    if (da_is(slot, "dense_feature")) {
        if (seen->numbers == CTR_NUMBERS) {
            return "13 of dense_feature";
        }
        if (!da_is_missing(value) && !da_number(value, &x)) {
            return DA_NUMBER_EXPECTED;
        }
        s->dense[seen->numbers++] = (float)x;
        return NULL;
    }
    *ret_kind = "id";
    if (!da_u64(slot, &number) || number == 0 || number > CTR_SLOTS) {
        seen->unknown++;
        s->left = s->left.at ? s->left : slot;
        return slot.len == 0 ? "slot:value" : NULL;
    }
    if (!da_u64(value, &id)) {
        return "an id, a whole number below 2^64";
    }
    seen->known++;
    id %= s->vocabulary;
    if (!seen->slot[number - 1]) {
        seen->slot[number - 1] = true;
        s->ids[number - 1] = id;
    } else if (s->more) {
        ctr_values_add(s->more, s->cell + (uint32_t)number - 1, id);
    } else {
        return "each slot once (--format slots-sum or slots-mean takes several)";
    }
    return NULL;
}

int ctr_slots_parse(struct da_text line, struct ctr_sample *s, struct da_why *why) {
    struct seen seen = {.numbers = 0};
    struct da_text word;
    char text[DA_QUOTE_MAX];

    memset(s->ids, 0, CTR_SLOTS * sizeof(*s->ids));
    memset(s->dense, 0, CTR_NUMBERS * sizeof(*s->dense));
    s->label = NAN;
    s->left = (struct da_text){NULL, 0};
    for (size_t n = 1; (word = da_word_next(&line)).len > 0; n++) {
        const char *colon = memchr(word.at, ':', word.len), *kind = "word";
        size_t len = colon ? (size_t)(colon - word.at) : 0;
        const char *expected = colon ? pair_take(s, &seen, (struct da_text){word.at, len},
                                           (struct da_text){colon + 1, word.len - len - 1}, &kind)
                                     : "slot:value";

        if (expected) {
            return da_why_set(
                why, kind, "word %zu is \"%s\", expected %s", n, da_quote(word, text), expected);
        }
    }
    if (seen.unknown > 0 && seen.known == 0 && seen.numbers == 0) {
        return da_why_set(why, "slots", "none of its slots is 1 to 26 or dense_feature");
    }
    return 0;
}
