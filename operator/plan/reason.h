/* Finds status.reason and status.message: why a job does not run, or why it has failed.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* Sets o's reason, message and blocked, if it has no reason yet. */
void plan_reason_find(struct plan_assessment *o, const struct plan_children *w, const json_t *env);
/* Why a pod failed: writes the message and returns the reason, which is borrowed. */
const char *plan_reason_of_pod(const struct api_pod *pod, char *ret_text, size_t size);
/* Writes who asks a pod to end, and why; n: how many pods are asked. */
void plan_reason_of_disruption(const struct api_pod *pod, int32_t n, char *ret_text, size_t size);
