/* Parses lines of the Criteo format. */
#include "examples/ctr/criteo.h"

#include <stdio.h>
#include <string.h>

#include "common/parse.h"

/* The smallest value and the range of each number, as the authors of the model fixed them. */
static const float minimum[CTR_CRITEO_DENSE] = {0, -3};
static const float range[CTR_CRITEO_DENSE] = {
    20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50};

static uint64_t hash_fnv1a(uint64_t hash, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3U;
    }
    return hash;
}

uint64_t ctr_criteo_id(unsigned column, const char *value, size_t len, uint64_t vocabulary) {
    char digits[4];
    size_t n = 0;

    do {
        digits[sizeof(digits) - ++n] = (char)('0' + (char)(column % 10U));
        column /= 10U;
    } while (column && n < sizeof(digits));
    uint64_t hash = hash_fnv1a(0xcbf29ce484222325U, digits + sizeof(digits) - n, n);
    return hash_fnv1a(hash, value, len) % vocabulary;
}

/* Prepares a field for a message: cuts it, and replaces bytes that would upset a terminal. */
static void quote_field(const char *field, size_t len, char ret_text[24]) {
    size_t n = len < 20 ? len : 20;

    for (size_t i = 0; i < n; i++) {
        ret_text[i] = (char)(field[i] >= 0x20 && field[i] < 0x7f ? field[i] : '?');
    }
    memcpy(ret_text + n, n < len ? "..." : "", n < len ? 4 : 1);
}

static int bad_field(unsigned column, const char *field, size_t len, const char *expected,
    char ret_reason[CTR_CRITEO_REASON_MAX]) {
    char text[24];

    quote_field(field, len, text);
    (void)snprintf(ret_reason, CTR_CRITEO_REASON_MAX, "column %u is \"%s\", expected %s", column,
        text, expected);
    return -1;
}

/* Parses whole numbers fast, and everything else (some exports contain "1.0") with the strict
 * parser. */
static int number_parse(const char *field, size_t len, double *ret) {
    size_t at = len > 0 && field[0] == '-';
    char copy[32];
    int64_t value = 0;

    if (len - at >= 1 && len - at <= 15) {
        while (at < len && field[at] >= '0' && field[at] <= '9') {
            value = value * 10 + (field[at++] - '0');
        }
        if (at == len) {
            *ret = (double)(field[0] == '-' ? -value : value);
            return 0;
        }
    }
    if (len >= sizeof(copy)) {
        return -1;
    }
    memcpy(copy, field, len);
    copy[len] = '\0';
    if (strlen(copy) != len) {
        return -1;
    }
    return co_parse_f64("number", copy, -1e15, 1e15, ret, NULL) < 0 ? -1 : 0;
}

static int dense_parse(unsigned column, const char *field, size_t len, float *ret_x,
    char ret_reason[CTR_CRITEO_REASON_MAX]) {
    size_t i = column - 2;
    double x;

    if (len == 0) {
        *ret_x = 0.0F;
        return 0;
    }
    if (number_parse(field, len, &x) < 0) {
        return bad_field(column, field, len, "a number or nothing", ret_reason);
    }
    *ret_x = (float)((x - (double)minimum[i]) / (double)range[i]);
    return 0;
}

static int columns_check(const char *line, size_t len, char ret_reason[CTR_CRITEO_REASON_MAX]) {
    size_t columns = 1;

    for (size_t i = 0; i < len; i++) {
        columns += line[i] == '\t';
    }
    if (columns != CTR_CRITEO_COLUMNS) {
        (void)snprintf(ret_reason, CTR_CRITEO_REASON_MAX, "%zu columns, expected %d", columns,
            CTR_CRITEO_COLUMNS);
        return -1;
    }
    return 0;
}

int ctr_criteo_parse(const char *line, size_t len, uint64_t vocabulary,
    uint64_t ret_ids[CTR_CRITEO_SLOTS], float ret_dense[CTR_CRITEO_DENSE], float *ret_label,
    char ret_reason[CTR_CRITEO_REASON_MAX]) {
    const char *at = line, *end = line + len;

    if (len > 0 && line[len - 1] == '\r') {
        end--;
        len--;
    }
    if (columns_check(line, len, ret_reason) < 0) {
        return -1;
    }
    for (unsigned column = 1; column <= CTR_CRITEO_COLUMNS; column++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        const char *field = at;
        size_t n = (size_t)((tab ? tab : end) - field);

        at = tab ? tab + 1 : end;
        if (column == 1) {
            if (n != 1 || (field[0] != '0' && field[0] != '1')) {
                return bad_field(column, field, n, "0 or 1", ret_reason);
            }
            *ret_label = (float)(field[0] - '0');
        } else if (column <= 1 + CTR_CRITEO_DENSE) {
            if (dense_parse(column, field, n, &ret_dense[column - 2], ret_reason) < 0) {
                return -1;
            }
        } else {
            ret_ids[column - 2 - CTR_CRITEO_DENSE] =
                ctr_criteo_id(column - 1, field, n, vocabulary);
        }
    }
    return 0;
}
