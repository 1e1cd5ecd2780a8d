/* The links: the state of the connection to each server, and how long the client waits for it.  All
 * changes of a state are here.
 *
 *     DOWN --> HELLO --> WELCOME --> BEGUN --> UP --> LEFT
 *                 ^---------'  asked again
 *     from all of these: --> DOWN
 *
 * A link that was UP and is lost is away until it is UP again.  For that it has time until
 * until_ms, in whatever state its next connections are: a server may accept them, and greet, and
 * say nothing more.  Once it has answered a request, its next loss gets the whole time again.
 * Without an answer each second UP gains a second: a server that comes back, breaks again and never
 * answers is not waited for without end. */
#include "runtime/train/ps/client/link.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/thread.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"

/* LEAVE_MS: closing waits so long for servers to end the streams. */
enum { LEAVE_MS = 500 };

/* ---- the lock ---- */

void psc_lock(const struct rt_client *c) {
    pthread_mutex_lock(&c->links->m);
}

void psc_unlock(struct rt_client *c) {
    struct rt_call *over = co_steal_ptr(c->links->over);
    pthread_mutex_unlock(&c->links->m);
    for (struct rt_call *next; over; over = next) {
        next = over->next;
        over->done(over);
    }
}

void psc_links_open(struct rt_client *c, uint32_t n, const char *const *endpoints) {
    struct psc_links *k = c->links = co_xcalloc(1, sizeof(*k) + n * sizeof(k->at[0]));
    co_cond_init(&k->changed);
    co_cond_init(&k->broke);
    pthread_mutex_init(&k->m, NULL);
    k->n = n;
    for (uint32_t i = 0; i < n; i++) {
        k->at[i] = (struct psc_link){.c = c, .index = i, .endpoint = co_xstrdup(endpoints[i])};
        psc_inflight_init(&k->at[i].inflight);
    }
}

void psc_links_free(struct rt_client *c) {
    struct psc_links *k = c->links;
    if (!k) {
        return;
    }
    for (uint32_t i = 0; i < k->n; i++) {
        free(k->at[i].endpoint);
        psc_inflight_done(&k->at[i].inflight);
    }
    psc_slots_done(&k->slots);
    pthread_cond_destroy(&k->broke);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->m);
    free(k);
}

/* ---- states; the lock is held ---- */

static const struct {
    unsigned next;     /* a bit for each state that may follow */
    bool pings;        /* the server is to answer pings */
    const char *lacks; /* what a server that connects has not done yet */
} states[] = {
    [PSC_LINK_DOWN] = {1U << PSC_LINK_DOWN | 1U << PSC_LINK_HELLO, false, NULL},
    [PSC_LINK_HELLO] = {1U << PSC_LINK_DOWN | 1U << PSC_LINK_WELCOME, false,
        "it accepts connections and does not answer hello"},
    [PSC_LINK_WELCOME] = {1U << PSC_LINK_DOWN | 1U << PSC_LINK_HELLO | 1U << PSC_LINK_BEGUN, true,
        "it has not answered begin"},
    [PSC_LINK_BEGUN] = {1U << PSC_LINK_DOWN | 1U << PSC_LINK_UP, true,
        "its shards do not answer over data lanes"},
    [PSC_LINK_UP] = {1U << PSC_LINK_DOWN | 1U << PSC_LINK_LEFT, true, NULL},
    [PSC_LINK_LEFT] = {1U << PSC_LINK_DOWN, false, NULL},
};

static bool is_away(const struct psc_link *l) {
    return l->lost.code != 0;
}

static void come_back(struct psc_link *l) {
    struct psc_links *k = l->c->links;
    l->welcome.replaced = false; /* this trainer has begun there */
    l->up_ms = co_now_ms();
    if (!is_away(l)) {
        l->spare_ms = l->c->options.return_ms;
        return;
    }
    l->lost = (struct co_err){0};
    l->spare_ms = l->until_ms - l->up_ms;
    k->still_ms += --k->away == 0 ? l->up_ms - k->still_since_ms : 0;
    k->back_ms = psc_client_time(l->c);
    ps_log_info("server %u (%s) is back after %.2f s", l->index, l->endpoint,
        (double)(l->up_ms - l->away_ms) / 1000);
}

