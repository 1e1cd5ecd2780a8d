/* PADDLE_INIT_*: what trainers of Paddle 0.8 to 0.12 are told; servers there have flags only. */
#pragma once

#include "runtime/train/env/read.h"

/* A trainer's place in such a job. */
struct rt_v2 {
    uint32_t index, n_workers;
    struct rt_endpoints servers;
};

/* PADDLE_INIT_PSERVERS is not empty: the trainer is one of a cluster. */
bool rt_v2_is_set(const struct rt_read *e);
/* Servers are hosts x ports, host by host: the ports for dense parameters, then those for sparse
 * ones.  Which table lives where is this runtime's business, so that both kinds are used alike. */
CO_MUST_CHECK int rt_v2_load(const struct rt_read *e, struct rt_v2 *ret, struct co_err *err);
