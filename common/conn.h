/* A client's TCP connection on the loop, plain or with TLS (by GnuTLS), and DNS lookups.
 * Names are resolved in threads; the addresses of a name are tried one after the other.  Callbacks
 * never run inside co_conn_open. */
#pragma once

#include "common/loop.h"

struct co_conn;

/* TLS 1.2 or later; the server's certificate must be valid for the host.  NULL: no file; ca_file
 * NULL: the system's CAs. */
struct co_conn_tls {
    const char *ca_file, *cert_file, *key_file; /* PEM; read in co_conn_open */
};

struct co_conn_fns {
    void (*up)(void *arg);
    void (*data)(void *arg, const char *data, size_t len);
    /* The connection has ended and can only be closed.  Does not run after co_conn_close.
     * CO_UNAVAILABLE (refused, reset, closed by the server), CO_NOTFOUND (no such host),
     * CO_PERMISSION (certificate), CO_NORESOURCE (co_conn_send). */
    void (*down)(void *arg, const struct co_err *err);
};

/* fns must stay valid, tls is copied.  Fails only if the files of tls cannot be loaded. */
CO_MUST_CHECK int co_conn_open(struct co_loop *l, const char *host, uint16_t port,
    const struct co_conn_tls *tls, const struct co_conn_fns *fns, void *arg, struct co_conn **ret,
    struct co_err *err);
/* May be called at any time, also before `up`.  At most 4 MiB may wait to be sent; more ends the
 * connection, and `down` runs in the loop's next turn. */
void co_conn_send(struct co_conn *c, const void *data, size_t len);
void co_conn_close(struct co_conn *c); /* NULL allowed; safe inside its callbacks */
/* The same, but its socket stays open: the peer sees no end until the caller closes it.  -1: there
 * was no connection yet, or none any more. */
int co_conn_close_later(struct co_conn *c);

/* Resolves a name: fn runs once, with CO_NOTFOUND or with a list that is valid until it returns.  A
 * numeric address needs no thread.  The thread of a name is never waited for, neither by
 * co_lookup_cancel nor at the end of the process; while 256 of them wait for the resolver, no other
 * name is found. */
struct addrinfo;
struct co_lookup;
struct co_lookup *co_lookup_start(struct co_loop *l, const char *host, uint16_t port,
    void (*fn)(void *arg, const struct addrinfo *list, const struct co_err *err), void *arg);
void co_lookup_cancel(struct co_lookup *q); /* before fn only; NULL allowed */
/* co_loop_run for who waits for lookups alone: until co_loop_stop, end_ms (co_now_ms), or the
 * program ends the wait (common/interrupt.h). */
void co_lookup_run(struct co_loop *l, int64_t end_ms);
