/* Internal to the HTTP server: shared by httpd.c (the server and its routes), http_req.c (one
 * request) and http_slots.c (the connections). */
#pragma once

#include "common/buf.h"
#include "common/http/httpd.h"
#include "common/map.h"

enum co_http_state {
    CO_HTTP_READING,  /* its body is arriving */
    CO_HTTP_HANDLED,  /* its route's handler runs */
    CO_HTTP_DEFERRED, /* it waits for co_http_reply; MHD has suspended the connection */
    CO_HTTP_ANSWERED, /* it has a response, which is queued or about to be */
    CO_HTTP_GONE,     /* its connection is about to be closed */
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
    size_t swallowed; /* bytes of the body beyond max_body, which were dropped */
    struct MHD_Response *response;
    unsigned status;
    bool deferred; /* co_http_defer was called */
    struct co_timer *timer;
    struct co_poll *poll; /* notices a disconnect, which MHD does not while suspended */
    void (*on_timeout)(void *arg, struct co_http_req *r);
    void (*on_close)(void *arg, struct co_http_req *r);
    void *arg;
};

struct co_http_peer;
struct sockaddr;

/* One connection. */
struct co_http_slot {
    struct co_http_slot *prev, *next; /* NULL: in no ring */
    struct co_http_peer *peer;        /* NULL: dropped */
    uint64_t number;
    int64_t since; /* monotonic ms: when it entered its ring */
    int fd;        /* owned by MHD */
};

struct co_http_slots {
    struct co_http_slot silent, idle; /* rings: no request yet; between two requests */
    struct co_map peers;              /* address -> struct co_http_peer */
    size_t n, max, max_per_peer;
    int64_t silent_ms;
    uint64_t so_far; /* connections accepted */
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
    struct co_http_slots slots;
    struct co_timer *silence; /* due: a connection may have been silent for too long */
    int busy;                 /* callbacks on the stack; each calls left at its end */
    void (*left)(struct co_httpd *h);
    bool closing; /* to be freed when busy is 0 */
    bool again;   /* MHD must run again: a connection was resumed or closed */
};

struct co_http_req *co_http_req_new(
    struct co_httpd *h, struct MHD_Connection *conn, const char *path, const char *method);
void co_http_req_free(struct co_http_req *r); /* not while it is deferred */
/* Suspends a deferred request.  MHD allows that only inside its callback for the request. */
void co_http_req_suspend(struct co_http_req *r);
/* Ends a deferred request because its client has disconnected, or is to be treated so. */
void co_http_req_gone(struct co_http_req *r);

/* The peer's numeric address; IPv4 even if it came through an IPv6 socket; "": unknown. */
void co_http_peer_text(const struct sockaddr *addr, char ret[CO_HTTP_PEER_MAX]);
void co_http_slots_init(
    struct co_http_slots *p, size_t max, size_t max_per_peer, int64_t silent_ms);
void co_http_slots_done(struct co_http_slots *p); /* after all places were freed */
/* Adds an accepted connection.  If there are too many, in all or from its peer, one is dropped,
 * possibly this one; see co_httpd_options. */
struct co_http_slot *co_http_slot_new(struct co_http_slots *p, int fd, const struct sockaddr *addr);
void co_http_slot_free(struct co_http_slots *p, struct co_http_slot *c);
void co_http_slot_hold(struct co_http_slot *c);                          /* a request is deferred */
void co_http_slot_idle(struct co_http_slots *p, struct co_http_slot *c); /* it is answered */
/* Drops the connections whose time for a first request is over.  Returns the ms until that is so
 * for the next one; -1: there is none. */
int64_t co_http_slots_drop_silent(struct co_http_slots *p);
