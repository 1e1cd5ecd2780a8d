/* Which template a pod gets.  Once some pods of an attempt have started, one that is created gets
 * the template that the attempt began with.
 *
 *      no pod has started                          the spec's
 *      the spec has the same template still        the spec's
 *      the spec was edited, the ConfigMap has it   the ConfigMap's, read when a pod needs it
 *      the spec was edited, nothing has it         the spec's, and SpecChanged says so
 *
 * The ConfigMap is created with the templates as annotations (api/began.h): it lives as long as the
 * attempt, and no pod starts before it exists.  Templates are not kept in memory, so plan_compute
 * asks for them (plan.lacks_templates).  An earlier version had them in the status; they are moved
 * from there. */
#pragma once

#include "operator/plan/children.h"

/* NULL: it has to be read first.  Also of a role without a template. */
const json_t *plan_templates_get(const struct plan_children *w, enum api_role role);
/* No role's has to be read first. */
bool plan_templates_known(const struct plan_children *w);
/* The annotations that the ConfigMap lacks; NULL: none.  The caller owns them. */
json_t *plan_templates_missing(const struct plan_children *w);
/* The status has one that the ConfigMap lacks. */
bool plan_templates_in_status_only(const struct plan_children *w);

/* Writes which fields of the spec differ from what the pods of the present attempt began with, and
 * what to do; false when none does. */
bool plan_templates_changed(const struct plan_children *w, char *ret, size_t size);
