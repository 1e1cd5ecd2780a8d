/* Parsers of numbers, booleans, durations, endpoints and times. */
#include "common/parse.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "common/word_list.h"

/* Quotes in messages are cut, since a value may be a whole file. */
#define QUOTED "\"%.100s\""

int co_parse_i64(
    const char *what, const char *s, int64_t min, int64_t max, int64_t *ret, struct co_err *err) {
    const char *digits = *s == '-' || *s == '+' ? s + 1 : s;
    char *end = NULL;
    errno = 0;
    long long v = isdigit((unsigned char)*digits) ? strtoll(s, &end, 10) : 0;
    if (!end || *end || errno || v < min || v > max) {
        if (min == INT64_MIN && max == INT64_MAX) {
            return co_err_set(err, CO_INVALID, "%s: " QUOTED " is not an integer", what, s);
        }
        return co_err_set(err, CO_INVALID,
            "%s: " QUOTED " is not an integer from %" PRId64 " to %" PRId64, what, s, min, max);
    }
    *ret = v;
    return 0;
}

int co_parse_f64(
    const char *what, const char *s, double min, double max, double *ret, struct co_err *err) {
    char *end = NULL;
    double v = *s && !isspace((unsigned char)*s) ? strtod(s, &end) : 0;
    if (!end || end == s || *end || isnan(v) || v < min || v > max) {
        return co_err_set(
            err, CO_INVALID, "%s: " QUOTED " is not a number from %g to %g", what, s, min, max);
    }
    *ret = v;
    return 0;
}

int co_parse_bool(const char *what, const char *s, bool *ret, struct co_err *err) {
    static const char *const words[2][6] = {
        {"0", "f", "false", "n", "no", "off"},
        {"1", "t", "true", "y", "yes", "on"},
    };
    for (int v = 0; v < 2; v++) {
        for (size_t i = 0; i < CO_ARRAY_LEN(words[v]); i++) {
            if (strcasecmp(s, words[v][i]) == 0) {
                *ret = v;
                return 0;
            }
        }
    }
    return co_err_set(err, CO_INVALID, "%s: " QUOTED " is neither true nor false", what, s);
}

int co_parse_word(const char *what, const char *s, const char *const *words, bool any_case,
    unsigned *ret, struct co_err *err) {
    char list[200] = "";
    for (unsigned i = 0; words[i]; i++) {
        if ((any_case ? strcasecmp(s, words[i]) : strcmp(s, words[i])) == 0) {
            *ret = i;
            return 0;
        }
        co_word_list_add(list, sizeof(list), "%s", words[i]);
    }
    return co_err_set(err, CO_INVALID, "%s is " QUOTED ", expected one of %s", what, s, list);
}

int co_parse_duration(const char *what, const char *s, int64_t *ret_ms, struct co_err *err) {
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"ms", 1}, {"us", 1e-3}, {"ns", 1e-6}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};
    double total = 0;
    const char *p = *s == '+' ? s + 1 : s;
    if (strcmp(p, "0") == 0) {
        *ret_ms = 0;
        return 0;
    }
    do {
        size_t digits = strspn(p, "0123456789.");
        char *end = NULL;
        double v = digits ? strtod(p, &end) : 0;
        if (end != p + digits) {
            end = NULL; /* an exponent or a second point, which durations do not have */
        }
        size_t i = 0;
        while (end && i < CO_ARRAY_LEN(units) &&
               strncmp(end, units[i].unit, strlen(units[i].unit)) != 0) {
            i++;
        }
        if (!end || i == CO_ARRAY_LEN(units)) {
            return co_err_set(err, CO_INVALID,
                "%s: " QUOTED " is not a duration (such as 300ms, 15s, 1m30s)", what, s);
        }
        total += v * units[i].ms;
        p = end + strlen(units[i].unit);
    } while (*p);
    if (!(total < 9e15)) {
        return co_err_set(err, CO_INVALID, "%s: " QUOTED " is too long a duration", what, s);
    }
    *ret_ms = (int64_t)(total + 1e-6); /* 1.001s is 1001 ms, whatever its binary form */
    return 0;
}

static int hostport_invalid(const char *what, const char *s, struct co_err *err) {
    return co_err_set(err, CO_INVALID,
        "%s: " QUOTED " is not host:port (an IPv6 address needs brackets: [::1]:8080)", what, s);
}

