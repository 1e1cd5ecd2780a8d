/* What httpd.c (the server, its routes) and http_req.c (one request) share. */
#pragma once

#include "common/buf.h"
#include "common/httpd.h"

enum co_http_state {
    CO_HTTP_READING,  /* the body is arriving */
    CO_HTTP_HANDLED,  /* in the route's handler */
    CO_HTTP_DEFERRED, /* waiting for its owner; MHD has suspended the connection */
    CO_HTTP_ANSWERED, /* there is a response, queued or about to be */
    CO_HTTP_GONE,     /* the connection is about to be closed */
};

struct MHD_Connection;
struct MHD_Daemon;
struct MHD_Response;

struct co_http_req {
    struct co_http_req *prev, *next; /* in co_httpd.deferred while deferred */
    struct co_httpd *h;
    struct MHD_Connection *conn;
    enum co_http_state state;
    char *path;
    char *method;
    struct co_buf body;
    size_t swallowed; /* bytes beyond the limit */
    struct MHD_Response *response;
    unsigned status;
    bool deferred; /* co_http_defer was called */
    struct co_timer *timer;
    struct co_poll *poll; /* notices that the client went away: MHD does not while suspended */
    void (*on_timeout)(void *arg, struct co_http_req *r);
    void (*on_close)(void *arg, struct co_http_req *r);
    void *arg;
};

struct co_httpd {
    struct co_loop *loop;
    struct MHD_Daemon *mhd;
    struct co_poll *poll;
    struct co_timer *timer;
    const struct co_http_route *routes;
    size_t n_routes;
    void *arg;
    struct co_httpd_options options;
    size_t max_body;
    uint16_t port;
    struct co_http_req deferred; /* ring */
    uint64_t connections;        /* so far */
    int busy;                    /* callbacks on the stack; each that ends calls left */
    void (*left)(struct co_httpd *h);
    bool closing;
    bool resumed; /* since MHD last ran */
};

struct co_http_req *co_http_req_new(
    struct co_httpd *h, struct MHD_Connection *conn, const char *path, const char *method);
void co_http_req_free(struct co_http_req *r); /* not while it waits */
/* It waits from now on.  MHD suspends only from inside its callback for a request. */
void co_http_req_suspend(struct co_http_req *r);
/* The client of a request that waits is no longer there, or shall be treated so. */
void co_http_req_gone(struct co_http_req *r);
