#include "common/httpd.h"

#include "common/buf.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    HEADER_BYTES = 16 * 1024, /* request line and headers of one connection, with overhead */
    SWALLOWED = 1024 * 1024,  /* of a body too large, so that its sender reads the 413 */
    BACKLOG = 1024,
    RUNS = 16, /* of MHD in a turn; the rest waits for the next one */
};

enum req_state {
    READING,  /* the body is arriving */
    HANDLED,  /* in the route's handler */
    DEFERRED, /* waiting for its owner; MHD has suspended the connection */
    ANSWERED, /* there is a response, queued or about to be */
    GONE,     /* the connection is about to be closed */
};

struct co_http_req {
    struct co_http_req *prev, *next; /* in co_httpd.deferred while DEFERRED */
    struct co_httpd *h;
    struct MHD_Connection *conn;
    enum req_state state;
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
    int busy;                    /* callbacks on the stack */
    bool closing;
    bool resumed; /* since MHD last ran */
};

static void httpd_free(struct co_httpd *h);

/* co_httpd_close from inside a callback takes effect when the last callback has returned. */
static void leave(struct co_httpd *h) {
    if (--h->busy == 0 && h->closing) {
        httpd_free(h);
    }
}

/* Lets MHD work until it waits for something, then arms its timer. */
static void drive(struct co_httpd *h) {
    MHD_UNSIGNED_LONG_LONG wait = 1;
    enum MHD_Result any = MHD_NO;
    h->busy++;
    for (int i = 0; i < RUNS; i++) {
        h->resumed = false;
        (void)MHD_run(h->mhd);
        any = MHD_get_timeout(h->mhd, &wait);
        if (h->closing || (!h->resumed && (any != MHD_YES || wait > 0))) {
            break;
        }
    }
    if (h->resumed) {
        co_timer_start(h->timer, 0);
    } else if (any == MHD_YES) {
        co_timer_start(h->timer, wait > INT32_MAX ? INT32_MAX : (int64_t)wait);
    } else {
        co_timer_stop(h->timer);
    }
    leave(h);
}

static void on_epoll(void *arg, int events) {
    (void)events;
    drive(arg);
}

static void on_timer(void *arg) {
    drive(arg);
}

/* ---- one request ---- */

static void undefer(struct co_http_req *r) {
    r->prev->next = r->next;
    r->next->prev = r->prev;
    co_timer_free(co_steal_ptr(r->timer));
    co_poll_free(co_steal_ptr(r->poll));
}

static void req_free(struct co_http_req *r) {
    assert(r->state != DEFERRED && !r->timer && !r->poll);
    if (r->response) {
        MHD_destroy_response(r->response);
    }
    co_buf_done(&r->body);
    free(r->path);
    free(r->method);
    free(r);
}

static void on_completed(
    void *arg, struct MHD_Connection *conn, void **slot, enum MHD_RequestTerminationCode how) {
    (void)arg;
    (void)conn;
    (void)how;
    if (*slot) {
        req_free(*slot);
        *slot = NULL;
    }
}

/* Ends the wait of a deferred request; MHD comes back to on_access for it. */
static void resume(struct co_http_req *r, enum req_state state) {
    undefer(r);
    r->state = state;
    MHD_resume_connection(r->conn);
    /* MHD polled from outside does not wake itself; nor may handlers run from in here. */
    r->h->resumed = true;
    co_timer_start(r->h->timer, 0);
}

static void client_gone(struct co_http_req *r) {
    struct co_httpd *h = r->h;
    h->busy++;
    resume(r, GONE);
    r->on_close(r->arg, r);
    leave(h);
}

static void on_deferred_readable(void *arg, int events) {
    struct co_http_req *r = arg;
    (void)events;
    char c;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    ssize_t n = recv(info->connect_fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) {
        co_poll_set(r->poll, 0); /* the next request, already: it waits its turn */
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        client_gone(r);
    }
}

static void on_deferred_timeout(void *arg) {
    struct co_http_req *r = arg;
    struct co_httpd *h = r->h;
    h->busy++;
    if (r->on_timeout) {
        r->on_timeout(r->arg, r);
    }
    if (r->state == DEFERRED) {
        co_http_replyf(r, MHD_HTTP_GATEWAY_TIMEOUT, "nothing happened in time\n");
    }
    leave(h);
}

