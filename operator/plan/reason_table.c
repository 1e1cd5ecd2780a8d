/* The rows of docs/reasons: when status.reason has which value. */
#include "operator/plan/reason_table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

static const struct {
    const char *reason, *when;
} rows[] = {
    {"WaitingForGang", "the group of pods waits for its scheduler, which has given no reason"},
    {"GangUnschedulable", "the scheduler cannot place the group; its message"},
    {"WaitingInQueue", "Kueue has not admitted the pods yet"},
    {"WaitingForAddresses",
        "pods are held by the start gate until all pods of the job have an address"},
    {"WaitingForPredecessor", "an object of a deleted job of the same name still exists"},
    {"WaitingForOldPods",
        "a pod of an earlier attempt, or one that was deleted, has not ended a minute after it "
        "should have; also of a job that has completed"},
    {"WaitingForConfigMap", "the job's ConfigMap was deleted and still exists a minute later"},
    {"NoAddress",
        "a pod has no node, or no address, a minute after it was created, and no reason is known"},
    {"NotStarted",
        "a pod has an address, but its containers have not started a minute after they could"},
    {"NoPods", "no role has replicas: nothing can run until one has"},
    {"NoTrainers",
        "servers run, but no role that trains has replicas: the job does not end by itself"},
    {"NodeLost", "a pod's node does not respond, so the state of the pod is unknown"},
    {"NotReady", "a pod's containers run, but not all are ready a minute after they could"},
    {"WaitingForSidecars",
        "a pod's first container, the training, has exited with 0 a minute ago, but others of its "
        "template run on"},
    {"NameTaken", "an object that does not belong to the job has the name that it needs, or "
                  "somebody has edited a pod's labels"},
    {"QuotaExceeded", "a create was rejected because of a ResourceQuota"},
    {"NamespaceTerminating", "the namespace is being deleted, so nothing is created in it"},
    {"GaveBack",
        "none of the job's pods had started, and others were rejected for too long: they were "
        "deleted, so that another job can use their share, and are created again later"},
    {"FailedCreate", "a create was rejected; the API server's message"},
    {"FailedDelete",
        "a delete was rejected, also in the clean-up of a job that has completed; the API server's "
        "message. Of one that has failed, the message has it at its end"},
    {"FailedUpdate", "a patch was rejected; the API server's message"},
    {"ContainerFailed", "a container has failed and its pod runs on without it"},
    {"PodFailed", "a pod has failed, and Kubernetes gives no reason; exit code and last line"},
    {"ContainerRestarted",
        "a container has ended in the last ten minutes, and kubelet has started it again"},
    {"CrashLoopBackOff",
        "a container fails again and again, and kubelet waits before the next start; with "
        "backoffLimit or failurePolicy that is a failed pod"},
    {"PodDeleted", "a pod was deleted while its group ran: the group restarts"},
    {"PodDisrupted",
        "the cluster takes a pod away (eviction, drain, preemption, taint, shutdown of its node); "
        "with backoffLimit or failurePolicy the group restarts, which is not counted"},
    {"StaleAddress", "a peer's address changed, and pods that run have the old one"},
    {"ScaledOut",
        "an elastic job without limits has more replicas than its pods can grow to: the group "
        "restarts"},
    {"FailurePolicy", "a rule of failurePolicy ended the job"},
    {"BackoffLimitExceeded", "a pod failed after as many restarts as backoffLimit allows"},
    {"DeadlineExceeded", "the job was active for as long as activeDeadlineSeconds allows"},
    {"JobSuspended", "spec.suspend is true; the message names a pod that has not ended"},
    {"AllWorkersSucceeded", "all workers have succeeded, and so has the job"},
    {"Worker0Succeeded", "worker 0 has succeeded, and so has the job"},
    {"AllPodsSucceeded", "all pods have succeeded, and so has the job"},
    {"InvalidName", "no pods can have names made from the job's: too long, or no DNS label"},
    {"InvalidSpec", "a field of the job has an invalid value"},
    {"InvalidReplicas", "replicas are missing or out of range"},
    {"InvalidTemplate", "no pod can be created from a template"},
    {"TooLarge", "the job takes more memory than the operator has for one: it gets no pods"},
};

static bool has_row(const char *reason) {
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].reason, reason) == 0) {
            return true;
        }
    }
    return false;
}

static void CO_PRINTF(3, 0)
    set_reason(struct plan_assessment *o, const char *reason, const char *fmt, va_list ap) {
    o->reason = reason;
    (void)vsnprintf(o->message, sizeof(o->message), fmt, ap);
    co_utf8_trim(o->message);
}

void plan_reason_say(struct plan_assessment *o, const char *reason, const char *fmt, ...) {
    va_list ap;
    assert(has_row(reason));
    va_start(ap, fmt);
    set_reason(o, reason, fmt, ap);
    va_end(ap);
}

void plan_reason_quote(struct plan_assessment *o, const char *reason, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set_reason(o, reason, fmt, ap);
    va_end(ap);
}

int plan_reasons_markdown(struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_buf_adds(ret, "| reason | when |\n| --- | --- |\n", err));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_TRY(co_buf_addf(ret, err, "| `%s` | %s |\n", rows[i].reason, rows[i].when));
    }
    return co_buf_adds(ret,
        "\nOther reasons are Kubernetes' own words about a pod: `Unschedulable`, "
        "`SchedulingGated`, `ImagePullBackOff`,\n`OOMKilled`, `Evicted`, …\n",
        err);
}
