/* One request of the HTTP server: its data, its answer, and its wait if it is deferred. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "common/http/httpd_internal.h"

struct co_http_req *co_http_req_new(
    struct co_httpd *h, struct MHD_Connection *conn, const char *path, const char *method) {
    struct co_http_req *r = co_xcalloc(1, sizeof(*r));
    r->h = h;
    r->conn = conn;
    r->path = co_xstrdup(path);
    r->method = co_xstrdup(method);
    r->body = CO_BUF(h->max_body);
    return r;
}

void co_http_req_free(struct co_http_req *r) {
    assert(r->state != CO_HTTP_DEFERRED && !r->timer && !r->poll);
    if (r->response) {
        MHD_destroy_response(r->response);
    }
    co_buf_done(&r->body);
    free(r->path);
    free(r->method);
    free(r);
}

/* ---- the request's data ---- */

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

static struct co_http_slot *place_of(const struct co_http_req *r) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info->socket_context;
}

uint64_t co_http_conn(const struct co_http_req *r) {
    return place_of(r)->number;
}

void co_http_peer(const struct co_http_req *r, char ret[CO_HTTP_PEER_MAX]) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    co_http_peer_text(info ? info->client_addr : NULL, ret);
}

const char *co_http_body(const struct co_http_req *r, size_t *ret_len) {
    *ret_len = r->body.len;
    return r->body.data ? r->body.data : "";
}

/* ---- its answer ---- */

static void undefer(struct co_http_req *r) {
    r->prev->next = r->next;
    r->next->prev = r->prev;
    co_timer_free(co_steal_ptr(r->timer));
    co_poll_free(co_steal_ptr(r->poll));
}

/* Ends the wait of a deferred request; libmicrohttpd (MHD) calls on_access again for it. */
static void resume(struct co_http_req *r, enum co_http_state state) {
    undefer(r);
    r->state = state;
    MHD_resume_connection(r->conn);
    /* MHD does not wake up by itself when it is polled from outside.  A timer, because handlers
     * must not run inside this call. */
    r->h->again = true;
    co_timer_start(r->h->timer, 0);
}

void co_http_add_header(struct co_http_req *r, const char *name, const char *value) {
    (void)MHD_add_response_header(r->response, name, value);
}

/* Takes the response, which contains body; NULL: no memory. */
static void answer(struct co_http_req *r, int status, const char *content_type,
    struct MHD_Response *response, const void *body, size_t len) {
    r->response = response;
    if (response) {
        co_http_add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE,
            content_type ? content_type : "text/plain; charset=utf-8");
    }
    if (response && r->h->options.answering && !r->h->closing) {
        r->h->options.answering(r->h->arg, r, status, body, len);
    }
    r->status = (unsigned)status;
    co_http_slot_idle(&r->h->slots, place_of(r)); /* may be dropped now, even if it never reads */
    if (r->state == CO_HTTP_DEFERRED) {
        resume(r, CO_HTTP_ANSWERED);
    } else {
        co_timer_free(co_steal_ptr(r->timer));
        r->state = CO_HTTP_ANSWERED;
    }
}

static bool may_answer(const struct co_http_req *r) {
    return r->state == CO_HTTP_HANDLED || r->state == CO_HTTP_DEFERRED;
}

/* MHD takes a pointer to non-const data, but only reads. */
void co_http_reply(
    struct co_http_req *r, int status, const char *content_type, const void *body, size_t len) {
    if (may_answer(r)) {
        void *bytes = (void *)(uintptr_t)(len ? body : "");
        answer(r, status, content_type,
            MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_COPY), bytes, len);
    }
}

void co_http_reply_lent(struct co_http_req *r, int status, const char *content_type,
    const void *body, size_t len, void (*release)(void *arg), void *arg) {
    struct MHD_Response *response = NULL;
    if (may_answer(r)) {
        response = MHD_create_response_from_buffer_with_free_callback_cls(
            len, (void *)(uintptr_t)body, release, arg);
        answer(r, status, content_type, response, body, len);
    }
    if (!response) {
        release(arg);
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

/* ---- its wait ---- */

void co_http_req_gone(struct co_http_req *r) {
    struct co_httpd *h = r->h;
    h->busy++;
    resume(r, CO_HTTP_GONE);
    r->on_close(r->arg, r);
    h->left(h);
}

static void on_deferred_readable(void *arg, int events) {
    struct co_http_req *r = arg;
    (void)events;
    char c;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    ssize_t n = recv(info->connect_fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) {
        co_poll_set(r->poll, 0); /* a pipelined request, which has to wait */
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        co_http_req_gone(r);
    }
}

static void on_deferred_timeout(void *arg) {
    struct co_http_req *r = arg;
    struct co_httpd *h = r->h;
    h->busy++;
    if (r->on_timeout) {
        r->on_timeout(r->arg, r);
    }
    if (r->state == CO_HTTP_DEFERRED) {
        co_http_replyf(r, MHD_HTTP_GATEWAY_TIMEOUT, "nothing happened in time\n");
    }
    h->left(h);
}

void co_http_req_suspend(struct co_http_req *r) {
    struct co_http_req *head = &r->h->deferred;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (co_poll_new(r->h->loop, info->connect_fd, on_deferred_readable, r, &r->poll, NULL) == 0) {
        co_poll_set(r->poll, CO_POLL_IN);
    }
    r->state = CO_HTTP_DEFERRED;
    co_http_slot_hold(place_of(r));
    r->next = head;
    r->prev = head->prev;
    r->prev->next = r;
    head->prev = r;
    MHD_suspend_connection(r->conn);
}

void co_http_defer(struct co_http_req *r, int64_t timeout_ms,
    void (*on_timeout)(void *arg, struct co_http_req *r),
    void (*on_close)(void *arg, struct co_http_req *r), void *arg) {
    assert(on_close);
    if (r->state != CO_HTTP_HANDLED || r->deferred) {
        return;
    }
    r->deferred = true;
    r->on_timeout = on_timeout;
    r->on_close = on_close;
    r->arg = arg;
    r->timer = co_timer_new(r->h->loop, on_deferred_timeout, r);
    co_timer_start(r->timer, timeout_ms);
}
