/* Parsing, adding and formatting of quantities, in 128-bit integers. */
#include "operator/api/quantity.h"

#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

enum { NANO_DIGITS = 9, EXPONENT_MAX = 1000 };

#define NANO ((__int128)1000000000)
#define AMOUNT_MAX (NANO * INT64_MAX)

static const struct suffix {
    const char *text;
    enum api_quantity_style style;
    int power; /* of 10, or of 2 */
} suffixes[] = {
    {"n", API_DECIMAL_SI, -9},
    {"u", API_DECIMAL_SI, -6},
    {"m", API_DECIMAL_SI, -3},
    {"", API_DECIMAL_SI, 0},
    {"k", API_DECIMAL_SI, 3},
    {"M", API_DECIMAL_SI, 6},
    {"G", API_DECIMAL_SI, 9},
    {"T", API_DECIMAL_SI, 12},
    {"P", API_DECIMAL_SI, 15},
    {"E", API_DECIMAL_SI, 18},
    {"Ki", API_BINARY_SI, 10},
    {"Mi", API_BINARY_SI, 20},
    {"Gi", API_BINARY_SI, 30},
    {"Ti", API_BINARY_SI, 40},
    {"Pi", API_BINARY_SI, 50},
    {"Ei", API_BINARY_SI, 60},
};

/* ---- reading -------------------------------------------------------------------------------- */

/* mantissa * 10^exponent; more: digits other than 0 were dropped. */
struct decimal {
    __int128 mantissa;
    int exponent;
    bool more;
};

static void drop_digit(struct decimal *d) {
    d->more |= d->mantissa % 10 != 0;
    d->mantissa /= 10;
    d->exponent++;
}

static void push_digit(struct decimal *d, int digit, bool fraction) {
    /* 28 digits are enough for every amount up to the cap, in billionths. */
    static const __int128 full = NANO * NANO * NANO * 10;
    if (d->mantissa < full) {
        d->mantissa = d->mantissa * 10 + digit;
        d->exponent -= fraction;
    } else {
        d->more |= digit != 0;
        d->exponent += !fraction;
    }
}

/* Multiplies; drops digits of the fraction if there is no room for them.  False: too large. */
static bool multiply(struct decimal *d, __int128 factor) {
    __int128 product;
    while (__builtin_mul_overflow(d->mantissa, factor, &product)) {
        if (d->exponent >= 0) {
            return false;
        }
        drop_digit(d);
    }
    d->mantissa = product;
    return true;
}

/* The amount times 2^power2 in billionths, rounded up, capped at AMOUNT_MAX. */
static __int128 to_nano(struct decimal d, int power2) {
    bool fits = multiply(&d, (__int128)1 << power2);
    d.exponent += NANO_DIGITS;
    while (fits && d.exponent > 0 && d.mantissa) {
        d.exponent--;
        fits = !__builtin_mul_overflow(d.mantissa, (__int128)10, &d.mantissa);
    }
    while (d.exponent < 0 && d.mantissa) {
        drop_digit(&d);
    }
    if (!fits || d.mantissa >= AMOUNT_MAX) {
        return AMOUNT_MAX;
    }
    return d.mantissa + d.more;
}

/* Reads digits with at most one point.  Returns their end; NULL when there are none. */
static const char *read_number(const char *s, struct decimal *ret) {
    bool fraction = false;
    bool any = false;
    for (;; s++) {
        if (*s >= '0' && *s <= '9') {
            push_digit(ret, *s - '0', fraction);
            any = true;
        } else if (*s == '.' && !fraction) {
            fraction = true;
        } else {
            return any ? s : NULL;
        }
    }
}

/* "e3", "E-12": true when s is all of that. */
static bool read_exponent(const char *s, int *ret) {
    if (*s != 'e' && *s != 'E') {
        return false;
    }
    bool negative = s[1] == '-';
    s += 1 + (s[1] == '-' || s[1] == '+');
    size_t n = strspn(s, "0123456789");
    if (n == 0 || s[n]) {
        return false;
    }
    int value = 0;
    for (; *s; s++) {
        value = value > EXPONENT_MAX ? value : value * 10 + (*s - '0');
    }
    *ret = negative ? -value : value;
    return true;
}

