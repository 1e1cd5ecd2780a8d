/*
 * The fields of a PaddleJob's spec.
 *
 * No field has an enum, a default or a minimum, so that every value that earlier versions accepted
 * stays accepted; the operator reports how it understands an odd one. CEL rules reject only what
 * can never work.
 */
#include "crd/crd.h"

/*
 * A pod is called <job>-<role>-<index>, which is also its host name, a label's value and the name
 * of a Service: 63 characters. Rules at the top see the job's name. They must not block a status
 * update of a job from before the rules, hence the first looks only at jobs that have no status
 * yet, the second only at roles that grow.
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
    {"has(self.status) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must consist of lower case letters, digits and '-' (no dots), "
        "begin with a letter and not end with '-', as my-job-1: pods and Services are "
        "named after it"},
    NAME_RULES("ps", "58"),
    NAME_RULES("worker", "54"),
    NAME_RULES("heter", "55"),
    {0},
};

static const struct crd_rule replicas_rules[] = {
    {"self >= 0", "replicas must not be negative: use 0 for no pods of this role, or leave the "
                  "role out"},
    {0},
};

static const struct crd_field scheduling_fields[] = {
    {"minAvailable", .type = CRD_INT32,
        .doc = "Pods that must be placeable together before any is started. Default: all pods of "
               "the job."},
    {"queue", .type = CRD_STRING, .doc = "Volcano queue that the job is charged to."},
    {"priorityClass", .type = CRD_STRING,
        .doc = "PriorityClass of the PodGroup, which decides among waiting jobs."},
    {"minResources", .type = CRD_QUANTITY_MAP,
        .doc = "Resources that must be free before any pod is started, as cpu: \"8\". Default: the "
               "sum of what the containers of all pods request."},
    {0},
};

/* managedBy is immutable: two controllers must never act on one job. */
static const struct crd_rule spec_rules[] = {
    {"has(self.managedBy) == has(oldSelf.managedBy) && (!has(self.managedBy) || "
     "self.managedBy == oldSelf.managedBy)",
        "managedBy cannot be changed: recreate the job with the value that you want"},
    {0},
};

static const struct crd_rule deadline_rules[] = {
    {"self >= 1", "activeDeadlineSeconds must be 1 or more: leave it out for no deadline"},
    {0},
};

static const struct crd_rule ttl_rules[] = {
    {"self >= 0", "ttlSecondsAfterFinished must not be negative: use 0 for at once, or leave it "
                  "out to keep the job"},
    {0},
};

static const struct crd_rule limit_rules[] = {
    {"self >= 0", "backoffLimit must not be negative: use 0 for no restarts, or leave it out"},
    {0},
};

static const struct crd_rule node_rules[] = {
    {"self >= 0", "nodeLostAfter must not be negative: use 0 for at once, or leave it out to wait "
                  "for the eviction"},
    {0},
};

static const struct crd_rule peer_auth_rules[] = {
    {"self in ['None', 'Token', 'Encrypted']", "peerAuth must be None, Token or Encrypted"},
    {0},
};

static const struct crd_rule action_rules[] = {
    {"self in ['Fail', 'Restart', 'Ignore']", "action must be Fail, Restart or Ignore"},
    {0},
};

static const struct crd_rule codes_rules[] = {
    {"self.matches('^[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,3}(-[0-9]{1,3})?)*$')",
        "exitCodes must be numbers and ranges joined by commas, as \"3\" or "
        "\"1-127,137\""},
    {0},
};

static const struct crd_rule role_rules[] = {
    {"self in ['ps', 'worker', 'heter']", "role must be ps, worker or heter"},
    {0},
};

static const struct crd_field failure_rule_fields[] = {
    {"action", .type = CRD_STRING, .required = true, .max = 16, .rules = action_rules,
        .doc = "Fail: the job fails at once. Restart: the group is restarted, counted against "
               "backoffLimit. Ignore: the group is restarted and nothing is counted."},
    {"exitCodes", .type = CRD_STRING, .max = 256, .rules = codes_rules,
        .doc = "Fits a pod whose failed container ended with one of these: numbers and ranges "
               "joined by commas, as \"3\" or \"1-127,137\" (128 + n: ended by signal n). Default: "
               "any, also none. Never fits a pod that the cluster took away, unless reasons names "
               "why."},
    {"reasons", .type = CRD_STRING_LIST, .max = 16,
        .doc = "Fits a pod that failed for one of these reasons of Kubernetes: a container's, as "
               "OOMKilled, the pod's, as Evicted, or that of its condition DisruptionTarget, as "
               "PreemptionByScheduler. Default: any but disruptions."},
    {"role", .type = CRD_STRING, .max = 16, .rules = role_rules,
        .doc = "Fits pods of this role: ps, worker or heter. Default: any."},
    {0},
};

