#include "common/log.h"

#include "common/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* Process-wide by intent: set once by main before other threads exist. */
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
    return co_err_set(err, CO_INVALID, "\"%s\" is no log level (error, warn, info, debug)", s);
}

struct line {
    char text[LINE_MAX_BYTES];
    size_t len; /* at most sizeof(text) - 1: room for the line feed */
};

static void put(struct line *l, const char *s, size_t n) {
    size_t room = sizeof(l->text) - 1 - l->len;
    if (n > room) {
        n = room;
    }
    memcpy(l->text + l->len, s, n);
    l->len += n;
}

static void puts_(struct line *l, const char *s) {
    put(l, s, strlen(s));
}

static CO_PRINTF(2, 3) void putf(struct line *l, const char *fmt, ...) {
    char text[64];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    puts_(l, text);
}

static void put_quoted(struct line *l, const char *s) {
    put(l, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            char two[2] = {'\\', (char)c};
            put(l, two, 2);
        } else if (c == '\n') {
            put(l, "\\n", 2);
        } else if (c < 0x20 || c == 0x7f) {
            putf(l, "\\u%04x", c);
        } else {
            put(l, s, 1);
        }
    }
    put(l, "\"", 1);
}

static bool is_bare(const char *s) {
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static void put_value(struct line *l, const struct co_kv *kv) {
    switch (kv->type) {
    case CO_KV_INT:
        putf(l, "%" PRId64, kv->i);
        return;
    case CO_KV_FLOAT:
        putf(l, "%.6g", kv->f);
        return;
    case CO_KV_BOOL:
        puts_(l, kv->i ? "true" : "false");
        return;
    case CO_KV_STR:
    default:
        break;
    }
    const char *s = kv->s ? kv->s : "";
    if (g_format == CO_LOG_LOGFMT && *s && is_bare(s)) {
        puts_(l, s);
    } else {
        put_quoted(l, s);
    }
}

static void put_key(struct line *l, const char *key) {
    if (g_format == CO_LOG_JSON) {
        puts_(l, l->len ? ",\"" : "{\"");
        puts_(l, key);
        puts_(l, "\":");
    } else {
        if (l->len) {
            put(l, " ", 1);
        }
        puts_(l, key);
        put(l, "=", 1);
    }
}

static void put_str(struct line *l, const char *key, const char *value) {
    put_key(l, key);
    put_value(l, &CO_S(key, value));
}

void co_log_write(enum co_log_level level, const char *msg, const struct co_kv *kvs) {
    struct line l = {.len = 0};
    struct timespec ts;
    struct tm tm;
    char when[48];
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(when + n, sizeof(when) - n, ".%03dZ", (int)(ts.tv_nsec / 1000000));
    put_str(&l, "time", when);
    put_str(&l, "level", level_names[level]);
    put_str(&l, "msg", msg);
    for (; kvs->key; kvs++) {
        put_key(&l, kvs->key);
        put_value(&l, kvs);
    }
    if (g_format == CO_LOG_JSON) {
        if (l.len >= sizeof(l.text) - 2) {
            l.len = sizeof(l.text) - 3; /* a cut line still ends as an object would */
            put(&l, "\"", 1);
        }
        put(&l, "}", 1);
    }
    l.text[l.len] = '\n';
    (void)!write(g_fd, l.text, l.len + 1);
}
