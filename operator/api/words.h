/* Fields of the spec whose value is one of a few words.
 *
 * The CRD accepts any string there, as upstream's does, and upstream's operator silently treats an
 * unknown word as one that it knows.  So do we, but we report it.  Pure. */
#pragma once

#include <stdbool.h>

#include "common/json/json.h"

enum api_word_field { API_WORD_CLEAN, API_WORD_INTRANET, API_WORD_SUCCESS, API_WORD_FIELDS };

/* The field's value, a constant of its enum in job.h. */
int api_word_value(enum api_word_field field, const json_t *spec);
const char *api_word_path(enum api_word_field field); /* "spec.intranet" */
/* True when the field has an unknown word; ret is one line that says which word, in which field,
 * what was expected, and how it is treated. */
bool api_word_is_odd(enum api_word_field field, const json_t *spec, char *ret, size_t size);
