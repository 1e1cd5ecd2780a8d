/* Reads the templates that the attempt of a job began with from its ConfigMap, for a plan that
 * lacks them (operator/plan/templates.h): pods of a job whose spec was edited have to be replaced.
 * What was read is kept until the job is idle.  Owned by the loop's thread. */
#pragma once

#include "operator/control/store.h"
#include "operator/kube/client.h"

struct ctl_templates {
    const struct ctl_entry *entry;
    json_t *by_role; /* owned: plan_seen.templates; NULL: not read */
    bool wanted;     /* the last plan lacks them */
    struct kube_op *op;
    void (*done)(void *arg, struct ctl_templates *t, int code, const struct co_err *err);
    void *arg;
};

/* Calls done once the API server has answered. */
void ctl_templates_read(
    struct ctl_templates *t, struct kube_client *client, const struct kube_type *configmaps);
/* Cancels the request; true: there was one, so done will not run. */
bool ctl_templates_cancel(struct ctl_templates *t);
void ctl_templates_done(struct ctl_templates *t);
