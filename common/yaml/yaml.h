/* Reads YAML documents as JSON values, by libyaml, as kubectl does.  Depth, number of values and
 * bytes are limited, also after the expansion of aliases.  Knows nothing of what the documents
 * mean.  For one thread.
 *
 * What kubectl does (YAML 1.1; measured with sigs.k8s.io/yaml 1.6):
 *   - an unquoted y n yes no on off true false, in three spellings each, is a boolean; as a key it
 *     becomes "true" or "false"
 *   - 010, 0o10 and 0x8 are 8, 0b11 is 3, 1_000 is 1000, 1e3 is 1000
 *   - null, ~ and nothing are null
 *   - times and base-60 numbers are strings, and so are quoted and block scalars
 *   - the tags !!str !!int !!float !!bool !!null are obeyed, other tags make strings
 *   - "<<" merges: it overrides keys before it, and keys after it override it
 * Different from kubectl: a duplicate key is an error, and so is !!binary.  .inf and .nan are
 * errors, since JSON has no such numbers. */
#pragma once

#include "common/json/json.h"

struct co_yaml; /* a stream of documents */

/* Reads `text` (borrowed, must outlive the stream); `name` (borrowed) is used in messages. */
CO_MUST_CHECK int co_yaml_open(
    const char *name, const char *text, size_t len, struct co_yaml **ret, struct co_err *err);
void co_yaml_close(struct co_yaml *y);
CO_DEFINE_CLEANUP(struct co_yaml *, co_yaml_close)

/* The next document; empty and null ones are skipped.  CO_NOTFOUND at the end; CO_INVALID
 * "name:line:column: cause" for a syntax error or a duplicate key; CO_NORESOURCE beyond a limit.
 * After an error every further call returns the same error. */
CO_MUST_CHECK int co_yaml_next(struct co_yaml *y, json_t **ret, struct co_err *err);

/* The line (from 1) of the key or list item at a dotted path of the current document
 * ("spec.worker.template.spec.containers.0.image", or "containers[0]").  If the path is absent
 * or comes from an alias, it is the line of the nearest known parent. */
int co_yaml_line(const struct co_yaml *y, const char *path);
