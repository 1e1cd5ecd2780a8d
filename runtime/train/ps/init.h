/* First values of sparse rows: pure functions of (seed, id, place in the row), so that neither
 * the number of servers nor the order of pushes matters.  No state, any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum rt_init_kind { RT_INIT_ZERO, RT_INIT_CONSTANT, RT_INIT_UNIFORM, RT_INIT_NORMAL };

struct rt_initializer {
    enum rt_init_kind kind;
    double a, b; /* value; min, max; mean, std */
    uint64_t seed;
};

/* "zero", "constant:value=1", "uniform:min=-1,max=1", "normal:mean=0,std=1".  NULL or "": zero.
 * CO_INVALID names what is wrong and what was expected. */
CO_MUST_CHECK int rt_initializer_parse(
    const char *text, uint64_t seed, struct rt_initializer *ret, struct co_err *err);

void rt_initializer_row(const struct rt_initializer *in, uint64_t id, size_t dim, float *ret_row);

/* Mixes all bits of x into all bits of the result. */
uint64_t rt_mix64(uint64_t x);
