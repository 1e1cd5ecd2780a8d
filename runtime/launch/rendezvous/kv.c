/* The rendezvous back end of host:port: a key-value service over HTTP, which a node of the job
 * serves (service.c).  master.c finds and asks it; here is what its answers mean.
 *
 *                        MET                DONE, or OVER of a job that ended well
 *        +--> JOINING --------> RUNNING --------------------------------> ALONE
 *        |      |  |             |   |                                     ^ ^
 *  again |      |  | an empty    |   | kv_done       DONE, or OVER         | |
 *        |      |  | answer      |   +---------> DONE ---------------------+ |
 *        |      |  +--> PADDLE   |                 |                         | OVER
 *        |      |                v CHANGED, lost   | CHANGED, lost           |
 *        +----- | ----------- STOPPING <-----------+                         |
 *               |                +-------------------------------------------+
 *               v
 *             ENDED, from every state: refused, or over
 *
 * Until ALONE or ENDED it always has one pending request (ask_master).  The master answers when
 * there is a notice, or after beat_ms.  A master that runs Paddle's launcher is recognized by its
 * empty answer and polled instead. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/launch/rendezvous/backend.h"
#include "runtime/launch/rendezvous/master.h"
#include "runtime/launch/rendezvous/poll.h"

enum {
    LOST_MS = 500, /* for so long a master that stopped answering is tried before it is lost */
    RETRY_FOREIGN_MS = 250, /* another program listens there and must not be flooded */
    LOOKUP_MS = 1000,
    NOTE_MS = 5000, /* between two log lines that say the same, as in Paddle's launcher */
    POLL_MS = 200,  /* when Paddle's launcher serves */
    SETTLE_MS = 1000,
    SETTLE_TICK_MS = 5,
    UNAUTHORIZED = 401,
};

enum kv_state {
    KV_JOINING,  /* it asks to take part in the next round */
    KV_PADDLE,   /* as JOINING, and then RUNNING, with Paddle's launcher as the master */
    KV_RUNNING,  /* a round runs */
    KV_DONE,     /* its own workers ended well, others have not */
    KV_STOPPING, /* the round has ended: workers are stopped until kv_again */
    KV_ALONE,    /* no master watches any more: nothing is asked before kv_again */
    KV_ENDED,    /* it has failed, or was refused */
};

#define TAKES(kind) (1U << RDZV_WIRE_##kind)

enum {
    ANY = TAKES(WAIT) | TAKES(LATE) | TAKES(OVER) | TAKES(REFUSED),
    RUNS = ANY | TAKES(CHANGED) | TAKES(DONE),
};

#define IN(state) (1U << KV_##state)

static const struct {
    unsigned from; /* the states that may come before it */
    enum rdzv_node_state reported;
    bool watched;   /* workers run: the master must answer each beat */
    unsigned takes; /* these answers; others, perhaps of an older request, are dropped */
} states[] = {
    [KV_JOINING] = {IN(STOPPING) | IN(ALONE), RDZV_NODE_JOINING, false, ANY | TAKES(MET)},
    [KV_PADDLE] = {IN(JOINING), RDZV_NODE_JOINING, false, ANY | TAKES(MET)},
    [KV_RUNNING] = {IN(JOINING) | IN(PADDLE), RDZV_NODE_RUNNING, true, RUNS},
    [KV_DONE] = {IN(RUNNING), RDZV_NODE_DONE, true, RUNS},
    [KV_STOPPING] = {IN(RUNNING) | IN(DONE), RDZV_NODE_STOPPING, false, ANY},
    [KV_ALONE] = {IN(RUNNING) | IN(DONE) | IN(STOPPING), RDZV_NODE_RUNNING, false, 0},
    [KV_ENDED] = {~IN(ENDED), RDZV_NODE_STOPPING, false, 0},
};

