/* Finds the known word that is nearest to an unknown one, for "did you mean ...?".  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct co_near {
    const char *word; /* borrowed */
    size_t len;
    size_t best; /* letters that may differ */
    bool found;
};

struct co_near co_near_begin(const char *word, size_t len);
/* True when the known word is nearer than all before it, and near enough: a third of the letters
 * may differ, but at least two; capitals do not count. */
bool co_near_try(struct co_near *near, const char *known);
