/* The fields of a PaddleJob's status, which only the operator writes. */
#include "crd/crd.h"

static const struct crd_field ref_fields[] = {
    {"apiVersion", .type = CRD_STRING, .doc = "Always v1."},
    {"kind", .type = CRD_STRING, .doc = "Always Pod."},
    {"namespace", .type = CRD_STRING, .doc = "Namespace of the pod."},
    {"name", .type = CRD_STRING, .doc = "Name of the pod."},
    {"uid", .type = CRD_STRING, .doc = "UID of the pod."},
    {"resourceVersion", .type = CRD_STRING,
        .doc = "Version of the pod that was seen when it was listed here."},
    {"fieldPath", .type = CRD_STRING, .doc = "Not used."},
    {0},
};

static const struct crd_field role_status_fields[] = {
    {"pending", .type = CRD_INTEGER, .doc = "Pods that are not started yet."},
    {"starting", .type = CRD_INTEGER,
        .doc = "Pods that wait for their peers, or run but are not ready."},
    {"running", .type = CRD_INTEGER, .doc = "Pods that run, with all containers ready."},
    {"failed", .type = CRD_INTEGER, .doc = "Pods that have failed."},
    {"succeeded", .type = CRD_INTEGER, .doc = "Pods that have succeeded."},
    {"unknown", .type = CRD_INTEGER,
        .doc = "Pods whose state is not known, as their node does not answer."},
    {"replicas", .type = CRD_INT32, .added = true,
        .doc = "Pods that there are, whatever their state. What kubectl scale and autoscalers "
               "read."},
    {"completedIndexes", .type = CRD_STRING, .added = true,
        .doc =
            "Numbers of the pods that have succeeded, as 0-3,5. They stay succeeded, and are not "
            "recreated, when their pods are deleted; a restart of the group begins without "
            "them."},
    {"createdIndexes", .type = CRD_STRING, .added = true,
        .doc = "Numbers of the pods that the present attempt has had, as 0-3,5, of a job whose "
               "group restarts: one of them that is missing was lost. Pods of a larger group that "
               "were rejected are not among them."},
    {.name = "refs",
        .type = CRD_OBJECT_LIST,
        .fields = ref_fields,
        .anchor = "ref",
        /* With a schema, a status write with a thousand references costs the API server twice as
         * much. */
        .opaque = true,
        .doc = "The pods, ordered by their number: apiVersion, kind, namespace, name, uid and "
               "resourceVersion of each. Left out for a job of more than 2000 pods, "
               "which would not fit into an object: select them by label "
               "batch.paddlepaddle.org/job-name."},
    {0},
};

/* The shape is that of metav1.Condition, which `kubectl wait` and other tools read. */
static const struct crd_field condition_fields[] = {
    {"type", .type = CRD_STRING, .required = true,
        .doc = "Created (all pods, also while one of them is replaced; False of a job that needs"
               " none, and of one that ended before all were there), Running, Suspended, "
               "Restarting (the message says why), GaveBack (pods were deleted, as others were "
               "rejected for too long, and are created again), Completing (the pods that decide "
               "have succeeded, the others may still end), Succeeded, Failed, Blocked (something"
               " keeps pods from being created, the message says what), ReplicasBounded (an "
               "elastic job has other workers than replicas asks for), SchedulingPolicyIgnored "
               "(the scheduler has no word for a part of it), UnknownValue (a field has an unknown "
               "value, the message names the one that is used instead), SpecChanged (a part "
               "of the spec that a running attempt keeps was changed, the message says which), "
               "or StaleAddress (pods run with the address that a peer had before, the message "
               "names them)."},
    {"status", .type = CRD_STRING, .required = true, .doc = "True, False or Unknown."},
    {"reason", .type = CRD_STRING, .required = true,
        .doc = "Why, in one word for programs, as PodFailed."},
    {"message", .type = CRD_STRING, .required = true,
        .doc = "Why, in one sentence for people. May be empty."},
    {"lastTransitionTime", .type = CRD_TIME, .required = true,
        .doc = "When the status of this condition last changed."},
    {"observedGeneration", .type = CRD_INT64,
        .doc = "Generation of the job (metadata.generation) that this was judged by."},
    {0},
};

