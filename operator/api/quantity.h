/* Resource quantities of Kubernetes ("500m", "1.5Gi", "1e3"), added without rounding errors: as
 * integers in billionths, the smallest unit that the API server keeps.  Pure.
 *
 * Grammar, rounding (away from zero, to a billionth) and canonical form are those of apimachinery's
 * resource.Quantity; amounts are capped at 2^63-1. */
#pragma once

#include "common/json/json.h"

enum api_quantity_style { API_DECIMAL_SI, API_BINARY_SI, API_DECIMAL_EXPONENT };

struct api_quantity {
    __int128 nano;
    enum api_quantity_style style; /* of its canonical text */
};

enum { API_QUANTITY_TEXT = 64 };

/* CO_INVALID with the text in the message. */
CO_MUST_CHECK int api_quantity_parse(
    const char *text, struct api_quantity *ret, struct co_err *err);
/* The same for a member of a resource list: a string or a number. */
CO_MUST_CHECK int api_quantity_decode(
    const json_t *j, struct api_quantity *ret, struct co_err *err);
/* sum += q * times; a sum of 0 takes q's style.  The sum is capped at about 10^29. */
void api_quantity_add(struct api_quantity *sum, const struct api_quantity *q, int64_t times);
/* The canonical text. */
void api_quantity_format(const struct api_quantity *q, char ret[API_QUANTITY_TEXT]);