void psc_link_set(struct psc_link *l, enum psc_link_state to) {
    assert(states[l->state].next & 1U << to);
    l->state = to;
    if (to == PSC_LINK_UP) {
        come_back(l);
    }
    psc_client_changed(l->c);
}

void psc_link_lose(struct psc_link *l, const char *why) {
    struct psc_links *k = l->c->links;
    int64_t now = co_now_ms(), whole = l->c->options.return_ms;
    psc_link_set(l, PSC_LINK_DOWN);
    psc_client_drop_lanes(l);
    co_err_set(&l->lost, CO_PEERLOST, "server %u (%s) lost: %s, last message %.1f s ago", l->index,
        l->endpoint, why, (double)(now - l->received_ms) / 1000);
    if (whole < 0 || k->failed.code) {
        psc_calls_fail(l->c, &l->lost);
        l->lost = (struct co_err){0}; /* nobody waits for it */
        return;
    }
    int64_t left = l->spare_ms + now - l->up_ms;
    if (left >= whole) {
        l->away_ms = now;
        left = whole;
    }
    l->until_ms = now + left;
    meter_add(METER_M_RECONNECTS, 0, 1);
    l->why = l->lost;
    k->still_since_ms = k->away++ == 0 ? now : k->still_since_ms;
    uint32_t n = psc_calls_requeue(l, &l->lost);
    ps_log_warn("%s; %u requests without an answer; waiting for it for %.1f s", l->lost.msg, n,
        (double)(l->until_ms - now) / 1000);
    pthread_cond_signal(&k->broke);
}

static void ping_link(struct psc_link *l, int64_t now) {
    struct rpc_frame *f = NULL;
    l->pinged_ms = now;
    if (rpc_frame_new(RPC_FRAME_PING, 0, &f, NULL) == 0) {
        (void)!rpc_stream_send(l->stream, f, NULL);
    }
}

/* Gives up a link that was silent for longer than its lease. */
static struct rpc_stream *check_lease(struct psc_link *l, int64_t now) {
    char why[64];
    if (now - l->received_ms <= l->welcome.lease_ms || l->c->links->failed.code) {
        return NULL;
    }
    (void)snprintf(
        why, sizeof(why), "no sign of life for %.1f s", (double)(now - l->received_ms) / 1000);
    struct rpc_stream *stream = co_steal_ptr(l->stream);
    psc_link_lose(l, why);
    return stream;
}

/* Fails the client when a link did not come back in time. */
static void check_return(struct psc_link *l, int64_t now) {
    if (now < l->until_ms || l->c->links->failed.code) {
        return;
    }
    struct co_err err = {0};
    const char *why = states[l->state].lacks;
    why = !why && strcmp(l->why.msg, l->lost.msg) != 0 ? l->why.msg : why;
    co_err_set(&err, CO_PEERLOST, "%s, and not back within %.1f s%s%s", l->lost.msg,
        (double)(l->until_ms - l->away_ms) / 1000, why ? ": " : "", why ? why : "");
    psc_calls_fail(l->c, &err);
}

struct rpc_stream *psc_link_tick(struct psc_link *l, int64_t now) {
    if (is_away(l)) {
        check_return(l, now);
    }
    if (l->stream && psc_client_lost_lanes(l)) {
        return rpc_stream_ref(l->stream);
    }
    if (!l->stream || !states[l->state].pings) {
        return NULL;
    }
    if (now - l->pinged_ms >= l->welcome.lease_ms / 4) {
        ping_link(l, now);
    }
    return l->state == PSC_LINK_UP ? check_lease(l, now) : NULL;
}

/* ---- from the rpc's thread ---- */

bool psc_link_received(struct psc_link *l, const struct rpc_stream *stream) {
    psc_lock(l->c);
    bool current = l->stream == stream;
    l->received_ms = current ? co_now_ms() : l->received_ms;
    psc_unlock(l->c);
    return current;
}

