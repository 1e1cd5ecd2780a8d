/* Whether the CRD in the cluster knows the fields of the status.  The API server drops those that
 * it does not know, without an error: the CRD is of an earlier version, as `helm upgrade` leaves
 * it. */
#pragma once

#include "common/json/jdoc.h"
#include "operator/api/job.h"

enum { CTL_FIELD_MAX = 64 }; /* of a field's path, as worker.createdIndexes, with the NUL */

struct ctl_crd {
    char dropped[CTL_FIELD_MAX]; /* the field that is dropped, as the log says; "": none */
};

/* A status was written, and the answer has another one.  Logs the first field that was dropped,
 * once until another answer has it: then the CRD was replaced, which is logged, too. */
void ctl_crd_check(struct ctl_crd *c, const struct api_job *job, const json_t *written,
    const struct co_jnode *stored);
