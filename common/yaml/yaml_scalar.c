/* Resolution of YAML scalars to null, booleans, numbers and strings. */
#include "common/yaml/yaml_scalar.h"

#include <ctype.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* NOFORM: a number that JSON cannot express. */
struct resolved {
    enum scalar_kind { STR, NUL, BOOL, INT, FLOAT, NOFORM } kind;
    int64_t i;
    double f;
};

static const struct {
    const char *word;
    enum scalar_kind kind;
    int64_t i;
} words[] = {
    {"y", BOOL, 1},
    {"Y", BOOL, 1},
    {"yes", BOOL, 1},
    {"Yes", BOOL, 1},
    {"YES", BOOL, 1},
    {"true", BOOL, 1},
    {"True", BOOL, 1},
    {"TRUE", BOOL, 1},
    {"on", BOOL, 1},
    {"On", BOOL, 1},
    {"ON", BOOL, 1},
    {"n", BOOL, 0},
    {"N", BOOL, 0},
    {"no", BOOL, 0},
    {"No", BOOL, 0},
    {"NO", BOOL, 0},
    {"false", BOOL, 0},
    {"False", BOOL, 0},
    {"FALSE", BOOL, 0},
    {"off", BOOL, 0},
    {"Off", BOOL, 0},
    {"OFF", BOOL, 0},
    {"", NUL, 0},
    {"~", NUL, 0},
    {"null", NUL, 0},
    {"Null", NUL, 0},
    {"NULL", NUL, 0},
    {".nan", NOFORM, 0},
    {".NaN", NOFORM, 0},
    {".NAN", NOFORM, 0},
    {".inf", NOFORM, 0},
    {".Inf", NOFORM, 0},
    {".INF", NOFORM, 0},
    {"+.inf", NOFORM, 0},
    {"+.Inf", NOFORM, 0},
    {"+.INF", NOFORM, 0},
    {"-.inf", NOFORM, 0},
    {"-.Inf", NOFORM, 0},
    {"-.INF", NOFORM, 0},
};

static int digit_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Skips "0x", "0b", "0o" or the bare 0 of an octal number, and returns the base. */
static int take_base(const char **digits) {
    const char *p = *digits;
    if (p[0] != '0' || !p[1]) {
        return 10;
    }
    char c = (char)tolower((unsigned char)p[1]);
    int base = c == 'x' ? 16 : c == 'b' ? 2 : 8;
    *digits = p + (c == 'x' || c == 'b' || c == 'o' ? 2 : 1);
    return base;
}

/* Reads an integer with sign and base.  Beyond 64 bits, hexadecimal and binary numbers become
 * floats; false for decimal and octal ones, which the caller reads as decimal floats. */
static bool read_int(const char *s, struct resolved *ret) {
    bool negative = *s == '-';
    const char *p = *s == '-' || *s == '+' ? s + 1 : s;
    int base = take_base(&p);
    if (!*p) {
        return false;
    }
    uint64_t magnitude = 0;
    double approximate = 0;
    bool overflow = false;
    for (; *p; p++) {
        int d = digit_value(*p);
        if (d >= base) {
            return false;
        }
        overflow |= __builtin_mul_overflow(magnitude, (uint64_t)base, &magnitude);
        overflow |= __builtin_add_overflow(magnitude, (uint64_t)d, &magnitude);
        approximate = approximate * base + d;
    }
    overflow |= magnitude > (uint64_t)INT64_MAX + negative;
    if (overflow && (base == 10 || base == 8)) {
        return false;
    }
    if (overflow) {
        *ret = (struct resolved){.kind = FLOAT, .f = negative ? -approximate : approximate};
        return isfinite(approximate);
    }
    *ret = (struct resolved){
        .kind = INT, .i = (int64_t)(negative ? (uint64_t)0 - magnitude : magnitude)};
    return true;
}

static const char *skip_digits(const char *p) {
    while (isdigit((unsigned char)*p)) {
        p++;
    }
    return p;
}

/* [-+]? ( .d+ | d+ [.d*] ) [ e [-+]? d+ ] within the range of a double. */
static bool read_float(const char *s, struct resolved *ret) {
    const char *p = *s == '-' || *s == '+' ? s + 1 : s;
    const char *whole = skip_digits(p);
    const char *end = whole;
    if (*whole == '.') {
        end = skip_digits(whole + 1);
    }
    if (end == p || (whole == p && end == whole + 1)) {
        return false;
    }
    if (*end == 'e' || *end == 'E') {
        p = end[1] == '-' || end[1] == '+' ? end + 2 : end + 1;
        end = skip_digits(p);
        if (end == p) {
            return false;
        }
    }
    if (*end) {
        return false;
    }
    *ret = (struct resolved){.kind = FLOAT, .f = strtod(s, NULL)};
    return isfinite(ret->f);
}

