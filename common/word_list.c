/* Lists of words for messages, which stay within their array. */
#include "common/word_list.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char dots[] = "...";

void co_word_list_add(char *list, size_t size, const char *format, ...) {
    size_t old = strlen(list), tail = strlen(dots);
    if (old >= tail && strcmp(list + old - tail, dots) == 0) {
        return;
    }
    size_t at = old + (size_t)snprintf(list + old, size - old, "%s", old ? ", " : "");
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(list + at, size - at, format, ap);
    va_end(ap);
    if (n < 0 || at + (size_t)n + strlen(", ...") >= size) { /* the next one may need the dots */
        (void)snprintf(list + old, size - old, "%s%s", old ? ", " : "", dots);
    }
}
