/* Builds the bodies of a job's Services, ConfigMap and Secret, and patches of existing ones.  Pure.
 */
#pragma once

#include "operator/plan/plan.h"

json_t *plan_object_service(const struct api_job *job, const char *name);
/* The one Service of a job in DNS mode, which selects all of its pods. */
json_t *plan_object_job_service(const struct api_job *job);
/* An object without a spec: v1, kind, metadata with owner and labels. */
json_t *plan_object_new(
    const struct api_job *job, const char *kind, const char *name, json_t *meta_own);
json_t *plan_object_service_patch(const struct api_job *job, const struct api_service *have);
/* notes_own: annotations; NULL allowed. */
json_t *plan_object_configmap(const struct api_job *job, json_t *data_own, json_t *notes_own);
/* data_own NULL: it stays.  changed: a time, or 0. */
json_t *plan_object_configmap_patch(
    const struct api_configmap *have, json_t *data_own, int64_t changed, json_t *notes_own);
json_t *plan_object_secret(const struct api_job *job); /* without the token */
json_t *plan_object_finalizer_patch(const struct api_job *job);
