#include "common/pairs.h"

#include <string.h>

/* The rest of the list behind its first pair; NULL: there is none. */
static const char *next_of(const char *list) {
    const char *comma = strchr(list, ',');
    return comma ? comma + 1 : NULL;
}

int co_pairs_once(const char *list, struct co_err *err) {
    for (const char *a = list; a; a = next_of(a)) {
        size_t n = strcspn(a, "=,");
        for (const char *b = next_of(a); b && n > 0; b = next_of(b)) {
            if (strcspn(b, "=,") == n && memcmp(a, b, n) == 0) {
                return co_err_set(err, CO_INVALID, "\"%.*s\" is twice in \"%.80s\"",
                    n < 40 ? (int)n : 40, a, list);
            }
        }
    }
    return 0;
}
