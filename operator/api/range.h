/* Parses lists of numbers and ranges, "3,5-7": exit codes in failurePolicy, indexes in a status.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes the first element of "3,5-7" from the text; numbers have at most `digits` digits (9).
 * False, and the text is unchanged, when there is none. */
bool api_range_take(const char **text, size_t digits, int32_t *ret_first, int32_t *ret_last);
/* Exit codes such as "3" or "1-127,137", as a bit set.  False, and *ret is unchanged, when the text
 * is something else. */
bool api_exit_codes_parse(const char *text, uint64_t ret[4]);
