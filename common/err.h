/* Errors, grouped by what the caller should do about them.
 *
 * A fallible function returns 0 or a negative enum co_code.  It describes the cause once, where it
 * is detected, in the struct co_err passed last (NULL: the caller does not need it).  Each caller
 * adds context with co_err_wrap, and the one that drops the error logs it, once.  Nothing here
 * allocates, locks or logs; a struct co_err is on the caller's stack. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum co_code {
    CO_OK = 0,
    /* retry now, with fresh data */
    CO_CONFLICT = -1,
    /* back off, then retry */
    CO_UNAVAILABLE = -2,
    CO_TIMEOUT = -3,
    CO_NORESOURCE = -4,
    /* rebuild what was lost, then continue */
    CO_GONE = -5,
    CO_PEERLOST = -6,
    /* the input must change */
    CO_INVALID = -7,
    CO_UNSUPPORTED = -8,
    /* stop: no retry helps */
    CO_INTERNAL = -9,
    CO_PERMISSION = -10,
    CO_NOMEMORY = -11,
    /* answers rather than faults */
    CO_NOTFOUND = -12,
    CO_EXISTS = -13,
    CO_CANCELED = -14,
    /* what was stored is damaged: an older copy may be whole */
    CO_DAMAGED = -15,
};

enum co_remedy { CO_RETRY_NOW, CO_BACK_OFF, CO_REBUILD, CO_FIX_SPEC, CO_STOP, CO_ANSWER };

enum { CO_ERR_MAX = 768 };

struct co_err {
    int code;             /* enum co_code; 0 while nothing was set */
    char msg[CO_ERR_MAX]; /* one line; always terminated; cut at the end with "..." */
};

#define CO_MUST_CHECK __attribute__((warn_unused_result))
/* Returns from the function that contains it when the call failed, with the call's code: steps,
 * one a line.  What the function holds is released by its cleanup attributes. */
#define CO_TRY(call)                                                                               \
    do {                                                                                           \
        const int co_try_code = (call);                                                            \
        if (co_try_code < 0) {                                                                     \
            return co_try_code;                                                                    \
        }                                                                                          \
    } while (0)
#define CO_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Sets code and message; returns code, so that `return co_err_set(...)` reads well. */
int co_err_set(struct co_err *err, int code, const char *fmt, ...) CO_PRINTF(3, 4);
int co_err_setv(struct co_err *err, int code, const char *fmt, va_list ap) CO_PRINTF(3, 0);

/* Puts "context: " before the message and returns the code already set. */
int co_err_wrap(struct co_err *err, const char *fmt, ...) CO_PRINTF(2, 3);

/* Translates errno, right where it was set; the message is "context: strerror". */
int co_err_errno(struct co_err *err, int errnum, const char *fmt, ...) CO_PRINTF(3, 4);

/* The same for a connection that could not be made.  Where packets get no answer, or none from the
 * other program, the message ends with the question for what is mostly the cause in a cluster. */
int co_err_connect(struct co_err *err, int errnum, const char *fmt, ...) CO_PRINTF(3, 4);

/* Never NULL; "unknown error" when nothing was set. */
const char *co_err_text(const struct co_err *err);

enum co_remedy co_code_remedy(int code);
const char *co_code_name(int code); /* "conflict", "timeout", ... */
/* What a training program ends with (docs/debug.md): 0; 2 where flags, environment or data must
 * change first; 1 where the same command may succeed at another time. */
int co_code_exit(int code);

#ifdef __cplusplus
}
#endif
