/* What a job asks for in vain: it is valid, and carried out, but a part of it never has an effect,
 * or waits for what cannot come.  Pure. */
#pragma once

#include "common/findings.h"
#include "common/json/json.h"

/* Finds each rule of failurePolicy that fits no pod, or none that the rules before it leave,
 * and a gang that is larger than the job. */
void opc_vain_find(const json_t *spec, struct co_findings *to);
