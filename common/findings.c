/* Hands on what was found, while there is room for more. */
#include "common/findings.h"

#include <stdio.h>

#include "common/mem.h"
#include "common/utf8.h"

void co_finding(struct co_findings *to, const char *path, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    co_utf8_trim(text);
    CO_AUTOFREE char *message = co_xasprintf("%s %s", path, text);
    co_finding_as(to, path, message);
}

void co_finding_as(struct co_findings *to, const char *path, char *message) {
    for (char *p = message; *p; p++) {
        *p = (unsigned char)*p < ' ' || *p == 127 ? '?' : *p;
    }
    if (to->n < to->max) {
        to->fn(to->arg, path, message);
        to->n++;
    }
}
