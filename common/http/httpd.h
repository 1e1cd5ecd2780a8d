/* A small HTTP/1.1 server on the event loop, by libmicrohttpd, for /metrics, /healthz, the start
 * gate and the key-value rendezvous.  Handlers run on the loop's thread and answer at once or later
 * (long polls).  There are limits for the number of connections in all and from one address, for
 * bodies and headers, for the time until a connection's first request, and for idle connections. */
#pragma once

#include "common/loop.h"
#include "common/parse.h"

enum { CO_HTTP_PEER_MAX = 48 };

struct co_httpd;
struct co_http_req; /* owned by the server; valid until answered or its close callback ran */

/* The first row that matches handles the request.  404 for an unknown path, 405 for a method that
 * its path does not have. */
struct co_http_route {
    const char *method; /* "GET"; NULL: any (HEAD is answered through GET's handler) */
    const char *path;   /* exact, or a prefix when it ends with a slash and an asterisk */
    void (*handle)(void *arg, struct co_http_req *req);
};

struct co_httpd_options {
    /* Beyond these limits a connection is closed for each new one: one from the same address, or
     * any.  First those that have made no request, then those that have been idle for more than a
     * second; never one whose request is deferred. */
    size_t max_connections; /* 0: 64 */
    size_t max_per_peer;    /* from one address; 0: half of all */
    size_t max_header;      /* bytes of request line and headers, with overhead; 0: 16 KiB */
    size_t max_body;        /* bytes; 0: 64 KiB; more is answered 413 */
    int first_seconds;      /* until the first request of a connection is complete; 0: 10 */
    int idle_seconds;       /* 0: 75; does not run while a request is deferred */
    /* A connection has ended, even one without a request.  May only take notes and start timers.
     * NULL allowed. */
    void (*disconnected)(void *arg, uint64_t conn);
    /* An answer is about to be sent; may only add headers to it.  NULL allowed. */
    void (*answering)(void *arg, struct co_http_req *req, int status, const void *body, size_t len);
    const char *cert, *key; /* as co_httpd_secure, from the start; borrowed for the call */
};

/* Listens on addr, see co_listen.  routes must stay valid. */
CO_MUST_CHECK int co_httpd_open(struct co_loop *l, const char *addr,
    const struct co_http_route *routes, size_t n_routes, void *arg,
    const struct co_httpd_options *options, struct co_httpd **ret, struct co_err *err);
/* Serves TLS from now on, with this certificate (chain) and key, both PEM.  To be called again when
 * they are renewed.  Closes the existing connections.  On failure nothing changes; CO_INVALID: this
 * is not a certificate with its key.  Must not be called from a callback of this server; callbacks
 * that run inside must not close the server. */
CO_MUST_CHECK int co_httpd_secure(
    struct co_httpd *h, const char *cert, const char *key, struct co_err *err);
/* Runs on_close of deferred requests and closes all connections; answers that were given already
 * are sent as far as the sockets accept them.  NULL allowed.  Inside a callback of this server it
 * takes effect when that returns. */
void co_httpd_close(struct co_httpd *h);
uint16_t co_httpd_port(const struct co_httpd *h);

const char *co_http_path(const struct co_http_req *r);
const char *co_http_method(const struct co_http_req *r);
const char *co_http_query(const struct co_http_req *r, const char *key);   /* NULL: absent */
const char *co_http_header(const struct co_http_req *r, const char *name); /* NULL: absent */
/* The client's numeric address; IPv4 even if it came through an IPv6 socket. */
void co_http_peer(const struct co_http_req *r, char ret[CO_HTTP_PEER_MAX]);
/* The number of the request's connection, from 1; never used again for another one. */
uint64_t co_http_conn(const struct co_http_req *r);
const char *co_http_body(const struct co_http_req *r, size_t *ret_len);

/* Answers the request; body is copied; a second answer is ignored.  A deferred request is freed
 * once the caller returns to the loop.  content_type NULL: plain text.  If a handler neither
 * answers nor defers, the client gets a 500. */
void co_http_reply(
    struct co_http_req *r, int status, const char *content_type, const void *body, size_t len);
/* The same without a copy: body must stay unchanged until release(arg), which runs exactly once,
 * possibly inside this call. */
void co_http_reply_lent(struct co_http_req *r, int status, const char *content_type,
    const void *body, size_t len, void (*release)(void *arg), void *arg);
void co_http_replyf(struct co_http_req *r, int status, const char *fmt, ...) CO_PRINTF(3, 4);

/* To be called from `answering` only. */
void co_http_add_header(struct co_http_req *r, const char *name, const char *value);

/* To be called from a handler only: keeps the request for a later co_http_reply.
 * on_timeout runs after timeout_ms; it should reply (504 when it does not, or is NULL).  on_close
 * runs when the client disconnects first or the server is closed; r is freed after it.  Exactly one
 * of {reply, on_timeout, on_close} ends the request.  A disconnect is noticed at once, unless the
 * client has sent a pipelined request before: then only at the timeout.  A deferred request costs a
 * socket, a timer and a few KiB. */
void co_http_defer(struct co_http_req *r, int64_t timeout_ms,
    void (*on_timeout)(void *arg, struct co_http_req *r),
    void (*on_close)(void *arg, struct co_http_req *r), void *arg);
