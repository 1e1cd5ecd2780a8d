/* A TCP connection to a server on the loop, plain or with TLS (by GnuTLS).
 * Names are looked up in threads; all addresses of a name are tried in turn.  Callbacks
 * never run inside co_conn_open. */
#pragma once

#include "common/loop.h"

struct co_conn;

/* TLS 1.2 or later; the server's certificate must be good for the host.  NULL: none; ca_file NULL:
 * the system's. */
struct co_conn_tls {
    const char *ca_file, *cert_file, *key_file; /* PEM; read in co_conn_open */
};

struct co_conn_fns {
    void (*up)(void *arg);
    void (*data)(void *arg, const char *data, size_t len);
    /* Not after co_conn_close.  CO_UNAVAILABLE (refused, reset, closed by the server), CO_NOTFOUND
     * (no such host), CO_PERMISSION (certificate), CO_NORESOURCE (co_conn_send).  The connection is
     * of no further use. */
    void (*down)(void *arg, const struct co_err *err);
};

/* fns must stay valid, tls is copied.  Errors: files of tls. */
CO_MUST_CHECK int co_conn_open(struct co_loop *l, const char *host, uint16_t port,
    const struct co_conn_tls *tls, const struct co_conn_fns *fns, void *arg, struct co_conn **ret,
    struct co_err *err);
/* Any time, also before `up`; at most 4 MiB wait to be sent, more brings the connection down at
 * once, and is told as `down` in the loop's next turn. */
void co_conn_send(struct co_conn *c, const void *data, size_t len);
void co_conn_close(struct co_conn *c); /* NULL allowed; safe inside its callbacks */

/* Looks a name up: fn once, with CO_NOTFOUND or a list that is valid until it returns.  A numeric
 * address needs no thread; the thread of another is not waited for, neither by co_lookup_cancel nor
 * at the process's end. */
struct addrinfo;
struct co_lookup;
struct co_lookup *co_lookup_start(struct co_loop *l, const char *host, uint16_t port,
    void (*fn)(void *arg, const struct addrinfo *list, const struct co_err *err), void *arg);
void co_lookup_cancel(struct co_lookup *q); /* before fn only; NULL allowed */