static const struct crd_field role_fields[] = {
    {"replicas", .type = CRD_INTEGER, .required = true, .rules = replicas_rules,
        .doc =
            "Number of pods of this role, called <job>-<role>-0 and up. May be changed while "
            "the job runs: missing pods are created, those with the highest numbers deleted; the "
            "others keep the addresses that they began with, so a job that is not elastic is "
            "better suspended, changed and resumed. 0 is the same as no pods of this role."},
    {"requests", .type = CRD_INTEGER,
        .doc =
            "Least number of workers of an elastic job: fewer replicas are raised to it, and so "
            "many begin while no node is found for the others. No effect in other jobs and roles."},
    {"limits", .type = CRD_INTEGER,
        .doc =
            "Greatest number of workers of an elastic job: more replicas are cut to it; 0 or less "
            "is no limit. PADDLE_ELASTIC_NP is requests:limits. Without limits it has the most "
            "workers that were asked for since the group began: fewer of them, and so many again, "
            "leave the others alone; more restart the group. No effect in other jobs and roles."},
    {"template", .type = CRD_OBJECT, .open = true, .fields = crd_template_fields,
        .anchor = "template",
        .doc = "The pod to create, as in a Deployment or a Job: everything a pod of this cluster "
               "may have is kept and handed on, fields not listed here too. Needs at least one "
               "container; a role without template gets no pods, and the job's conditions say "
               "so."},
    {0},
};

static const struct crd_field spec_fields[] = {
    {"ps", .type = CRD_OBJECT, .fields = role_fields, .anchor = "role",
        .doc = "Parameter servers, which hold the model's parameters. With this field the job has "
               "mode PS, even with 0 replicas."},
    {"worker", .type = CRD_OBJECT, .fields = role_fields, .anchor = "role",
        .doc = "Trainers, which read the data and compute. Alone, without ps, they train "
               "collectively: mode Collective, or Single with one replica."},
    {"heter", .type = CRD_OBJECT, .fields = role_fields, .anchor = "role",
        .doc = "Heterogeneous trainers: a second kind of worker for the part of a model that wants "
               "other devices."},
    {"intranet", .type = CRD_STRING,
        .doc =
            "How pods address each other. PodIP (default): by the addresses of the pods, known "
            "once all pods have one. Service: by name, with a headless Service for each pod; "
            "the addresses may change. DNS: by name, too (<pod>.<job>), with one headless Service "
            "for the whole job. Host: pods use the network of their node. Any other value "
            "means PodIP."},
    {"cleanPodPolicy", .type = CRD_STRING,
        .doc = "Whether pods (and Services) are deleted when the job has ended: Always, Never, "
               "OnFailure (only of a failed job), OnCompletion (only of a completed job; the "
               "default when absent or empty) or Running (those that have not ended; the others "
               "stay, with their logs). Any other value means Never. Use Never to look at "
               "logs afterwards. Deleting the job deletes everything of it whatever this says."},
    {"withGloo", .type = CRD_INTEGER,
        .doc = "Gloo, a rendezvous among CPU processes of a PS job: 0 none (default), 1 among the "
               "workers, 2 among workers and servers. Without effect when there are no servers."},
    {"successPolicy", .type = CRD_STRING, .added = true,
        .doc = "When a PS job is Completed. AllWorkers (default): when all workers have succeeded; "
               "the servers then get some time to finish by themselves and are stopped. AllPods: "
               "when all pods have succeeded, servers included, as paddle-operator v0.3.5 did. "
               "Worker0: when worker 0 has succeeded, in any mode; the others then get the same "
               "time. Any other value means AllWorkers."},
    {"suspend", .type = CRD_BOOLEAN, .added = true,
        .doc = "True deletes the job's pods and keeps the job; false again starts it as "
               "another attempt. A job that is suspended from the beginning creates nothing."},
    {"activeDeadlineSeconds", .type = CRD_INT64, .added = true, .rules = deadline_rules,
        .doc = "How long the job may take, restarts included, time in which it is suspended "
               "excluded. After that it is Failed with reason DeadlineExceeded, and pods that "
               "still run are deleted, whatever cleanPodPolicy says. Default: for ever."},
    {"ttlSecondsAfterFinished", .type = CRD_INT32, .added = true, .rules = ttl_rules,
        .doc = "Seconds after its end when the job itself is deleted, with all that it owns. "
               "Default: never."},
    {"backoffLimit", .type = CRD_INT32, .added = true, .rules = limit_rules,
        .doc = "How often the whole group of pods is restarted because of pods that failed. The "
               "first restart comes 10 s after the failure, each further one after twice the "
               "time, at most 6 min; 10 min of Running and it is 10 s again. A failed container "
               "is a failed pod, whatever restartPolicy, intranet and elastic are. Pods that their "
               "node or the scheduler took away (eviction, preemption, node shutdown, deletion) "
               "restart the group, too, but are not counted; those that exceed limits of their own "
               "(memory, emptyDir, ephemeral storage) are. A container that its node could not "
               "start (StartError, but not for want of its command) restarts the group uncounted "
               "three times in a row, also without backoffLimit. With "
               "no restart left the job fails and pods that still run are deleted. Default, "
               "without failurePolicy: a failed pod "
               "fails the job, a deleted one is recreated, and the others stay, as paddle-operator "
               "v0.3.5 did."},
    {"failurePolicy", .type = CRD_OBJECT_LIST, .fields = failure_rule_fields,
        .anchor = "failurePolicy", .max = 32, .added = true,
        .doc = "What a failed pod means, by exit code, reason or role: the first rule that fits "
               "the pod that failed first decides. Where none fits, what backoffLimit says (0 when "
               "that is absent). A pod that the cluster took away fits only rules that name the "
               "reason; without such a rule the group restarts, which is not counted."},
    {"nodeLostAfter", .type = CRD_INT32, .added = true, .rules = node_rules,
        .doc =
            "Seconds after which a pod whose node does not answer is given up: it is deleted by "
            "force and the group restarted on other nodes, which is not counted. Of an elastic "
            "job that pod alone is recreated. A node that is cut off and not dead may keep its "
            "containers running until it is back, so training must bear that two of them "
            "write its checkpoints. Default: pods stay until Kubernetes evicts them, after 5 min "
            "most often, and the group waits until the node is back or is deleted. Combine it with "
            "backoffLimit, for peers that fail before the node is known to be lost."},
    {"priorityClassName", .type = CRD_STRING, .added = true,
        .doc = "PriorityClass of the job's pods, for templates that name none."},
    {"managedBy", .type = CRD_STRING, .added = true, .max = 63,
        .doc = "Name of the controller that looks after this job. Absent or "
               "batch.paddlepaddle.org/paddle-operator: this operator. Any other value, as "
               "kueue.x-k8s.io/multikueue: the job is left alone, status included. Cannot be "
               "changed."},
    {"peerAuth", .type = CRD_STRING, .added = true, .max = 16, .rules = peer_auth_rules,
        .doc = "How the job's processes prove to each other that they belong together. None "
               "(default): not at all, unless the templates set PADDLE_JOB_TOKEN. Token: the "
               "operator makes a random token, in a Secret that the job owns, and the first "
               "container of every pod gets it as PADDLE_JOB_TOKEN. This project's parameter "
               "servers and collective communication prove it to one another, launchers with "
               "--require_token; Paddle does not know it. Encrypted: the same, and parameter "
               "servers and collective communication encrypt what they send (TLS 1.3 by keys that "
               "come from the token; PADDLE_JOB_ENCRYPT), but not NCCL. Read when a pod is made: "
               "change it while the job is suspended."},
    {"elastic", .type = CRD_INTEGER,
        .doc = "Elastic training of workers. Any number, 0 included, turns it on: pods get "
               "PADDLE_ELASTIC_JOB_ID, PADDLE_ELASTIC_NP and PADDLE_ELASTIC_TIMEOUT, are restarted "
               "when they fail, and find each other at worker 0 (intranet Service or DNS) or in an "
               "etcd, instead of by a list of addresses. "
               "Leave it out to turn it off."},
    {"schedulingPolicy", .type = CRD_OBJECT, .fields = scheduling_fields,
        .anchor = "schedulingPolicy",
        .doc =
            "For gang scheduling, where all pods of the job are placed together or none is: what "
            "the "
            "group says that an operator with --scheduling makes of them. No effect without that "
            "flag."},
    {0},
};

