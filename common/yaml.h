/* YAML documents to JSON values, by libyaml, as kubectl reads them (YAML 1.1 core: true/yes
 * words as in Go's sigs.k8s.io/yaml, numbers, null, anchors and merge keys), with bounds: depth,
 * number of nodes (also after alias expansion), size.  Knows nothing of what the documents mean.
 * Owned by one thread. */
#pragma once

#include "common/json.h"

struct co_yaml; /* a stream of documents */

/* Reads `text` (borrowed, must outlive the stream); `name` (borrowed) is used in messages. */
CO_MUST_CHECK int co_yaml_open(
    const char *name, const char *text, size_t len, struct co_yaml **ret, struct co_err *err);
void co_yaml_close(struct co_yaml *y);
CO_DEFINE_CLEANUP(struct co_yaml *, co_yaml_close)

/* The next document (empty ones are skipped); CO_NOTFOUND at the end; CO_INVALID
 * "name:line:column: cause" on a syntax error or a duplicate key. */
CO_MUST_CHECK int co_yaml_next(struct co_yaml *y, json_t **ret, struct co_err *err);

/* Line (from 1) where the current document starts, and where the value at a dotted path of it
 * stands ("spec.worker.template.spec.containers.0.image"); the nearest known parent's line when
 * the path is absent. */
int co_yaml_doc_line(const struct co_yaml *y);
int co_yaml_line(const struct co_yaml *y, const char *path);
