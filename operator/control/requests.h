/* Executes the actions of one plan: sends a request for each, classifies the answers, and puts the
 * objects in them into the store.
 *
 * An action is done, rejected, in conflict (it was planned with stale data), or its outcome is
 * unknown.  Rejections are remembered for the planner (failures.h); backoff is the execution's
 * business.  Owned by the loop's thread. */
#pragma once

#include "operator/control/failures.h"
#include "operator/control/feeds.h"
#include "operator/control/load.h"
#include "operator/control/operator_metrics.h"
#include "operator/control/store.h"
#include "operator/kube/client.h"

/* What the requests of all jobs share. */
struct ctl_apiserver {
    struct kube_client *client;
    struct ctl_store *store;
    struct ctl_feeds *feeds; /* takes the answers to writes */
    struct ctl_metrics *metrics;
    struct ctl_load *load;
    bool cannot_sweep; /* we lack the right to delete pods as a collection */
};

/* The store's kind for each enum plan_kind; CTL_STORE_KINDS: it is not stored. */
extern const enum ctl_store_kind ctl_stored_kinds[PLAN_KINDS];

/* The result of all requests together. */
struct ctl_tally {
    size_t created;
    size_t rejected; /* creates that were rejected */
    bool token;      /* the job's Secret exists now */
    bool conflict;   /* some action was planned with stale data */
    bool unknown;    /* some request timed out, or the server was unavailable */
    bool refused;    /* some request was rejected */
};

struct ctl_requests;

/* Everything is borrowed; entry, job and plan until ctl_requests_free.  The bodies of the plan's
 * actions are freed once they are sent. */
struct ctl_requests_opts {
    struct ctl_apiserver *api;
    struct ctl_entry *entry;
    const struct api_job *job;
    struct plan *plan;
    struct ctl_failures *failures;
    /* All requests are answered; may free the requests.  outcomes: one for each action. */
    void (*done)(void *arg, const struct ctl_tally *tally, const struct plan_outcome *outcomes);
    void *arg;
};

struct ctl_requests *ctl_requests_new(const struct ctl_requests_opts *opts);
/* No request may be in flight: all are answered or canceled, or the client is freed. */
void ctl_requests_free(struct ctl_requests *q); /* NULL allowed */

/* Sends all actions, but only the first `room` creates.  done may run inside, when nothing is to
 * be sent. */
void ctl_requests_send(struct ctl_requests *q, size_t room);
/* Cancels the creates that are queued or in flight; done may run inside. */
void ctl_requests_cancel_creates(struct ctl_requests *q);
/* Cancels everything; done does not run. */
void ctl_requests_cancel(struct ctl_requests *q);
