/* Error codes with their remedies, one-line messages, and the translation of errno. */
#include "common/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
    const char *name;
    enum co_remedy remedy;
} codes[] = {
    [-CO_OK] = {"ok", CO_ANSWER},
    [-CO_CONFLICT] = {"conflict", CO_RETRY_NOW},
    [-CO_UNAVAILABLE] = {"unavailable", CO_BACK_OFF},
    [-CO_TIMEOUT] = {"timeout", CO_BACK_OFF},
    [-CO_NORESOURCE] = {"no resource", CO_BACK_OFF},
    [-CO_GONE] = {"gone", CO_REBUILD},
    [-CO_PEERLOST] = {"peer lost", CO_REBUILD},
    [-CO_INVALID] = {"invalid", CO_FIX_SPEC},
    [-CO_UNSUPPORTED] = {"unsupported", CO_FIX_SPEC},
    [-CO_INTERNAL] = {"internal", CO_STOP},
    [-CO_PERMISSION] = {"permission", CO_STOP},
    [-CO_NOMEMORY] = {"no memory", CO_STOP},
    [-CO_NOTFOUND] = {"not found", CO_ANSWER},
    [-CO_EXISTS] = {"exists", CO_ANSWER},
    [-CO_CANCELED] = {"canceled", CO_ANSWER},
    [-CO_DAMAGED] = {"damaged", CO_STOP},
};

static int is_known(int code) {
    return code <= 0 && code > -(int)(sizeof(codes) / sizeof(codes[0])) && codes[-code].name;
}

/* Ends a message that did not fit with "...". */
static void mark_cut(char *msg, int would_be) {
    if (would_be >= CO_ERR_MAX) {
        memcpy(msg + CO_ERR_MAX - 4, "...", 4);
    }
}

/* A message is one line, even if it quotes a peer or a file. */
static void one_line(char *msg) {
    for (char *p = msg; *p; p++) {
        if ((unsigned char)*p < ' ') {
            *p = ' ';
        }
    }
}

int co_err_setv(struct co_err *err, int code, const char *fmt, va_list ap) {
    if (err) {
        err->code = code;
        mark_cut(err->msg, vsnprintf(err->msg, sizeof(err->msg), fmt, ap));
        one_line(err->msg);
    }
    return code;
}

int co_err_set(struct co_err *err, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    co_err_setv(err, code, fmt, ap);
    va_end(ap);
    return code;
}

int co_err_wrap(struct co_err *err, const char *fmt, ...) {
    if (!err) {
        return CO_INTERNAL;
    }
    char inner[CO_ERR_MAX];
    memcpy(inner, err->msg, sizeof(inner));
    char context[CO_ERR_MAX / 2];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(context, sizeof(context), fmt, ap);
    va_end(ap);
    mark_cut(err->msg, snprintf(err->msg, sizeof(err->msg), "%s: %s", context, inner));
    one_line(err->msg);
    return err->code;
}

static int errno_code(int errnum) {
    switch (errnum) {
    case ENOENT:
    case ESRCH:
        return CO_NOTFOUND;
    case EEXIST:
        return CO_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return CO_PERMISSION;
    case ENOMEM:
        return CO_NOMEMORY;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return CO_NORESOURCE;
    case ETIMEDOUT:
        return CO_TIMEOUT;
    case EAGAIN:
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRINUSE:
    case EINTR:
        return CO_UNAVAILABLE;
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
        return CO_PEERLOST;
    case EINVAL:
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
        return CO_INVALID;
    case ECANCELED:
        return CO_CANCELED;
    default:
        return CO_INTERNAL;
    }
}

/* Puts the system's words, and more, behind the message. */
static void add_words(struct co_err *err, int errnum, const char *more) {
    size_t len = strlen(err->msg);
    char text[128], limit[64] = "";
    struct rlimit files;
    if (errnum == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        (void)snprintf(limit, sizeof(limit), " (ulimit -n is %llu): raise it",
            (unsigned long long)files.rlim_cur);
    }
    mark_cut(err->msg, (int)len + snprintf(err->msg + len, sizeof(err->msg) - len, ": %s%s%s",
                                      strerror_r(errnum, text, sizeof(text)), limit, more));
}

int co_err_errno(struct co_err *err, int errnum, const char *fmt, ...) {
    int code = errno_code(errnum);
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        co_err_setv(err, code, fmt, ap);
        va_end(ap);
        add_words(err, errnum, "");
    }
    return code;
}

int co_err_connect(struct co_err *err, int errnum, const char *fmt, ...) {
    bool unanswered = errnum == ETIMEDOUT || errnum == EHOSTUNREACH || errnum == ENETUNREACH ||
                      errnum == EPERM || errnum == EACCES;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        co_err_setv(err, errno_code(errnum), fmt, ap);
        va_end(ap);
        add_words(err, errnum,
            unanswered ? ": does a NetworkPolicy or a firewall forbid it, or is nobody at that "
                         "address?"
                       : "");
    }
    return errno_code(errnum);
}

const char *co_err_text(const struct co_err *err) {
    return err && err->code ? err->msg : "unknown error";
}

enum co_remedy co_code_remedy(int code) {
    return is_known(code) ? codes[-code].remedy : CO_STOP;
}

int co_code_exit(int code) {
    return code >= 0 ? 0 : co_code_remedy(code) == CO_FIX_SPEC ? 2 : 1;
}

const char *co_code_name(int code) {
    return is_known(code) ? codes[-code].name : "unknown";
}