/* MHD suspends only from inside on_access, so that is where this is called. */
static enum MHD_Result suspend(struct co_http_req *r) {
    struct co_http_req *head = &r->h->deferred;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (co_poll_new(r->h->loop, info->connect_fd, on_deferred_readable, r, &r->poll, NULL) == 0) {
        co_poll_set(r->poll, CO_POLL_IN);
    }
    r->state = DEFERRED;
    r->next = head;
    r->prev = head->prev;
    r->prev->next = r;
    head->prev = r;
    MHD_suspend_connection(r->conn);
    return MHD_YES;
}

void co_http_defer(struct co_http_req *r, int64_t timeout_ms,
    void (*on_timeout)(void *arg, struct co_http_req *r),
    void (*on_close)(void *arg, struct co_http_req *r), void *arg) {
    assert(on_close);
    if (r->state != HANDLED || r->deferred) {
        return;
    }
    r->deferred = true;
    r->on_timeout = on_timeout;
    r->on_close = on_close;
    r->arg = arg;
    r->timer = co_timer_new(r->h->loop, on_deferred_timeout, r);
    co_timer_start(r->timer, timeout_ms);
}

static void set_response(
    struct co_http_req *r, int status, const char *content_type, const void *body, size_t len) {
    /* MHD does not write to the buffer that it copies. */
    r->response =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    if (r->response) {
        (void)MHD_add_response_header(r->response, MHD_HTTP_HEADER_CONTENT_TYPE,
            content_type ? content_type : "text/plain; charset=utf-8");
    }
    r->status = (unsigned)status;
}

void co_http_reply(
    struct co_http_req *r, int status, const char *content_type, const void *body, size_t len) {
    if (r->state != HANDLED && r->state != DEFERRED) {
        return;
    }
    set_response(r, status, content_type, len ? body : "", len);
    if (r->state == DEFERRED) {
        resume(r, ANSWERED);
    } else {
        co_timer_free(co_steal_ptr(r->timer));
        r->state = ANSWERED;
    }
}

void co_http_replyf(struct co_http_req *r, int status, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    CO_AUTOFREE char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        text = NULL;
        n = 0;
    }
    co_http_reply(r, status, NULL, text, (size_t)n);
}

const char *co_http_path(const struct co_http_req *r) {
    return r->path;
}

const char *co_http_method(const struct co_http_req *r) {
    return r->method;
}

const char *co_http_query(const struct co_http_req *r, const char *key) {
    const char *value = NULL;
    size_t len;
    if (MHD_lookup_connection_value_n(
            r->conn, MHD_GET_ARGUMENT_KIND, key, strlen(key), &value, &len) != MHD_YES) {
        return NULL;
    }
    return value ? value : "";
}

const char *co_http_header(const struct co_http_req *r, const char *name) {
    return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

void co_http_peer(const struct co_http_req *r, char ret[CO_HTTP_PEER_MAX]) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *addr = info ? info->client_addr : NULL;
    *ret = '\0';
    if (addr && addr->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)addr;
        (void)inet_ntop(AF_INET, &v4->sin_addr, ret, CO_HTTP_PEER_MAX);
    } else if (addr && addr->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(v6);
        (void)inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? v6->s6_addr + 12 : v6->s6_addr, ret,
            CO_HTTP_PEER_MAX);
    }
}

const char *co_http_body(const struct co_http_req *r, size_t *ret_len) {
    *ret_len = r->body.len;
    return r->body.data ? r->body.data : "";
}

/* ---- routes ---- */

static bool path_matches(const char *pattern, const char *path) {
    size_t n = strlen(pattern);
    if (n >= 2 && strcmp(pattern + n - 2, "/*") == 0) {
        return strncmp(pattern, path, n - 1) == 0;
    }
    return strcmp(pattern, path) == 0;
}

static bool method_matches(const char *wanted, const char *method) {
    return !wanted || strcmp(wanted, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(wanted, "GET") == 0);
}

static void reply_no_route(struct co_http_req *r, const char *allowed) {
    if (!*allowed) {
        co_http_replyf(r, MHD_HTTP_NOT_FOUND, "nothing at %.200s\n", r->path);
        return;
    }
    co_http_replyf(r, MHD_HTTP_METHOD_NOT_ALLOWED, "%.20s is not possible here, only %s\n",
        r->method, allowed);
    if (r->response) {
        (void)MHD_add_response_header(r->response, MHD_HTTP_HEADER_ALLOW, allowed);
    }
}

