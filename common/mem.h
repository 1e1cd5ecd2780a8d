/* Ownership helpers: scope cleanup, explicit transfer, allocation.
 *
 * Small allocations abort when memory is out (co_x*), as no caller can do better.  A size that came
 * from a spec, a file or a peer goes through co_try_alloc with a stated cap.  Thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "common/err.h"

#define CO_CLEANUP(fn) __attribute__((cleanup(fn)))

/* Transfers a pointer: yields its value and clears the variable. */
#define co_steal_ptr(p)                                                                            \
    __extension__({                                                                                \
        __typeof__(p) *co_pp_ = &(p);                                                              \
        __typeof__(p) co_p_ = *co_pp_;                                                             \
        *co_pp_ = NULL;                                                                            \
        co_p_;                                                                                     \
    })

/* Defines co_cleanup-style function NAMEp(type **) that calls fn(*p) when *p is set. */
#define CO_DEFINE_CLEANUP(type, fn)                                                                \
    static inline void fn##p(type *p) {                                                            \
        if (*p) {                                                                                  \
            fn(*p);                                                                                \
            *p = NULL;                                                                             \
        }                                                                                          \
    }

static inline void co_freep(void *p) {
    void **pp = (void **)p;
    free(*pp);
    *pp = NULL;
}

static inline void co_closep(const int *fd);

#define CO_AUTOFREE CO_CLEANUP(co_freep)
#define CO_AUTOCLOSE CO_CLEANUP(co_closep)

#define CO_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

void *co_xmemory(void *p) __attribute__((returns_nonnull)); /* p, or aborts for NULL */
void *co_xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *co_xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *co_xrealloc(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Room for one item more behind the n of an array, which doubles when it is full: n is 0 or a power
 * of two then.  Such an array begins as NULL and needs no field for its room. */
void *co_xgrow(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *co_xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *co_xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *co_xasprintf(const char *fmt, ...) __attribute__((malloc, returns_nonnull)) CO_PRINTF(1, 2);

/* Zeroed memory of n * size bytes.  CO_NORESOURCE above cap bytes, CO_NOMEMORY when memory is out;
 * `what` names the thing in the message. */
CO_MUST_CHECK int co_try_alloc(
    size_t n, size_t size, size_t cap, const char *what, void **ret, struct co_err *err);

/* Closes *fd unless negative; keeps errno. */
void co_close(int fd);
static inline void co_closep(const int *fd) {
    if (*fd >= 0) {
        co_close(*fd);
    }
}

/* Transfers a descriptor: yields its number and leaves -1. */
static inline int co_steal_fd(int *fd) {
    int ret = *fd;
    *fd = -1;
    return ret;
}

/* NULL-safe string comparison. */
int co_streq(const char *a, const char *b);
bool co_ends_with(const char *text, const char *end);
