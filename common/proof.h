/* Proofs that two processes know the same secret, without sending it: an HMAC-SHA256 over what both
 * have sent, which includes a random number of each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { CO_PROOF_BYTES = 32, CO_NONCE_BYTES = 32 };

/* An unpredictable number that is never repeated.  CO_INTERNAL: there are no random numbers. */
CO_MUST_CHECK int co_nonce_make(unsigned char ret[CO_NONCE_BYTES], struct co_err *err);

/* purpose names the protocol, so that a proof for one is invalid in another.  The secret may be
 * empty.  The encoding of text must be unambiguous: fields of fixed sizes, or with separators. */
void co_proof_make(const char *purpose, const char *secret, const void *text, size_t len,
    unsigned char ret[CO_PROOF_BYTES]);
/* Compares in constant time. */
bool co_proof_check(const char *purpose, const char *secret, const void *text, size_t len,
    const unsigned char proof[CO_PROOF_BYTES]);