struct kv {
    struct rdzv *m;
    struct rdzv_master master;
    struct co_timer *timer; /* calls `next` */
    void (*next)(struct kv *w);
    enum kv_state state;
    char *restart; /* reason of a restart request that was not answered yet; owned; NULL: none */
    int round;     /* the round that it met in last */
    int64_t lost_since; /* since when the master does not answer; 0: it does */
    bool late;          /* the master is late with an answer */
    int64_t beat_ms, patience_ms;
    int64_t noted_at;
    int64_t until;      /* how long a serving node waits for the others at its end */
    char answered[320]; /* the master's last report about missing nodes */
    struct co_err last; /* why there is no master, or what it is waiting for */
    bool down;          /* last is the former: there is no master */
    bool foreign;       /* the last answer came from another kind of program */
    struct co_err over;
};

static void set_state(struct kv *w, enum kv_state next) {
    assert(states[next].from & 1U << w->state);
    w->state = next;
}

static void ask_master(struct kv *w);
static void send_parting(struct kv *w, bool restart, int code, const char *why);
static void find_master(struct kv *w);

static void call_later(struct kv *w, int64_t ms, void (*next)(struct kv *w)) {
    w->next = next;
    co_timer_start(w->timer, ms);
}

static void on_timer(void *arg) {
    struct kv *w = arg;
    w->next(w);
}

static const char *describe_wait(void *backend) {
    struct kv *w = backend;
    if (w->down) {
        w->down = false;
        if (w->master.taken && !w->foreign) { /* no answer: the port is not another node's */
            struct co_err taken;
            rdzv_master_explain_taken(&w->master, &taken);
            (void)co_err_wrap(&w->last, "this machine has that address, but: %s", taken.msg);
        }
        (void)co_err_wrap(&w->last, "the master at %s is not there", w->master.text);
    }
    if (!w->last.msg[0]) {
        (void)co_err_set(
            &w->last, CO_TIMEOUT, "the master at %s has not answered yet", w->master.text);
    }
    return w->last.msg;
}

static bool is_meeting(const struct kv *w) {
    return w->m->state == RDZV_MEETING || w->state == KV_JOINING;
}

static struct rdzv_wire_hello make_hello(const struct kv *w) {
    return (struct rdzv_wire_hello){.state = states[w->state].reported, .round = w->round};
}

/* ---- the end ---- */

/* A serving node ends last: it waits until the others have read the reason from it. */
static void settle(struct kv *w) {
    if (w->master.service && co_now_ms() < w->until && !rdzv_service_settled(w->master.service)) {
        call_later(w, SETTLE_TICK_MS, settle);
    } else {
        rdzv_finish(w->m, &w->over);
    }
}

static void start_settling(struct kv *w) {
    w->until = co_now_ms() + SETTLE_MS;
    settle(w);
}

/* Ends this node's part with that error. */
static void end_part(struct kv *w, int code, const char *why) {
    set_state(w, KV_ENDED);
    (void)co_err_set(&w->over, code, "%s", why);
    start_settling(w);
}

/* ---- no answer ---- */

static int64_t retry_ms(const struct kv *w) {
    const int64_t ms = rdzv_group_retry_ms(w->m->options.max_nodes);
    return w->foreign && ms < RETRY_FOREIGN_MS ? RETRY_FOREIGN_MS : ms;
}

static void master_lost(struct kv *w, const struct co_err *why) {
    struct co_err err = {0};
    (void)co_err_set(&err, CO_PEERLOST, "the master at %s is gone: %s", w->master.text, why->msg);
    w->lost_since = 0;
    if (w->m->options.level < 0) {
        end_part(w, err.code, err.msg);
    } else {
        set_state(w, KV_STOPPING);
        call_later(w, retry_ms(w), ask_master);
        rdzv_changed(w->m, err.msg);
    }
}

static void warn_not_ready(struct kv *w) {
    int64_t now = co_now_ms();
    if (now - w->noted_at >= NOTE_MS) {
        struct co_err err = w->last;
        (void)co_err_wrap(&err, "master not ready");
        w->noted_at = now;
        rdzv_note(w->m, true, err.msg);
    }
}

