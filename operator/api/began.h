/* Snapshot of the spec fields that the present attempt of a job began with, as one line in its
 * status (status.began):
 *
 *      spec generation 3, intranet PodIP, withGloo 1, worker template 99aa00bb
 *
 * A running attempt keeps these values even if the spec changes: its pods have read them, and pods
 * with different values could not work together.  Templates are there as hashes, which only show
 * that they differ; the templates themselves are annotations of the attempt's ConfigMap, for pods
 * that have to be replaced.  A hash shows which attempt an annotation belongs to.  Scaling and the
 * run policy are not part of it, except for np: how far an elastic job without a limit may grow.
 * Pure. */
#pragma once

#include "operator/api/job.h"

enum {
    API_BEGAN_MAX = 256,
    /* Larger templates are not stored twice: an object has at most 256 KiB of annotations. */
    API_BEGAN_TEMPLATE_MAX = 64 * 1024,
};

/* The annotation of a ConfigMap that has the role's template, as JSON. */
const char *api_began_annotation(enum api_role role);
/* The hash of a template, and the one in a line; 0: no template. */
uint32_t api_began_hash(const json_t *tmpl);
uint32_t api_began_hash_of(const char *text, enum api_role role);

/* Writes the line for the spec as it is now. */
void api_began_write(const struct api_job *job, char ret[API_BEGAN_MAX]);
/* False when the text is not such a line; anybody may have written the status. */
bool api_began_read(const char *text, struct api_shape *ret);
/* The spec has the same generation, so nothing else needs to be compared. */
bool api_began_is_current(const char *text, const struct api_job *job);
/* Writes the fields that differ in the present spec ("spec.intranet, spec.worker.template") and
 * returns their number.  A role that was added or removed is not a difference. */
size_t api_began_differs(const char *text, const struct api_job *job, char *ret, size_t size);
bool api_began_template_differs(const char *text, const struct api_job *job, enum api_role role);
/* Parses a template, or templates by role; NULL when it is something else or too large.  The caller
 * owns the result. */
json_t *api_began_parse(const char *text);
