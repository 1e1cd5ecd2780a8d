/* Time limits and the job's secret: what the program says, else the environment, else a default.
 * Rows in options.c; read once, when a server or client is opened. */
#pragma once

#include "runtime/rt.h"

#define RT_LEASE_MS 30000
#define RT_START_MS 600000
#define RT_CALL_MS 180000
#define RT_BARRIER_MS 600000

/* Fill fields that are 0.  CO_INVALID names variable, value and what was expected. */
CO_MUST_CHECK int rt_options_server(struct rt_server_options *o, struct co_err *err);
CO_MUST_CHECK int rt_options_client(struct rt_client_options *o, struct co_err *err);
/* PADDLE_JOB_TOKEN, "" when unset.  Borrowed from the environment. */
const char *rt_options_token(void);
