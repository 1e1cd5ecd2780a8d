/* The parser of number ranges. */
#include "operator/api/range.h"

#include <string.h>

/* -1 when there are no digits, or too many. */
static int32_t take_digits(const char **text, size_t most) {
    size_t n = strspn(*text, "0123456789");
    int32_t v = n == 0 || n > most ? -1 : 0;
    for (const char *end = *text + n; v >= 0 && *text < end; (*text)++) {
        v = v * 10 + (**text - '0');
    }
    return v;
}

bool api_range_take(const char **text, size_t digits, int32_t *ret_first, int32_t *ret_last) {
    const char *p = *text;
    int32_t first = take_digits(&p, digits);
    int32_t last = first;
    if (first >= 0 && *p == '-') {
        p++;
        last = take_digits(&p, digits);
    }
    if (last < first || last < 0 || (*p && *p != ',') || (*p && !p[1])) {
        return false;
    }
    *text = p + (*p == ',');
    *ret_first = first;
    *ret_last = last;
    return true;
}

bool api_exit_codes_parse(const char *text, uint64_t ret[4]) {
    uint64_t set[4] = {0};
    do {
        int32_t first, last;
        if (!api_range_take(&text, 3, &first, &last) || last > 255) {
            return false;
        }
        for (int32_t code = first; code <= last; code++) {
            set[code / 64] |= UINT64_C(1) << code % 64;
        }
    } while (*text);
    memcpy(ret, set, sizeof(set));
    return true;
}
