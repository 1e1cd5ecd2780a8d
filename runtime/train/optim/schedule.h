/* Learning rates over time. A schedule computes the rate of step t, from 0, from a table's (or a
 * parameter's) lr. Pure: no state, any thread.
 *
 * A kind is a row of one table in schedule.c, from which docs/rules.md is printed, with
 * n = t / steps, or its floor with staircase=1.  By paddle.optimizer.lr of Paddle 3.3.1; steps and
 * staircase by the functions of Paddle 1; poly to pass_manual by learning_rate_schedule of
 * PaddlePaddle 0.x, whose t counted samples: divide by the batch.
 *
 * Every kind has a warmup (Paddle's LinearWarmup): while t < warmup, the line from warmup_start to
 * warmup_end, which is lr unless given; then the kind's rate at t - warmup.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { OPTIM_SCHEDULE_PARAMS = 4, OPTIM_SCHEDULE_LIST = 32 };

struct optim_schedule_param {
    const char *name;
    double initial, min, max;
    const char *help;
};

struct rt_schedule;
typedef double (*optim_schedule_fn)(const struct rt_schedule *s, double lr, double t);

struct optim_schedule_kind {
    const char *name;
    optim_schedule_fn rate;
    struct optim_schedule_param params[OPTIM_SCHEDULE_PARAMS]; /* name NULL behind the last one */
    int at;                                                    /* 1: has the list "at" */
    int values; /* 1: has "values" as long as "at"; 2: with one more */
    const char *formula;
    const char *help;
};

struct optim_schedule_list {
    double v[OPTIM_SCHEDULE_LIST];
    size_t n;
};

/* A plain value: copy it freely. */
struct rt_schedule {
    const struct optim_schedule_kind *kind;
    double p[OPTIM_SCHEDULE_PARAMS]; /* as the kind's params */
    double warmup, warmup_start, warmup_end;
    struct optim_schedule_list at, values;
};

/* The table of kinds, and the parameters that all have.  Static storage. */
const struct optim_schedule_kind *optim_schedule_kinds(size_t *ret_n);
const struct optim_schedule_param *optim_schedule_common(size_t *ret_n);

/* "cosine:steps=10000,warmup=500", "piecewise:at=100:200,values=1:0.1:0.01"; what is not named
 * keeps its initial value.  NULL or "": constant.  CO_INVALID names what is wrong and what was
 * expected. */
CO_MUST_CHECK int optim_schedule_parse(
    const char *text, struct rt_schedule *ret, struct co_err *err);

/* It makes lr of lr, at all times. */
bool optim_schedule_is_constant(const struct rt_schedule *s);

/* Never negative, never above 1e30, always a number. */
double optim_schedule_rate(const struct rt_schedule *s, double lr, uint64_t t);
