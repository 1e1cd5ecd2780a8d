/* Levenshtein's distance: how many letters to insert, delete or replace. */
#include "common/near.h"

#include <string.h>

enum { WORD_MAX = 64 }; /* of longer words only the beginnings are compared */

static size_t min2(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t edit_distance(const char *a, size_t la, const char *b) {
    size_t lb = strnlen(b, WORD_MAX);
    la = min2(la, WORD_MAX);
    size_t row[WORD_MAX + 1];
    for (size_t j = 0; j <= lb; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = min2(replaced, min2(row[j], row[j - 1]) + 1);
        }
    }
    return row[lb];
}

struct co_near co_near_begin(const char *word, size_t len) {
    return (struct co_near){.word = word, .len = len, .best = len / 3 < 2 ? 2 : len / 3};
}

bool co_near_try(struct co_near *near, const char *known) {
    /* Capitals alone make no other word: PS is ps, however short it is. */
    const bool same = strlen(known) == near->len && strncasecmp(near->word, known, near->len) == 0;
    size_t d = same ? 0 : edit_distance(near->word, near->len, known);
    if ((d && d >= near->len) || d > near->best || (d == near->best && near->found)) {
        return false;
    }
    near->best = d;
    near->found = true;
    return true;
}
