#include "operator/plan/reason_table.h"

#include "common/utf8.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *reason, *when;
} rows[] = {
    {"WaitingForGang", "the group of pods waits for its scheduler, which has not said why"},
    {"GangUnschedulable", "the scheduler cannot place the group; its words"},
    {"WaitingInQueue", "Kueue has not admitted the pods yet"},
    {"WaitingForAddresses",
        "pods are held by the start gate until all pods of the job have an address"},
    {"WaitingForPredecessor", "an object of a deleted job of the same name is not gone yet"},
    {"WaitingForOldPods",
        "a pod of an earlier attempt, or one that was deleted, has not ended though its time is "
        "over by a minute"},
    {"WaitingForConfigMap", "the job's ConfigMap was deleted and is still there a minute later"},
    {"NoAddress",
        "a pod has no node, or no address, a minute after it was created, and nobody says why"},
    {"NotStarted",
        "a pod has an address, and its containers have not started a minute after they might"},
    {"NotReady", "a pod's containers run, and not all are ready a minute after they might"},
    {"WaitingForSidecars",
        "a pod's first container, the training, has ended well a minute ago, and others of it run "
        "on"},
    {"NameTaken", "an object that is not the job's stands where one of its own has to be"},
    {"QuotaExceeded", "a create was rejected because of a ResourceQuota"},
    {"FailedCreate", "a create was rejected; the API server's words"},
    {"FailedDelete", "a delete was rejected; the API server's words"},
    {"FailedUpdate", "a patch was rejected; the API server's words"},
    {"ContainerFailed", "a container has failed and its pod goes on without it"},
    {"PodFailed", "a pod has failed, and Kubernetes has no word for why; exit code and last line"},
    {"PodDeleted", "a pod was taken away while its group ran: the group is restarted"},
    {"FailurePolicy", "a rule of failurePolicy ended the job"},
    {"BackoffLimitExceeded", "a pod failed after as many restarts as backoffLimit allows"},
    {"DeadlineExceeded", "the job was active for as long as activeDeadlineSeconds allows"},
    {"JobSuspended", "spec.suspend is true"},
    {"AllWorkersSucceeded", "all workers have succeeded: the job ends well"},
    {"Worker0Succeeded", "worker 0 has succeeded: the job ends well"},
    {"AllPodsSucceeded", "all pods have succeeded: the job ends well"},
    {"InvalidName", "the name allows no pods: too long, or no DNS label"},
    {"InvalidSpec", "a field of the job means nothing"},
    {"InvalidReplicas", "replicas are missing or out of range"},
    {"InvalidTemplate", "no pod can be made of a template"},
    {"TooLarge", "the job takes more memory than the operator has for one: no pods are made"},
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
    set_reason(struct op_outlook *o, const char *reason, const char *fmt, va_list ap) {
    o->reason = reason;
    (void)vsnprintf(o->message, sizeof(o->message), fmt, ap);
    co_utf8_trim(o->message);
}

void op_reason_say(struct op_outlook *o, const char *reason, const char *fmt, ...) {
    va_list ap;
    assert(has_row(reason));
    va_start(ap, fmt);
    set_reason(o, reason, fmt, ap);
    va_end(ap);
}

void op_reason_quote(struct op_outlook *o, const char *reason, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set_reason(o, reason, fmt, ap);
    va_end(ap);
}

int op_reasons_markdown(struct co_buf *ret, struct co_err *err) {
    int r = co_buf_adds(ret, "| reason | when |\n| --- | --- |\n", err);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows) && !r; i++) {
        r = co_buf_addf(ret, err, "| `%s` | %s |\n", rows[i].reason, rows[i].when);
    }
    return r ? r
             : co_buf_adds(ret,
                   "\nOther reasons are Kubernetes' own words about a pod: `Unschedulable`, "
                   "`SchedulingGated`, `ImagePullBackOff`,\n`CrashLoopBackOff`, `OOMKilled`, "
                   "`Evicted`, …\n",
                   err);
}
