/* A small HTTP/1.1 server on the event loop, by libmicrohttpd: /metrics, /healthz, the start
 * gate, key-value rendezvous.  Handlers run on the loop's thread and may answer at once or later
 * (long-poll).  Bounds: connections, request body, header size, time of an idle connection. */
#pragma once

#include "common/loop.h"
#include "common/parse.h"

struct co_httpd;
struct co_http_req; /* owned by the server; valid until answered or its close callback ran */

struct co_http_route {
    const char *method; /* "GET"; NULL: any (HEAD is answered through GET's handler) */
    const char *path;   /* exact, or a prefix when it ends with a slash and an asterisk */
    void (*handle)(void *arg, struct co_http_req *req);
};

struct co_httpd_options {
    size_t max_connections; /* 0: 64 */
    size_t max_body;        /* bytes; 0: 64 KiB */
    int idle_seconds;       /* 0: 75 */
};

/* Listens on addr ("0.0.0.0:8080", ":8080" = all families, port 0 = any).  routes must stay
 * valid.  CO_UNAVAILABLE when the address is taken, named in the message. */
CO_MUST_CHECK int co_httpd_open(struct co_loop *l, const char *addr,
    const struct co_http_route *routes, size_t n_routes, void *arg,
    const struct co_httpd_options *options, struct co_httpd **ret, struct co_err *err);
void co_httpd_close(struct co_httpd *h); /* pending requests get their connections closed */
uint16_t co_httpd_port(const struct co_httpd *h);

const char *co_http_path(const struct co_http_req *r);
const char *co_http_method(const struct co_http_req *r);
const char *co_http_query(const struct co_http_req *r, const char *key);   /* NULL: absent */
const char *co_http_header(const struct co_http_req *r, const char *name); /* NULL: absent */
const char *co_http_body(const struct co_http_req *r, size_t *ret_len);

/* Answers; body is copied; text after the first call for a request is ignored. */
void co_http_reply(
    struct co_http_req *r, int status, const char *content_type, const void *body, size_t len);
void co_http_replyf(struct co_http_req *r, int status, const char *fmt, ...) CO_PRINTF(3, 4);

/* Keeps the request for a later co_http_reply from the loop's thread.  on_timeout runs after
 * timeout_ms (it should reply); on_close runs when the client went away first, after which r is
 * gone.  Exactly one of {reply, on_timeout, on_close} ends it. */
void co_http_defer(struct co_http_req *r, int64_t timeout_ms,
    void (*on_timeout)(void *arg, struct co_http_req *r),
    void (*on_close)(void *arg, struct co_http_req *r), void *arg);