const struct crd_field crd_status_fields[] = {
    {"phase", .type = CRD_STRING,
        .doc =
            "The job's state: Pending (pods are being created or wait for a node), "
            "Starting (pods wait for their peers or are not ready), Running, Restarting (the whole "
            "group, until it is Running again), Suspended, Completed, Failed (both final), or "
            "Terminating (the job is being deleted)."},
    {"mode", .type = CRD_STRING, .doc = "PS, Collective or Single: follows from spec."},
    {"reason", .type = CRD_STRING, .added = true,
        .doc = "Why the job is not running or has failed, in one word for programs, as PodFailed, "
               "OOMKilled, QuotaExceeded, FailedCreate (FailedDelete, FailedUpdate: other requests "
               "that the API server refuses) or ImagePullBackOff. Absent when there is nothing to "
               "say."},
    {"message", .type = CRD_STRING, .added = true,
        .doc = "The first cause in one sentence: which pod and container, its exit code and last "
               "words, or what the API server answered."},
    {"ps", .type = CRD_OBJECT, .fields = role_status_fields, .anchor = "roleStatus",
        .doc = "Pods of the parameter servers. Absent before there are any; kept when they were "
               "cleaned up."},
    {"worker", .type = CRD_OBJECT, .fields = role_status_fields, .anchor = "roleStatus",
        .doc = "Pods of the workers. Absent before there are any; kept when they were cleaned up."},
    {"heter", .type = CRD_OBJECT, .fields = role_status_fields, .anchor = "roleStatus",
        .doc = "Pods of the heterogeneous workers. Absent before there are any; kept when they "
               "were cleaned up."},
    {"readyPS", .type = CRD_STRING, .added = true,
        .doc = "Parameter servers that run or have succeeded, of those asked for, as 2/2. For "
               "kubectl get -o wide."},
    {"readyWorker", .type = CRD_STRING, .added = true,
        .doc = "Workers that run or have succeeded, of those asked for, as 2/2."},
    {"readyHeter", .type = CRD_STRING, .added = true,
        .doc = "Heterogeneous workers that run or have succeeded, of those asked for, as 2/2."},
    {"restarts", .type = CRD_INTEGER, .added = true,
        .doc = "Restarts of the whole group that count against backoffLimit."},
    {"attempt", .type = CRD_INT32, .added = true,
        .doc = "Number of the present group of pods, which carry it as label: one more after each "
               "restart, counted or not, and each suspension. Absent: 0."},
    {"began", .type = CRD_STRING, .added = true,
        .doc =
            "What of the spec the present attempt began with, and keeps until it ends: intranet, "
            "elastic, withGloo, peerAuth, whether its pods have torchrun's variables, and a hash "
            "of each template."},
    {"beganTemplates", .type = CRD_STRING, .added = true,
        .doc = "What an earlier version stored here is moved to annotations of the attempt's "
               "ConfigMap. The next release has no such field."},
    {"keptPod", .type = CRD_STRING, .added = true,
        .doc = "A pod that should have ended over a minute ago and is still there. The message "
               "says what may keep it."},
    {"restartTime", .type = CRD_TIME, .added = true,
        .doc = "When the pods of the last restart were (or will be) created at the earliest."},
    {"backoffSeconds", .type = CRD_INT32, .added = true,
        .doc = "How long the last restart waited. The next one waits twice as long, unless the "
               "group was Running for 10 min meanwhile."},
    {"activeSince", .type = CRD_TIME, .added = true,
        .doc = "When the job was last resumed. Absent: it was never suspended, or is now."},
    {"activeSeconds", .type = CRD_INT64, .added = true,
        .doc = "How long the job was active before that. Counts for activeDeadlineSeconds."},
    {"containerRestarts", .type = CRD_INTEGER, .added = true,
        .doc = "Restarts of single containers by kubelet, summed up over the job's pods. Absent: "
               "none."},
    {"selector", .type = CRD_STRING, .added = true,
        .doc = "Label selector of the workers, for kubectl scale and autoscalers."},
    {"startTime", .type = CRD_TIME, .doc = "When the job was first Running. Never changes."},
    {"completionTime", .type = CRD_TIME,
        .doc = "When the job was Completed or Failed. Never changes."},
    {"conditions", .type = CRD_OBJECT_LIST, .fields = condition_fields, .anchor = "condition",
        .list_key = "type", .added = true,
        .doc = "What is true of the job, in the form that kubectl wait understands: kubectl wait "
               "--for=condition=Succeeded pdj/<name>."},
    {"observedGeneration", .type = CRD_INTEGER,
        .doc = "Generation of the job (metadata.generation) that this status was made from. Lower "
               "than the generation: the operator has not looked at the last change yet."},
    {"elastic", .type = CRD_STRING,
        .doc = "State of elastic training: NONE, DOING, DONE or ERROR. Reserved, not set."},
    {0},
};
