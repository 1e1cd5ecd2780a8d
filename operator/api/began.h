/* Snapshot of the spec fields that the present attempt of a job began with, as one line in its
 * status (status.began):
 *
 *      spec generation 3, intranet PodIP, withGloo 1, worker template 99aa00bb
 *
 * A running attempt keeps these values even if the spec changes: its pods have read them, and pods
 * with different values could not work together.  Templates are there as hashes, which only show
 * that they differ; the templates themselves are stored beside the line, as JSON by role, for pods
 * that have to be replaced.  Scaling and the run policy are not part of it, except for np: how far
 * an elastic job without a limit may grow.  Pure. */
#pragma once

#include "operator/api/job.h"

enum {
    API_BEGAN_MAX = 256,
    API_BEGAN_TEMPLATES_MAX = 64 * 1024, /* larger ones are not stored twice */
};

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
/* The spec's templates as JSON; the caller frees it.  NULL: too large. */
char *api_began_write_templates(const struct api_job *job);
/* Parses such a text; NULL when it is something else.  The caller owns the result. */
json_t *api_began_templates(const char *text);
