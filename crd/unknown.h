/* Fields of a file that a PaddleJob has not, misspelt or of a relative's, and values of another
 * type than the field's.  Pure. */
#pragma once

#include "common/json/json.h"

/* path: dotted, names in it cut where they are too long; list items by number.  message: one line
 * that begins with the path and says what was meant, where that can be guessed. */
typedef void (*crd_unknown_fn)(void *arg, const char *path, const char *message);

/* Calls fn for each field that no row of crd_job has, in order of the document, at most `max`
 * times, and returns how often.  What is below an open object, as a pod's template, is Kubernetes'
 * to judge. */
size_t crd_find_unknown(const json_t *job, size_t max, crd_unknown_fn fn, void *arg);

/* The same for each value in a role's template, at `path` of the job, that has another type than
 * its row says: strings, numbers, booleans, and lists and maps of strings.  The API server refuses
 * a job with one. */
size_t crd_find_mistyped(
    const json_t *tmpl, const char *path, size_t max, crd_unknown_fn fn, void *arg);

/* The same for each name in it that Kubernetes does not have and that is misspelt or out of place:
 * the API server drops such a field.  Names that resemble none may be those of a newer Kubernetes.
 */
size_t crd_find_misspelt(
    const json_t *tmpl, const char *path, size_t max, crd_unknown_fn fn, void *arg);