static bool read_number(const char *s, size_t len, struct resolved *ret) {
    char text[512] = ""; /* without underscores, which are allowed anywhere but at the beginning */
    size_t n = 0;
    bool starts = isdigit((unsigned char)s[0]) || s[0] == '-' || s[0] == '+' ||
                  (s[0] == '.' && isdigit((unsigned char)s[1]));
    if (!starts || len >= sizeof(text)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (s[i] != '_') {
            text[n++] = s[i];
        }
    }
    text[n] = '\0';
    return (s[0] != '.' && read_int(text, ret)) || read_float(text, ret);
}

static struct resolved resolve_plain(const char *s, size_t len) {
    struct resolved r = {.kind = STR};
    if (strlen(s) != len) {
        return r;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        if (strcmp(s, words[i].word) == 0) {
            return (struct resolved){.kind = words[i].kind, .i = words[i].i};
        }
    }
    struct resolved number;
    return read_number(s, len, &number) ? number : r;
}

/* Tags that select a type; with any other tag the value is a string. */
static const struct {
    const char *tag;
    unsigned kinds; /* allowed ones, as bits */
    const char *expected;
} tags[] = {
    {CO_YAML_TAG "null", 1u << NUL, "null"},
    {CO_YAML_TAG "bool", 1u << BOOL, "a boolean"},
    {CO_YAML_TAG "int", 1u << INT, "an integer"},
    {CO_YAML_TAG "float", 1u << INT | 1u << FLOAT | 1u << NOFORM, "a number"},
};

static int classify_scalar(
    const struct co_yaml_scalar *s, struct resolved *ret, struct co_err *err) {
    struct resolved r = {.kind = STR};
    if (!s->tag && s->plain) {
        r = resolve_plain(s->text, s->len);
    }
    if (s->tag && strcmp(s->tag, CO_YAML_TAG "binary") == 0) {
        return co_err_set(
            err, CO_INVALID, "!!binary is not supported: write the base64 text as a string");
    }
    for (size_t i = 0; s->tag && i < CO_ARRAY_LEN(tags); i++) {
        if (strcmp(s->tag, tags[i].tag) == 0) {
            r = resolve_plain(s->text, s->len);
            if (!(tags[i].kinds & 1u << r.kind)) {
                return co_err_set(err, CO_INVALID, "\"%.100s\" is not %s as its tag says", s->text,
                    tags[i].expected);
            }
        }
    }
    if (r.kind == NOFORM) {
        return co_err_set(err, CO_INVALID, "%s cannot be written in JSON", s->text);
    }
    *ret = r;
    return 0;
}

bool co_yaml_is_merge(const struct co_yaml_scalar *s) {
    bool tagged = s->tag && strcmp(s->tag, CO_YAML_TAG "merge") == 0;
    return tagged || (!s->tag && s->plain && s->len == 2 && memcmp(s->text, "<<", 2) == 0);
}

/* A whole number becomes an integer however it was written: "1e3" is 1000. */
static json_t *json_number(double f) {
    bool whole = f == floor(f) && f >= -9223372036854775808.0 && f < 9223372036854775808.0;
    return whole ? json_integer((json_int_t)f) : json_real(f);
}

int co_yaml_scalar_value(const struct co_yaml_scalar *s, json_t **ret, struct co_err *err) {
    struct resolved r;
    CO_TRY(classify_scalar(s, &r, err));
    json_t *j = NULL;
    switch (r.kind) {
    case NUL:
        j = json_null();
        break;
    case BOOL:
        j = json_boolean(r.i);
        break;
    case INT:
        j = json_integer(r.i);
        break;
    case FLOAT:
        j = json_number(r.f);
        break;
    default:
        j = json_stringn(s->text, s->len);
    }
    if (!j) {
        return co_err_set(err, CO_NOMEMORY, "no memory for a value of %zu bytes", s->len);
    }
    *ret = j;
    return 0;
}

/* The shortest decimal that gives the same 32-bit float; kubectl writes keys in this way. */
static char *float_key(double wide) {
    if (fabs(wide) > (double)FLT_MAX) {
        return co_xstrdup(wide > 0 ? ".inf" : "-.inf");
    }
    double f = (double)(float)wide;
    char text[32];
    int precision = 0;
    do {
        (void)snprintf(text, sizeof(text), "%.*e", precision, f);
    } while (strtof(text, NULL) != (float)f && ++precision < 9);
    int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 6) {
        return co_xstrdup(text);
    }
    return co_xasprintf("%.*f", precision > exponent ? precision - exponent : 0, f);
}

int co_yaml_scalar_key(const struct co_yaml_scalar *s, char **ret, struct co_err *err) {
    struct resolved r;
    CO_TRY(classify_scalar(s, &r, err));
    if (strlen(s->text) != s->len) {
        return co_err_set(err, CO_INVALID, "a key holds a NUL character");
    }
    switch (r.kind) {
    case NUL:
        return co_err_set(err, CO_INVALID, "a key is null: put it in quotes");
    case BOOL:
        *ret = co_xstrdup(r.i ? "true" : "false");
        return 0;
    case INT:
        *ret = co_xasprintf("%" PRId64, r.i);
        return 0;
    case FLOAT:
        *ret = float_key(r.f);
        return 0;
    default:
        *ret = co_xstrdup(s->text);
        return 0;
    }
}