static void dispatch(struct co_http_req *r) {
    struct co_httpd *h = r->h;
    char allowed[128] = "";
    r->state = HANDLED;
    if (r->swallowed) {
        co_http_replyf(
            r, MHD_HTTP_CONTENT_TOO_LARGE, "a body has at most %zu bytes here\n", h->max_body);
        return;
    }
    for (size_t i = 0; i < h->n_routes; i++) {
        const struct co_http_route *route = &h->routes[i];
        if (!path_matches(route->path, r->path)) {
            continue;
        }
        if (method_matches(route->method, r->method)) {
            route->handle(h->arg, r);
            if (r->state == HANDLED && !r->deferred) {
                co_http_replyf(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "no answer\n");
            }
            return;
        }
        size_t n = strlen(allowed);
        (void)snprintf(allowed + n, sizeof(allowed) - n, "%s%s", n ? ", " : "", route->method);
    }
    reply_no_route(r, allowed);
}

static enum MHD_Result send_response(struct co_http_req *r) {
    if (!r->response) {
        return MHD_NO; /* no memory: closes the connection */
    }
    return MHD_queue_response(r->conn, r->status, r->response);
}

static bool far_too_large(const struct co_http_req *r) {
    const char *length = co_http_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > r->h->max_body + SWALLOWED;
}

static enum MHD_Result begin(struct co_httpd *h, struct MHD_Connection *conn, const char *url,
    const char *method, void **slot) {
    struct co_http_req *r = co_xcalloc(1, sizeof(*r));
    r->h = h;
    r->conn = conn;
    r->path = co_xstrdup(url);
    r->method = co_xstrdup(method);
    r->body = CO_BUF(h->max_body);
    *slot = r;
    if (far_too_large(r)) {
        r->swallowed = 1;
        dispatch(r);
        return send_response(r);
    }
    return MHD_YES;
}

static enum MHD_Result on_access(void *arg, struct MHD_Connection *conn, const char *url,
    const char *method, const char *version, const char *data, size_t *data_len, void **slot) {
    struct co_httpd *h = arg;
    struct co_http_req *r = *slot;
    (void)version;
    if (!r) {
        return h->closing ? MHD_NO : begin(h, conn, url, method, slot);
    }
    if (*data_len) {
        if (r->swallowed || co_buf_add(&r->body, data, *data_len, NULL)) {
            r->swallowed += *data_len;
        }
        *data_len = 0;
        return r->swallowed > SWALLOWED ? MHD_NO : MHD_YES;
    }
    if (r->state == READING && !h->closing) {
        dispatch(r);
        if (r->state == HANDLED) {
            return suspend(r);
        }
    }
    return r->state == ANSWERED ? send_response(r) : MHD_NO;
}

/* ---- the server ---- */

static int bind_and_listen(int fd, const struct sockaddr *addr, socklen_t len, bool dual) {
    int on = 1;
    int v6only = !dual;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) {
        return errno;
    }
    if (addr->sa_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) < 0) {
        return errno;
    }
    return bind(fd, addr, len) < 0 || listen(fd, BACKLOG) < 0 ? errno : 0;
}

/* 0 or an errno. */
static int try_listen(const struct sockaddr *addr, socklen_t len, bool dual, int *ret_fd) {
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int failed = bind_and_listen(fd, addr, len, dual);
    if (failed) {
        co_close(fd);
        return failed;
    }
    *ret_fd = fd;
    return 0;
}

/* IPv4 alone only where there is no IPv6. */
static int listen_everywhere(uint16_t port, int *ret_fd) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int failed = try_listen((const struct sockaddr *)&v6, sizeof(v6), true, ret_fd);
    if (failed == EAFNOSUPPORT || failed == EADDRNOTAVAIL) {
        failed = try_listen((const struct sockaddr *)&v4, sizeof(v4), false, ret_fd);
    }
    return failed;
}

static int listen_on(const char *addr, int *ret_fd, struct co_err *err) {
    struct co_hostport hp;
    int r = co_parse_hostport("address to listen on", addr, &hp, err);
    if (r) {
        return r;
    }
    int failed = 0;
    if (!hp.host[0]) {
        failed = listen_everywhere(hp.port, ret_fd);
        return failed ? co_err_errno(err, failed, "cannot listen on %s", addr) : 0;
    }
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", hp.port);
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int found = getaddrinfo(hp.host, port, &hints, &list);
    if (found) {
        return co_err_set(err, CO_INVALID, "cannot listen on %s: %s", addr, gai_strerror(found));
    }
    failed = EADDRNOTAVAIL;
    static const int families[] = {AF_INET, AF_INET6}; /* "localhost" is 127.0.0.1 to most */
    for (size_t i = 0; i < CO_ARRAY_LEN(families); i++) {
        for (const struct addrinfo *a = list; a && failed; a = a->ai_next) {
            if (a->ai_family == families[i]) {
                failed = try_listen(a->ai_addr, a->ai_addrlen, false, ret_fd);
            }
        }
    }
    freeaddrinfo(list);
    return failed ? co_err_errno(err, failed, "cannot listen on %s", addr) : 0;
}

