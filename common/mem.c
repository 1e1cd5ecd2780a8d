/* Allocation that aborts, and allocation with a cap. */
#include "common/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *co_xmemory(void *p) {
    if (!p) {
        static const char text[] = "out of memory\n";
        (void)!write(2, text, sizeof(text) - 1);
        abort();
    }
    return p;
}

void *co_xmalloc(size_t size) {
    return co_xmemory(malloc(size ? size : 1));
}

void *co_xcalloc(size_t n, size_t size) {
    return co_xmemory(calloc(n ? n : 1, size ? size : 1));
}

void *co_xrealloc(void *p, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        bytes = SIZE_MAX;
    }
    return co_xmemory(realloc(p, bytes ? bytes : 1));
}

void *co_xgrow(void *p, size_t n, size_t size) {
    return p && (n & (n - 1)) != 0 ? p : co_xrealloc(p, n ? n * 2 : 1, size);
}

char *co_xstrdup(const char *s) {
    return co_xmemory(strdup(s));
}

char *co_xstrndup(const char *s, size_t n) {
    return co_xmemory(strndup(s, n));
}

char *co_xasprintf(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    if (vasprintf(&text, fmt, ap) < 0) {
        text = NULL;
    }
    va_end(ap);
    return co_xmemory(text);
}

int co_try_alloc(
    size_t n, size_t size, size_t cap, const char *what, void **ret, struct co_err *err) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > cap) {
        return co_err_set(
            err, CO_NORESOURCE, "%s: %zu x %zu bytes exceed the limit of %zu", what, n, size, cap);
    }
    void *p = calloc(bytes ? bytes : 1, 1);
    if (!p) {
        return co_err_set(err, CO_NOMEMORY, "%s: no memory for %zu bytes", what, bytes);
    }
    *ret = p;
    return 0;
}

void co_close(int fd) {
    int saved = errno;
    (void)close(fd);
    errno = saved;
}

bool co_ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

int co_streq(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}
