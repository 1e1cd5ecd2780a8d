/* A long poll to the operator's replicas in turn; only the lease holder holds a request.  See
 * training_end.h. */
#include "runtime/launch/process/training_end.h"

#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/http/httpc.h"
#include "common/parse.h"

enum {
    PLACES_MAX = 8,
    PATH_MAX_BYTES = 800, /* namespace, job, uid */
    ANSWER_MAX = 256,
    WAIT_S = 50, /* the operator holds a request for so long */
    ANSWER_MS = WAIT_S * 1000 + 10000,
    HELD_MS = 1000, /* an answer that took this long was held by the operator: ask again at once */
    PAUSE_MIN_MS = 500,
    PAUSE_MAX_MS = 4000, /* a server that learns it later than --server-grace allows is deleted */
};

struct proc_training_end {
    struct co_loop *loop;
    struct co_hostport place[PLACES_MAX];
    size_t n_places, at;
    char path[PATH_MAX_BYTES];
    struct co_httpc *http; /* to place[at]; NULL: not connected yet */
    struct co_timer *timer;
    int64_t asked, pause;
    bool is_over;
    void (*over)(void *arg);
    void *arg;
};

static int parse_where(struct proc_training_end *t, const char *where, struct co_err *err) {
    const char *what = co_contract[CO_VAR_TRAINING_END].name;
    const char *path = strchrnul(where, '/');
    int n = snprintf(t->path, sizeof(t->path), "%s?wait=%d", path, WAIT_S);
    for (const char *p = where; p < path && t->n_places < PLACES_MAX;) {
        const char *end = p + strcspn(p, ",/");
        char one[CO_HOST_MAX + 10];
        (void)snprintf(one, sizeof(one), "%.*s", (int)(end - p), p);
        CO_TRY(co_parse_hostport(what, one, &t->place[t->n_places], err));
        t->n_places++;
        p = *end == ',' ? end + 1 : end;
    }
    bool odd = strpbrk(path, " \r\n") || n >= (int)sizeof(t->path) || !*path || !t->n_places;
    return odd ? co_err_set(
                     err, CO_INVALID, "%s is \"%.100s\", expected host:port,.../path", what, where)
               : 0;
}

/* Also compares the body: another program may have got the operator's address meanwhile. */
static bool says_over(const struct co_httpc_result *r) {
    return !r->code && r->status == 200 && strcmp(r->body, "over\n") == 0;
}

static void take_answer(void *arg, const struct co_httpc_result *r) {
    struct proc_training_end *t = arg;
    if (says_over(r)) {
        t->is_over = true;
        co_timer_start(t->timer, PROC_TRAINING_END_LEAVE_MS);
        return;
    }
    if (!r->code && r->status == 202 && co_loop_now(t->loop) - t->asked >= HELD_MS) {
        t->pause = PAUSE_MIN_MS;
        co_timer_start(t->timer, 0);
        return;
    }
    co_httpc_free(co_steal_ptr(t->http));
    t->at = (t->at + 1) % t->n_places;
    co_timer_start(t->timer, t->at ? 0 : t->pause);
    if (t->at == 0) { /* all addresses were tried, and none held the request */
        t->pause = t->pause * 2 < PAUSE_MAX_MS ? t->pause * 2 : PAUSE_MAX_MS;
    }
}

static void on_timer(void *arg) {
    struct proc_training_end *t = arg;
    if (t->is_over) {
        t->over(t->arg);
        return;
    }
    const struct co_hostport *place = &t->place[t->at];
    if (!t->http) {
        t->http = co_httpc_new(t->loop, place->host, place->port, NULL, ANSWER_MAX);
    }
    t->asked = co_loop_now(t->loop);
    co_httpc_send(t->http, &(struct co_httpc_request){"GET", t->path, .timeout_ms = ANSWER_MS,
                               .done = take_answer, .arg = t});
}

struct proc_training_end *proc_training_end_new(
    struct co_loop *l, const char *where, void (*over)(void *arg), void *arg, struct co_err *err) {
    if (!where || !*where) {
        return NULL;
    }
    struct proc_training_end *t = co_xcalloc(1, sizeof(*t));
    *t = (struct proc_training_end){.loop = l, .pause = PAUSE_MIN_MS, .over = over, .arg = arg};
    if (parse_where(t, where, err)) {
        free(t);
        return NULL;
    }
    t->timer = co_timer_new(l, on_timer, t);
    co_timer_start(t->timer, 0);
    return t;
}

void proc_training_end_free(struct proc_training_end *t) {
    if (t) {
        co_timer_free(t->timer);
        co_httpc_free(t->http);
        free(t);
    }
}
