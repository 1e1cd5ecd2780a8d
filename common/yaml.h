/* YAML documents to JSON values, by libyaml, as kubectl reads them, with bounds: depth, number of
 * values and bytes (also after alias expansion).  Knows nothing of what the documents mean.
 * Owned by one thread.
 *
 * As kubectl reads them = YAML 1.1, measured on sigs.k8s.io/yaml 1.6: an unquoted y n yes no on
 * off true false (in three spellings of case each) is a boolean, also as a key ("true"); 010, 0o10
 * and 0x8 are 8, 0b11 is 3, 1_000 is 1000, 1e3 is 1000; null, ~ and nothing are null; times and
 * base-60 numbers stay strings; quoted and block scalars are strings; !!str !!int !!float !!bool
 * !!null count, other tags make strings; "<<" merges, over what stands before it and under what
 * stands behind it.  Other than kubectl: a key written twice is an error, and so is !!binary.
 * .inf and .nan are errors, as JSON has no such number. */
#pragma once

#include "common/json.h"

struct co_yaml; /* a stream of documents */

/* Reads `text` (borrowed, must outlive the stream); `name` (borrowed) is used in messages. */
CO_MUST_CHECK int co_yaml_open(
    const char *name, const char *text, size_t len, struct co_yaml **ret, struct co_err *err);
void co_yaml_close(struct co_yaml *y);
CO_DEFINE_CLEANUP(struct co_yaml *, co_yaml_close)

/* The next document (empty and null ones are skipped); CO_NOTFOUND at the end; CO_INVALID
 * "name:line:column: cause" on a syntax error or a duplicate key, CO_NORESOURCE beyond a bound.
 * After an error nothing more can be read: the same error comes again. */
CO_MUST_CHECK int co_yaml_next(struct co_yaml *y, json_t **ret, struct co_err *err);

/* Line (from 1) where the current document starts, and where the key (or the list's item) at a
 * dotted path of it stands ("spec.worker.template.spec.containers.0.image", or "containers[0]");
 * the nearest known parent's line when the path is absent or came through an alias. */
int co_yaml_doc_line(const struct co_yaml *y);
int co_yaml_line(const struct co_yaml *y, const char *path);
