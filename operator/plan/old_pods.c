/* A dead node, a finalizer or an admission webhook may keep a pod that should have ended: it holds
 * what it asks for, and its name. */
#include "operator/plan/old_pods.h"

#include <stdio.h>
#include <string.h>

#include "operator/plan/gang.h"
#include "operator/plan/reason_table.h"

/* Writes "pod x-worker-0 should have ended over 60 s ago: ...". */
static void write_kept(struct plan_assessment *o, const struct plan_children *w,
    const struct api_pod *pod, const char *then, char *ret, size_t size) {
    bool holds = plan_pod_holds_node(pod);
    o->kept = pod->c.name;
    (void)snprintf(ret, size,
        "pod %s should have ended over %d s ago%s: %s; kubectl get pod %s -n %s -o %s", pod->c.name,
        PLAN_LATE, then,
        holds ? "its containers may still run: is its node lost?"
              : "its containers have ended: does a finalizer keep it?",
        pod->c.name, w->job->ns, holds ? "wide" : "jsonpath={.metadata.finalizers}");
}

void plan_old_say(
    struct plan_assessment *o, const struct plan_children *w, const struct api_pod *pod) {
    char text[sizeof(o->message)];
    write_kept(o, w, pod, ", and its successor waits", text, sizeof(text));
    plan_reason_say(o, "WaitingForOldPods", "%s", text);
}

bool plan_old_find(struct plan_assessment *o, const struct plan_children *w) {
    int64_t late = o->due + PLAN_LATE;
    if (!o->due || o->phase == API_PHASE_RUNNING || w->n_old_pods == 0) {
        return false;
    }
    if (w->now < late) {
        plan_wake_by(&o->wake_at, late);
        return false;
    }
    plan_old_say(o, w, w->old_pods[0]);
    return true;
}

/* A delete was rejected: a webhook denies it, or the operator has no permission. */
static bool find_undeleted(const struct plan_children *w, char *ret, size_t size) {
    for (size_t i = 0; i < w->seen->n_failures; i++) {
        const struct plan_failure *f = &w->seen->failures[i];
        if (f->verb == PLAN_DELETE) {
            bool pod = f->kind == PLAN_KIND_POD;
            (void)snprintf(ret, size, "%s %s is not deleted: %s",
                pod ? "pod" : plan_kind_name(f->kind, w->settings->gang), f->name, f->message);
            return true;
        }
    }
    return false;
}

bool plan_old_find_undeleted(struct plan_assessment *o, const struct plan_children *w) {
    char text[sizeof(o->message)];
    if (!find_undeleted(w, text, sizeof(text))) {
        return false;
    }
    plan_reason_say(o, "FailedDelete", "%s", text);
    return true;
}

/* Of the pods that are being deleted, the first by name that has not ended in time.  A pod's
 * deletion time includes its grace period.  It is unknown until the watch has delivered it. */
static bool find_kept(
    struct plan_assessment *o, const struct plan_children *w, char *ret, size_t size) {
    const struct api_pod *first = NULL;
    for (size_t i = 0; i < w->seen->n_pods; i++) {
        const struct api_pod *pod = w->seen->pods[i];
        if (!pod->c.deleting || strcmp(pod->c.owner_uid, w->job->uid) != 0) {
            continue;
        }
        int64_t late = (pod->c.at ? pod->c.at : w->now) + PLAN_LATE;
        if (w->now < late) {
            plan_wake_by(&o->wake_at, late);
        } else if (!first || strcmp(pod->c.name, first->c.name) < 0) {
            first = pod;
        }
    }
    if (first) {
        write_kept(o, w, first, "", ret, size);
    }
    return first;
}

void plan_old_add(struct plan_assessment *o, const struct plan_children *w) {
    char before[sizeof(o->message)], text[sizeof(o->message) / 2];
    bool undeleted = find_undeleted(w, text, sizeof(text));
    if (!undeleted && !find_kept(o, w, text, sizeof(text))) {
        return;
    }
    (void)snprintf(before, sizeof(before), "%s", o->message);
    if (*before) {
        plan_reason_quote(o, o->reason, "%s; %s", before, text);
    } else {
        plan_reason_say(o, undeleted ? "FailedDelete" : "WaitingForOldPods", "%s", text);
    }
}
