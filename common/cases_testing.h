/* How many random cases a test draws.  With sanitizers a case takes several times as long, and what
 * these look for (races, errors of memory) any case of a kind shows: there a part will do, unless
 * CASES_ALL is set.  Programs as shipped draw all. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t co_test_cases(uint32_t all, uint32_t with_sanitizers) {
    return getenv("PADDLE_SANITIZED") && !getenv("CASES_ALL") ? with_sanitizers : all;
}
