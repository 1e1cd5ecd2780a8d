/* What is said of pods that should have ended and are still there. */
#pragma once

#include "operator/plan/assessment.h"

/* Seconds until a pod is reported that holds up the job without giving a reason itself: it does not
 * end, gets no address, or does not become ready. */
enum { PLAN_LATE = 60 };

/* The pod keeps its successor waiting. */
void plan_old_say(
    struct plan_assessment *o, const struct plan_children *w, const struct api_pod *pod);
/* The same of a pod of an earlier attempt, if there is one that has not ended in time. */
bool plan_old_find(struct plan_assessment *o, const struct plan_children *w);
/* Adds to the message of a suspended job which of its pods is still there, and why. */
void plan_old_add(struct plan_assessment *o, const struct plan_children *w);
