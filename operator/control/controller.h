/* The reconciler of PaddleJobs: the one place where plan and API meet.
 *
 *   feeds (watches) -> store (cache) -> queue -> reader + view -> plan -> execution -> API server
 *
 * Feeds fill the store.  A change of a job or of its children puts the job on the queue.  A
 * reconcile computes a plan for it, and an execution carries the plan out: it sends all requests at
 * once, writes the status if a reader would see a difference, and then emits events.  There is one
 * reconcile a job at a time.  A standby fills its store as well, but only the lease holder acts.
 * Owned by the loop's thread. */
#pragma once

#include "operator/control/operator_metrics.h"
#include "operator/control/shard.h"
#include "operator/kube/client.h"

struct ctl_controller_opts {
    const char *ns;            /* NULL: all namespaces */
    const char *selector;      /* label selector of jobs; NULL: all */
    struct ctl_shard_id shard; /* of the jobs selected, only those of this shard */
    struct plan_settings settings;
    int64_t watch_idle_ms; /* 0: the watch's own default */
    size_t memory;         /* memory limit of the process in bytes; 0: none */
    const char *instance;  /* reportingInstance of events */
    struct ctl_metrics *metrics;
};

struct ctl_controller;

/* Everything in opts is borrowed for the controller's life.  Watches start at once. */
struct ctl_controller *ctl_controller_new(
    struct co_loop *loop, struct kube_client *client, const struct ctl_controller_opts *opts);
void ctl_controller_free(struct ctl_controller *c);
CO_DEFINE_CLEANUP(struct ctl_controller *, ctl_controller_free)

/* true: this process holds the lease now; all jobs are reconciled once.  false: it has lost the
 * lease; requests that are queued or on the wire are canceled, because another holder may act. */
void ctl_controller_lead(struct ctl_controller *c, bool leading);
/* Starts no reconcile from now on; done runs when none is in flight. */
void ctl_controller_stop(struct ctl_controller *c, void (*done)(void *arg), void *arg);

bool ctl_controller_synced(const struct ctl_controller *c); /* all watches have listed once */

/* Sets the gauges in the metrics to their current values. */
void ctl_controller_gauges(const struct ctl_controller *c);

bool ctl_controller_leads(const struct ctl_controller *c);
/* The start gate's answer for a pod: 1 start, 0 wait, -1 unknown pod, -2 its job is over.  For 0
 * and below *ret_why says why (static, or valid until the next call).  A standby answers 1 or -1
 * only: the lease holder knows more, so the pod should ask that one. */
int ctl_controller_gate(struct ctl_controller *c, const char *ns, const char *pod, const char *uid,
    const char **ret_why);
/* For a server, which does not see its job's end: 1 the training of the job of that uid is over,
 * 0 it is not, or never will be, -1 no such job is known, or another operator knows more of it.
 * The server is given the answer: of 1 the controller remembers it (plan_seen.notified). */
int ctl_controller_trained(
    struct ctl_controller *c, const char *ns, const char *job, const char *uid);
/* A pod reports its own IP addresses (ips[1] "": it has one) over a connection from `peer`.  The
 * address that host lists use counts at once, until the API server has addresses of the pod.
 *
 * Only the peer's address is proven, so a report counts only if it names that one.  The pod
 * connects by the family of the operator's address, which is the cluster's first, as is the first
 * of the pod's own.  So the only reports that do not count are those of dual-stack pods whose
 * second address is preferred.
 *
 * False: the store knows no node of the pod yet; the caller should report it again soon. */
bool ctl_controller_claim(struct ctl_controller *c, const char *ns, const char *pod,
    const char *uid, const char *const ips[2], const char *peer);
/* fn(arg, ns, job, trained) runs after a job, or anything that belongs to it, changed. trained: its
 * training is over. */
void ctl_controller_on_change(struct ctl_controller *c,
    void (*fn)(void *arg, const char *ns, const char *job, bool trained), void *arg);
/* Name of the job that owns a pod, NULL when unknown; valid until the next turn of the loop. */
const char *ctl_controller_job_of(const struct ctl_controller *c, const char *ns, const char *pod);
