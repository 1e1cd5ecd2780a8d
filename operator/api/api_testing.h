/* For tests only: JSON written with ' instead of ", which reads better in C strings. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/json/json.h"
#include "common/mem.h"

/* Parses the text; the caller owns the result.  Fails the test when it is not JSON. */
static inline json_t *tk_json(const char *text) {
    CO_AUTOFREE char *copy = co_xstrdup(text);
    for (char *p = copy; *p; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    struct co_err err = {0};
    json_t *j = NULL;
    if (co_json_parse(copy, strlen(copy), &j, &err)) {
        fail_msg("%s in %s", err.msg, text);
    }
    return j;
}
