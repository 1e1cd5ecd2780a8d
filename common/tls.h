/* One end of an encrypted connection between two processes that share a key: TLS 1.3 with a
 * pre-shared key instead of certificates.  Each connection has a Diffie-Hellman exchange of its own
 * (forward secrecy): if the key leaks later, recorded connections still cannot be decrypted.
 *
 * The handshake reads and writes the socket itself.  After that the owner does, in pieces of any
 * size:
 *
 *     co_tls_write --> waiting bytes (co_tls_waiting) --> socket, co_tls_sent
 *     socket --> co_tls_feed --> co_tls_read, until there is nothing more
 *
 * For one thread at a time.  The caller owns the descriptor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum {
    CO_TLS_KEY_BYTES = 32,
    CO_TLS_RECORD_BYTES = 16384, /* reads and writes of this size are the cheapest */
};

struct co_tls;

/* accepts: this is the server's end of the connection.  key is copied; it must be unpredictable,
 * because it is the only authentication.  CO_INTERNAL: TLS 1.3 is not available. */
CO_MUST_CHECK int co_tls_new(bool accepts, const unsigned char key[CO_TLS_KEY_BYTES],
    struct co_tls **ret, struct co_err *err);
void co_tls_free(struct co_tls *t); /* NULL allowed */

/* Continues the handshake.  1: it is complete (on the client's end, the last message is sent but
 * perhaps not received).  0: call again when fd, which is non-blocking, is readable.  Reads no
 * bytes beyond the handshake.  CO_PEERLOST: the connection was closed.  CO_PERMISSION: the keys
 * differ, or bytes were changed in transit. */
CO_MUST_CHECK int co_tls_shake(struct co_tls *t, int fd, struct co_err *err);

/* ---- after the handshake ---- */

/* Encrypts.  The caller must limit what waits to be sent; above 4 MiB it fails. */
CO_MUST_CHECK int co_tls_write(struct co_tls *t, const void *bytes, size_t n, struct co_err *err);
/* Writes an authenticated end, so that the peer can distinguish it from a cut connection.  Nothing
 * may be written after it. */
void co_tls_end(struct co_tls *t);
/* The encrypted bytes that wait to be sent; borrowed until the next call. */
size_t co_tls_waiting(const struct co_tls *t, const char **ret);
void co_tls_sent(struct co_tls *t, size_t n);

/* Encrypted bytes from the socket; borrowed until all of them were read. */
void co_tls_feed(struct co_tls *t, const void *bytes, size_t n);
/* Decrypts.  *ret_n 0: all fed bytes are read; the rest of a record may be missing.  CO_PEERLOST:
 * the peer has ended the connection, or bytes were changed in transit. */
CO_MUST_CHECK int co_tls_read(
    struct co_tls *t, void *to, size_t size, size_t *ret_n, struct co_err *err);
