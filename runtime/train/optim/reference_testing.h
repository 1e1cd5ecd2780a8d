/* The rules as their formulas are written, one value at a time in double: what tests compare with.
 */
#pragma once

#include "runtime/train/optim/optim.h"

/* As optim_apply. */
void optim_apply_reference(const struct optim *o, size_t n, float *w, const float *g, float *state);
