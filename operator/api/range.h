/* Numbers and ranges of them in a text, "3,5-7": exit codes of failurePolicy, indexes in a status.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes the first of "3,5-7" off the text, of at most 9 digits a number; false, and nothing is
 * taken, when none is there. */
bool op_range_take(const char **text, size_t digits, int32_t *ret_first, int32_t *ret_last);
/* Exit codes as "3" or "1-127,137"; false, and *ret untouched, when it is not that. */
bool op_exit_codes_parse(const char *text, uint64_t ret[4]);
