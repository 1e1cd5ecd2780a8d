/* Lists of words for messages: "a, b, c". */
#pragma once

#include <stddef.h>

/* Appends an item to the list, which is empty at first.  When one does not fit, the list ends with
 * "..." and takes no more. */
__attribute__((format(printf, 3, 4))) void co_word_list_add(
    char *list, size_t size, const char *format, ...);
