/* The HTTP server: drives libmicrohttpd (MHD) from the loop and dispatches requests to routes. */
#include "common/http/httpd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>

#include "common/http/httpd_internal.h"
#include "common/listen.h"
#include "common/word_list.h"

enum {
    SWALLOWED = 1024 * 1024, /* read of a body that is too large, so that the client sees the 413 */
    RUNS = 16,               /* runs of MHD in a turn of the loop */
    CLOSING_MAX = 8,         /* connections that we have dropped and MHD has not closed yet */
};

/* Runs MHD until it has nothing to do, then arms its timer. */
static void drive(struct co_httpd *h) {
    MHD_UNSIGNED_LONG_LONG wait = 1;
    enum MHD_Result any = MHD_NO;
    h->busy++;
    for (int i = 0; i < RUNS; i++) {
        h->again = false;
        (void)MHD_run(h->mhd);
        any = MHD_get_timeout(h->mhd, &wait);
        if (h->closing || (!h->again && (any != MHD_YES || wait > 0))) {
            break;
        }
    }
    if (h->again) {
        co_timer_start(h->timer, 0);
    } else if (any == MHD_YES) {
        co_timer_start(h->timer, wait > INT32_MAX ? INT32_MAX : (int64_t)wait);
    } else {
        co_timer_stop(h->timer);
    }
    h->left(h);
}

static void on_epoll(void *arg, int events) {
    (void)events;
    drive(arg);
}

static void on_timer(void *arg) {
    drive(arg);
}

/* Drops connections without a request.  Reads pending requests first, in case that it was this
 * process that was slow. */
static void on_silence(void *arg) {
    struct co_httpd *h = arg;
    h->busy++;
    drive(h);
    int64_t left = h->closing ? -1 : co_http_slots_drop_silent(&h->slots);
    if (left >= 0) {
        co_timer_start(h->silence, left);
    }
    h->left(h);
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
    r->state = CO_HTTP_HANDLED;
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
            if (r->state == CO_HTTP_HANDLED && !r->deferred) {
                co_http_replyf(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "no answer\n");
            }
            return;
        }
        co_word_list_add(allowed, sizeof(allowed), "%s", route->method);
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
    struct co_http_req *r = co_http_req_new(h, conn, url, method);
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
    if (r->state == CO_HTTP_READING && !h->closing) {
        dispatch(r);
        if (r->state == CO_HTTP_HANDLED) {
            co_http_req_suspend(r);
            return MHD_YES;
        }
    }
    return r->state == CO_HTTP_ANSWERED ? send_response(r) : MHD_NO;
}

static void on_completed(
    void *arg, struct MHD_Connection *conn, void **slot, enum MHD_RequestTerminationCode how) {
    (void)arg;
    (void)conn;
    (void)how;
    if (*slot) {
        co_http_req_free(*slot);
        *slot = NULL;
    }
}

static void on_connection(
    void *arg, struct MHD_Connection *conn, void **slot, enum MHD_ConnectionNotificationCode what) {
    struct co_httpd *h = arg;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *slot = co_http_slot_new(&h->slots, fd,
            MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
        if (!co_timer_armed(h->silence)) {
            co_timer_start(h->silence, h->slots.silent_ms);
        }
        return;
    }
    struct co_http_slot *c = co_steal_ptr(*slot);
    uint64_t number = c->number;
    co_http_slot_free(&h->slots, c);
    h->again = true; /* at its limit MHD stops listening, and resumes only in its next run */
    if (h->options.disconnected && !h->closing) {
        h->options.disconnected(h->arg, number);
    }
}

/* ---- the server ---- */

#define NOT_A_CERT "not a PEM certificate with its private key"

/* cert NULL: without TLS. */
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
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        h, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->slots.max + CLOSING_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, o->idle_seconds ? (unsigned)o->idle_seconds : 75u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, o->max_header ? o->max_header : (size_t)16 * 1024,
        MHD_OPTION_ARRAY, cert ? tls : none, MHD_OPTION_END);
}

static int watch_mhd(struct co_httpd *h, struct MHD_Daemon *mhd, struct co_err *err) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(mhd, MHD_DAEMON_INFO_EPOLL_FD);
    struct co_poll *poll = NULL;
    CO_TRY(co_poll_new(h->loop, info->epoll_fd, on_epoll, h, &poll, err));
    co_poll_free(h->poll);
    h->poll = poll;
    h->mhd = mhd;
    co_poll_set(h->poll, CO_POLL_IN);
    return 0;
}

/* Ends deferred requests as if their clients had disconnected, and closes connections. */
static void close_connections(struct co_httpd *h) {
    h->busy++; /* callbacks may call co_httpd_close again */
    while (h->deferred.next != &h->deferred) {
        co_http_req_gone(h->deferred.next);
    }
    for (int i = 0; i < RUNS; i++) {
        (void)MHD_run(h->mhd); /* sends the last answers */
    }
    h->busy--;
}

static void httpd_free(struct co_httpd *h) {
    close_connections(h);
    co_poll_free(h->poll);
    MHD_stop_daemon(h->mhd);
    co_timer_free(h->timer);
    co_timer_free(h->silence);
    co_http_slots_done(&h->slots);
    free(h);
}

/* co_httpd_close from inside a callback takes effect when the last of them has returned. */
static void callback_left(struct co_httpd *h) {
    if (--h->busy == 0 && h->closing) {
        httpd_free(h);
    }
}

int co_httpd_open(struct co_loop *l, const char *addr, const struct co_http_route *routes,
    size_t n_routes, void *arg, const struct co_httpd_options *options, struct co_httpd **ret,
    struct co_err *err) {
    CO_AUTOCLOSE int fd = -1;
    CO_TRY(co_listen(addr, &fd, err));
    struct co_httpd *h = co_xcalloc(1, sizeof(*h));
    h->loop = l;
    h->left = callback_left;
    h->routes = routes;
    h->n_routes = n_routes;
    h->arg = arg;
    h->options = options ? *options : (struct co_httpd_options){0};
    h->max_body = h->options.max_body ? h->options.max_body : 64 * 1024;
    h->port = co_listen_port(fd);
    h->deferred.next = h->deferred.prev = &h->deferred;
    const struct co_httpd_options *o = &h->options;
    size_t max = o->max_connections ? o->max_connections : 64;
    co_http_slots_init(&h->slots, max, o->max_per_peer ? o->max_per_peer : max / 2,
        (o->first_seconds ? o->first_seconds : 10) * INT64_C(1000));
    const char *cert = co_steal_ptr(h->options.cert);
    struct MHD_Daemon *mhd = start_mhd(h, fd, cert, co_steal_ptr(h->options.key));
    if (!mhd) {
        free(h);
        return cert ? co_err_set(err, CO_INVALID, NOT_A_CERT)
                    : co_err_set(err, CO_INTERNAL, "cannot start an HTTP server on %s", addr);
    }
    fd = -1; /* owned by MHD now */
    int r = watch_mhd(h, mhd, err);
    if (r) {
        MHD_stop_daemon(mhd);
        free(h);
        return r;
    }
    h->timer = co_timer_new(l, on_timer, h);
    h->silence = co_timer_new(l, on_silence, h);
    *ret = h;
    return 0;
}

int co_httpd_secure(struct co_httpd *h, const char *cert, const char *key, struct co_err *err) {
    assert(h->busy == 0);
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_LISTEN_FD);
    int fd = fcntl(info->listen_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return co_err_errno(err, errno, "cannot duplicate the listening socket");
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