static uint16_t port_of(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(a);
    (void)getsockname(fd, &a.any, &len);
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

#define NOT_A_CERT "not a PEM certificate with its private key"

/* cert NULL: no TLS. */
static struct MHD_Daemon *start_mhd(struct co_httpd *h, int fd, const char *cert, const char *key) {
    const struct co_httpd_options *o = &h->options;
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (cert ? MHD_USE_TLS : 0u);
    return MHD_start_daemon(flags, 0, NULL, NULL, on_access, h, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_CONNECTION_LIMIT,
        o->max_connections ? (unsigned)o->max_connections : 64u, MHD_OPTION_CONNECTION_TIMEOUT,
        o->idle_seconds ? (unsigned)o->idle_seconds : 75u, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADER_BYTES, MHD_OPTION_ARRAY, cert ? tls : none, MHD_OPTION_END);
}

static int watch_mhd(struct co_httpd *h, struct MHD_Daemon *mhd, struct co_err *err) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(mhd, MHD_DAEMON_INFO_EPOLL_FD);
    struct co_poll *poll = NULL;
    int r = co_poll_new(h->loop, info->epoll_fd, on_epoll, h, &poll, err);
    if (r) {
        return r;
    }
    co_poll_free(h->poll);
    h->poll = poll;
    h->mhd = mhd;
    co_poll_set(h->poll, CO_POLL_IN);
    return 0;
}

int co_httpd_open(struct co_loop *l, const char *addr, const struct co_http_route *routes,
    size_t n_routes, void *arg, const struct co_httpd_options *options, struct co_httpd **ret,
    struct co_err *err) {
    CO_AUTOCLOSE int fd = -1;
    int r = listen_on(addr, &fd, err);
    if (r) {
        return r;
    }
    struct co_httpd *h = co_xcalloc(1, sizeof(*h));
    h->loop = l;
    h->routes = routes;
    h->n_routes = n_routes;
    h->arg = arg;
    h->options = options ? *options : (struct co_httpd_options){0};
    h->max_body = h->options.max_body ? h->options.max_body : 64 * 1024;
    h->port = port_of(fd);
    h->deferred.next = h->deferred.prev = &h->deferred;
    const char *cert = co_steal_ptr(h->options.cert);
    struct MHD_Daemon *mhd = start_mhd(h, fd, cert, co_steal_ptr(h->options.key));
    if (!mhd) {
        free(h);
        return cert ? co_err_set(err, CO_INVALID, NOT_A_CERT)
                    : co_err_set(err, CO_INTERNAL, "cannot start an HTTP server on %s", addr);
    }
    fd = -1; /* MHD's from here on */
    r = watch_mhd(h, mhd, err);
    if (r) {
        MHD_stop_daemon(mhd);
        free(h);
        return r;
    }
    h->timer = co_timer_new(l, on_timer, h);
    *ret = h;
    return 0;
}

/* Deferred requests end as if their clients had gone; connections are closed. */
static void close_connections(struct co_httpd *h) {
    h->busy++; /* callbacks may call co_httpd_close again */
    while (h->deferred.next != &h->deferred) {
        client_gone(h->deferred.next);
    }
    for (int i = 0; i < RUNS; i++) {
        (void)MHD_run(h->mhd); /* what was answered just before shall leave */
    }
    h->busy--;
}

int co_httpd_secure(struct co_httpd *h, const char *cert, const char *key, struct co_err *err) {
    assert(h->busy == 0);
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_LISTEN_FD);
    int fd = fcntl(info->listen_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return co_err_errno(err, errno, "cannot go on listening");
    }
    struct MHD_Daemon *mhd = start_mhd(h, fd, cert, key);
    if (!mhd) {
        co_close(fd);
        return co_err_set(err, CO_INVALID, NOT_A_CERT);
    }
    close_connections(h);
    struct MHD_Daemon *old = h->mhd;
    int r = watch_mhd(h, mhd, err);
    MHD_stop_daemon(r ? mhd : old);
    return r;
}

static void httpd_free(struct co_httpd *h) {
    close_connections(h);
    co_poll_free(h->poll);
    co_timer_free(h->timer);
    MHD_stop_daemon(h->mhd);
    free(h);
}

void co_httpd_close(struct co_httpd *h) {
    if (!h) {
        return;
    }
    h->closing = true;
    if (h->busy == 0) {
        httpd_free(h);
    }
}

uint16_t co_httpd_port(const struct co_httpd *h) {
    return h->port;
}
