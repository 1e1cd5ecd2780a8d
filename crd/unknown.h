/* Fields of a file that a PaddleJob has not, misspelt or of a relative's, and values of another
 * type than the field's.  Pure. */
#pragma once

#include "common/findings.h"
#include "common/json/json.h"

/* Finds each field that no row of crd_job has, in order of the document, and says what was meant,
 * where that can be guessed; names in paths are cut where they are too long.  What is below an open
 * object, as a pod's template, is Kubernetes' to judge. */
void crd_find_unknown(const json_t *job, struct co_findings *to);

/* The same for each value in a role's template, at `path` of the job, that has another type than
 * its row says.  The API server refuses a job with one. */
void crd_find_mistyped(const json_t *tmpl, const char *path, struct co_findings *to);

/* The same for each name in it that Kubernetes does not have and that is misspelt or out of place:
 * the API server drops such a field.  Names that resemble none may be those of a newer Kubernetes.
 */
void crd_find_misspelt(const json_t *tmpl, const char *path, struct co_findings *to);
