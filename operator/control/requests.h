/* The actions of one plan as requests to the API server: each is sent, its answer judged, and what
 * it tells put into the store.
 *
 * An answer says that an action is done or refused, that it was planned on old facts, or leaves
 * open what became of it.  What was refused is remembered, for the planner; how often and how soon
 * it is tried again is the round's.  Owned by the loop's thread. */
#pragma once

#include "operator/control/failures.h"
#include "operator/control/feeds.h"
#include "operator/control/load.h"
#include "operator/control/metrics.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"

/* The API server as the requests of all jobs see it. */
struct op_apiserver {
    struct op_kube_client *client;
    struct op_store *store;
    struct op_feeds *feeds; /* where the answers to writes go */
    struct op_metrics *metrics;
    struct op_load *load;
    bool cannot_sweep; /* it forbids to delete pods together */
};

/* How the store names what an action is about; by enum op_kind.  OP_STORE_KINDS: it has none. */
extern const enum op_store_kind op_stored_kinds[OP_KINDS];

/* What came of all of them. */
struct op_tally {
    size_t created;
    size_t rejected; /* creates */
    bool token;      /* the job's Secret is there now */
    bool conflict;   /* something was planned on old facts */
    bool unknown;    /* the server did not say whether it acted, or asks for patience */
    bool refused;    /* it said no */
};

struct op_requests;

/* All is borrowed; entry, job and plan until op_requests_free.  The bodies in the plan are freed
 * as they are sent. */
struct op_requests_opts {
    struct op_apiserver *api;
    struct op_entry *entry;
    const struct op_job *job;
    struct op_plan *plan;
    struct op_failures *failures;
    /* All are answered; may free the requests.  outcomes: by index of the plan's actions. */
    void (*done)(void *arg, const struct op_tally *tally, const struct op_outcome *outcomes);
    void *arg;
};

struct op_requests *op_requests_new(const struct op_requests_opts *opts);
/* Does not touch what is on its way: it is answered or canceled, or the client is gone. */
void op_requests_free(struct op_requests *q); /* NULL allowed */

/* Of the creates only the first `room` ones.  done may run inside, when there is nothing to do. */
void op_requests_send(struct op_requests *q, size_t room);
/* Gives up the creates that are queued or on the wire; done may run inside. */
void op_requests_cancel_creates(struct op_requests *q);
/* Gives up all; done does not run. */
void op_requests_cancel(struct op_requests *q);
