/* A link: the state of the connection to one server, and how long the client waits for it.  All
 * changes of a state are here.
 *
 *     DOWN --> HELLO --> WELCOME --> BEGUN --> UP --> LEFT
 *                 ^---------'  asked again
 *     from all of these: --> DOWN
 *
 * A link that was UP and is lost is `away` until it is UP again.  For that it has time until
 * until_ms, in whatever state its next connections are: a server may accept them, and greet, and
 * say nothing more.  Once it has answered a request, its next loss gets the whole time again.
 * Without an answer each second UP gains a second: a server that comes back, breaks again and never
 * answers is not waited for without end.  c->m is held by all callers. */
#include "runtime/train/ps/client/client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/glog.h"

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

static void come_back(struct psc_link *l) {
    struct rt_client *c = l->c;
    l->fresh = l->replaced = false; /* this trainer has begun there */
    l->up_ms = net_now();
    if (l->away) {
        l->away = false;
        l->spare_ms = l->until_ms - l->up_ms;
        c->still_ms += --c->away == 0 ? l->up_ms - c->still_since_ms : 0;
        c->back_ms = psc_client_time(c);
        ps_log_info("server %u (%s) is back after %.2f s", l->index, l->endpoint,
            (double)(l->up_ms - l->away_ms) / 1000);
    }
}

void psc_link_set(struct psc_link *l, enum psc_link_state to) {
    assert(states[l->state].next & 1U << to);
    l->state = to;
    if (to == PSC_LINK_UP) {
        come_back(l);
    }
    psc_client_changed(l->c);
}

struct rt_call *psc_link_lose(struct psc_link *l, const char *why) {
    struct rt_client *c = l->c;
    int64_t now = net_now();
    psc_link_set(l, PSC_LINK_DOWN);
    psc_client_drop_lanes(c, l);
    co_err_set(&l->lost, CO_PEERLOST, "server %u (%s) lost: %s, last message %.1f s ago", l->index,
        l->endpoint, why, (double)(now - l->received_ms) / 1000);
    if (c->options.return_ms < 0 || c->failed.code) {
        return psc_client_fail(c, &l->lost);
    }
    int64_t left = l->spare_ms + now - l->up_ms, whole = c->options.return_ms;
    if (l->moved || !l->until_ms || left > whole) {
        l->away_ms = now;
        left = whole;
    }
    l->until_ms = now + left;
    meter_add(METER_M_RECONNECTS, 0, 1);
    l->away = true;
    l->moved = false;
    l->why = l->lost;
    c->still_since_ms = c->away++ == 0 ? now : c->still_since_ms;
    uint32_t n = psc_client_requeue(c, l, &l->lost);
    ps_log_warn("%s; %u requests without an answer; waiting for it for %.1f s", l->lost.msg, n,
        (double)(l->until_ms - now) / 1000);
    pthread_cond_signal(&c->broke);
    return NULL;
}

static void ping_link(struct psc_link *l, int64_t now) {
    struct rpc_frame *f = NULL;
    l->pinged_ms = now;
    if (rpc_frame_new(RPC_FRAME_PING, 0, &f, NULL) == 0) {
        (void)!rpc_stream_send(l->stream, f, NULL);
    }
}

/* Gives up a link that was silent for longer than its lease.  The caller breaks *ret_stream. */
static struct rt_call *check_lease(
    struct psc_link *l, int64_t now, struct rpc_stream **ret_stream) {
    char why[64];
    if (now - l->received_ms <= l->lease_ms || l->c->failed.code) {
        return NULL;
    }
    (void)snprintf(
        why, sizeof(why), "no sign of life for %.1f s", (double)(now - l->received_ms) / 1000);
    *ret_stream = co_steal_ptr(l->stream);
    return psc_link_lose(l, why);
}

/* Fails the client when a link did not come back in time. */
static struct rt_call *check_return(struct psc_link *l, int64_t now) {
    if (now < l->until_ms || l->c->failed.code) {
        return NULL;
    }
    struct co_err err = {0};
    const char *why = states[l->state].lacks;
    why = !why && strcmp(l->why.msg, l->lost.msg) != 0 ? l->why.msg : why;
    co_err_set(&err, CO_PEERLOST, "%s, and not back within %.1f s%s%s", l->lost.msg,
        (double)(l->until_ms - l->away_ms) / 1000, why ? ": " : "", why ? why : "");
    return psc_client_fail(l->c, &err);
}

struct rt_call *psc_link_tick(struct psc_link *l, int64_t now, struct rpc_stream **ret_stream) {
    struct rt_call *list = l->away ? check_return(l, now) : NULL;
    if (l->stream && psc_client_lost_lanes(l)) {
        *ret_stream = rpc_stream_ref(l->stream);
        return list;
    }
    if (!l->stream || !states[l->state].pings) {
        return list;
    }
    if (now - l->pinged_ms >= l->lease_ms / 4) {
        ping_link(l, now);
    }
    if (l->state != PSC_LINK_UP) {
        return list;
    }
    return check_lease(l, now, ret_stream);
}
