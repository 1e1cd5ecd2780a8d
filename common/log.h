/* Structured logging: one line for each message on stderr, logfmt by default, JSON by flag.
 *
 *   co_log_info("job finished", CO_S("job", name), CO_I("pods", 4));
 *
 * error = a human must act; warn = degraded, but continuing; info = a state a user cares about;
 * debug = per object.  Lower case, no trailing stop.  Never secrets.  Thread-safe: a line is
 * one write(2).  Level and format are process-wide, set once by main. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum co_log_level { CO_LOG_ERROR, CO_LOG_WARN, CO_LOG_INFO, CO_LOG_DEBUG };
enum co_log_format { CO_LOG_LOGFMT, CO_LOG_JSON };

struct co_kv {
    const char *key; /* NULL ends the list */
    enum { CO_KV_STR, CO_KV_INT, CO_KV_FLOAT, CO_KV_BOOL } type;
    union {
        const char *s;
        int64_t i;
        double f;
    };
};

#define CO_S(k, v) ((struct co_kv){.key = (k), .type = CO_KV_STR, .s = (v)})
#define CO_I(k, v) ((struct co_kv){.key = (k), .type = CO_KV_INT, .i = (int64_t)(v)})
#define CO_F(k, v) ((struct co_kv){.key = (k), .type = CO_KV_FLOAT, .f = (v)})
#define CO_B(k, v) ((struct co_kv){.key = (k), .type = CO_KV_BOOL, .i = (v)})
#define CO_E(err) ((struct co_kv){.key = "err", .type = CO_KV_STR, .s = co_err_text(err)})

#define CO_KV_END ((struct co_kv){.key = NULL})
#define co_log(level, msg, ...)                                                                    \
    do {                                                                                           \
        if (co_log_enabled(level)) {                                                               \
            co_log_write(                                                                          \
                level, msg, (const struct co_kv[]){CO_KV_END, ##__VA_ARGS__, CO_KV_END} + 1);      \
        }                                                                                          \
    } while (0)
#define co_log_error(...) co_log(CO_LOG_ERROR, __VA_ARGS__)
#define co_log_warn(...) co_log(CO_LOG_WARN, __VA_ARGS__)
#define co_log_info(...) co_log(CO_LOG_INFO, __VA_ARGS__)
#define co_log_debug(...) co_log(CO_LOG_DEBUG, __VA_ARGS__)

bool co_log_enabled(enum co_log_level level);
void co_log_write(enum co_log_level level, const char *msg, const struct co_kv *kvs);
void co_log_setup(enum co_log_level level, enum co_log_format format);
CO_MUST_CHECK int co_log_level_parse(const char *s, enum co_log_level *ret, struct co_err *err);
/* Sets the file descriptor to log to; default 2.  For tests and for programs that log elsewhere. */
void co_log_set_fd(int fd);
