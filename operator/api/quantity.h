/* Amounts of resources as Kubernetes writes them ("500m", "1.5Gi", "1e3"), summed without a loss:
 * whole billionths, the smallest that the API server keeps.  No floats.  Pure.
 *
 * Grammar, rounding (away from zero, to a billionth) and the canonical text are those of
 * apimachinery's resource.Quantity; an amount beyond 2^63-1 counts as that. */
#pragma once

#include "common/json.h"

enum op_quantity_style { OP_DECIMAL_SI, OP_BINARY_SI, OP_DECIMAL_EXPONENT };

struct op_quantity {
    __int128 nano;
    enum op_quantity_style style; /* of its text */
};

enum { OP_QUANTITY_TEXT = 64 };

/* CO_INVALID with the text in the message. */
CO_MUST_CHECK int op_quantity_parse(const char *text, struct op_quantity *ret, struct co_err *err);
/* The same for a member of a resource list: a string or a number. */
CO_MUST_CHECK int op_quantity_decode(const json_t *j, struct op_quantity *ret, struct co_err *err);
/* sum += q * times; a sum of nothing takes over q's style.  Stays at the largest amount there is
 * (some 10^29) when the sum is beyond it. */
void op_quantity_add(struct op_quantity *sum, const struct op_quantity *q, int64_t times);
/* The canonical text. */
void op_quantity_format(const struct op_quantity *q, char ret[OP_QUANTITY_TEXT]);
