/* Keys and values of labels, annotations and selectors, as the API server takes them: for
 * `validate`.  Pure. */
#pragma once

#include "common/findings.h"
#include "common/json/json.h"

/* Looks at what has such keys below obj, whatever its type: labels, annotations, nodeSelector,
 * matchLabels, matchExpressions.  base: obj's path. */
void api_labels_validate(const json_t *obj, const char *base, struct co_findings *to);
