/* Parses fields of lines. */
#include "runtime/train/data/text.h"

#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/parse.h"

enum { NUMBER_MAX = 128 }; /* bytes: databases write many zeros */

bool da_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

struct da_text da_trim(struct da_text t) {
    while (t.len > 0 && da_is_blank(t.at[t.len - 1])) {
        t.len--;
    }
    while (t.len > 0 && da_is_blank(t.at[0])) {
        t.at++;
        t.len--;
    }
    return t;
}

struct da_text da_word_next(struct da_text *rest) {
    struct da_text word;

    *rest = da_trim(*rest);
    word = (struct da_text){rest->at, 0};
    while (word.len < rest->len && !da_is_blank(rest->at[word.len])) {
        word.len++;
    }
    rest->at += word.len;
    rest->len -= word.len;
    return word;
}

bool da_is(struct da_text t, const char *word) {
    return strlen(word) == t.len && memcmp(t.at, word, t.len) == 0;
}

bool da_u64(struct da_text t, uint64_t *ret) {
    uint64_t value = 0;

    for (size_t i = 0; i < t.len; i++) {
        if (t.at[i] < '0' || t.at[i] > '9' || __builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(t.at[i] - '0'), &value)) {
            return false;
        }
    }
    *ret = value;
    return t.len > 0;
}

/* Whole numbers, which are most, the fast way; all else with the strict parser. */
bool da_number(struct da_text t, double *ret) {
    bool minus = t.len > 0 && t.at[0] == '-';
    struct da_text digits = {t.at + minus, t.len - minus};
    char copy[NUMBER_MAX];
    uint64_t value = 0;

    if (digits.len <= 15 && da_u64(digits, &value)) {
        *ret = minus ? -(double)value : (double)value;
        return true;
    }
    if (t.len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, t.at, t.len);
    copy[t.len] = '\0';
    return strlen(copy) == t.len && co_parse_f64("number", copy, -1e15, 1e15, ret, NULL) == 0;
}

/* Whatever the case of its letters. */
static bool is_word(struct da_text t, const char *word) {
    return strlen(word) == t.len && strncasecmp(t.at, word, t.len) == 0;
}

bool da_label(struct da_text t, float *ret) {
    static const struct {
        const char *word;
        double label;
    } words[] = {{"true", 1}, {"false", 0}};
    double x = 0.0;
    bool is = da_number(t, &x) && (x == 0.0 || x == 1.0 || x == -1.0);

    for (size_t i = 0; !is && i < CO_ARRAY_LEN(words); i++) {
        is = is_word(t, words[i].word);
        x = words[i].label;
    }
    *ret = is ? (float)x : *ret;
    return is;
}

bool da_is_missing(struct da_text t) {
    static const char *const words[] = {"", "NA", "N/A", "NaN", "NULL", "None", "\\N", "?"};
    bool is = false;

    for (size_t i = 0; !is && i < CO_ARRAY_LEN(words); i++) {
        is = is_word(t, words[i]);
    }
    return is;
}

const char *da_quote(struct da_text t, char ret_text[DA_QUOTE_MAX]) {
    size_t n = t.len < 20 ? t.len : 20;

    for (size_t i = 0; i < n; i++) {
        ret_text[i] = (char)(t.at[i] >= 0x20 && t.at[i] < 0x7f ? t.at[i] : '?');
    }
    memcpy(ret_text + n, n < t.len ? "..." : "", n < t.len ? 4 : 1);
    return ret_text;
}
