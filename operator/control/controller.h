/* The one place where plan and API meet.
 *
 * Feeds fill the store; whatever changes puts its job on the queue; a look at a job computes a
 * plan, and a round carries it out: sends all its requests at once, writes the status if a reader
 * would see a difference, then emits events.  One plan a job at a time.  Follows what exists from
 * the start, acts only while leading.  Owned by the loop's thread. */
#pragma once

#include "operator/control/metrics.h"
#include "operator/control/shard.h"
#include "operator/kube/client.h"

struct op_controller_opts {
    const char *ns;           /* NULL: all namespaces */
    const char *selector;     /* of jobs, by their labels; NULL: all */
    struct op_shard_id shard; /* of these, its own only */
    struct op_settings settings;
    int64_t watch_idle_ms; /* 0: the watch's own default */
    size_t memory;         /* bytes that the process may take; 0: no bound */
    const char *instance;  /* who reports events */
    struct op_metrics *metrics;
};

struct op_controller;

/* Everything in opts is borrowed for the controller's life.  Watches start at once. */
struct op_controller *op_controller_new(
    struct co_loop *loop, struct op_kube_client *client, const struct op_controller_opts *opts);
void op_controller_free(struct op_controller *c);
CO_DEFINE_CLEANUP(struct op_controller *, op_controller_free)

/* Acting begins (with every job looked at once) and ends (requests that are queued or on the wire
 * are given up: another may act from now on). */
void op_controller_lead(struct op_controller *c, bool leading);
/* No new plans from now on; done runs when none is in flight. */
void op_controller_stop(struct op_controller *c, void (*done)(void *arg), void *arg);

bool op_controller_synced(const struct op_controller *c); /* all watches have listed once */

/* Brings the metrics that are no counters up to now. */
void op_controller_gauges(const struct op_controller *c);

bool op_controller_leads(const struct op_controller *c);
/* The start gate.  Answers for a pod: 1 go, 0 wait (*ret_why: static or valid until the next
 * call), -1 no such pod, or another operator knows more of it, -2 its job is over.  Who does not
 * lead says 1 or -1 only. */
int op_controller_gate(struct op_controller *c, const char *ns, const char *pod, const char *uid,
    const char **ret_why);
/* What a pod tells of itself ("": no second address), from the address `peer`: the one that lists
 * get counts at once, until the API server has some.  Only the peer is proved, so it must be that
 * one.  The pod connects by the family of the operator's address, the cluster's first, as is the
 * first of its own: of dual-stack pods only those whose other one is preferred are not believed.
 * False: no node of the pod is known yet; to be told again soon. */
bool op_controller_claim(struct op_controller *c, const char *ns, const char *pod, const char *uid,
    const char *const ips[2], const char *peer);
/* fn(arg, ns, job) runs after anything of a job changed. */
void op_controller_on_change(
    struct op_controller *c, void (*fn)(void *arg, const char *ns, const char *job), void *arg);
/* The job that owns a pod, NULL when unknown; valid until the next turn. */
const char *op_controller_job_of(const struct op_controller *c, const char *ns, const char *pod);