static bool read_suffix(const char *s, enum api_quantity_style *style, int *ret_power) {
    for (size_t i = 0; i < CO_ARRAY_LEN(suffixes); i++) {
        if (strcmp(s, suffixes[i].text) == 0) {
            *style = suffixes[i].style;
            *ret_power = suffixes[i].power;
            return true;
        }
    }
    *style = API_DECIMAL_EXPONENT;
    return read_exponent(s, ret_power);
}

int api_quantity_parse(const char *text, struct api_quantity *ret, struct co_err *err) {
    struct api_quantity q = {.nano = 0};
    struct decimal d = {.mantissa = 0};
    int power = 0;
    const char *end = read_number(text + (*text == '-' || *text == '+'), &d);
    if (!end || !read_suffix(end, &q.style, &power)) {
        return co_err_set(err, CO_INVALID,
            "\"%.*s\" is not a quantity, expected a number and a unit such as 500m, 2 or 1.5Gi",
            co_utf8_fit(text, 60), text);
    }
    bool binary = q.style == API_BINARY_SI;
    d.exponent += binary ? 0 : power;
    q.nano = to_nano(d, binary ? power : 0);
    q.nano = *text == '-' ? -q.nano : q.nano;
    *ret = q;
    return 0;
}

int api_quantity_decode(const json_t *j, struct api_quantity *ret, struct co_err *err) {
    if (json_is_string(j)) {
        return api_quantity_parse(json_string_value(j), ret, err);
    }
    if (!json_is_number(j)) {
        return co_err_set(err, CO_INVALID, "expected a quantity: a string or a number");
    }
    /* Fifteen digits: the precision of a double. */
    CO_AUTOFREE char *text = json_dumps(j, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    return api_quantity_parse(text ? text : "", ret, err);
}

/* ---- sums ----------------------------------------------------------------------------------- */

void api_quantity_add(struct api_quantity *sum, const struct api_quantity *q, int64_t times) {
    /* The cap of sums, with either sign: fits 128 bits, and its text fits API_QUANTITY_TEXT. */
    static const __int128 most = AMOUNT_MAX * 10000000000;
    __int128 product, total;
    sum->style = sum->nano ? sum->style : q->style;
    bool over = __builtin_mul_overflow(q->nano, times, &product) ||
                __builtin_add_overflow(sum->nano, product, &total) || total > most || total < -most;
    sum->nano = !over ? total : (q->nano < 0) == (times < 0) ? most : -most;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Divides by `step` as often as possible, as the canonical form has the largest unit without a
 * fraction.  Returns the index of the unit. */
static int take_factors(__int128 *n, int step, int last) {
    int taken = 0;
    while (*n && *n % step == 0 && taken < last) {
        *n /= step;
        taken++;
    }
    return taken;
}

static void put_number(char ret[API_QUANTITY_TEXT], __int128 n, const char *suffix) {
    char digits[API_QUANTITY_TEXT];
    size_t at = sizeof(digits) - 1;
    bool negative = n < 0;
    digits[at] = '\0';
    do {
        int d = (int)(n % 10);
        digits[--at] = (char)('0' + (d < 0 ? -d : d));
        n /= 10;
    } while (n);
    (void)snprintf(ret, API_QUANTITY_TEXT, "%s%.40s%.8s", negative ? "-" : "", digits + at, suffix);
}

static void format_binary(__int128 n, char ret[API_QUANTITY_TEXT]) {
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    int power = take_factors(&n, 1024, (int)CO_ARRAY_LEN(units) - 1);
    put_number(ret, n, units[power]);
}

static void format_decimal(__int128 nano, bool exponent, char ret[API_QUANTITY_TEXT]) {
    static const char *const units[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    enum { ONE = 3 };
    int power = nano ? take_factors(&nano, 1000, (int)CO_ARRAY_LEN(units) - 1) : ONE;
    char e[8] = "";
    if (exponent && power != ONE) {
        (void)snprintf(e, sizeof(e), "e%d", 3 * (power - ONE));
    }
    put_number(ret, nano, exponent ? e : units[power]);
}

void api_quantity_format(const struct api_quantity *q, char ret[API_QUANTITY_TEXT]) {
    __int128 whole = q->nano / NANO;
    bool binary =
        q->style == API_BINARY_SI && q->nano % NANO == 0 && (whole >= 1024 || whole <= -1024);
    if (binary) {
        format_binary(whole, ret);
    } else {
        format_decimal(q->nano, q->style == API_DECIMAL_EXPONENT, ret);
    }
}
