/* UTF-8 of RFC 3629: no longer form than needed, no halves of pairs, nothing beyond U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins at s, ASCII included; 0 when it is none, or longer than
 * `left`, which is at least 1. */
size_t co_utf8_len(const char *s, size_t left);
/* All of s is characters. */
bool co_utf8_valid(const char *s);
/* Takes a character that was cut off its end. */
void co_utf8_trim(char *s);
/* How many bytes of s, `max` at most, end with a whole character: for "%.*s". */
int co_utf8_fit(const char *s, int max);
