/* Initial values of sparse rows. Each is a pure function of (seed, id, position in the row), so
 * that they depend neither on the number of servers nor on the order of pushes. No state; any
 * thread.
 *
 * With mix the finaliser of splitmix64 and s = mix(seed ^ mix(id + 0x632be59bd9b4e019)), u(i) =
 * mix(s + (i + 1) 0x9e3779b97f4a7c15) / 2^64, down to 53 bits, is uniform in [0, 1), and for value
 * k n = sqrt(-2 log(1 - u(2k))) cos(2 pi u(2k + 1)) is normal.  Formulas of the kinds stand in
 * init.c, from which docs/rules.md is printed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { OPTIM_INIT_PARAMS = 4 };

struct optim_init_param {
    const char *name;
    double initial, min, max;
    const char *help;
};

struct optim_initializer;

/* Value k of a row of dim values; s as above. */
typedef double (*optim_init_fn)(
    const struct optim_initializer *in, uint64_t s, size_t dim, size_t k);

struct optim_init_kind {
    const char *name;
    optim_init_fn value;
    struct optim_init_param params[OPTIM_INIT_PARAMS]; /* name NULL behind the last one */
    const char *formula;                               /* of value k */
    const char *help;
};

/* A plain value: copy it freely. */
struct optim_initializer {
    const struct optim_init_kind *kind;
    double p[OPTIM_INIT_PARAMS]; /* as the kind's params */
    uint64_t seed;
};

/* The table of kinds.  Static storage. */
const struct optim_init_kind *optim_init_kinds(size_t *ret_n);

/* Reads "zero", "constant:value=1", "uniform:min=-1,max=1", "normal:mean=0,std=1", ... A parameter
 * that is not named keeps its default. NULL or "": zero. CO_INVALID names the mistake and what was
 * expected. */
CO_MUST_CHECK int optim_initializer_parse(
    const char *text, uint64_t seed, struct optim_initializer *ret, struct co_err *err);

void optim_initializer_row(
    const struct optim_initializer *in, uint64_t id, size_t dim, float *ret_row);
