/* What a pod's containers request, as the API server counts it: for quotas, for LimitRanges and for
 * the scheduler.  A list of resources is a JSON object, {"cpu": "500m", "memory": "1Gi"}.
 *
 * Quantities that cannot be parsed are left out: the API server rejects the pod because of them.
 * What only the cluster knows is not counted: defaults of a LimitRange, the overhead of a
 * RuntimeClass, containers that a webhook adds.  Pure. */
#pragma once

#include "operator/api/quantity.h"

/* "cpu=20m,memory=32Mi"; "" gives an empty list.  CO_INVALID with what is wrong. */
CO_MUST_CHECK int api_resources_parse(const char *text, json_t **ret, struct co_err *err);
/* A container's requests; for each resource without one its limit counts.  The caller owns it. */
json_t *api_resources_of(const json_t *container);
/* sums += list * times */
void api_resources_add(json_t *sums, const json_t *list, int64_t times);
/* For each resource of list, the larger of both. */
void api_resources_raise(json_t *most, const json_t *list);
/* What a pod with this spec requests.  Init containers run one after the other, before the others,
 * so that the largest counts; native sidecars run on beside all that follow.  last: requests of one
 * more init container at the end of the list; NULL: none.  The caller owns the result. */
json_t *api_resources_of_pod(const json_t *spec, const json_t *last);
