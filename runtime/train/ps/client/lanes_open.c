/* Opens the data lanes of links, before these are up. */
#include <limits.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/rpc/pass.h"

enum { CONNECT_MS = 2000, PROVE_MS = 5000, ANSWER_MS = 10000 };

/* At its start a trainer waits for a lane as long as a server may be silent: to give it up closes
 * the connection, which the server takes for a lost trainer. */
static int time_of(struct rt_client *c, int ms) {
    int64_t lease = c->options.lease_ms < INT_MAX ? c->options.lease_ms : INT_MAX;
    bool longer = psc_links_stage(c) == PSC_JOINING && lease > ms;
    return psc_client_left(c, longer ? (int)lease : ms);
}

/* New connections to all shards of some servers; arrays of n. */
struct opening {
    uint32_t n;
    struct net_dial *dials;
    const char **addresses;
    uint32_t *which; /* index in the caller's list of servers */
};

static void opening_done(struct opening *o) {
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->dials[i].fd >= 0) {
            co_close(o->dials[i].fd);
            co_tls_free(o->dials[i].tls);
        }
    }
    free(o->dials);
    free(o->addresses);
    free(o->which);
}

static void list_lanes(struct rt_client *c, const uint32_t *which, uint32_t n, struct opening *o) {
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct psc_link *l = &c->links->at[which[i]];
        all += l->welcome.key ? l->inflight.shards : 0;
    }
    *o = (struct opening){.dials = co_xcalloc(all, sizeof(*o->dials)),
        .addresses = co_xcalloc(all, sizeof(char *)),
        .which = co_xcalloc(all, sizeof(*o->which))};
    for (uint32_t i = 0; i < n; i++) {
        const struct psc_link *l = &c->links->at[which[i]];
        for (uint32_t k = 0; l->welcome.key && k < l->inflight.shards; k++) {
            struct rpc_pass pass = {RPC_FOR_LANE, c->trainer, k, l->welcome.key};
            rpc_pass_write(&pass, o->dials[o->n].hello);
            o->addresses[o->n] = l->lanes.address;
            o->which[o->n++] = i;
        }
    }
}

/* Connects and proves the token; failures go to errs. */
static void knock_lanes(struct rt_client *c, struct opening *o, struct co_err *errs) {
    CO_AUTOFREE struct net_reached *reached = co_xcalloc(o->n, sizeof(*reached));
    (void)net_connect(o->addresses, o->n, time_of(c, CONNECT_MS), reached);
    for (uint32_t i = 0; i < o->n; i++) {
        o->dials[i].fd = reached[i].fd;
        if (reached[i].fd < 0) {
            co_err_set(&errs[o->which[i]], CO_PEERLOST, "nothing listens at %s", o->addresses[i]);
        }
    }
    net_dial_all(&c->auth, o->dials, o->n, co_now_ms() + time_of(c, PROVE_MS), -1);
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->dials[i].err.code) {
            errs[o->which[i]] = o->dials[i].err;
        }
    }
}

/* From now on the link's frames use its lanes; the lock is held. */
static int use_lanes(
    struct rt_client *c, struct psc_link *l, struct net_dial *dials, struct co_err *err) {
    l->lanes.n = l->inflight.shards;
    l->lanes.all = co_xcalloc(l->inflight.shards, sizeof(*l->lanes.all));
    int rc = 0;
    for (uint32_t k = 0; k < l->inflight.shards; k++) {
        struct rpc_lane *lane = rpc_lane_new(dials[k].fd, co_steal_ptr(dials[k].tls), l->endpoint);
        dials[k].fd = -1;
        l->lanes.all[k].lane = lane;
        int added = psc_reader_add(c->reader, l, k, lane, rc == 0 ? err : NULL);
        rc = rc == 0 ? added : rc;
    }
    return rc;
}

/* Sends a ping over every lane of a link, to learn whether the server accepts the lane. */
static struct rt_call *try_lanes(struct rt_client *c, const struct psc_link *l) {
    struct rt_call *call = psc_call_new(c, "data lane", NULL, l->inflight.shards);
    call->harmless = true;
    call->greets = true;
    for (uint32_t k = 0; k < l->inflight.shards; k++) {
        struct rpc_frame_head head = {.kind = RPC_FRAME_PING, .shard = k};
        psc_call_part(call, k, l->index, &head, 0);
    }
    psc_call_start(call);
    return call;
}

void psc_client_open_lanes(
    struct rt_client *c, const uint32_t *which, uint32_t n, struct co_err *errs) {
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(n, sizeof(struct rt_call *));
    struct opening o;
    list_lanes(c, which, n, &o);
    knock_lanes(c, &o, errs);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct psc_link *l = &c->links->at[which[i]];
        bool any = at < o.n && o.which[at] == i;
        if (any && !errs[i].code) {
            psc_lock(c);
            (void)!use_lanes(c, l, &o.dials[at], &errs[i]);
            psc_unlock(c);
            calls[i] = try_lanes(c, l);
        }
        at += any ? l->inflight.shards : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (calls[i]) {
            (void)!psc_call_wait(calls[i], time_of(c, ANSWER_MS), &errs[i]);
        }
    }
    opening_done(&o);
}
