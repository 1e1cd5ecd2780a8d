/* Formats log lines in a buffer on the stack and writes each with one write(2). */
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/utf8.h"

enum { LINE_MAX_BYTES = 4096, BARE_MAX_BYTES = 512 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* Globals on purpose: main sets them once, before other threads exist. */
static enum co_log_level g_level = CO_LOG_INFO;
static enum co_log_format g_format = CO_LOG_LOGFMT;
static int g_fd = 2;

bool co_log_enabled(enum co_log_level level) {
    return level <= g_level;
}

void co_log_setup(enum co_log_level level, enum co_log_format format) {
    g_level = level;
    g_format = format;
}

void co_log_set_fd(int fd) {
    g_fd = fd;
}

int co_log_level_parse(const char *s, enum co_log_level *ret, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(level_names); i++) {
        if (strcmp(s, level_names[i]) == 0) {
            *ret = (enum co_log_level)i;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "\"%s\" is not a log level (error, warn, info, debug)", s);
}

/* Once something did not fit nothing more is added.  END bytes are reserved for what must end the
 * line: a quote, a brace, a line feed. */
struct log_line {
    char text[LINE_MAX_BYTES];
    size_t len;
    bool full;
};
enum { END = 3 };

/* Adds all bytes or none. */
static void add_bytes(struct log_line *l, const char *s, size_t n) {
    if (l->full || n > sizeof(l->text) - END - l->len) {
        l->full = true;
        return;
    }
    memcpy(l->text + l->len, s, n);
    l->len += n;
}

static void add_text(struct log_line *l, const char *s) {
    add_bytes(l, s, strlen(s));
}

static CO_PRINTF(2, 3) void add_format(struct log_line *l, const char *fmt, ...) {
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    add_text(l, text);
}

static void add_quoted(struct log_line *l, const char *s) {
    add_bytes(l, "\"", 1);
    if (l->full) {
        return;
    }
    while (*s) {
        unsigned char c = (unsigned char)*s;
        size_t n = co_utf8_len(s, 4);
        if (c == '"' || c == '\\') {
            add_bytes(l, (const char[]){'\\', *s}, 2);
        } else if (c == '\n') {
            add_bytes(l, "\\n", 2);
        } else if (c < 0x20 || c == 0x7f) {
            add_format(l, "\\u%04x", c);
        } else {
            add_bytes(l, n ? s : "?", n ? n : 1);
        }
        s += n ? n : 1;
    }
    add_bytes(l, "\"", 1);
    if (l->full) {
        l->text[l->len++] = '"'; /* close the quote of a text that was cut */
    }
}

static bool is_bare(const char *s) {
    const char *start = s;
    while (*s) {
        unsigned char c = (unsigned char)*s;
        size_t n = co_utf8_len(s, 4);
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f || n == 0) {
            return false;
        }
        s += n;
    }
    return s > start && s - start < BARE_MAX_BYTES;
}

static void add_value(struct log_line *l, const struct co_kv *kv) {
    switch (kv->type) {
    case CO_KV_INT:
        add_format(l, "%" PRId64, kv->i);
        return;
    case CO_KV_FLOAT:
        if (g_format == CO_LOG_JSON && !isfinite(kv->f)) {
            add_text(l, "null");
        } else {
            add_format(l, "%.6g", kv->f);
        }
        return;
    case CO_KV_BOOL:
        add_text(l, kv->i ? "true" : "false");
        return;
    case CO_KV_STR:
    default:
        break;
    }
    const char *s = kv->s ? kv->s : "";
    if (g_format == CO_LOG_LOGFMT && is_bare(s)) {
        add_text(l, s);
    } else {
        add_quoted(l, s);
    }
}

/* A pair is left out if nothing of its value fits. */
static void add_pair(struct log_line *l, const struct co_kv *kv) {
    size_t len = l->len;
    if (g_format == CO_LOG_JSON) {
        add_text(l, l->len ? ",\"" : "{\"");
        add_text(l, kv->key);
        add_text(l, "\":");
    } else {
        add_text(l, l->len ? " " : "");
        add_text(l, kv->key);
        add_text(l, "=");
    }
    size_t start = l->len;
    if (!l->full) {
        add_value(l, kv);
    }
    if (l->full && l->len == start) {
        l->len = len;
    }
}

void co_log_write(enum co_log_level level, const char *msg, const struct co_kv *kvs) {
    int saved = errno;
    struct log_line l = {.len = 0};
    struct timespec ts;
    struct tm tm;
    char when[48];
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(when + n, sizeof(when) - n, ".%03dZ", (int)(ts.tv_nsec / 1000000));
    add_pair(&l, &CO_S("time", when));
    add_pair(&l, &CO_S("level", level_names[level]));
    add_pair(&l, &CO_S("msg", msg));
    for (; kvs->key && !l.full; kvs++) {
        add_pair(&l, kvs);
    }
    if (g_format == CO_LOG_JSON) {
        l.text[l.len++] = '}';
    }
    l.text[l.len++] = '\n';
    (void)!write(g_fd, l.text, l.len);
    errno = saved;
}
