/* The HTTP client: one request on a persistent connection, repeated once if that was closed.
 *
 *     IDLE -> REUSING or SENT      as there is a connection or none
 *     REUSING -> SENT              the server had closed it: once more, on a new one
 *     REUSING, SENT -> ANSWERED    the answer begins
 *     any state -> IDLE            the answer is complete; an error; canceled */
#include "common/http/httpc.h"

#include <assert.h>
#include <string.h>

#include "common/http/http_answer.h"
#include "common/parse.h"

enum { UNAUTHORIZED = 401 /* the server wants it once more, with a proof */ };

enum httpc_state {
    IDLE,     /* no request */
    REUSING,  /* a request was sent on a connection that has served another one */
    SENT,     /* ... or on a new one: that it closes is an error */
    ANSWERED, /* a part of the answer has come */
};

struct co_httpc {
    struct co_loop *loop;
    char *host;
    uint16_t port;
    bool tls;
    char *tls_files[3];
    size_t max_body;
    struct co_conn *conn;
    int former; /* socket of a canceled request, open until the next is answered; -1: none */
    struct co_timer *timer;
    struct co_http_answer answer;
    struct co_buf request; /* kept because it may have to be sent again */
    void (*data)(void *arg, const char *data, size_t len);
    void (*done)(void *arg, const struct co_httpc_result *r);
    void *arg;
    int64_t timeout_ms;
    struct co_err failed; /* reported by the timer, after the caller has returned */
    enum httpc_state state;
    bool busy;  /* a callback of the caller runs */
    bool freed; /* by it; the memory goes when it returns */
};

static void set_state(struct co_httpc *c, enum httpc_state next) {
    static const unsigned from[] = {
        [IDLE] = 1U << REUSING | 1U << SENT | 1U << ANSWERED,
        [REUSING] = 1U << IDLE,
        [SENT] = 1U << IDLE | 1U << REUSING,
        [ANSWERED] = 1U << REUSING | 1U << SENT,
    };
    assert(from[next] & 1U << c->state);
    c->state = next;
}

static char *dup_text(const char *s) {
    return s ? co_xstrdup(s) : NULL;
}

static void drop_conn(struct co_httpc *c) {
    co_conn_close(co_steal_ptr(c->conn));
}

static void drop_former(struct co_httpc *c) {
    if (c->former >= 0) {
        co_close(c->former);
        c->former = -1;
    }
}

static void client_free(struct co_httpc *c) {
    drop_conn(c);
    drop_former(c);
    co_timer_free(c->timer);
    co_http_answer_done(&c->answer);
    co_buf_done(&c->request);
    for (size_t i = 0; i < CO_ARRAY_LEN(c->tls_files); i++) {
        free(c->tls_files[i]);
    }
    free(c->host);
    free(c);
}

void co_httpc_free(struct co_httpc *c) {
    if (!c) {
        return;
    }
    c->freed = true;
    co_httpc_cancel(c);
    if (!c->busy) {
        client_free(c);
    }
}

static void finish_request(struct co_httpc *c, int code, const struct co_err *err) {
    set_state(c, IDLE);
    co_timer_stop(c->timer);
    if (code || c->answer.close) {
        drop_conn(c);
    }
    if (c->answer.status != UNAUTHORIZED) {
        drop_former(c);
    }
    /* The callback may send the next request, which uses the same buffers. */
    CO_AUTOFREE char *body = co_steal_ptr(c->answer.body.data);
    char wanted[sizeof(c->answer.wanted)];
    memcpy(wanted, c->answer.wanted, sizeof(wanted));
    struct co_httpc_result r = {.code = code,
        .status = c->answer.status,
        .body = body ? body : "",
        .len = body ? c->answer.body.len : 0,
        .wanted = wanted,
        .err = err};
    co_http_answer_done(&c->answer);
    co_http_answer_init(&c->answer, c->max_body);
    c->busy = true;
    c->done(c->arg, &r);
    c->busy = false;
    if (c->freed) {
        client_free(c);
    }
}

static void on_piece(void *arg, const char *data, size_t len) {
    struct co_httpc *c = arg;
    if (c->state == ANSWERED && c->data) { /* not canceled by the piece before */
        c->data(c->arg, data, len);
    }
}

static void on_up(void *arg) {
    (void)arg;
}