static const struct crd_field job_fields[] = {
    {"spec", .type = CRD_OBJECT, .fields = spec_fields, .rules = spec_rules, .anchor = "spec",
        .doc = "What is to run: for each role (ps, worker, heter) a number of pods and what they "
               "look like, and how they find each other."},
    {"status", .type = CRD_OBJECT, .fields = crd_status_fields, .anchor = "status", .atomic = true,
        .doc = "What the operator has seen. Written by the operator alone."},
    {0},
};

const struct crd_field crd_job = {CRD_KIND, .type = CRD_OBJECT, .fields = job_fields,
    .rules = job_rules, .anchor = "paddlejob",
    .doc = "PaddleJob is one distributed training: parameter servers and workers, or workers "
           "alone, as pods that know each other's addresses and their own place among them. The "
           "operator creates the pods, follows them, and ends the job when training has ended."};

const struct crd_scale crd_scale = {
    .spec_replicas = ".spec.worker.replicas",
    .status_replicas = ".status.worker.replicas",
    .selector = ".status.selector",
};

/* NAME STATUS MODE AGE is what users and scripts know: wide ones come after. */
const struct crd_column crd_columns[] = {
    {"Status", "string", ".status.phase", "The job's state.", false},
    {"Mode", "string", ".status.mode", "PS, Collective or Single.", false},
    {"Age", "date", ".metadata.creationTimestamp", "Time since the job was created.", false},
    {"PS", "string", ".status.readyPS", "Parameter servers ready, of those asked for.", true},
    {"Worker", "string", ".status.readyWorker", "Workers ready, of those asked for.", true},
    {"Restarts", "integer", ".status.restarts", "Restarts of the whole group.", true},
    {"Container-Restarts", "integer", ".status.containerRestarts",
        "Restarts of single containers by kubelet.", true},
    {"Reason", "string", ".status.reason", "Why the job does not run, or what troubles it.", true},
    {"Message", "string", ".status.message", "The first cause in one sentence.", true},
    {0},
};
