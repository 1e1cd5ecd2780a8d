/* Keys and values of labels, annotations and selectors, as the API server takes them: for
 * `validate`.  Pure. */
#pragma once

#include "operator/api/validate_pod.h"

/* Looks at what has such keys below obj, whatever its type: labels, annotations, nodeSelector,
 * matchLabels, matchExpressions.  Calls fn as api_template_validate does; base: obj's path. */
size_t api_labels_validate(
    const json_t *obj, const char *base, size_t max, api_found_fn fn, void *arg);
