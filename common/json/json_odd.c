/* Parses JSON that jansson rejects but other parsers accept: rewrites the text, then tries again.
 */
#include <string.h>

#include "common/buf.h"
#include "common/json/json.h"

enum { DEPTH_MAX = 1000, TEXT_MAX = 256 << 20 };

/* Rewrites a text in one pass, from `at` to `out`, which has room for twice the length. */
struct tamer {
    const char *at, *end;
    char *out;
    size_t depth;
};

static void emit_text(struct tamer *t, const char *text, size_t n) {
    if (t->depth <= DEPTH_MAX) {
        memcpy(t->out, text, n);
        t->out += n;
    }
}

/* A string with its quotes. */
static void take_string(struct tamer *t) {
    static const char nul[] = "\\u0000", instead[] = "\\ufffd";
    const char *run = t->at++;
    while (t->at < t->end && *t->at != '"') {
        size_t left = (size_t)(t->end - t->at);
        if (left >= 6 && memcmp(t->at, nul, 6) == 0) {
            emit_text(t, run, (size_t)(t->at - run));
            emit_text(t, instead, 6);
            run = t->at += 6;
        } else {
            t->at += *t->at == '\\' && left > 1 ? 2 : 1;
        }
    }
    t->at += t->at < t->end;
    emit_text(t, run, (size_t)(t->at - run));
}

static bool fits_64_bits(const char *digits, size_t n) {
    return n < 19 || (n == 19 && memcmp(digits, "9223372036854775807", 19) <= 0);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static void take_number(struct tamer *t) {
    const char *start = t->at;
    const char *digits = start + (*start == '-');
    const char *p = digits;
    while (p < t->end && is_digit(*p)) {
        p++;
    }
    bool whole = p == t->end || !strchr(".eE", *p);
    bool fits = fits_64_bits(digits, (size_t)(p - digits));
    while (p < t->end && (is_digit(*p) || strchr("+-.eE", *p))) {
        p++;
    }
    t->at = p;
    emit_text(t, start, (size_t)(p - start));
    if (whole && !fits) {
        emit_text(t, ".0", 2);
    }
}

static void take_next(struct tamer *t) {
    char c = *t->at;
    if (c == '"') {
        take_string(t);
    } else if (is_digit(c) || c == '-') {
        take_number(t);
    } else if (c == '{' || c == '[') {
        if (t->depth == DEPTH_MAX) {
            emit_text(t, "null", 4);
        }
        t->depth++;
        emit_text(t, t->at++, 1);
    } else if (c == '}' || c == ']') {
        emit_text(t, t->at++, 1);
        t->depth -= t->depth > 0;
    } else {
        emit_text(t, t->at++, 1);
    }
}

static bool is_odd(enum json_error_code code) {
    return code == json_error_stack_overflow || code == json_error_numeric_overflow ||
           code == json_error_null_byte_in_key;
}

int co_json_parse_odd(const char *text, size_t len, json_t **ret, struct co_err *err) {
    enum json_error_code why;
    struct co_err first = {0};
    int r = co_json_load(text, len, ret, &why, &first);
    if (!r) {
        return 0;
    }
    if (!is_odd(why)) {
        return co_err_set(err, r, "%s", co_err_text(&first));
    }
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT_MAX);
    CO_TRY(co_buf_reserve(&b, 2 * len, err));
    struct tamer t = {.at = text, .end = text + len, .out = b.data};
    while (t.at < t.end) {
        take_next(&t);
    }
    return co_json_parse(b.data, (size_t)(t.out - b.data), ret, err);
}
