/* Detects running pods that still use the former address of a replaced peer: a process cannot be
 * given new addresses.  Pure. */
#pragma once

#include "operator/plan/children.h"

/* For an update of the ConfigMap to env: if an address changes while some pods run (and the number
 * of peers does not), returns the creation time of the oldest pod that has not started, in seconds;
 * else 0.  It is stored as an annotation of the ConfigMap. */
int64_t plan_stale_since(const struct plan_children *w, const json_t *env);
enum { PLAN_STALE_MAX = 400 };
/* Writes which pod's address changed, since when, which pod has the old one, and what to do; false
 * when no pod has an old one. */
bool plan_stale_say(const struct plan_children *w, char *ret, size_t size);
