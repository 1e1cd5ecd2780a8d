/* What httpd.c (the server, its routes), http_req.c (one request) and http_places.c (the
 * connections) share. */
#pragma once

#include "common/buf.h"
#include "common/httpd.h"
#include "common/map.h"

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

struct co_http_peer;
struct sockaddr;

/* One connection. */
struct co_http_place {
    struct co_http_place *prev, *next; /* NULL: in no ring */
    struct co_http_peer *peer;         /* NULL: dropped */
    uint64_t number;
    int64_t since; /* in its ring */
    int fd;        /* MHD's */
};

struct co_http_places {
    struct co_http_place silent, idle; /* rings: no request yet; between two requests */
    struct co_map peers;               /* address -> struct co_http_peer */
    size_t n, max, max_per_peer;
    int64_t silent_ms;
    uint64_t so_far;
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
    struct co_http_places places;
    struct co_timer *silence; /* runs while a connection has made no request */
    int busy;                 /* callbacks on the stack; each that ends calls left */
    void (*left)(struct co_httpd *h);
    bool closing;
    bool again; /* MHD has more to do than it says: a connection was resumed or closed */
};

struct co_http_req *co_http_req_new(
    struct co_httpd *h, struct MHD_Connection *conn, const char *path, const char *method);
void co_http_req_free(struct co_http_req *r); /* not while it waits */
/* It waits from now on.  MHD suspends only from inside its callback for a request. */
void co_http_req_suspend(struct co_http_req *r);
/* The client of a request that waits is no longer there, or shall be treated so. */
void co_http_req_gone(struct co_http_req *r);

/* The peer's numeric address, IPv4 also where it came through an IPv6 socket; "": none. */
void co_http_peer_text(const struct sockaddr *addr, char ret[CO_HTTP_PEER_MAX]);
void co_http_places_init(
    struct co_http_places *p, size_t max, size_t max_per_peer, int64_t silent_ms);
void co_http_places_done(struct co_http_places *p); /* all places are free */
/* For an accepted connection; where there are too many, of its peer or in all, one is dropped:
 * first those that have made no request, then those that have been idle for more than a second;
 * maybe this one. */
struct co_http_place *co_http_place_new(
    struct co_http_places *p, int fd, const struct sockaddr *addr);
void co_http_place_free(struct co_http_places *p, struct co_http_place *c);
void co_http_place_hold(struct co_http_place *c); /* a request is complete */
void co_http_place_idle(struct co_http_places *p, struct co_http_place *c); /* it has its answer */
/* Drops those whose time for a first request is over; the time until the next is, -1: none. */
int64_t co_http_places_drop_silent(struct co_http_places *p);
