/* Room in a struct of a public header for fields to come (runtime/rt.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* CO_UNSUPPORTED, and whose: a program compiled against a newer header sets a field that lies
 * there, and nothing here would read it. */
CO_MUST_CHECK static inline int co_spare_check(
    const uint64_t *spare, size_t n, const char *whose, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (spare[i]) {
            return co_err_set(err, CO_UNSUPPORTED,
                "%s: an option that this library does not know: it is older than the header",
                whose);
        }
    }
    return 0;
}
#define CO_SPARE_CHECK(o, whose, err)                                                              \
    co_spare_check((o)->spare, sizeof((o)->spare) / sizeof((o)->spare[0]), (whose), (err))
