/* Validates and cuts UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing beyond U+10FFFF.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins at s, ASCII included.  0: it is invalid, or longer than
 * `left`, which must be at least 1. */
size_t co_utf8_len(const char *s, size_t left);
/* All of s is valid. */
bool co_utf8_valid(const char *s);
/* Removes an incomplete character at the end of s. */
void co_utf8_trim(char *s);
/* The largest number of bytes of s, at most `max`, that does not cut a character; for "%.*s". */
int co_utf8_fit(const char *s, int max);
