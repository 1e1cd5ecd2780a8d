/* A small HTTP/1.1 client on the loop: one server, one connection that is kept, one request at a
 * time.  For key-value rendezvous and etcd; what speaks to Kubernetes is operator/kube.
 *
 * By libcurl a launcher would have 10 MiB resident instead of 5 (docs/decisions.md). */
#pragma once

#include "common/conn.h"

struct co_httpc;

struct co_httpc_result {
    int code;         /* 0, or why there is no answer: then err has more */
    int status;       /* 200, 404, ... */
    const char *body; /* terminated; "" when there is none; valid during the callback */
    size_t len;
    const char *wanted; /* value of the header that was asked for; "": there is none */
    const struct co_err *err;
};

struct co_httpc_request {
    const char *method, *path; /* the path as it goes over the wire */
    const char *headers;       /* further ones, each with its CRLF; NULL: none */
    const char *want;          /* a header of the answer, a constant; NULL: none */
    const void *body;
    size_t len;
    int64_t timeout_ms; /* for the whole answer, with `data` until its headers */
    /* The body of a 200 as it comes (may cancel or free, not send); NULL: all of it with `done`. */
    void (*data)(void *arg, const char *data, size_t len);
    void (*done)(void *arg, const struct co_httpc_result *r);
    void *arg;
};

/* host, tls: see co_conn_open. */
struct co_httpc *co_httpc_new(struct co_loop *l, const char *host, uint16_t port,
    const struct co_conn_tls *tls, size_t max_body);
/* Copies what it needs.  A kept connection that turns out to be closed is replaced once without a
 * word: requests must be repeatable.  One on its way is forgotten, with its connection. */
void co_httpc_send(struct co_httpc *c, const struct co_httpc_request *req);
void co_httpc_cancel(struct co_httpc *c); /* done will not run */
bool co_httpc_busy(const struct co_httpc *c);
void co_httpc_free(struct co_httpc *c); /* NULL allowed; safe inside callbacks */
