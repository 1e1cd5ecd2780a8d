#include "common/conn.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

struct co_lookup {
    uv_getaddrinfo_t uv;
    struct co_timer *now; /* for a numeric address, which is known already */
    struct addrinfo *list;
    char *host;
    void (*fn)(void *arg, const struct addrinfo *list, const struct co_err *err);
    void *arg;
};

static void lookup_free(struct co_lookup *q) {
    co_timer_free(q->now);
    if (q->list) {
        freeaddrinfo(q->list);
    }
    free(q->host);
    free(q);
}

static void tell(struct co_lookup *q, const struct addrinfo *list, const char *why) {
    struct co_err err = {0};
    if (!list) {
        (void)co_err_set(&err, CO_NOTFOUND, "cannot find host %s: %s", q->host, why);
    }
    if (q->fn) {
        q->fn(q->arg, list, &err);
    }
}

static void on_numeric(void *arg) {
    struct co_lookup *q = arg;
    tell(q, q->list, "");
    lookup_free(q);
}

static void on_found(uv_getaddrinfo_t *uv, int status, struct addrinfo *list) {
    struct co_lookup *q = uv->data;
    tell(q, status == 0 ? list : NULL, status ? uv_strerror(status) : "no address");
    uv_freeaddrinfo(list);
    lookup_free(q);
}

struct co_lookup *co_lookup_start(struct co_loop *l, const char *host, uint16_t port,
    void (*fn)(void *arg, const struct addrinfo *list, const struct co_err *err), void *arg) {
    struct co_lookup *q = co_xcalloc(1, sizeof(*q));
    q->fn = fn;
    q->arg = arg;
    q->uv.data = q;
    q->host = co_xstrdup(host);
    char text[8];
    (void)snprintf(text, sizeof(text), "%u", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    bool numeric = getaddrinfo(host, text, &hints, &q->list) == 0;
    hints.ai_flags = AI_ADDRCONFIG;
    if (!numeric && uv_getaddrinfo(co_loop_uv(l), &q->uv, on_found, host, text, &hints) == 0) {
        return q;
    }
    q->now = co_timer_new(l, on_numeric, q);
    co_timer_start(q->now, 0);
    return q;
}

void co_lookup_cancel(struct co_lookup *q) {
    if (!q) {
        return;
    }
    if (q->now) {
        lookup_free(q);
        return;
    }
    q->fn = NULL; /* libuv tells the end of its request in any case */
    (void)uv_cancel((uv_req_t *)&q->uv);
}