void psc_link_closed(struct psc_link *l, struct rpc_stream *stream, const struct co_err *why) {
    psc_lock(l->c);
    if (l->stream == stream) {
        rpc_stream_unref(l->stream);
        l->stream = NULL;
        psc_client_drop_lanes(l);
        if (l->state == PSC_LINK_UP) {
            psc_link_lose(l, co_err_text(why));
        } else if (l->state != PSC_LINK_LEFT) {
            psc_link_set(l, PSC_LINK_DOWN);
            l->why = *why;
            (void)psc_calls_requeue(l, why);
        }
        psc_client_changed(l->c);
    }
    psc_unlock(l->c);
}

void psc_links_tick(struct rt_client *c, int64_t now, int64_t tick_ms) {
    struct psc_links *k = c->links;
    psc_lock(c);
    /* After 20 missed ticks this process itself was stopped (SIGSTOP, a debugger): the servers'
     * silence is then no sign of their loss, and their leases start again; one that was away could
     * not come back meanwhile. */
    int64_t since = k->ticked_ms ? now - k->ticked_ms : 0;
    bool stopped = since > 20 * tick_ms;
    k->ticked_ms = now;
    psc_unlock(c);
    for (uint32_t i = 0; i < k->n; i++) {
        struct psc_link *l = &k->at[i];
        psc_lock(c);
        l->received_ms = stopped ? now : l->received_ms;
        if (stopped) {
            int64_t most = now + c->options.return_ms;
            l->until_ms = l->until_ms + since < most ? l->until_ms + since : most;
        }
        struct rpc_stream *stream = psc_link_tick(l, now);
        struct co_err why = l->lanes.broken;
        bool pinged = l->pinged_ms == now;
        psc_unlock(c);
        if (pinged) {
            psc_client_ping_lanes(l);
        }
        if (stream) {
            rpc_stream_break(stream, &why);
            rpc_stream_unref(stream);
        }
    }
}

/* ---- what is known of servers ---- */

const char *psc_link_endpoint(const struct rt_client *c, uint32_t i) {
    return c->links->at[i].endpoint;
}

void psc_link_name(const struct psc_link *l, struct co_err *err) {
    co_err_wrap(err, "server %u (%s)", l->index, l->endpoint);
}

struct psc_welcome psc_link_welcomed(struct rt_client *c, uint32_t i) {
    psc_lock(c);
    struct psc_welcome w = c->links->at[i].welcome;
    psc_unlock(c);
    return w;
}

struct co_err psc_link_why(struct rt_client *c, uint32_t i) {
    psc_lock(c);
    struct co_err why = c->links->at[i].why;
    psc_unlock(c);
    return why;
}

uint32_t psc_links_in(struct rt_client *c, unsigned in, uint32_t *ret_which) {
    uint32_t n = 0;
    psc_lock(c);
    for (uint32_t i = 0; i < c->links->n; i++) {
        if (in & 1U << c->links->at[i].state) {
            if (ret_which) {
                ret_which[n] = i;
            }
            n++;
        }
    }
    psc_unlock(c);
    return n;
}

bool psc_link_is_away(struct rt_client *c, uint32_t i) {
    psc_lock(c);
    bool away = is_away(&c->links->at[i]);
    psc_unlock(c);
    return away;
}

void psc_client_servers(struct rt_client *c, uint64_t *ret) {
    for (uint32_t i = 0; i < c->n_servers; i++) {
        ret[i] = psc_link_welcomed(c, i).incarnation;
    }
}

int psc_client_same_servers(struct rt_client *c, const uint64_t *was, struct co_err *err) {
    for (uint32_t i = 0; i < c->n_servers; i++) {
        if (psc_link_welcomed(c, i).incarnation != was[i]) {
            return co_err_set(err, CO_CONFLICT, "server %u (%s) was restarted meanwhile", i,
                psc_link_endpoint(c, i));
        }
    }
    return 0;
}

bool psc_client_restored(struct rt_client *c) {
    return psc_link_welcomed(c, 0).restored > 0;
}

