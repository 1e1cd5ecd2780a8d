/* Fields of the spec whose value is one of a few words.
 *
 * The CRD accepts any string there, as upstream's does, and upstream's operator silently treats an
 * unknown word as one that it knows.  So do we, but we report it.  Pure. */
#pragma once

#include "common/json.h"

#include <stdbool.h>

enum op_word_field { OP_WORD_CLEAN, OP_WORD_INTRANET, OP_WORD_SUCCESS, OP_WORD_FIELDS };

/* The field's value, a constant of its enum in job.h. */
int op_word_value(enum op_word_field field, const json_t *spec);
const char *op_word_path(enum op_word_field field); /* "spec.intranet" */
/* True when the field has an unknown word; ret is one line that says which word, in which field,
 * what was expected, and how it is treated. */
bool op_word_is_odd(enum op_word_field field, const json_t *spec, char *ret, size_t size);
