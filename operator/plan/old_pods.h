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
/* Reports a rejected delete of a job that lives on. */
bool plan_old_find_undeleted(struct plan_assessment *o, const struct plan_children *w);
/* Adds to the message of a job that is suspended or has ended what of it is still there, and why;
 * without a message that is the reason. */
void plan_old_add(struct plan_assessment *o, const struct plan_children *w);