enum rt_nonfinite psc_client_nonfinite(struct rt_client *c) {
    enum rt_nonfinite least = RT_NONFINITE_ALLOW;
    for (uint32_t i = 0; i < c->n_servers; i++) {
        enum rt_nonfinite l = psc_link_welcomed(c, i).nonfinite;
        least = l < least ? l : least;
    }
    return least;
}

/* ---- joining ---- */

int psc_link_adopt(struct rt_client *c, uint32_t i, const struct net_dial *in, const char *address,
    struct co_err *err) {
    struct psc_link *l = &c->links->at[i];
    /* on_close needs the lock too, so it cannot run before l->stream is set. */
    psc_lock(c);
    int rc = rpc_adopt(c->rpc, in->fd, in->tls, address, l, &l->stream, err);
    if (rc == 0) {
        psc_link_set(l, PSC_LINK_HELLO);
        l->welcome.asked = ++c->links->clock;
        l->lanes.broken = (struct co_err){0};
        (void)snprintf(l->lanes.address, sizeof(l->lanes.address), "%s", address);
        l->received_ms = l->pinged_ms = co_now_ms();
    }
    psc_unlock(c);
    return rc;
}

bool psc_link_ask_again(struct rt_client *c, uint32_t i) {
    struct psc_link *l = &c->links->at[i];
    psc_lock(c);
    bool asks = l->state == PSC_LINK_WELCOME;
    if (asks) {
        psc_link_set(l, PSC_LINK_HELLO);
        l->welcome.asked = ++c->links->clock;
    }
    psc_unlock(c);
    return asks;
}

void psc_link_welcome(struct rt_client *c, uint32_t i, const struct psc_welcome *w) {
    struct psc_link *l = &c->links->at[i];
    psc_lock(c);
    if (c->links->stage == PSC_JOINING) {
        psc_inflight_begin(&l->inflight, w->shards);
    }
    uint64_t asked = l->welcome.asked;
    l->welcome = *w;
    l->welcome.asked = asked;
    l->welcome.welcomed = ++c->links->clock;
    l->inflight.window = w->window;
    psc_link_set(l, PSC_LINK_WELCOME);
    psc_unlock(c);
}

void psc_link_answered(struct rt_client *c, uint32_t i, enum psc_link_state to) {
    psc_lock(c);
    psc_link_set(&c->links->at[i], to);
    psc_unlock(c);
}

void psc_link_raise(struct rt_client *c, uint32_t i) {
    struct psc_link *l = &c->links->at[i];
    psc_lock(c);
    if (l->state == PSC_LINK_BEGUN) {
        psc_link_set(l, PSC_LINK_UP);
    }
    psc_unlock(c);
    psc_client_pump(l);
}

/* An attempt that ended with the time to start says less than one that had its whole time. */
static void note_why(struct psc_link *l, const struct co_err *why) {
    bool cut = why->code == CO_TIMEOUT && psc_client_left(l->c, 1) == 0;
    l->why = cut && l->why.code ? l->why : *why;
}

void psc_link_note(struct rt_client *c, uint32_t i, const struct co_err *why) {
    psc_lock(c);
    note_why(&c->links->at[i], why);
    psc_unlock(c);
}

void psc_link_drop(struct rt_client *c, uint32_t i, const struct co_err *why) {
    struct psc_link *l = &c->links->at[i];
    psc_lock(c);
    note_why(l, why);
    struct rpc_stream *stream = co_steal_ptr(l->stream);
    psc_link_set(l, PSC_LINK_DOWN);
    psc_client_drop_lanes(l);
    psc_unlock(c);
    if (stream) {
        rpc_stream_cancel(stream);
        rpc_stream_unref(stream);
    }
}

/* ---- the client as a whole ---- */

static void set_stage(struct psc_links *k, enum psc_stage to) {
    static const unsigned from[] = {
        [PSC_JOINING] = 1U << PSC_JOINING | 1U << PSC_JOINED,
        [PSC_JOINED] = 1U << PSC_JOINING,
        [PSC_FINISHING] = 1U << PSC_JOINING | 1U << PSC_JOINED,
        [PSC_FINISHED] = 1U << PSC_FINISHING,
    };
    assert(from[to] & 1U << k->stage);
    k->stage = to;
}

