/* For tests only: JSON written with ' for ", as C strings read better so. */
#pragma once

#include "common/json.h"
#include "common/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Yours; fails the test when it is no JSON. */
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
