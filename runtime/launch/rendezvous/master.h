/* The master of a key-value rendezvous, as a node reaches it.  It looks the address up, serves
 * there itself when the address is this machine's and the port is free, and sends the node's
 * requests. What the answers mean is in kv.c. */
#pragma once

#include "common/conn.h"
#include "runtime/launch/rendezvous/backend.h"
#include "runtime/launch/rendezvous/prover.h"
#include "runtime/launch/rendezvous/service.h"
#include "runtime/launch/rendezvous/wire.h"

enum { RDZV_MASTER_ANSWER_MS = 2000 /* on top of silent_ms, for which it may hold a request */ };

/* Changed by master.c alone. */
struct rdzv_master {
    struct rdzv *m;
    void (*found)(void *arg, const struct co_err *err);
    void *arg;
    char text[CO_HOST_MAX + 10]; /* the address, as users know it */
    struct co_hostport address;
    struct co_lookup *lookup;
    struct rdzv_service *service; /* NULL: this node does not serve */
    bool local;                   /* the address is this machine's: this node may serve */
    int taken;                    /* the code why it cannot serve although it may; 0: it can */
    struct co_httpc *http;        /* NULL: there was no address yet */
    struct rdzv_prover *prover;   /* NULL: no proof of a token is needed */
    char id[RDZV_WIRE_ID + 1];    /* of this node */
};

/* With no --master in the options of m it serves, at any port.  `found` ends each
 * rdzv_master_find. */
CO_MUST_CHECK int rdzv_master_init(struct rdzv_master *ret, struct rdzv *m,
    void (*found)(void *arg, const struct co_err *err), void *arg, struct co_err *err);
void rdzv_master_done(struct rdzv_master *w);

/* Looks for the address again and serves there if possible.  found(arg, NULL): requests can be
 * sent; with an error: the name has no address. */
void rdzv_master_find(struct rdzv_master *w);
/* Cancels a lookup and a request. */
void rdzv_master_cancel(struct rdzv_master *w);

/* Says why it cannot serve although it may.  The walk for who has the port takes a while, longer
 * with each process and connection of the machine. */
void rdzv_master_explain_taken(const struct rdzv_master *w, struct co_err *ret);

/* The name of this node's key. */
const char *rdzv_master_key(const struct rdzv_master *w);

/* The requests, one at a time; `done` gets the arg of rdzv_master_init.  Of h only the state,
 * round, restart and code count: the rest is filled in.
 *
 * report: this node's state, and its value; answered when there is news, at the latest after
 * silent_ms.  part: a request for a new round (h->restart), which is answered likewise, or the
 * node's leave.  list: all keys of the job, as Paddle's launchers ask for them. */
void rdzv_master_report(struct rdzv_master *w, const struct rdzv_wire_hello *h,
    void (*done)(void *arg, const struct co_httpc_result *r));
void rdzv_master_part(struct rdzv_master *w, const struct rdzv_wire_hello *h, const char *why,
    void (*done)(void *arg, const struct co_httpc_result *r));
void rdzv_master_list(
    struct rdzv_master *w, void (*done)(void *arg, const struct co_httpc_result *r));
