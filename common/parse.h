/* Strict parsing of untrusted text: the whole string must match, ranges are checked, and the
 * message says what was read and what was expected.  `what` names the thing in the message
 * ("--port", "PADDLE_TRAINER_ID").  Pure; errors are CO_INVALID. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

CO_MUST_CHECK int co_parse_i64(
    const char *what, const char *s, int64_t min, int64_t max, int64_t *ret, struct co_err *err);
CO_MUST_CHECK int co_parse_f64(
    const char *what, const char *s, double min, double max, double *ret, struct co_err *err);
/* The words that Go's flag package and Python's strtobool accept, in capitals or not as the latter:
 * 1 t true y yes on / 0 f false n no off. */
CO_MUST_CHECK int co_parse_bool(const char *what, const char *s, bool *ret, struct co_err *err);
/* One of the words, which end with NULL.  *ret: its index. */
CO_MUST_CHECK int co_parse_word(const char *what, const char *s, const char *const *words,
    bool any_case, unsigned *ret, struct co_err *err);
/* Go durations ("300ms", "1m30s", "1.5h"), in milliseconds. */
CO_MUST_CHECK int co_parse_duration(
    const char *what, const char *s, int64_t *ret_ms, struct co_err *err);

enum { CO_HOST_MAX = 256 };

struct co_hostport {
    char host[CO_HOST_MAX]; /* without brackets; may be "" for ":8080" */
    uint16_t port;
    bool v6; /* the host is an IPv6 literal */
};

/* "host:port", "[v6]:port", ":port"; an IPv6 literal needs brackets. */
CO_MUST_CHECK int co_parse_hostport(
    const char *what, const char *s, struct co_hostport *ret, struct co_err *err);
/* Writes "host:port" or "[host]:port"; text must hold CO_HOST_MAX + 10 bytes. */
void co_hostport_format(const char *host, unsigned port, char *ret_text, size_t size);

/* Whether an address is an etcd's, "etcd://..." or "etcds://...", and not "host:port" of a host
 * that may be called etcd, too. */
bool co_is_etcd(const char *address);

/* RFC 3339 in UTC <-> seconds since the epoch. */
CO_MUST_CHECK int co_parse_time(const char *what, const char *s, int64_t *ret, struct co_err *err);
void co_time_format(int64_t seconds, char ret_text[32]);
/* The same without an error: 0 where s is NULL or no time. */
int64_t co_time_of(const char *s);
