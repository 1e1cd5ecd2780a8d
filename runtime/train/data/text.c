/* Parses fields of lines. */
#include "runtime/train/data/text.h"

#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/parse.h"

enum { NUMBER_MAX = 128 }; /* bytes: databases write many zeros */

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

/* Up to 19 digits, which always fit. */
static bool short_u64(struct da_text t, uint64_t *ret) {
    uint64_t value = 0;

    for (size_t i = 0; i < t.len; i++) {
        unsigned digit = (unsigned)(unsigned char)t.at[i] - '0';

        if (digit > 9) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret = value;
    return t.len > 0;
}

bool da_u64(struct da_text t, uint64_t *ret) {
    uint64_t value = 0;

    if (t.len <= 19) {
        return short_u64(t, ret);
    }
    for (size_t i = 0; i < t.len; i++) {
        if (t.at[i] < '0' || t.at[i] > '9' || __builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(t.at[i] - '0'), &value)) {
            return false;
        }
    }
    *ret = value;
    return t.len > 0;
}

/* Digits with a point among them, or without, 15 at most: their number and the power of ten are
 * doubles without an error, so that the quotient is what strtod gives. */
static bool plain_number(struct da_text t, double *ret) {
    static const double powers[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint64_t value = 0;
    size_t decimals = 0;
    bool point = false;

    if (t.len == 0 || t.len > 15 || t.at[t.len - 1] == '.' || t.at[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < t.len; i++) {
        unsigned digit = (unsigned)(unsigned char)t.at[i] - '0';

        if (t.at[i] == '.' && !point) {
            point = true;
        } else if (digit < 10) {
            value = value * 10 + digit;
            decimals += point;
        } else {
            return false;
        }
    }
    *ret = (double)value / powers[decimals];
    return true;
}

/* What most numbers are, the fast way; all else with the strict parser. */
bool da_number(struct da_text t, double *ret) {
    bool minus = t.len > 0 && t.at[0] == '-';
    char copy[NUMBER_MAX];
    double value = 0.0;

    if (plain_number((struct da_text){t.at + minus, t.len - minus}, &value)) {
        *ret = minus ? -value : value;
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

    if (t.len > 4 || (t.len > 0 && t.at[0] >= '0' && t.at[0] <= '9')) { /* most are numbers */
        return false;
    }

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
