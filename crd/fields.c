/*
 * No field has an enum, a default or a minimum: strings and numbers that earlier versions accepted
 * stay accepted, and the operator says what it makes of them. Rules are for what can never work.
 */
#include "crd/crd.h"

/*
 * A pod is called <job>-<role>-<index>, which is also its host name, a label's value and the name
 * of a Service: 63 characters. Rules at the top see the job's name. They must not get in the way
 * of a status update of a job from before the rules, hence the first looks only at jobs that have
 * no status yet, the second only at roles that grow.
 */
#define FITS(role)                                                                                 \
    "size(self.metadata.name) + size('-" role "-') + "                                             \
    "(self.spec." role ".replicas > 10 ? size(string(self.spec." role ".replicas - 1)) : 1) <= 63"
#define NO_PODS(role)                                                                              \
    "!has(self.spec) || !has(self.spec." role ") || self.spec." role ".replicas < 1"
#define NAME_RULES(role, longest)                                                                  \
    {.rule = "has(self.status) || " NO_PODS(role) " || " FITS(role),                               \
        .message = "metadata.name is too long: pods are called <name>-" role                       \
                   "-<index> and may have 63 characters; use a name of at most " longest           \
                   " characters (one less from 11 replicas on, two less from 101 on, ...)"},       \
    {                                                                                              \
        .rule = NO_PODS(role) " || (has(oldSelf.spec) && has(oldSelf.spec." role                   \
                              ") && self.spec." role ".replicas <= oldSelf.spec." role             \
                              ".replicas) || " FITS(role),                                         \
        .message = "spec." role ".replicas is too large for a name of this length: pods are "      \
                   "called <name>-" role "-<index> and may have 63 characters; use fewer "         \
                   "replicas, or create the job under a shorter name"                              \
    }

static const struct crd_rule job_rules[] = {
    {.rule = "has(self.status) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        .message = "metadata.name must start with a letter and have only small letters, digits and "
                   "'-' (no dots), and not end with '-': pods and Services are named after it; "
                   "choose such a name, as my-job-1"},
    NAME_RULES("ps", "58"),
    NAME_RULES("worker", "54"),
    NAME_RULES("heter", "55"),
    {0},
};

static const struct crd_rule replicas_rules[] = {
    {.rule = "self >= 0",
        .message = "replicas must not be negative: use 0 for no pods of this role, or leave the "
                   "role out"},
    {0},
};

static const struct crd_field scheduling_fields[] = {
    {.name = "minAvailable",
        .type = CRD_INT32,
        .doc = "Pods that must be placeable together before any is started. Default: all pods of "
               "the job."},
    {.name = "queue", .type = CRD_STRING, .doc = "Volcano queue that the job is charged to."},
    {.name = "priorityClass",
        .type = CRD_STRING,
        .doc = "PriorityClass of the PodGroup, which decides among waiting jobs."},
    {.name = "minResources",
        .type = CRD_QUANTITY_MAP,
        .doc = "Resources that must be free before any pod is started, as cpu: \"8\". Default: the "
               "sum of what the containers of all pods request."},
    {0},
};

static const struct crd_field role_fields[] = {
    {.name = "replicas",
        .type = CRD_INTEGER,
        .required = true,
        .rules = replicas_rules,
        .doc = "Number of pods of this role, called <job>-<role>-0 and up. May be changed while "
               "the job runs: missing pods are created, those with the highest numbers deleted. 0 "
               "is the same as no pods of this role."},
    {.name = "requests",
        .type = CRD_INTEGER,
        .doc = "Least number of pods for elastic training. Accepted and kept, but not read."},
    {.name = "limits",
        .type = CRD_INTEGER,
        .doc = "Greatest number of pods for elastic training. Accepted and kept, but not read."},
    {.name = "template",
        .type = CRD_OBJECT,
        .open = true,
        .fields = crd_template_fields,
        .anchor = "template",
        .doc = "The pod to create, as in a Deployment or a Job: everything a pod of this cluster "
               "may have is kept and handed on, fields not listed here too. Needs at least one "
               "container; a role without template gets no pods, and the job's conditions say "
               "so."},
    {0},
};

