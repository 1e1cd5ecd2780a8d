/* For tests only: an HTTP/1.1 server on the test's own loop that follows a script, so that every
 * fault happens at a known place.  Each request takes the next step of the script, on whatever
 * connection it comes.  Bodies are JSON, and are translated to protobuf if the request asks for
 * that.  Not thread-safe; everything static. */
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/loop.h"
#include "common/ports_testing.h"
#include "operator/kube/config.h"
#include "operator/kube/fake_proto_testing.h"

enum fake_then {
    FAKE_KEEP, /* a complete answer; the connection stays open */
    FAKE_HOLD, /* a chunked answer without an end; with status 0 no answer at all */
    FAKE_CUT,  /* the connection is closed in the middle of the answer */
    FAKE_END,  /* a complete chunked answer */
};

/* The body of an object of this name. */
#define FAKE_OBJECT(name) "{\"metadata\":{\"name\":\"" name "\"}}"

struct fake_step {
    const char *expect; /* part of the request (line, headers and body); NULL: any */
    int status;         /* 0: no answer */
    const char *body;
    enum fake_then then;
    const char *header; /* one more, with \r\n, or NULL */
};

enum { FAKE_CONNECTIONS = 64, FAKE_REQUESTS = 512 };

struct fake_server {
    struct co_loop *loop;
    int fd;
    unsigned port;
    struct co_poll *poll;
    struct fake_connection {
        struct fake_server *s;
        int fd;
        struct co_poll *poll;
        struct co_buf in;
    } connections[FAKE_CONNECTIONS];
    size_t n_connections; /* accepted so far */
    const struct fake_step *steps;
    size_t n_steps, served;
    char *requests[FAKE_REQUESTS]; /* in the order of arrival */
    bool wrong;                    /* a request did not match its step, or there was no step left */
};

static inline void fake_close(struct fake_connection *c) {
    co_poll_free(c->poll);
    c->poll = NULL;
    co_close(c->fd);
    c->fd = -1;
    co_buf_done(&c->in);
}

static inline void fake_send(struct fake_connection *c, const struct fake_step *step) {
    CO_AUTOBUF struct co_buf b = CO_BUF((size_t)64 << 20), proto = CO_BUF((size_t)64 << 20);
    bool chunked = step->then != FAKE_KEEP;
    const char *body = step->body ? step->body : "";
    size_t len = strlen(body);
    if (strstr(c->s->requests[c->s->served - 1], "vnd.kubernetes.protobuf")) {
        fake_proto(&proto, body);
        body = proto.len ? proto.data : "";
        len = proto.len;
    }
    int rc = co_buf_addf(&b, NULL, "HTTP/1.1 %d Fake\r\nContent-Type: application/json\r\n%s",
        step->status, step->header ? step->header : "");
    rc |= chunked ? co_buf_adds(&b, "Transfer-Encoding: chunked\r\n\r\n", NULL)
                  : co_buf_addf(&b, NULL, "Content-Length: %zu\r\n\r\n", len);
    if (chunked && len) {
        rc |= co_buf_addf(&b, NULL, "%zx\r\n", len) || co_buf_add(&b, body, len, NULL) ||
              co_buf_adds(&b, "\r\n", NULL);
    } else if (len) {
        rc |= co_buf_add(&b, body, len, NULL);
    }
    rc |= step->then == FAKE_END ? co_buf_adds(&b, "0\r\n\r\n", NULL) : 0;
    c->s->wrong |= rc != 0 || write(c->fd, b.data, b.len) != (ssize_t)b.len;
}

/* Length of the first whole request in the buffer; 0: not yet. */
static inline size_t fake_request_len(const struct co_buf *in) {
    const char *end = in->len ? strstr(in->data, "\r\n\r\n") : NULL;
    if (!end) {
        return 0;
    }
    size_t head = (size_t)(end - in->data) + 4, body = 0;
    const char *length = strcasestr(in->data, "\r\ncontent-length: ");
    if (length && length < end) {
        body = strtoul(length + strlen("\r\ncontent-length: "), NULL, 10);
    }
    return in->len >= head + body ? head + body : 0;
}

static inline void fake_answer(struct fake_connection *c, size_t len) {
    struct fake_server *s = c->s;
    if (s->served >= s->n_steps || s->served >= FAKE_REQUESTS) {
        s->wrong = true;
        fprintf(stderr, "request without a step: %.*s\n", (int)len, c->in.data);
        fake_close(c);
        return;
    }
    const struct fake_step *step = &s->steps[s->served];
    s->requests[s->served++] = co_xstrndup(c->in.data, len);
    if (step->expect && !strstr(s->requests[s->served - 1], step->expect)) {
        s->wrong = true;
        fprintf(stderr, "expected \"%s\" in: %s\n", step->expect, s->requests[s->served - 1]);
    }
    co_buf_consume(&c->in, len);
    if (step->status) {
        fake_send(c, step);
    }
    if (step->then == FAKE_CUT) {
        fake_close(c);
    }
}

static inline void fake_readable(void *arg, int events) {
    (void)events;
    struct fake_connection *c = arg;
    char chunk[65536];
    ssize_t n = read(c->fd, chunk, sizeof(chunk));
    if (n <= 0 || co_buf_add(&c->in, chunk, (size_t)n, NULL)) {
        fake_close(c);
        return;
    }
    size_t len;
    while (c->fd >= 0 && (len = fake_request_len(&c->in))) {
        fake_answer(c, len);
    }
}

static inline void fake_accept(void *arg, int events) {
    (void)events;
    struct fake_server *s = arg;
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 || s->n_connections == FAKE_CONNECTIONS) {
        s->wrong = true;
        return;
    }
    struct fake_connection *c = &s->connections[s->n_connections++];
    *c = (struct fake_connection){.s = s, .fd = fd, .in = CO_BUF(1 << 20)};
    s->wrong |= co_poll_new(s->loop, fd, fake_readable, c, &c->poll, NULL) != 0;
    co_poll_set(c->poll, CO_POLL_IN);
}

static inline bool fake_start(struct fake_server *s, struct co_loop *loop) {
    *s = (struct fake_server){.loop = loop, .port = co_test_ports(1)};
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)s->port)};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Connections of the port's former user may be in TIME_WAIT. */
    if (s->fd < 0 || setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
        bind(s->fd, (struct sockaddr *)&a, sizeof(a)) || listen(s->fd, 64) ||
        co_poll_new(loop, s->fd, fake_accept, s, &s->poll, NULL)) {
        return false;
    }
    co_poll_set(s->poll, CO_POLL_IN);
    return true;
}

static inline void fake_script(struct fake_server *s, const struct fake_step *steps, size_t n) {
    s->steps = steps;
    s->n_steps = n;
}

static inline void fake_stop(struct fake_server *s) {
    for (size_t i = 0; i < s->n_connections; i++) {
        fake_close(&s->connections[i]);
    }
    for (size_t i = 0; i < s->served; i++) {
        free(s->requests[i]);
    }
    co_poll_free(s->poll);
    co_close(s->fd);
}

static inline struct kube_config *fake_config(const struct fake_server *s) {
    struct kube_config *cfg = co_xcalloc(1, sizeof(*cfg));
    cfg->source = co_xstrdup("fake");
    cfg->server = co_xasprintf("http://127.0.0.1:%u", s->port);
    cfg->ns = co_xstrdup("default");
    return cfg;
}