static void no_answer(struct kv *w, const struct co_err *why) {
    int64_t now = co_now_ms();
    w->last = *why;
    w->down = !w->answered[0];
    if (w->answered[0]) {
        (void)co_err_set(
            &w->last, why->code, "%s; then the master was lost: %s", w->answered, why->msg);
    }
    if (is_meeting(w)) {
        warn_not_ready(w);
    } else if (states[w->state].watched) {
        w->lost_since = w->lost_since ? w->lost_since : now;
        if (why->code == CO_TIMEOUT || now - w->lost_since >= LOST_MS) {
            master_lost(w, why);
            return;
        }
    }
    call_later(w, retry_ms(w),
        w->master.local && !w->master.service && is_meeting(w) ? find_master : ask_master);
}

/* ---- a service of Paddle's ---- */

static void on_listing(void *arg, const struct co_httpc_result *r) {
    struct kv *w = arg;
    const struct rdzv_options *o = &w->m->options;
    CO_CLEANUP(rdzv_poll_done)
    struct rdzv_poll_round round = {.prefix_job = o->job_id,
        .name = rdzv_master_key(&w->master),
        .size = o->max_nodes,
        .sort_ip = o->sort_ip};
    struct co_err err = {0};
    if (r->code) {
        no_answer(w, r->err);
        return;
    }
    int e = r->status == 200 ? rdzv_poll_parse(r->body, r->len, &round, &err) : 0;
    if (e) {
        end_part(w, e, err.msg);
    } else if (round.complete) {
        rdzv_met(w->m, round.peers, round.n, round.self, ++w->round, false);
    } else {
        (void)co_err_set(&w->last, CO_TIMEOUT,
            "%zu of %d nodes are here (Paddle's launcher serves)", round.n, o->max_nodes);
        call_later(w, POLL_MS, ask_master);
    }
}

static void poll_paddle(struct kv *w) {
    if (w->state != KV_PADDLE) {
        set_state(w, KV_PADDLE);
        rdzv_note(
            w->m, false, "the master is Paddle's launcher: no node is notified of another's end");
    }
    rdzv_master_list(&w->master, on_listing);
}

/* ---- a service of ours ---- */

static void master_late(struct kv *w) {
    char line[CO_HOST_MAX + 120];
    (void)snprintf(line, sizeof(line), "silent for a second: the master at %s; lost after %.3g s",
        w->master.text, (double)(w->m->options.silent_ms + RDZV_MASTER_ANSWER_MS) / 1000);
    w->late = true;
    w->patience_ms *= 2;
    rdzv_note(w->m, true, line);
}

static void master_answered(struct kv *w) {
    w->lost_since = 0;
    if (w->late) {
        w->late = false;
        rdzv_note(w->m, false, "the master answers again");
    }
}

/* Starts the timer that reports a late master, while workers run and it must answer every beat. */
static void watch_master(struct kv *w) {
    if (states[w->state].watched && !w->master.service && !w->late) {
        call_later(w, w->beat_ms + w->patience_ms, master_late);
    }
}

static void refuse_restart(struct kv *w) {
    end_part(w, CO_PEERLOST, "no other node would start again: no master watches this job");
}

static void handle_met(struct kv *w, const struct rdzv_wire_answer *a) {
    CO_AUTOFREE struct rdzv_peer *peers = co_xcalloc(a->n, sizeof(*peers));
    for (size_t i = 0; i < a->n; i++) {
        peers[i] = (struct rdzv_peer){a->peers[i].name, a->peers[i].value};
    }
    set_state(w, KV_RUNNING);
    w->round = a->round;
    w->beat_ms = rdzv_group_beat_ms(a->n, w->m->options.silent_ms);
    w->answered[0] = '\0';
    ask_master(w);
    rdzv_met(w->m, peers, a->n, a->self, a->round, true);
}