static const struct crd_field spec_fields[] = {
    {.name = "ps",
        .type = CRD_OBJECT,
        .fields = role_fields,
        .anchor = "role",
        .doc = "Parameter servers, which hold the model's parameters. With this field the job has "
               "mode PS, even with 0 replicas."},
    {.name = "worker",
        .type = CRD_OBJECT,
        .fields = role_fields,
        .anchor = "role",
        .doc = "Trainers, which read the data and compute. Alone, without ps, they train "
               "collectively: mode Collective, or Single with one replica."},
    {.name = "heter",
        .type = CRD_OBJECT,
        .fields = role_fields,
        .anchor = "role",
        .doc = "Heterogeneous trainers: a second kind of worker for the part of a model that wants "
               "other devices."},
    {.name = "intranet",
        .type = CRD_STRING,
        .doc = "How pods address each other. PodIP (default): by the addresses of the pods, known "
               "once all pods have one. Service: by name, with a headless Service for each pod; "
               "the addresses may change. Host: pods use the network of their node. Any other "
               "value means PodIP."},
    {.name = "cleanPodPolicy",
        .type = CRD_STRING,
        .doc = "Whether pods (and Services) are deleted when the job has ended: Always, Never, "
               "OnFailure (only of a failed job) or OnCompletion (only of a completed job; the "
               "default when absent or empty). Any other value means Never. Use Never to look at "
               "logs afterwards. Deleting the job deletes everything of it whatever this says."},
    {.name = "withGloo",
        .type = CRD_INTEGER,
        .doc = "Gloo, a rendezvous among CPU processes of a PS job: 0 none (default), 1 among the "
               "workers, 2 among workers and servers. Without effect when there are no servers."},
    {.name = "successPolicy",
        .type = CRD_STRING,
        .added = true,
        .doc = "When a PS job is Completed. AllWorkers (default): when all workers have succeeded; "
               "the servers then get some time to finish by themselves and are stopped. AllPods: "
               "when all pods have succeeded, servers included, as paddle-operator v0.3.5 did. Any "
               "other value means AllWorkers."},
    {.name = "elastic",
        .type = CRD_INTEGER,
        .doc = "Elastic training of workers. Any number, 0 included, turns it on: pods get "
               "PADDLE_ELASTIC_JOB_ID, PADDLE_ELASTIC_NP and PADDLE_ELASTIC_TIMEOUT, are restarted "
               "when they fail, and find each other through etcd instead of a list of addresses. "
               "Leave it out to turn it off."},
    {.name = "schedulingPolicy",
        .type = CRD_OBJECT,
        .fields = scheduling_fields,
        .anchor = "schedulingPolicy",
        .doc =
            "For gang scheduling by Volcano, where all pods of the job are placed together or none "
            "is. Accepted and kept, but not acted on yet: schedulerName volcano in the templates "
            "lets Volcano form a group by itself."},
    {0},
};

static const struct crd_field ref_fields[] = {
    {.name = "apiVersion", .type = CRD_STRING, .doc = "Always v1."},
    {.name = "kind", .type = CRD_STRING, .doc = "Always Pod."},
    {.name = "namespace", .type = CRD_STRING, .doc = "Namespace of the pod."},
    {.name = "name", .type = CRD_STRING, .doc = "Name of the pod."},
    {.name = "uid", .type = CRD_STRING, .doc = "UID of the pod."},
    {.name = "resourceVersion",
        .type = CRD_STRING,
        .doc = "Version of the pod that was seen when it was listed here."},
    {.name = "fieldPath", .type = CRD_STRING, .doc = "Not used."},
    {0},
};

static const struct crd_field role_status_fields[] = {
    {.name = "pending", .type = CRD_INTEGER, .doc = "Pods that are not started yet."},
    {.name = "starting",
        .type = CRD_INTEGER,
        .doc = "Pods that wait for their peers, or run but are not ready."},
    {.name = "running", .type = CRD_INTEGER, .doc = "Pods that run, with all containers ready."},
    {.name = "failed", .type = CRD_INTEGER, .doc = "Pods that have failed."},
    {.name = "succeeded", .type = CRD_INTEGER, .doc = "Pods that have succeeded."},
    {.name = "unknown",
        .type = CRD_INTEGER,
        .doc = "Pods whose state is not known, as their node does not answer."},
    {.name = "refs",
        .type = CRD_OBJECT_LIST,
        .fields = ref_fields,
        .anchor = "ref",
        .doc = "The pods, ordered by their number."},
    {0},
};

/* The shape is that of metav1.Condition, which `kubectl wait` and other tools read. */
static const struct crd_field condition_fields[] = {
    {.name = "type",
        .type = CRD_STRING,
        .required = true,
        .doc = "Created (all pods), Running, Completing (workers have succeeded, servers may still "
               "end), Succeeded, Failed, or Blocked (something keeps pods from being created, the "
               "message says what)."},
    {.name = "status", .type = CRD_STRING, .required = true, .doc = "True, False or Unknown."},
    {.name = "reason",
        .type = CRD_STRING,
        .required = true,
        .doc = "Why, in one word for programs, as PodFailed."},
    {.name = "message",
        .type = CRD_STRING,
        .required = true,
        .doc = "Why, in one sentence for people. May be empty."},
    {.name = "lastTransitionTime",
        .type = CRD_TIME,
        .required = true,
        .doc = "When the status of this condition last changed."},
    {.name = "observedGeneration",
        .type = CRD_INT64,
        .doc = "Generation of the job (metadata.generation) that this was judged by."},
    {0},
};

