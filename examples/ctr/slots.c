/* Parses one line of the slot format. */
#include "examples/ctr/slots.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

struct sample {
    uint64_t vocabulary;
    uint64_t *ids;
    float *dense, label;
    bool clicked, seen[CTR_CRITEO_SLOTS];
    size_t n_dense;
};

/* Parses a whole number of at most 64 bits; false: text is not one. */
static bool number_parse(const char *text, uint64_t *ret) {
    char *end = NULL;

    if (text[0] < '0' || text[0] > '9' || strlen(text) > 19) {
        return false;
    }
    *ret = strtoull(text, &end, 10);
    return *end == '\0';
}

/* Stores a pair; returns NULL or the reason why that is not possible. */
static const char *word_take(struct sample *s, const char *slot, const char *value) {
    char *end = NULL;
    uint64_t number = 0, id = 0;

    if (strcmp(slot, "click") == 0) {
        if (s->clicked || (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)) {
            return "click once, 0 or 1";
        }
        s->clicked = true;
        s->label = value[0] == '1' ? 1.0F : 0.0F;
        return NULL;
    }
    if (strcmp(slot, "dense_feature") == 0) {
        if (s->n_dense == CTR_CRITEO_DENSE) {
            return "13 of dense_feature";
        }
        float x = strtof(value, &end);
        if (end == value || *end != '\0' || !isfinite(x)) {
            return "a number";
        }
        s->dense[s->n_dense++] = x;
        return NULL;
    }
    if (!number_parse(slot, &number) || number == 0 || number > CTR_CRITEO_SLOTS) {
        return slot[0] == '\0' ? "slot:value" : NULL;
    }
    if (s->seen[number - 1]) {
        return "each slot once";
    }
    if (!number_parse(value, &id)) {
        return "an id";
    }
    s->seen[number - 1] = true;
    s->ids[number - 1] = id % s->vocabulary;
    return NULL;
}

static int bad_word(
    const char *word, size_t number, const char *expected, char ret_reason[CTR_CRITEO_REASON_MAX]) {
    char text[24];
    size_t n = 0;

    for (; n < 20 && word[n] != '\0'; n++) {
        text[n] = (char)(word[n] >= 0x20 && word[n] < 0x7f ? word[n] : '?');
    }
    memcpy(text + n, word[n] != '\0' ? "..." : "", word[n] != '\0' ? 4 : 1);
    (void)snprintf(ret_reason, CTR_CRITEO_REASON_MAX, "word %zu is \"%s\", expected %s", number,
        text, expected);
    return -1;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

int ctr_slots_parse(const char *line, size_t len, uint64_t vocabulary,
    uint64_t ret_ids[CTR_CRITEO_SLOTS], float ret_dense[CTR_CRITEO_DENSE], float *ret_label,
    char ret_reason[CTR_CRITEO_REASON_MAX]) {
    struct sample s = {.vocabulary = vocabulary, .ids = ret_ids, .dense = ret_dense};
    char word[WORD_MAX + 1];
    size_t number = 0;

    memset(ret_ids, 0, CTR_CRITEO_SLOTS * sizeof(*ret_ids));
    memset(ret_dense, 0, CTR_CRITEO_DENSE * sizeof(*ret_dense));
    for (size_t at = 0; at < len;) {
        size_t n = 0;

        if (is_blank(line[at])) {
            at++;
            continue;
        }
        for (; at < len && !is_blank(line[at]); at++) {
            word[n] = line[at];
            n += n < WORD_MAX;
        }
        word[n] = '\0';
        number++;
        char *colon = strchr(word, ':');
        if (!colon || n == WORD_MAX) {
            return bad_word(word, number, "slot:value", ret_reason);
        }
        *colon = '\0';
        const char *expected = word_take(&s, word, colon + 1);
        if (expected) {
            *colon = ':';
            return bad_word(word, number, expected, ret_reason);
        }
    }
    if (!s.clicked) {
        (void)snprintf(ret_reason, CTR_CRITEO_REASON_MAX, "no click:0 or click:1");
        return -1;
    }
    *ret_label = s.label;
    return 0;
}

int ctr_line_parse(const char *line, size_t len, uint64_t vocabulary,
    uint64_t ret_ids[CTR_CRITEO_SLOTS], float ret_dense[CTR_CRITEO_DENSE], float *ret_label,
    char ret_reason[CTR_CRITEO_REASON_MAX]) {
    const char *tab = memchr(line, '\t', len);
    bool slots = memchr(line, ':', tab ? (size_t)(tab - line) : len) != NULL;

    return (slots ? ctr_slots_parse : ctr_criteo_parse)(
        line, len, vocabulary, ret_ids, ret_dense, ret_label, ret_reason);
}
