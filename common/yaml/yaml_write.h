/* Writes a tree as YAML as people do: block style, and quotes only where a word would mean
 * something else without them.  The result reads back as the same tree (yaml.h). */
#pragma once

#include "common/buf.h"
#include "common/json/json.h"

/* Appends one document to out.  CO_INVALID: YAML cannot express a text, or out is full. */
CO_MUST_CHECK int co_yaml_write(const json_t *tree, struct co_buf *out, struct co_err *err);
