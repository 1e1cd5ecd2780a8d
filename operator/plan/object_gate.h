/* The start gate: the init container that the operator adds to a pod, which waits until all
 * addresses of the job are known (operator/gate).
 *
 * It must pass every rule of a namespace that the template's own containers pass: its user is
 * theirs, its request and its limit are equal, and where they request more than it needs, so does
 * it.  That costs nothing, because it ends before they start.  Pure. */
#pragma once

#include "operator/plan/plan.h"

bool plan_gate_is_wanted(const struct plan_settings *settings);
/* The container for a pod with this spec (a template's); the caller owns it. */
json_t *plan_gate_container(const json_t *spec, const struct plan_settings *settings);
/* What it requests; NULL: there is no gate.  The caller owns it. */
json_t *plan_gate_requests(const json_t *spec, const struct plan_settings *settings);
