/* The parts of a template that are rows of one table: probes, lifecycle, security contexts,
 * topologySpreadConstraints, hostAliases, resourceClaims, dnsConfig and switches of the pod.
 * Pure. */
#pragma once

#include "common/findings.h"
#include "common/json/json.h"

/* Finds what an API server 1.35 rejects in them.  spec: a pod's; base: its path. */
void api_parts_validate(const json_t *spec, const char *base, struct co_findings *to);