static const struct crd_field status_fields[] = {
    {.name = "phase",
        .type = CRD_STRING,
        .doc = "Where the job stands: Pending (pods are being created or wait for a node), "
               "Starting (pods wait for their peers or are not ready), Running, Completed, Failed "
               "(both final), or Terminating (the job is being deleted)."},
    {.name = "mode", .type = CRD_STRING, .doc = "PS, Collective or Single: follows from spec."},
    {.name = "reason",
        .type = CRD_STRING,
        .added = true,
        .doc = "Why the job is not running or has failed, in one word for programs, as PodFailed, "
               "OOMKilled, QuotaExceeded, FailedCreate or ImagePullBackOff. Absent when there is "
               "nothing to say."},
    {.name = "message",
        .type = CRD_STRING,
        .added = true,
        .doc = "The first cause in one sentence: which pod and container, its exit code and last "
               "words, or what the API server answered."},
    {.name = "ps",
        .type = CRD_OBJECT,
        .fields = role_status_fields,
        .anchor = "roleStatus",
        .doc = "Pods of the parameter servers. Absent before there are any; kept when they were "
               "cleaned up."},
    {.name = "worker",
        .type = CRD_OBJECT,
        .fields = role_status_fields,
        .anchor = "roleStatus",
        .doc = "Pods of the workers. Absent before there are any; kept when they were cleaned up."},
    {.name = "heter",
        .type = CRD_OBJECT,
        .fields = role_status_fields,
        .anchor = "roleStatus",
        .doc = "Pods of the heterogeneous workers. Absent before there are any; kept when they "
               "were cleaned up."},
    {.name = "readyPS",
        .type = CRD_STRING,
        .added = true,
        .doc = "Parameter servers that run or have succeeded, of those asked for, as 2/2. For "
               "kubectl get -o wide."},
    {.name = "readyWorker",
        .type = CRD_STRING,
        .added = true,
        .doc = "Workers that run or have succeeded, of those asked for, as 2/2."},
    {.name = "readyHeter",
        .type = CRD_STRING,
        .added = true,
        .doc = "Heterogeneous workers that run or have succeeded, of those asked for, as 2/2."},
    {.name = "restarts",
        .type = CRD_INTEGER,
        .added = true,
        .doc = "Container restarts of the job's pods, summed up."},
    {.name = "startTime",
        .type = CRD_TIME,
        .doc = "When the job was first Running. Never changes."},
    {.name = "completionTime",
        .type = CRD_TIME,
        .doc = "When the job was Completed or Failed. Never changes."},
    {.name = "conditions",
        .type = CRD_OBJECT_LIST,
        .fields = condition_fields,
        .anchor = "condition",
        .list_key = "type",
        .added = true,
        .doc = "What is true of the job, in the form that kubectl wait understands: kubectl wait "
               "--for=condition=Succeeded pdj/<name>."},
    {.name = "observedGeneration",
        .type = CRD_INTEGER,
        .doc = "Generation of the job (metadata.generation) that this status was made from. Lower "
               "than the generation: the operator has not looked at the last change yet."},
    {.name = "elastic",
        .type = CRD_STRING,
        .doc = "State of elastic training: NONE, DOING, DONE or ERROR. Reserved, not set."},
    {0},
};

static const struct crd_field job_fields[] = {
    {.name = "spec",
        .type = CRD_OBJECT,
        .fields = spec_fields,
        .anchor = "spec",
        .doc = "What is to run: for each role (ps, worker, heter) a number of pods and what they "
               "look like, and how they find each other."},
    {.name = "status",
        .type = CRD_OBJECT,
        .fields = status_fields,
        .anchor = "status",
        .doc = "What the operator has seen. Written by the operator alone."},
    {0},
};

const struct crd_field crd_job = {
    .name = CRD_KIND,
    .type = CRD_OBJECT,
    .fields = job_fields,
    .rules = job_rules,
    .anchor = "paddlejob",
    .doc = "PaddleJob is one distributed training: parameter servers and workers, or workers "
           "alone, as pods that know each other's addresses and their own place among them. The "
           "operator creates the pods, follows them, and ends the job when training has ended.",
};

/* NAME STATUS MODE AGE is what users and scripts know: wide ones come after. */
const struct crd_column crd_columns[] = {
    {"Status", "string", ".status.phase", "Where the job stands.", false},
    {"Mode", "string", ".status.mode", "PS, Collective or Single.", false},
    {"Age", "date", ".metadata.creationTimestamp", "Time since the job was created.", false},
    {"PS", "string", ".status.readyPS", "Parameter servers ready, of those asked for.", true},
    {"Worker", "string", ".status.readyWorker", "Workers ready, of those asked for.", true},
    {"Restarts", "integer", ".status.restarts", "Container restarts.", true},
    {"Reason", "string", ".status.reason", "Why the job does not run.", true},
    {"Message", "string", ".status.message", "The first cause in one sentence.", true},
    {0},
};
