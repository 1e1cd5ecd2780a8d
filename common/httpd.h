/* A small HTTP/1.1 server on the event loop, by libmicrohttpd: /metrics, /healthz, the start
 * gate, key-value rendezvous.  Handlers run on the loop's thread and may answer at once or later
 * (long-poll).  Bounds: connections, in all and of one address, request body, header size, time
 * until a connection's first request and of an idle connection. */
#pragma once

#include "common/loop.h"
#include "common/parse.h"

enum { CO_HTTP_PEER_MAX = 48 };

struct co_httpd;
struct co_http_req; /* owned by the server; valid until answered or its close callback ran */

/* The first row that fits is taken.  A path that no row has is answered 404, another method 405. */
struct co_http_route {
    const char *method; /* "GET"; NULL: any (HEAD is answered through GET's handler) */
    const char *path;   /* exact, or a prefix when it ends with a slash and an asterisk */
    void (*handle)(void *arg, struct co_http_req *req);
};

struct co_httpd_options {
    /* When there is one more, one is closed: of the same address or, when all places are taken, of
     * all.  First go those that have made no request, then those that have been idle for more than
     * a second, never one whose request waits. */
    size_t max_connections; /* 0: 64 */
    size_t max_per_peer;    /* of one address; 0: half of all */
    size_t max_header;      /* bytes of request line and headers, with overhead; 0: 16 KiB */
    size_t max_body;        /* bytes; 0: 64 KiB; more is answered 413 */
    int first_seconds;      /* from a connection to its first complete request; 0: 10 */
    int idle_seconds;       /* 0: 75; not counted while a request is deferred */
    /* A connection has ended, also one that no request is on; may do no more than take note and
     * start timers.  NULL: nobody wants to know. */
    void (*disconnected)(void *arg, uint64_t conn);
    /* An answer is about to leave; may add headers to it, and no more.  NULL: nobody does. */
    void (*answering)(void *arg, struct co_http_req *req, int status, const void *body, size_t len);
    const char *cert, *key; /* as co_httpd_secure, from the start; borrowed for the call */
};

/* Listens on addr, see co_listen.  routes must stay valid. */
CO_MUST_CHECK int co_httpd_open(struct co_loop *l, const char *addr,
    const struct co_http_route *routes, size_t n_routes, void *arg,
    const struct co_httpd_options *options, struct co_httpd **ret, struct co_err *err);
/* From now on TLS with this certificate (chain) and key, both PEM; again with new ones when they
 * are renewed.  Closes the connections there are.  Nothing changes when it fails: CO_INVALID for
 * what is no certificate with its key.  Not from a callback of this server, nor may those close it
 * that run in here. */
CO_MUST_CHECK int co_httpd_secure(
    struct co_httpd *h, const char *cert, const char *key, struct co_err *err);
/* Runs on_close of what is deferred and closes all connections; answers already given are sent
 * as far as the sockets take them.  NULL allowed; from a handler or another callback of this
 * server it takes effect when that returns. */
void co_httpd_close(struct co_httpd *h);
uint16_t co_httpd_port(const struct co_httpd *h);

const char *co_http_path(const struct co_http_req *r);
const char *co_http_method(const struct co_http_req *r);
const char *co_http_query(const struct co_http_req *r, const char *key);   /* NULL: absent */
const char *co_http_header(const struct co_http_req *r, const char *name); /* NULL: absent */
/* The client's numeric address, IPv4 also where it came through an IPv6 socket. */
void co_http_peer(const struct co_http_req *r, char ret[CO_HTTP_PEER_MAX]);
/* The number of the request's connection, from 1; no other ever has the same. */
uint64_t co_http_conn(const struct co_http_req *r);
const char *co_http_body(const struct co_http_req *r, size_t *ret_len);

/* Answers; body is copied; a second answer is ignored.  A deferred request is gone once the
 * caller returns to the loop.  content_type NULL: plain text.  A handler that neither answers nor
 * defers gets its client a 500. */
void co_http_reply(
    struct co_http_req *r, int status, const char *content_type, const void *body, size_t len);
/* The same without a copy: body is the caller's and stays as it is until release(arg), which runs
 * exactly once, maybe in here. */
void co_http_reply_lent(struct co_http_req *r, int status, const char *content_type,
    const void *body, size_t len, void (*release)(void *arg), void *arg);
void co_http_replyf(struct co_http_req *r, int status, const char *fmt, ...) CO_PRINTF(3, 4);

/* From `answering` only. */
void co_http_add_header(struct co_http_req *r, const char *name, const char *value);

/* From a handler only: keeps the request for a later co_http_reply from the loop's thread.
 * on_timeout runs after timeout_ms (it should reply; 504 when it does not, or is NULL); on_close
 * runs when the client went away first or the server is closed, after which r is gone.  Exactly
 * one of {reply, on_timeout, on_close} ends it.  A client that closes or shuts its side is
 * noticed at once, unless it had sent more (a pipelined request) before: then only when the time
 * is over.  Thousands of deferred requests are cheap: a socket, a timer and a few KiB each. */
void co_http_defer(struct co_http_req *r, int64_t timeout_ms,
    void (*on_timeout)(void *arg, struct co_http_req *r),
    void (*on_close)(void *arg, struct co_http_req *r), void *arg);
