/* PADDLE_INIT_*: the variables of trainers of Paddle 0.8 to 0.12; servers there have flags only. */
#pragma once

#include "runtime/train/env/read.h"

/* A trainer's place in such a job. */
struct init_v2 {
    uint32_t index, n_workers;
    struct env_endpoints servers;
};

/* PADDLE_INIT_PSERVERS is not empty: the trainer is one of a cluster. */
bool init_v2_is_set(const struct env_read *e);
/* Servers are hosts x ports, host by host: the ports for dense parameters, then those for sparse
 * ones.  Which table lives where is this runtime's business, so that both kinds are used alike. */
CO_MUST_CHECK int init_v2_load(const struct env_read *e, struct init_v2 *ret, struct co_err *err);
