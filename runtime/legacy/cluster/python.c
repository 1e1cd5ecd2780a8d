/* The part of Python that a conf.py is written in: assignments of literals. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "runtime/legacy/cluster/conf.h"

enum { STRING_MAX = 64 << 10, LIST_MAX = 10000 };

struct python_reader {
    const char *name, *p, *end;
    int line;
    struct co_err *err;
};

static int fail(struct python_reader *r, const char *expected) {
    int n = 0;
    while (r->p + n < r->end && n < 40 && (unsigned char)r->p[n] >= ' ') {
        n++;
    }
    return co_err_set(
        r->err, CO_INVALID, "%s:%d: \"%.*s\", expected %s", r->name, r->line, n, r->p, expected);
}

static bool at(const struct python_reader *r, const char *text) {
    size_t n = strlen(text);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, text, n) == 0;
}

/* Skips blanks and comments, and inside brackets also newlines. */
static void skip(struct python_reader *r, bool lines) {
    while (r->p < r->end) {
        if (*r->p == '#') {
            while (r->p < r->end && *r->p != '\n') {
                r->p++;
            }
        } else if (at(r, "\\\n")) {
            r->p += 2;
            r->line++;
        } else if (*r->p == '\n' && lines) {
            r->p++;
            r->line++;
        } else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r') {
            return;
        } else {
            r->p++;
        }
    }
}

static bool at_string(const struct python_reader *r) {
    return r->p < r->end && (*r->p == '"' || *r->p == '\'');
}

static char unescape(char c) {
    static const char from[] = "nrt0", to[] = "\n\r\t";
    const char *found = memchr(from, c, sizeof(from) - 1);
    return found ? to[found - from] : c;
}

/* One string literal, appended to b. */
static int read_string(struct python_reader *r, struct co_buf *b) {
    const char quote = *r->p;
    const char three[] = {quote, quote, quote, '\0'};
    bool is_long = at(r, three);
    r->p += is_long ? 3 : 1;
    for (;;) {
        if (r->p == r->end || (*r->p == '\n' && !is_long)) {
            return fail(r, "the end of a string");
        }
        if (is_long ? at(r, three) : *r->p == quote) {
            r->p += is_long ? 3 : 1;
            return 0;
        }
        r->line += *r->p == '\n';
        char c = *r->p++;
        if (c == '\\' && r->p < r->end) {
            r->line += *r->p == '\n';
            c = unescape(*r->p++);
        }
        int rc = c ? co_buf_add(b, &c, 1, r->err) : fail(r, "a string without NUL");
        if (rc) {
            return rc;
        }
    }
}

/* "a" 'b' is "ab". */
static int read_strings(struct python_reader *r, bool lines, json_t **ret) {
    CO_AUTOBUF struct co_buf b = CO_BUF(STRING_MAX);
    int rc = 0;
    while (!rc && at_string(r)) {
        rc = read_string(r, &b);
        skip(r, lines);
    }
    *ret = rc ? NULL : co_json_string(b.data ? b.data : "");
    return rc;
}

static int read_word(struct python_reader *r, json_t **ret) {
    static const struct {
        const char *text;
        int value;
    } words[] = {{"True", 1}, {"False", 0}, {"None", -1}};
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        if (at(r, words[i].text)) {
            r->p += strlen(words[i].text);
            *ret = words[i].value < 0 ? json_null() : json_boolean(words[i].value);
            return 0;
        }
    }
    char digits[24];
    size_t n = 0;
    while (r->p + n < r->end && n < sizeof(digits) - 1 &&
           (isdigit((unsigned char)r->p[n]) || (n == 0 && r->p[n] == '-'))) {
        digits[n] = r->p[n];
        n++;
    }
    digits[n] = '\0';
    char *stop = digits;
    long long v = strtoll(digits, &stop, 10);
    if (n == 0 || n > 18 || *stop || stop == digits) {
        return fail(r, "a string, a number, True, False or a list of these");
    }
    r->p += n;
    *ret = json_integer(v);
    return 0;
}

static int read_scalar(struct python_reader *r, bool lines, json_t **ret) {
    return at_string(r) ? read_strings(r, lines, ret) : read_word(r, ret);
}

static int read_list(struct python_reader *r, json_t **ret) {
    const char close = *r->p++ == '[' ? ']' : ')';
    CO_AUTOJSON json_t *list = json_array();
    for (skip(r, true); r->p < r->end && *r->p != close; skip(r, true)) {
        json_t *item = NULL;
        int rc = json_array_size(list) < LIST_MAX ? read_scalar(r, true, &item)
                                                  : fail(r, "a shorter list");
        if (rc) {
            return rc;
        }
        co_json_append(list, item);
        skip(r, true);
        if (r->p < r->end && *r->p == ',') {
            r->p++;
        } else if (r->p < r->end && *r->p != close) {
            return fail(r, "\",\" or the end of the list");
        }
    }
    if (r->p == r->end) {
        return fail(r, "the end of a list");
    }
    r->p++;
    *ret = co_steal_ptr(list);
    return 0;
}

static int read_statement(struct python_reader *r, json_t *values) {
    json_t *value = NULL;
    if (at_string(r)) { /* a docstring */
        int rc = read_strings(r, false, &value);
        json_decref(value);
        return rc;
    }
    const char *name = r->p;
    while (r->p < r->end && (isalnum((unsigned char)*r->p) || *r->p == '_')) {
        r->p++;
    }
    CO_AUTOFREE char *key = co_xstrndup(name, (size_t)(r->p - name));
    skip(r, false);
    if (!*key || isdigit((unsigned char)*key) || r->p == r->end || *r->p != '=' || at(r, "==")) {
        r->p = name;
        return fail(r, "NAME = value");
    }
    r->p++;
    skip(r, false);
    bool list = r->p < r->end && (*r->p == '[' || *r->p == '(');
    int rc = list ? read_list(r, &value) : read_scalar(r, false, &value);
    if (!rc) {
        co_json_set(values, key, value);
    }
    return rc;
}

int cluster_python_read(
    const char *name, const char *text, size_t len, json_t **ret, struct co_err *err) {
    struct python_reader r = {.name = name, .p = text, .end = text + len, .line = 1, .err = err};
    CO_AUTOJSON json_t *values = json_object();
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        r.p += 3;
    }
    for (skip(&r, true); r.p < r.end; skip(&r, true)) {
        CO_TRY(read_statement(&r, values));
        skip(&r, false);
        if (r.p < r.end && *r.p != '\n' && *r.p != ';') {
            return fail(&r, "the end of the line");
        }
        r.p += r.p < r.end && *r.p == ';';
    }
    *ret = co_steal_ptr(values);
    return 0;
}
