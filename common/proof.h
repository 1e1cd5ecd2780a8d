/* Proofs that two processes share a secret which never travels: HMAC-SHA256 over what both have
 * said, random numbers of both among it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { CO_PROOF_BYTES = 32, CO_NONCE_BYTES = 32 };

/* Unpredictable, never twice.  CO_INTERNAL: there are no random numbers. */
CO_MUST_CHECK int co_nonce_make(unsigned char ret[CO_NONCE_BYTES], struct co_err *err);

/* purpose names the protocol: a proof made for one is worth nothing in another.  The secret may be
 * empty.  What text means must be plain from its bytes alone: fixed sizes, or marks between. */
void co_proof_make(const char *purpose, const char *secret, const void *text, size_t len,
    unsigned char ret[CO_PROOF_BYTES]);
/* Takes the same time wherever the first difference is. */
bool co_proof_check(const char *purpose, const char *secret, const void *text, size_t len,
    const unsigned char proof[CO_PROOF_BYTES]);