enum psc_stage psc_links_stage(struct rt_client *c) {
    psc_lock(c);
    enum psc_stage stage = c->links->stage;
    psc_unlock(c);
    return stage;
}

bool psc_links_joined(struct rt_client *c) {
    bool all = true;
    psc_lock(c);
    for (uint32_t i = 0; i < c->links->n; i++) {
        all = all && c->links->at[i].state == PSC_LINK_UP;
    }
    if (all) {
        set_stage(c->links, PSC_JOINED);
    }
    psc_unlock(c);
    return all;
}

bool psc_links_finish(struct rt_client *c) {
    psc_lock(c);
    bool gone = c->links->failed.code == CO_GONE;
    if (!gone) {
        set_stage(c->links, PSC_FINISHING);
    }
    psc_unlock(c);
    return !gone;
}

void psc_links_finished(struct rt_client *c) {
    psc_lock(c);
    set_stage(c->links, PSC_FINISHED);
    psc_unlock(c);
}

void psc_links_forget(struct rt_client *c) {
    struct psc_links *k = c->links;
    int64_t say_ms = 0;
    psc_lock(c);
    while (k->slots.used > 0 || k->detached > 0) { /* threads still take calls that ended */
        psc_client_await_threads(c, "the connection before", &say_ms);
    }
    for (uint32_t i = 0; i < k->n; i++) {
        k->at[i].lost = (struct co_err){0};
    }
    psc_exchanges_forget(c->exchanges);
    k->away = 0;
    set_stage(k, PSC_JOINING);
    k->failed = (struct co_err){0};
    k->refused = (struct co_err){0};
    psc_unlock(c);
}

bool psc_links_await_broken(struct rt_client *c, int64_t next_ms) {
    struct psc_links *k = c->links;
    bool in_time = true;
    psc_lock(c);
    while (k->away == 0 && !k->failed.code) {
        /* no deadline: until a link is lost, or the client fails or closes */
        pthread_cond_wait(&k->broke, &k->m);
    }
    while (!k->failed.code && in_time) {
        in_time = co_cond_wait_until(&k->broke, &k->m, next_ms);
    }
    bool works = !k->failed.code;
    psc_unlock(c);
    return works;
}

uint32_t psc_links_put_down(struct rt_client *c, uint32_t *ret_which) {
    uint32_t n = 0;
    psc_lock(c);
    for (uint32_t i = 0; i < c->links->n; i++) {
        if (c->links->at[i].state == PSC_LINK_UP) {
            psc_link_set(&c->links->at[i], PSC_LINK_LEFT);
            ret_which[n++] = i;
        }
    }
    psc_unlock(c);
    return n;
}

static bool is_left(const struct psc_link *l, unsigned in) {
    return l->stream && in & 1U << l->state;
}

void psc_links_leave(struct rt_client *c, unsigned in, const char *why, bool returns) {
    Rpc__Leave leave = RPC__LEAVE__INIT;
    leave.why = (char *)(uintptr_t)why;
    leave.returns = returns;
    Rpc__Control m = RPC__CONTROL__INIT;
    m.body_case = RPC__CONTROL__BODY_LEAVE;
    m.leave = &leave;
    int64_t deadline = co_now_ms() + LEAVE_MS;
    bool open = false, in_time = true;
    psc_lock(c);
    for (uint32_t i = 0; i < c->links->n; i++) {
        struct psc_link *l = &c->links->at[i];
        struct rpc_frame *f = NULL;
        if (is_left(l, in) && ps_control_pack(&m, NULL, &f, NULL) == 0) {
            (void)!rpc_stream_send(l->stream, f, NULL);
        }
    }
    do {
        open = false;
        for (uint32_t i = 0; i < c->links->n; i++) {
            open = open || is_left(&c->links->at[i], in);
        }
        in_time = !open || psc_client_wait(c, deadline);
    } while (open && in_time);
    psc_unlock(c);
}