static void handle_over(struct kv *w, const struct rdzv_wire_answer *a, bool restart) {
    if (a->code || is_meeting(w)) {
        end_part(w, a->code ? a->code : CO_CANCELED, a->text);
        return;
    }
    const bool done = w->state == KV_DONE;
    set_state(w, KV_ALONE);
    rdzv_note(w->m, false, a->text);
    if (restart) {
        refuse_restart(w);
    } else if (done) {
        rdzv_all_done(w->m);
    }
}

/* Changes the state and asks again before it calls the front end, which may free w. */
static void handle_answer(struct kv *w, const struct rdzv_wire_answer *a, bool restart) {
    if (!(states[w->state].takes & 1U << a->kind)) {
        call_later(w, retry_ms(w), ask_master);
        return;
    }
    switch (a->kind) {
    case RDZV_WIRE_LATE:
        rdzv_note(w->m, a->round > 0, a->text);
        ask_master(w);
        return;
    case RDZV_WIRE_WAIT:
        (void)snprintf(w->answered, sizeof(w->answered), "%.300s", a->text);
        (void)co_err_set(&w->last, CO_TIMEOUT, "%s", w->answered);
        w->down = false;
        ask_master(w);
        return;
    case RDZV_WIRE_MET:
        handle_met(w, a);
        return;
    case RDZV_WIRE_CHANGED:
        if (w->m->options.level < 0) {
            end_part(w, CO_PEERLOST, a->text);
            return;
        }
        set_state(w, KV_STOPPING);
        ask_master(w);
        rdzv_changed(w->m, a->text);
        return;
    case RDZV_WIRE_DONE:
        set_state(w, KV_ALONE);
        rdzv_all_done(w->m);
        return;
    case RDZV_WIRE_OVER:
        handle_over(w, a, restart);
        return;
    case RDZV_WIRE_REFUSED:
        end_part(w, a->code, a->text);
        return;
    }
}

/* Ends this node when the token proves that it, or the master, does not belong to the job. */
static bool is_refused(struct kv *w, const struct co_httpc_result *r) {
    char line[CO_ERR_MAX];
    if (!r->code && r->status == UNAUTHORIZED) {
        (void)snprintf(line, sizeof(line),
            "the master at %s asks for a proof of the job's token: all nodes need --require_token "
            "and PADDLE_JOB_TOKEN",
            w->master.text);
    } else if (r->code == CO_PERMISSION) {
        (void)snprintf(line, sizeof(line), "the master at %s: %.400s", w->master.text, r->err->msg);
    } else {
        return false;
    }
    end_part(w, CO_PERMISSION, line);
    return true;
}

static void on_answer(void *arg, const struct co_httpc_result *r) {
    struct kv *w = arg;
    struct rdzv_wire_answer a = {0};
    struct co_err err = {0};
    co_timer_stop(w->timer);
    if (is_refused(w, r)) {
        return;
    }
    if (r->code) {
        w->foreign = false;
        no_answer(w, r->err);
        return;
    }
    int e = rdzv_wire_answer_parse(r->body, r->len, &a, &err);
    if (e && r->status == 200 && r->len == 0 && is_meeting(w) &&
        w->m->options.min_nodes == w->m->options.max_nodes) {
        poll_paddle(w);
    } else if (e) {
        (void)co_err_set(&err, CO_UNAVAILABLE, "%s answers %d, as no key-value service does%s",
            w->master.text, r->status,
            r->status == 200 && r->len == 0 ? " that can serve an elastic job" : "");
        w->foreign = true;
        no_answer(w, &err);
    } else {
        CO_AUTOFREE char *restart = co_steal_ptr(w->restart); /* the master has got it */
        w->foreign = false;
        master_answered(w);
        handle_answer(w, &a, restart != NULL);
        rdzv_wire_answer_done(&a);
    }
}

