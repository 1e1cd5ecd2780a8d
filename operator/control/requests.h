/* Executes the actions of one plan: sends a request for each, classifies the answers, and puts the
 * objects in them into the store.
 *
 * An action is done, rejected, in conflict (it was planned with stale data), or its outcome is
 * unknown.  Rejections are remembered for the planner (failures.h); backoff is the round's
 * business.  Owned by the loop's thread. */
#pragma once

#include "operator/control/failures.h"
#include "operator/control/feeds.h"
#include "operator/control/load.h"
#include "operator/control/metrics.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"

/* What the requests of all jobs share. */
struct op_apiserver {
    struct op_kube_client *client;
    struct op_store *store;
    struct op_feeds *feeds; /* takes the answers to writes */
    struct op_metrics *metrics;
    struct op_load *load;
    bool cannot_sweep; /* we lack the right to delete pods as a collection */
};

/* The store's kind for each enum op_kind; OP_STORE_KINDS: it is not stored. */
extern const enum op_store_kind op_stored_kinds[OP_KINDS];

/* The result of all requests together. */
struct op_tally {
    size_t created;
    size_t rejected; /* creates that were rejected */
    bool token;      /* the job's Secret exists now */
    bool conflict;   /* some action was planned with stale data */
    bool unknown;    /* some request timed out, or the server was unavailable */
    bool refused;    /* some request was rejected */
};

struct op_requests;

/* Everything is borrowed; entry, job and plan until op_requests_free.  The bodies of the plan's
 * actions are freed once they are sent. */
struct op_requests_opts {
    struct op_apiserver *api;
    struct op_entry *entry;
    const struct op_job *job;
    struct op_plan *plan;
    struct op_failures *failures;
    /* All requests are answered; may free the requests.  outcomes: one for each action. */
    void (*done)(void *arg, const struct op_tally *tally, const struct op_outcome *outcomes);
    void *arg;
};

struct op_requests *op_requests_new(const struct op_requests_opts *opts);
/* No request may be in flight: all are answered or canceled, or the client is freed. */
void op_requests_free(struct op_requests *q); /* NULL allowed */

/* Sends all actions, but only the first `room` creates.  done may run inside, when nothing is to
 * be sent. */
void op_requests_send(struct op_requests *q, size_t room);
/* Cancels the creates that are queued or in flight; done may run inside. */
void op_requests_cancel_creates(struct op_requests *q);
/* Cancels everything; done does not run. */
void op_requests_cancel(struct op_requests *q);
