/* Secrets that processes of a job prove to each other. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

/* 32 of the kernel's random bytes, as base64; the caller frees.  CO_INTERNAL: it gives none. */
CO_MUST_CHECK int co_token_new(char **ret, struct co_err *err);
