/* Proofs by HMAC-SHA256, from GnuTLS. */
#include "common/proof.h"

#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "common/mem.h"

int co_nonce_make(unsigned char ret[CO_NONCE_BYTES], struct co_err *err) {
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, ret, CO_NONCE_BYTES);
    return rc < 0 ? co_err_set(err, CO_INTERNAL, "no random numbers: %s", gnutls_strerror(rc)) : 0;
}

/* The key begins with the purpose, because a key must not be empty, but a secret may be. */
void co_proof_make(const char *purpose, const char *secret, const void *text, size_t len,
    unsigned char ret[CO_PROOF_BYTES]) {
    CO_AUTOFREE char *key = co_xasprintf("%s %s", purpose, secret);
    if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, strlen(key), text, len, ret) < 0) {
        /* Random bytes: then no proof can be right, and none can be guessed. */
        (void)gnutls_rnd(GNUTLS_RND_NONCE, ret, CO_PROOF_BYTES);
    }
    gnutls_memset(key, 0, strlen(key));
}

bool co_proof_check(const char *purpose, const char *secret, const void *text, size_t len,
    const unsigned char proof[CO_PROOF_BYTES]) {
    unsigned char right[CO_PROOF_BYTES];
    co_proof_make(purpose, secret, text, len, right);
    return gnutls_memcmp(right, proof, sizeof(right)) == 0;
}