int co_parse_hostport(
    const char *what, const char *s, struct co_hostport *ret, struct co_err *err) {
    struct co_hostport hp = {.v6 = *s == '['};
    const char *host = hp.v6 ? s + 1 : s;
    const char *end = hp.v6 ? strchr(host, ']') : strrchr(s, ':');
    const char *colon = end && hp.v6 ? end + 1 : end;
    if (!end || *colon != ':' || (size_t)(end - host) >= sizeof(hp.host)) {
        return hostport_invalid(what, s, err);
    }
    memcpy(hp.host, host, (size_t)(end - host));
    struct in6_addr v6;
    if (hp.v6 ? inet_pton(AF_INET6, hp.host, &v6) != 1 : strpbrk(hp.host, ":[]/ \t") != NULL) {
        return hostport_invalid(what, s, err);
    }
    int64_t port = 0;
    if (!isdigit((unsigned char)colon[1]) || co_parse_i64(what, colon + 1, 0, 65535, &port, NULL)) {
        return co_err_set(
            err, CO_INVALID, "%s: " QUOTED ": the port is not a number from 0 to 65535", what, s);
    }
    hp.port = (uint16_t)port;
    *ret = hp;
    return 0;
}

bool co_is_etcd(const char *address) {
    return strncmp(address, "etcd://", 7) == 0 || strncmp(address, "etcds://", 8) == 0;
}

void co_hostport_format(const char *host, unsigned port, char *ret_text, size_t size) {
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(ret_text, size, v6 ? "[%s]:%u" : "%s:%u", host, port);
}

/* s has a digit wherever pattern has "0", and otherwise the same bytes. */
static bool has_shape(const char *s, const char *pattern) {
    for (; *pattern; s++, pattern++) {
        if (*pattern == '0' ? !isdigit((unsigned char)*s) : *s != *pattern) {
            return false;
        }
    }
    return true;
}

static int read_decimal(const char *s, size_t n) {
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

int co_parse_time(const char *what, const char *s, int64_t *ret, struct co_err *err) {
    static const char shape[] = "0000-00-00T00:00:00";
    struct tm tm = {0};
    const char *p = NULL;
    if (has_shape(s, shape)) {
        tm = (struct tm){.tm_year = read_decimal(s, 4) - 1900,
            .tm_mon = read_decimal(s + 5, 2) - 1,
            .tm_mday = read_decimal(s + 8, 2),
            .tm_hour = read_decimal(s + 11, 2),
            .tm_min = read_decimal(s + 14, 2),
            .tm_sec = read_decimal(s + 17, 2)};
        bool clock = tm.tm_hour < 24 && tm.tm_min < 60 && tm.tm_sec <= 60; /* a leap second */
        p = clock ? s + sizeof(shape) - 1 : NULL;
    }
    if (p && *p == '.' && isdigit((unsigned char)p[1])) {
        p += 1 + strspn(p + 1, "0123456789");
    }
    int day = tm.tm_mday, month = tm.tm_mon;
    time_t t = timegm(&tm); /* turns 30 February into 1 or 2 March, which is checked below */
    if (!p || strcmp(p, "Z") != 0 || tm.tm_mday != day || tm.tm_mon != month) {
        return co_err_set(err, CO_INVALID,
            "%s: " QUOTED " is not a time in UTC such as 2021-02-08T07:43:24Z", what, s);
    }
    *ret = t;
    return 0;
}

static void put_decimal(char *at, size_t n, int v) {
    for (; n > 0; v /= 10) {
        at[--n] = (char)('0' + v % 10);
    }
}

/* Without printf, which is slow: each pod and event has several times. */
int64_t co_time_of(const char *s) {
    int64_t t = 0;
    return s && !co_parse_time("time", s, &t, NULL) ? t : 0;
}

void co_time_format(int64_t seconds, char ret_text[32]) {
    time_t t = (time_t)seconds;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900) {
        t = 0; /* RFC 3339 cannot express it */
        (void)gmtime_r(&t, &tm);
    }
    static const char form[] = "0000-00-00T00:00:00Z";
    memcpy(ret_text, form, sizeof(form));
    put_decimal(ret_text, 4, tm.tm_year + 1900);
    put_decimal(ret_text + 5, 2, tm.tm_mon + 1);
    put_decimal(ret_text + 8, 2, tm.tm_mday);
    put_decimal(ret_text + 11, 2, tm.tm_hour);
    put_decimal(ret_text + 14, 2, tm.tm_min);
    put_decimal(ret_text + 17, 2, tm.tm_sec);
}
