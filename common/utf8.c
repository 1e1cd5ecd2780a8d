/* UTF-8 validation and cutting. */
#include "common/utf8.h"

#include <string.h>

/* Of a character that begins with a byte from 0x80 on; 0: none does. */
static size_t length_of(unsigned char first) {
    if (first < 0xC2 || first >= 0xF5) {
        return 0;
    }
    if (first < 0xE0) {
        return 2;
    }
    return first < 0xF0 ? 3 : 4;
}

size_t co_utf8_len(const char *s, size_t left) {
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) {
        return 1;
    }
    size_t n = length_of(u[0]);
    if (n > left) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool bad = n && ((u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] > 0x9F) ||
                        (u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] > 0x8F));
    return bad ? 0 : n;
}

bool co_utf8_valid(const char *s) {
    size_t n;
    for (size_t left = strlen(s); left; left -= n, s += n) {
        n = co_utf8_len(s, left);
        if (!n) {
            return false;
        }
    }
    return true;
}

void co_utf8_trim(char *s) {
    size_t n = strlen(s), at = n;
    while (at > 0 && n - at < 3 && ((unsigned char)s[at - 1] & 0xC0) == 0x80) {
        at--;
    }
    at -= at > 0;
    if (n > 0 && co_utf8_len(s + at, n - at) != n - at) {
        s[at] = '\0';
    }
}

int co_utf8_fit(const char *s, int max) {
    size_t n = strnlen(s, (size_t)max);
    while (n > 0 && ((unsigned char)s[n] & 0xC0) == 0x80) {
        n--;
    }
    return (int)n;
}