static void ask_master(struct kv *w) {
    if (w->restart) { /* repeated until it is answered; the master ignores one of an old round */
        send_parting(w, true, 0, w->restart);
        return;
    }
    const struct rdzv_wire_hello h = make_hello(w);
    co_timer_stop(w->timer);
    rdzv_master_report(&w->master, &h, on_answer);
    watch_master(w);
}

static void find_master(struct kv *w) {
    rdzv_master_find(&w->master);
}

static void on_found(void *arg, const struct co_err *err) {
    struct kv *w = arg;
    if (err) {
        w->last = *err;
        warn_not_ready(w);
        call_later(w, LOOKUP_MS, find_master);
        return;
    }
    ask_master(w);
    if (!w->m->options.master && w->m->fns.serving) {
        w->m->fns.serving(w->m->arg, w->master.text);
    }
}

/* ---- the operations of the back end, see struct rdzv_backend ---- */

static void kv_free(void *backend) {
    struct kv *w = backend;
    rdzv_master_done(&w->master);
    co_timer_free(w->timer);
    free(w->restart);
    free(w);
}

CO_DEFINE_CLEANUP(struct kv *, kv_free)

static int kv_start(struct rdzv *m, void **ret, struct co_err *err) {
    CO_CLEANUP(kv_freep) struct kv *w = co_xcalloc(1, sizeof(*w));
    w->m = m;
    w->timer = co_timer_new(m->loop, on_timer, w);
    w->patience_ms = RDZV_GROUP_PATIENCE_MS;
    w->noted_at = co_now_ms() - NOTE_MS + LOST_MS; /* no log line in the first LOST_MS */
    CO_TRY(rdzv_master_init(&w->master, m, on_found, w, err));
    call_later(w, 0, find_master);
    *ret = co_steal_ptr(w);
    return 0;
}

static void kv_again(void *backend) {
    struct kv *w = backend;
    if (w->state == KV_ENDED) {
        return; /* it settles */
    }
    set_state(w, KV_JOINING);
    free(co_steal_ptr(w->restart)); /* the round that it asked to end has ended */
    w->lost_since = 0;
    if (w->master.service) {
        ask_master(w);
    } else {
        find_master(w); /* it may be another machine now, or none: then this node may serve */
    }
}

static void kv_done(void *backend) {
    struct kv *w = backend;
    if (w->state == KV_ALONE) {
        rdzv_all_done(w->m);
    } else if (w->state == KV_RUNNING) {
        set_state(w, KV_DONE);
        ask_master(w);
    }
}

static void on_left(void *arg, const struct co_httpc_result *r) {
    struct kv *w = arg;
    (void)r;
    if (w->master.service) {
        char text[CO_HOST_MAX + 80];
        (void)snprintf(text, sizeof(text), "the master at %s has done its work", w->master.text);
        if (w->over.code == 0) {
            rdzv_service_part(w->master.service, text);
        }
    }
    start_settling(w);
}

static void send_parting(struct kv *w, bool restart, int code, const char *why) {
    struct rdzv_wire_hello h = make_hello(w);
    h.restart = restart;
    h.code = code;
    co_timer_stop(w->timer);
    rdzv_master_part(&w->master, &h, why, restart ? on_answer : on_left);
}

static void kv_restart(void *backend, const char *why) {
    struct kv *w = backend;
    if (w->state == KV_ENDED) {
        return; /* it settles */
    }
    if (w->state == KV_PADDLE || w->state == KV_ALONE) {
        refuse_restart(w);
        return;
    }
    free(w->restart);
    w->restart = co_xstrdup(why);
    ask_master(w);
}

static void kv_leave(void *backend, int code, const char *why) {
    struct kv *w = backend;
    w->over.code = code;
    if (!w->master.http || w->state == KV_PADDLE || w->state == KV_ALONE) {
        rdzv_master_cancel(&w->master);
        w->until = 0;
        call_later(w, 0, settle);
        return;
    }
    send_parting(w, false, code, why);
}

const struct rdzv_backend rdzv_kv = {
    kv_start, kv_again, kv_restart, kv_done, kv_leave, kv_free, describe_wait};
