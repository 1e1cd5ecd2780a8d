/* What the API server or kubelet would reject in a role's template, said before there is a cluster:
 * for `validate`.  The operator leaves it to them, whose words are newer.  Pure. */
#pragma once

#include "operator/api/job.h"

/* path: dotted, list items by number.  message: one line that begins with the path. */
typedef void (*api_found_fn)(void *arg, const char *path, const char *message);

/* Calls fn for each thing that is wrong, `max` times at most, and returns how often.  tmpl: a
 * template, whose fields may have any type (crd_find_mistyped reports those); ends: its pods must
 * end, and nothing but its restartPolicy says whether containers are started again; base: its path.
 */
size_t api_template_validate(
    const json_t *tmpl, bool ends, const char *base, size_t max, api_found_fn fn, void *arg);
