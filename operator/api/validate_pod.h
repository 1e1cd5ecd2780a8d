/* What the API server or kubelet would reject in a role's template, said before there is a cluster:
 * for `validate`.  The operator leaves it to them, whose words are newer.  Pure. */
#pragma once

#include "operator/api/job.h"

/* path: dotted, list items by number.  message: one line that begins with the path. */
typedef void (*api_found_fn)(void *arg, const char *path, const char *message);

/* Calls fn for each thing that is wrong, `max` times at most, and returns how often.  tmpl: a
 * template, whose fields may have any type (crd_find_mistyped reports those); base: its path. */
struct api_template_use {
    bool ends; /* its pods must end, and only its restartPolicy says whether containers restart */
    bool host; /* its pods are on the network of their nodes, whatever it says itself */
};
size_t api_template_validate(const json_t *tmpl, struct api_template_use use, const char *base,
    size_t max, api_found_fn fn, void *arg);