static void on_data(void *arg, const char *data, size_t len) {
    struct co_httpc *c = arg;
    struct co_err err = {0};
    size_t used = 0;
    if (c->state == IDLE) {
        drop_conn(c); /* data without a request */
        return;
    }
    if (c->state != ANSWERED) {
        set_state(c, ANSWERED);
    }
    c->busy = true; /* pieces may cancel or free */
    int r = co_http_answer_feed(&c->answer, data, len, &used, &err);
    c->busy = false;
    if (c->freed) {
        client_free(c);
        return;
    }
    if (c->state == IDLE) {
        return;
    }
    if (!r && c->answer.complete && used < len) {
        c->answer.close = true; /* the server has sent more than the answer */
    }
    if (r || c->answer.complete) {
        finish_request(c, r, &err);
    } else if (c->data && c->answer.status == 200) {
        co_timer_stop(c->timer);
    }
}

static void start_request(struct co_httpc *c);

static void on_down(void *arg, const struct co_err *why) {
    struct co_httpc *c = arg;
    struct co_err err = *why;
    drop_conn(c);
    if (c->state == IDLE) {
        return;
    }
    if (c->state == REUSING) {
        set_state(c, SENT);
        start_request(c);
        return;
    }
    int r = c->state == ANSWERED ? co_http_answer_end(&c->answer, &err) : err.code;
    finish_request(c, r, &err);
}

static const struct co_conn_fns conn_fns = {.up = on_up, .data = on_data, .down = on_down};

static void on_timer(void *arg) {
    struct co_httpc *c = arg;
    if (!c->failed.code) {
        (void)co_err_set(&c->failed, CO_TIMEOUT, "%s port %u does not answer within %.1f s",
            c->host, c->port, (double)c->timeout_ms / 1000);
    }
    struct co_err err = c->failed;
    finish_request(c, err.code, &err);
}

static void start_request(struct co_httpc *c) {
    struct co_conn_tls tls = {c->tls_files[0], c->tls_files[1], c->tls_files[2]};
    c->failed.code = 0;
    if (!c->conn && co_conn_open(c->loop, c->host, c->port, c->tls ? &tls : NULL, &conn_fns, c,
                        &c->conn, &c->failed)) {
        co_timer_start(c->timer, 0);
        return;
    }
    co_conn_send(c->conn, c->request.data, c->request.len);
}

struct co_httpc *co_httpc_new(struct co_loop *l, const char *host, uint16_t port,
    const struct co_conn_tls *tls, size_t max_body) {
    struct co_httpc *c = co_xcalloc(1, sizeof(*c));
    c->loop = l;
    c->host = co_xstrdup(host);
    c->port = port;
    c->max_body = max_body;
    c->former = -1;
    if (tls) {
        c->tls = true;
        c->tls_files[0] = dup_text(tls->ca_file);
        c->tls_files[1] = dup_text(tls->cert_file);
        c->tls_files[2] = dup_text(tls->key_file);
    }
    c->timer = co_timer_new(l, on_timer, c);
    co_http_answer_init(&c->answer, max_body);
    return c;
}

void co_httpc_cancel(struct co_httpc *c) {
    if (c->state != IDLE) {
        set_state(c, IDLE);
        co_timer_stop(c->timer);
        drop_conn(c);
    }
    drop_former(c);
}

bool co_httpc_busy(const struct co_httpc *c) {
    return c->state != IDLE;
}

void co_httpc_send(struct co_httpc *c, const struct co_httpc_request *req) {
    char server[CO_HOST_MAX + 10];
    if (c->state != IDLE) {
        set_state(c, IDLE);
        co_timer_stop(c->timer);
        drop_former(c);
        c->former = co_conn_close_later(co_steal_ptr(c->conn));
    }
    co_hostport_format(c->host, c->port, server, sizeof(server));
    CO_AUTOFREE char *head =
        co_xasprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n%s\r\n", req->method,
            req->path, server, req->len, req->headers ? req->headers : "");
    size_t n = strlen(head);
    co_buf_done(&c->request);
    c->request = CO_BUF(n + req->len);
    (void)!co_buf_add(&c->request, head, n, NULL);
    (void)!co_buf_add(&c->request, req->len ? req->body : "", req->len, NULL);
    co_http_answer_done(&c->answer);
    co_http_answer_init(&c->answer, c->max_body);
    c->answer.want = req->want;
    c->data = req->data;
    c->done = req->done;
    c->arg = req->arg;
    c->timeout_ms = req->timeout_ms;
    set_state(c, c->conn ? REUSING : SENT);
    if (req->data) {
        c->answer.data = on_piece;
        c->answer.arg = c;
    }
    co_timer_start_awake(c->timer, req->timeout_ms);
    start_request(c);
}
