/* A tiny HTTP server that answers with the node's ID, and a client that asks one other node for its
 * ID.  See neighbour.h. */
#include "runtime/launch/rendezvous/neighbour.h"

#include <string.h>

#include "common/http/httpc.h"
#include "common/http/httpd.h"
#include "runtime/launch/rendezvous/group.h"

enum {
    RETRY_MS = 50,
    LATE_MS = 20, /* a timer that runs later than that: this process was stopped, not the other */
    ANSWER_MAX = 64,
};

static const char path[] = "/paddlerun/alive";

#define ENDED_WELL " ended" /* behind the ID */

struct rdzv_neighbour {
    struct co_loop *loop;
    struct co_httpd *server;
    char *id; /* own */
    struct co_httpc *http;
    struct co_timer *timer;
    char *other; /* ID of the node that it asks; NULL: none */
    enum rdzv_neighbour_state state;
    bool ended_well; /* this node's workers */
    int64_t patience_ms, asked_at;
    int64_t broken_at; /* when its connection broke; 0: it did not */
    void (*changed)(void *arg);
    void *arg;
};

static void ask_neighbour(struct rdzv_neighbour *n);

static void answer_alive(void *arg, struct co_http_req *req) {
    const struct rdzv_neighbour *n = arg;
    co_http_replyf(req, 200, "%s%s", n->id, n->ended_well ? ENDED_WELL : "");
}

static const struct co_http_route routes[] = {{"GET", path, answer_alive}};

static void set_state(struct rdzv_neighbour *n, enum rdzv_neighbour_state state) {
    if (n->state != state) {
        n->state = state;
        n->changed(n->arg);
    }
}

static void take_answer(struct rdzv_neighbour *n) {
    n->patience_ms *= n->state == RDZV_NEIGHBOUR_LATE ? 2 : 1;
    n->broken_at = 0;
    co_timer_start(n->timer, RDZV_GROUP_BEAT_MS);
    set_state(n, RDZV_NEIGHBOUR_ANSWERED);
}

static void take_silence(struct rdzv_neighbour *n, int64_t now) {
    bool late = now - n->asked_at > n->patience_ms + LATE_MS;
    co_timer_start(n->timer, 0);
    if (n->state == RDZV_NEIGHBOUR_ANSWERED && !late) {
        set_state(n, RDZV_NEIGHBOUR_LATE);
    }
}

/* Only a node that answered until now is declared gone.  For a late one its lease decides: it may
 * only be cut off from this machine. */
static void take_broken(struct rdzv_neighbour *n, int64_t now) {
    n->broken_at = n->broken_at ? n->broken_at : now;
    if (n->state == RDZV_NEIGHBOUR_ANSWERED && now - n->broken_at >= RDZV_GROUP_RECONNECT_MS) {
        set_state(n, RDZV_NEIGHBOUR_GONE);
    } else {
        co_timer_start(
            n->timer, n->state == RDZV_NEIGHBOUR_ANSWERED ? RETRY_MS : RDZV_GROUP_BEAT_MS);
    }
}

static void on_answer(void *arg, const struct co_httpc_result *r) {
    struct rdzv_neighbour *n = arg;
    const bool other =
        !r->code && r->status == 200 && strncmp(r->body, n->other, strlen(n->other)) == 0;
    const char *rest = other ? r->body + strlen(n->other) : NULL;
    if (other && !*rest) {
        take_answer(n);
    } else if (other && strcmp(rest, ENDED_WELL) == 0) {
        set_state(n, RDZV_NEIGHBOUR_DONE);
    } else if (r->code == CO_TIMEOUT) {
        take_silence(n, co_now_ms());
    } else { /* no connection, or another process has its port now */
        take_broken(n, co_now_ms());
    }
}

static void ask_neighbour(struct rdzv_neighbour *n) {
    n->asked_at = co_now_ms();
    co_httpc_send(n->http, &(struct co_httpc_request){"GET", path, .timeout_ms = n->patience_ms,
                               .done = on_answer, .arg = n});
}

static void on_timer(void *arg) {
    ask_neighbour(arg);
}

int rdzv_neighbour_new(struct co_loop *l, const char *id, void (*changed)(void *arg), void *arg,
    struct rdzv_neighbour **ret, struct co_err *err) {
    CO_AUTOFREE struct rdzv_neighbour *n = co_xcalloc(1, sizeof(*n));
    CO_TRY(co_httpd_open(l, ":0", routes, CO_ARRAY_LEN(routes), n, NULL, &n->server, err));
    n->loop = l;
    n->id = co_xstrdup(id);
    n->timer = co_timer_new(l, on_timer, n);
    n->changed = changed;
    n->arg = arg;
    *ret = co_steal_ptr(n);
    return 0;
}

static void watch_none(struct rdzv_neighbour *n) {
    co_httpc_free(co_steal_ptr(n->http));
    co_timer_stop(n->timer);
    free(co_steal_ptr(n->other));
    n->state = RDZV_NEIGHBOUR_NONE;
}

void rdzv_neighbour_free(struct rdzv_neighbour *n) {
    if (!n) {
        return;
    }
    watch_none(n);
    co_timer_free(n->timer);
    co_httpd_close(n->server);
    free(n->id);
    free(n);
}

void rdzv_neighbour_ended_well(struct rdzv_neighbour *n, bool well) {
    n->ended_well = well;
}

uint16_t rdzv_neighbour_port(const struct rdzv_neighbour *n) {
    return co_httpd_port(n->server);
}

void rdzv_neighbour_watch(
    struct rdzv_neighbour *n, const char *host, uint16_t port, const char *id) {
    if (host && n->other && strcmp(n->other, id) == 0) {
        return;
    }
    watch_none(n);
    if (host) {
        n->http = co_httpc_new(n->loop, host, port, NULL, ANSWER_MAX);
        n->other = co_xstrdup(id);
        n->patience_ms = RDZV_GROUP_PATIENCE_MS;
        n->broken_at = 0;
        co_timer_start(n->timer, 0);
    }
}

enum rdzv_neighbour_state rdzv_neighbour_state(const struct rdzv_neighbour *n) {
    return n->state;
}
