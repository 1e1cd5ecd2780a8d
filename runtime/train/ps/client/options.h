/* Options of servers and clients, and the job's secret.  A value comes from the program, else from
 * the environment, else from the defaults here and in options.c.  They are read once, on the thread
 * that opens a server or client. */
#pragma once

#include "runtime/rt.h"

#define PSC_LEASE_MS 30000
#define PSC_START_MS 600000
#define PSC_CALL_MS 180000
#define PSC_BARRIER_MS 600000
#define PSC_CHECKPOINT_MS 600000
#define PSC_CHECKPOINT_DELTAS 9
#define PSC_CHECKPOINT_KEEP 2

/* Fill the fields that are 0.  CO_INVALID names the variable, its value and what was expected. */
CO_MUST_CHECK int psc_options_server(struct rt_server_options *o, struct co_err *err);
CO_MUST_CHECK int psc_options_client(struct rt_client_options *o, struct co_err *err);
/* PADDLE_JOB_TOKEN, "" when unset.  Borrowed from the environment. */
const char *psc_options_token(void);
/* Whether to encrypt: what the program said, else text, the value of PADDLE_JOB_ENCRYPT (NULL: not
 * set).  CO_INVALID: text is no boolean, or encryption without a token. */
CO_MUST_CHECK int psc_options_encrypt(
    enum rt_encrypt said, const char *text, const char *token, bool *ret, struct co_err *err);
/* PADDLE_JOB_ENCRYPT of the environment, for `text` above; NULL: not set. */
const char *psc_options_encrypt_text(void);
