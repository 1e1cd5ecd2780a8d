/* Generates the secret that the processes of a job share and prove to each other. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

/* 32 random bytes of the kernel as base64; the caller frees them.  CO_INTERNAL: there are none. */
CO_MUST_CHECK int co_token_new(char **ret, struct co_err *err);
