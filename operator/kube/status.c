/* The table from HTTP statuses, reasons and messages to error codes; and two headers. */
#include "operator/kube/status.h"

#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

/* An API server asks for up to 32 s; a gateway that asks for an hour would stop all jobs. */
enum { RETRY_MAX_S = 32 };

/* The first row that matches decides. */
static const struct {
    int http;           /* 0: any */
    const char *reason; /* NULL: any */
    const char *part;   /* of the message; NULL: any */
    int code;
} rows[] = {
    /* An admission webhook denies the request; its author chooses the status. */
    {0, NULL, "denied the request", CO_NORESOURCE},
    {400, "Expired", NULL, CO_GONE},
    {400, NULL, NULL, CO_INVALID},
    {401, NULL, NULL, CO_PERMISSION},
    /* The next two may be over soon, so they are retried; a missing permission is not. */
    {403, NULL, "exceeded quota", CO_NORESOURCE},
    {403, NULL, "error looking up service account", CO_NORESOURCE},
    {403, NULL, NULL, CO_PERMISSION},
    {404, NULL, NULL, CO_NOTFOUND},
    {405, NULL, NULL, CO_UNSUPPORTED},
    {406, NULL, NULL, CO_UNSUPPORTED},
    {408, NULL, NULL, CO_TIMEOUT},
    {409, "AlreadyExists", NULL, CO_EXISTS},
    {409, NULL, NULL, CO_CONFLICT},
    {410, NULL, NULL, CO_GONE},
    {412, NULL, NULL, CO_CONFLICT},
    {413, NULL, NULL, CO_INVALID},
    {415, NULL, NULL, CO_UNSUPPORTED},
    {422, NULL, NULL, CO_INVALID},
    {429, NULL, NULL, CO_UNAVAILABLE},
    {500, NULL, "failed calling webhook", CO_NORESOURCE},
    {500, NULL, "request is too large", CO_INVALID}, /* etcd's message */
    {504, NULL, NULL, CO_TIMEOUT},
};

int kube_status_code(int http, const char *reason, const char *message) {
    if (http >= 200 && http < 300) {
        return 0;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if ((!rows[i].http || rows[i].http == http) &&
            (!rows[i].reason || !strcmp(rows[i].reason, reason)) &&
            (!rows[i].part || strstr(message, rows[i].part))) {
            return rows[i].code;
        }
    }
    return http >= 500 ? CO_UNAVAILABLE : CO_INTERNAL;
}

int kube_status_err(
    struct co_err *err, const char *what, int http, const struct co_jnode *body, const char *text) {
    const char *reason = co_jnode_str(body, "reason");
    const char *message = co_jnode_str(body, "message");
    reason = reason ? reason : "";
    int code = kube_status_code(http, reason, message ? message : text);
    if (message && *message) {
        return co_err_set(
            err, code, "%s: %s (%d%s%s)", what, message, http, *reason ? " " : "", reason);
    }
    return co_err_set(err, code, "%s: HTTP %d%s%s%s%.200s", what, http, *reason ? " " : "", reason,
        *text && !body ? ": " : "", body ? "" : text);
}

int64_t kube_status_retry_ms(const struct co_jnode *body) {
    int64_t s;
    if (!co_jnode_int(co_jnode_at(body, "details", "retryAfterSeconds"), &s) || s <= 0) {
        return -1;
    }
    return (s > RETRY_MAX_S ? RETRY_MAX_S : s) * 1000;
}

int64_t kube_retry_header_ms(const char *value, size_t len) {
    int64_t s = 0;
    size_t digits = 0;
    for (size_t i = 0; i < len; i++) {
        if (value[i] >= '0' && value[i] <= '9') {
            s = s > RETRY_MAX_S ? s : s * 10 + (value[i] - '0');
            digits++;
        } else if (value[i] != ' ' && value[i] != '\t' && value[i] != '\r' && value[i] != '\n') {
            return -1;
        }
    }
    return digits ? (s > RETRY_MAX_S ? RETRY_MAX_S : s) * 1000 : -1;
}

/* ---- warnings ------------------------------------------------------------------------------- */

static const char *skip_chars(const char *at, const char *end, const char *set) {
    while (at < end && strchr(set, *at) && *at) {
        at++;
    }
    return at;
}

static const char *skip_word(const char *at, const char *end) {
    while (at < end && *at != ' ' && *at != '"' && *at != ',') {
        at++;
    }
    return skip_chars(at, end, " ");
}

/* Copies the quoted string at `at` to ret and returns the position after it; NULL when there is
 * none. */
static const char *read_quoted(const char *at, const char *end, char *ret, size_t size) {
    size_t n = 0;
    if (at == end || *at != '"') {
        return NULL;
    }
    for (at++; at < end && *at != '"'; at++) {
        at += *at == '\\' && at + 1 < end;
        if (n + 1 < size) {
            ret[n++] = (unsigned char)*at < ' ' ? ' ' : *at;
        }
    }
    ret[n] = '\0';
    co_utf8_trim(ret);
    return at < end ? at + 1 : NULL;
}

/* The format is: 299 - "text" ["date"], ... */
void kube_warnings_add(char texts[KUBE_WARNINGS_MAX], const char *value, size_t len) {
    const char *end = value + len;
    const char *at = skip_chars(value, end, " \t");
    while (at < end) {
        size_t n = strlen(texts);
        const char *join = n ? "; " : "";
        char text[KUBE_WARNINGS_MAX];
        char date[2];
        at = skip_word(skip_word(at, end), end);
        at = read_quoted(at, end, text, sizeof(text));
        if (!at) {
            return;
        }
        if (n + strlen(join) + strlen(text) < KUBE_WARNINGS_MAX) {
            (void)snprintf(texts + n, KUBE_WARNINGS_MAX - n, "%s%s", join, text);
        }
        const char *dated = read_quoted(skip_chars(at, end, " "), end, date, sizeof(date));
        at = skip_chars(dated ? dated : at, end, " \t,\r\n");
    }
}
