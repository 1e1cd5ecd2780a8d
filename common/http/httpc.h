/* A small HTTP/1.1 client on the loop: one server, one persistent connection, one request at a
 * time. For the key-value rendezvous and etcd; operator/kube is the client of the Kubernetes API.
 *
 * With libcurl a launcher would have 10 MiB resident instead of 5 (docs/decisions.md). */
#pragma once

#include "common/conn.h"

struct co_httpc;

struct co_httpc_result {
    int code;         /* 0: there is an answer; else an error code, and err is set */
    int status;       /* 200, 404, ... */
    const char *body; /* terminated; "" when there is none; valid during the callback */
    size_t len;
    const char *wanted; /* value of the header `want`; "": the answer does not have it */
    const struct co_err *err;
};

struct co_httpc_request {
    const char *method, *path; /* the path is escaped already */
    const char *headers;       /* additional headers, each with its CRLF; NULL: none */
    const char *want;          /* name of a header of the answer, static; NULL: none */
    const void *body;
    size_t len;
    /* Until the whole answer, or with `data` until its headers, as co_timer_start_awake counts. */
    int64_t timeout_ms;
    /* Gets the body of a 200 as it arrives (may cancel or free, not send); NULL: `done` gets it. */
    void (*data)(void *arg, const char *data, size_t len);
    void (*done)(void *arg, const struct co_httpc_result *r);
    void *arg;
};

/* host, tls: see co_conn_open. */
struct co_httpc *co_httpc_new(struct co_loop *l, const char *host, uint16_t port,
    const struct co_conn_tls *tls, size_t max_body);
/* Copies what it needs.  If the persistent connection turns out to be closed, the request is sent
 * once more on a new one, so requests must be repeatable.  A request in progress is canceled; its
 * connection ends once the server has answered the new request on another one: a server that
 * watches its clients by their connections does not take this one for gone meanwhile. */
void co_httpc_send(struct co_httpc *c, const struct co_httpc_request *req);
void co_httpc_cancel(struct co_httpc *c); /* done will not run */
bool co_httpc_busy(const struct co_httpc *c);
void co_httpc_free(struct co_httpc *c); /* NULL allowed; safe inside callbacks */
