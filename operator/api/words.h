/* Fields of the spec that take one of a few words.
 *
 * The CRD lets any string through, as upstream's does, and upstream's operator never says that it
 * does not know one: a word that means nothing is taken for one that does, and named.  Pure. */
#pragma once

#include "common/json.h"

#include <stdbool.h>

enum op_word_field { OP_WORD_CLEAN, OP_WORD_INTRANET, OP_WORD_SUCCESS, OP_WORD_FIELDS };

/* What the spec has there: of an enum in job.h. */
int op_word_value(enum op_word_field field, const json_t *spec);
const char *op_word_path(enum op_word_field field); /* "spec.intranet" */
/* True when the spec has a word there that means nothing: then ret is one line that says which,
 * where, what was expected and what it is taken for. */
bool op_word_is_odd(enum op_word_field field, const json_t *spec, char *ret, size_t size);
