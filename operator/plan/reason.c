/* Looks for the most useful reason, in this order: problems of the spec, no pods at all, names that
 * are taken, rejected requests, the gang, lost nodes, old pods that do not end, and at last what
 * pods wait for. find_live has the list. */
#include "operator/plan/reason.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/parse.h"
#include "common/utf8.h"
#include "operator/plan/gang.h"
#include "operator/plan/lost_node.h"
#include "operator/plan/old_pods.h"
#include "operator/plan/reason_table.h"
#include "operator/plan/refused.h"
#include "operator/plan/stale.h"
#include "operator/plan/stored.h"

/* Seconds for which it is reported that a container was started again.  kubelet forgets its backoff
 * after as long, and waits for half of it at most, so a crash loop is one report. */
enum { FRESH = 600 };

/* Anybody may have edited the stored status, so a missing text is "". */
static const char *text_of(const json_t *stored, const char *key) {
    const char *text = co_json_str(stored, key);
    return text ? text : "";
}

/* ---- failures ------------------------------------------------------------------------------- */

/* kubelet calls every failure "Error"; a signal's name says more. */
static void say_word(const struct api_cause *cause, char *ret, size_t size) {
    int signal = cause->exit_code - 128;
    const char *name =
        signal > 0 && strcmp(cause->reason, "Error") == 0 ? sigabbrev_np(signal) : NULL;
    if (name) {
        (void)snprintf(ret, size, "SIG%s", name);
    } else {
        (void)snprintf(ret, size, "%s", cause->reason);
    }
}

/* Asks for the probe that may have ended the container, with the command that shows it: events
 * alone say it, and outlive the pod. */
static void say_probe(const struct api_pod *pod, char *ret, size_t size) {
    static const char *const names[] = {[API_PROBE_LIVENESS] = "livenessProbe",
        [API_PROBE_STARTUP] = "startupProbe",
        [API_PROBE_LIVENESS | API_PROBE_STARTUP] = "livenessProbe or startupProbe"};
    (void)snprintf(ret, size, "; has its %s failed? kubectl events -n %s --for pod/%s",
        names[pod->cause->probes], pod->c.ns, pod->c.name);
}

/* Writes "pod x-worker-1, container main: exit code 1 (Error): last line". */
const char *plan_reason_of_pod(const struct api_pod *pod, char *ret_text, size_t size) {
    const struct api_cause *cause = pod->cause;
    /* kubelet uses DeadlineExceeded for a pod's own deadline; as a job's reason it means the job's.
     */
    bool own_reason = *cause->reason && strcmp(cause->reason, "Error") != 0 &&
                      strcmp(cause->reason, "DeadlineExceeded") != 0;
    char word[96];
    char code[48] = "";
    char probe[256] = "";
    say_word(cause, word, sizeof(word));
    if (cause->probes) {
        say_probe(pod, probe, sizeof(probe));
    }
    if (cause->unstarted) {
        (void)snprintf(code, sizeof(code), "its node could not start it");
    } else if (cause->exit_code >= 0) {
        (void)snprintf(code, sizeof(code), "exit code %" PRId32, cause->exit_code);
    }
    /* A long line leaves room for what follows it. */
    int said = co_utf8_fit(cause->message, *probe ? 200 : INT_MAX);
    (void)snprintf(ret_text, size, "pod %s%s%s: %s%s%s%s%s%.*s%s", pod->c.name,
        *cause->container ? ", container " : "", cause->container, code, *code && *word ? " (" : "",
        *code || *word ? word : "failed", *code && *word ? ")" : "", *cause->message ? ": " : "",
        said, cause->message, probe);
    return own_reason ? cause->reason : "PodFailed";
}

void plan_reason_of_disruption(const struct api_pod *pod, int32_t n, char *ret_text, size_t size) {
    char more[32] = "";
    if (n > 1) {
        (void)snprintf(more, sizeof(more), " (and %" PRId32 " more)", n - 1);
    }
    (void)snprintf(ret_text, size, "pod %s%s is taken away by the cluster: %s%s%s", pod->c.name,
        more, pod->cause->reason, *pod->cause->message ? ": " : "", pod->cause->message);
}

/* ---- what keeps objects from being created -------------------------------------------------- */

static const char *failure_reason(const struct plan_failure *f) {
    static const char *const reasons[] = {[PLAN_CREATE] = "FailedCreate",
        [PLAN_DELETE] = "FailedDelete",
        [PLAN_PATCH] = "FailedUpdate"};
    if (f->code == CO_EXISTS) {
        return "NameTaken";
    }
    if (api_says_namespace_ends(f->message)) {
        return "NamespaceTerminating";
    }
    return strstr(f->message, "exceeded quota") ? "QuotaExceeded" : reasons[f->verb];
}

static const char *kind_name(const struct plan_children *w, enum plan_kind kind) {
    return plan_kind_name(kind, w->settings->gang);
}

static void say_failed(
    struct plan_assessment *o, const struct plan_children *w, const struct plan_failure *f) {
    plan_reason_say(o, failure_reason(f), "%s %s: %s", kind_name(w, f->kind), f->name, f->message);
    o->blocked = f->verb != PLAN_PATCH;
}

/* Replaces the API server's "404 page not found" by a hint. */
static void say_group_failed(struct plan_assessment *o, const struct plan_children *w,
    const struct plan_gang *gang, const struct plan_failure *f) {
    say_failed(o, w, f);
    if (f->code == CO_NOTFOUND) {
        plan_reason_say(o, o->reason,
            "%s %s: the API server has no %s.%s: is the scheduler for --scheduling=%s installed?",
            gang->kind, f->name, gang->plural, gang->group, gang->word);
    }
}

static void say_taken(struct plan_assessment *o, const struct plan_children *w, enum plan_kind kind,
    const struct api_child *c) {
    o->blocked = true;
    bool predecessor = strcmp(c->owner_job, w->job->name) == 0;
    if (predecessor && strcmp(c->owner_uid, w->job->uid) != 0) {
        plan_reason_say(o, "WaitingForPredecessor",
            "%s %s of the deleted job of the same name is not gone yet", kind_name(w, kind),
            c->name);
    } else if (predecessor) {
        plan_reason_say(o, "NameTaken", "%s %s has lost the labels that give its role: delete it",
            kind_name(w, kind), c->name);
    } else {
        plan_reason_say(o, "NameTaken",
            "%s %s does not belong to this job: delete it, or use another job name",
            kind_name(w, kind), c->name);
    }
}

static bool find_taken(struct plan_assessment *o, const struct plan_children *w) {
    plan_slots_each(s, w) {
        if (s->pod_taken) {
            say_taken(o, w, PLAN_KIND_POD, s->pod_taken);
            return true;
        }
        if (s->service_taken && plan_children_wants_services(w)) {
            say_taken(o, w, PLAN_KIND_SERVICE, s->service_taken);
            return true;
        }
    }
    if (w->service_taken && w->job->intranet == API_DNS) {
        say_taken(o, w, PLAN_KIND_SERVICE, w->service_taken);
        return true;
    }
    if (w->configmap_taken) {
        say_taken(o, w, PLAN_KIND_CONFIGMAP, w->configmap_taken);
        return true;
    }
    if (w->podgroup_taken && plan_gang_of(w->job, w->settings)) {
        say_taken(o, w, PLAN_KIND_PODGROUP, w->podgroup_taken);
        return true;
    }
    return false;
}

static bool find_failed(
    struct plan_assessment *o, const struct plan_children *w, const json_t *env) {
    const struct plan_failure *f = plan_refused_first(w, env);
    if (f && f->kind == PLAN_KIND_PODGROUP) {
        say_group_failed(o, w, w->settings->gang, f);
    } else if (f) {
        say_failed(o, w, f);
    }
    return f;
}

/* The job has given its pods back, and waits until it tries again. */
static bool find_away(struct plan_assessment *o, const struct plan_children *w) {
    const json_t *c = plan_condition_stored(w->job, "GaveBack");
    if (w->now >= o->hold_until || !plan_condition_true(w->job, "GaveBack")) {
        return false;
    }
    plan_reason_quote(o, "GaveBack", "%s", text_of(c, "message"));
    o->blocked = true;
    return true;
}

/* ---- what pods wait for --------------------------------------------------------------------- */

/* A container runs again after it failed: until when that is reported; 0: that is not so. */
static int64_t fresh_until(const struct api_pod *pod) {
    int64_t failed = pod->again == API_AGAIN_RUNS ? co_time_of(pod->cause->finished) : 0;
    return failed ? failed + FRESH : 0;
}

/* The reason of a waiting pod; kubelet alternates between some reasons, so one is chosen. */
static const char *pod_reason(const struct plan_children *w, const struct api_pod *pod) {
    if (pod->again == API_AGAIN_WAITS) {
        return "CrashLoopBackOff";
    }
    if (pod->again == API_AGAIN_RUNS) {
        return w->now < fresh_until(pod) ? "ContainerRestarted" : "";
    }
    if (strcmp(pod->cause->reason, "ErrImagePull") == 0) {
        return "ImagePullBackOff";
    }
    /* Without the start gate it is normal that kubelet waits until the ConfigMap exists. */
    if (strcmp(pod->cause->reason, "CreateContainerConfigError") == 0 && !w->configmap) {
        return "";
    }
    return pod->cause->reason;
}

/* The stored message, if it is about the same pod, container and reason.  kubelet words the same
 * problem in several ways, and each change would cost a write. */
static const char *stored_message(
    const struct plan_children *w, const char *reason, const char *start) {
    const char *message = co_json_str(w->job->status, "message");
    if (co_streq(co_json_str(w->job->status, "reason"), reason) && message &&
        strncmp(message, start, strlen(start)) == 0) {
        return message;
    }
    return NULL;
}

/* The container cannot start because the job's Secret was deleted. */
static bool has_lost_token(const struct plan_children *w, const struct api_pod *pod) {
    CO_AUTOFREE char *name = api_token_name(w->job);
    return w->job->peer_auth != API_PEER_NONE &&
           strcmp(pod->cause->reason, "CreateContainerConfigError") == 0 &&
           strstr(pod->cause->message, name);
}

static void say_waiting(struct plan_assessment *o, const struct plan_children *w,
    const struct api_pod *pod, const char *reason) {
    const struct api_cause *cause = pod->cause;
    char start[256];
    (void)snprintf(start, sizeof(start), "pod %.80s%s%.80s: ", pod->c.name,
        *cause->container ? ", container " : "", cause->container);
    const char *stored = *cause->container ? stored_message(w, reason, start) : NULL;
    if (pod->again) {
        char text[sizeof(o->message)];
        (void)plan_reason_of_pod(pod, text, sizeof(text) - 32);
        plan_reason_quote(o, reason, "%s; kubelet restarts it", text);
    } else if (stored) {
        plan_reason_quote(o, reason, "%s", stored);
    } else if (*cause->finished) {
        char text[sizeof(o->message)];
        (void)plan_reason_of_pod(pod, text, sizeof(text));
        plan_reason_quote(o, strcmp(reason, "Error") == 0 ? "ContainerFailed" : reason, "%s", text);
    } else if (has_lost_token(w, pod)) {
        plan_reason_quote(o, reason,
            "%s%s: it was deleted; suspend the job and resume it, so that all pods get a new "
            "one",
            start, cause->message);
    } else {
        plan_reason_quote(o, reason, "%s%s", start, *cause->message ? cause->message : reason);
    }
}

static bool find_gang(struct plan_assessment *o, const struct plan_children *w) {
    char text[sizeof(o->message)];
    if (!plan_gang_waits(w, text, sizeof(text))) {
        return false;
    }
    bool refused = w->podgroup && *w->podgroup->message;
    plan_reason_say(o, refused ? "GangUnschedulable" : "WaitingForGang", "%s", text);
    o->blocked = true;
    return true;
}

/* The first pod that waits; preferably not one that only waits for others of its gang, or that
 * runs again. */
static const struct api_pod *first_waiting(const struct plan_children *w) {
    const struct api_pod *first = NULL;
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        if (!pod || pod->c.deleting ||
            (pod->phase != API_POD_PENDING && pod->phase != API_POD_RUNNING) ||
            !*pod_reason(w, pod)) {
            continue;
        }
        if (!plan_gang_blames_mates(w, pod) && pod->again != API_AGAIN_RUNS) {
            return pod;
        }
        first = first ? first : pod;
    }
    return first;
}

static bool find_waiting(struct plan_assessment *o, const struct plan_children *w) {
    const struct api_pod *pod = first_waiting(w);
    char text[sizeof(o->message)];
    if (!pod) {
        return false;
    }
    if (plan_gang_waits_in_queue(w, pod, text, sizeof(text))) {
        plan_reason_say(o, "WaitingInQueue", "%s", text);
    } else {
        say_waiting(o, w, pod, pod_reason(w, pod));
        plan_wake_by(&o->wake_at, fresh_until(pod));
    }
    return true;
}

/* Pods that the cluster has asked to end, and that have not ended yet: they may train on for as
 * long as their grace period. */
static bool find_disrupted(struct plan_assessment *o, const struct plan_children *w) {
    const struct api_pod *first = NULL;
    char text[sizeof(o->message)];
    int32_t n = 0;
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        if (pod && pod->blame == API_BLAME_NODE && plan_pod_holds_node(pod)) {
            first = first ? first : pod;
            n++;
        }
    }
    if (!first) {
        return false;
    }
    plan_reason_of_disruption(first, n, text, sizeof(text));
    plan_reason_say(o, "PodDisrupted", "%s", text);
    return true;
}

/* Checked before what pods wait for, which is meaningless on a dead node. */
static bool find_lost(struct plan_assessment *o, const struct plan_children *w) {
    char text[256];
    const struct api_pod *pod = plan_node_find_lost(w, text, sizeof(text));
    if (!pod) {
        return false;
    }
    bool waits = pod->c.deleting && w->job->node_lost_after < 0;
    plan_reason_say(o, "NodeLost", "%s%s%.80s%s", text,
        waits ? ": the pod ends when the node is back or is deleted (kubectl delete node " : "",
        waits ? pod->cause->message : "", waits ? "); nodeLostAfter ends it sooner" : "");
    return true;
}

/* A deleted ConfigMap still exists, so a new one cannot be created. */
static bool find_kept(struct plan_assessment *o, const struct plan_children *w) {
    const struct api_configmap *kept = w->old_configmap ? w->old_configmap : w->configmap;
    if (!kept || !kept->c.deleting || !kept->c.at) {
        return false;
    }
    if (w->now < kept->c.at + PLAN_LATE) {
        plan_wake_by(&o->wake_at, kept->c.at + PLAN_LATE);
        return false;
    }
    plan_reason_say(o, "WaitingForConfigMap",
        "ConfigMap %s was deleted over %d s ago and is still there: does a finalizer keep it?",
        kept->c.name, PLAN_LATE);
    return true;
}

static const char *scheduler_of(const struct plan_children *w, enum api_role role) {
    const struct plan_gang *gang = plan_gang_of(w->job, w->settings);
    const char *name = gang && gang->scheduler
                           ? gang->scheduler
                           : co_json_str(w->job->role[role].tmpl, "spec", "schedulerName");
    return name && *name ? name : "default-scheduler";
}

/* The training has exited with 0, but the pod still runs. */
static bool outlives_training(const struct api_pod *pod) {
    return pod->phase == API_POD_RUNNING && pod->cause->exit_code == 0 && *pod->cause->finished;
}

static void say_late(
    struct plan_assessment *o, const struct plan_children *w, const struct api_pod *pod) {
    const char *scheduler = scheduler_of(w, (enum api_role)pod->role);
    if (pod->c.deleting) {
        plan_old_say(o, w, pod);
    } else if (outlives_training(pod)) {
        plan_reason_say(o, "WaitingForSidecars",
            "container %s of pod %s has ended well over %d s ago, the others run on: those that "
            "are to end with it belong to initContainers, with restartPolicy Always",
            pod->cause->container, pod->c.name, PLAN_LATE);
    } else if (pod->phase == API_POD_RUNNING) {
        plan_reason_say(o, "NotReady",
            "pod %s runs but is not ready over %d s after it was created: does a readiness or "
            "startup probe of it fail?",
            pod->c.name, PLAN_LATE);
    } else if (*pod->ip[0]) {
        plan_reason_say(o, "NotStarted",
            "pod %s has an address, but its containers have not started over %d s after it was "
            "created: an image is being pulled, a volume is not there, or an init container still "
            "runs; kubectl describe pod %s -n %s says which",
            pod->c.name, PLAN_LATE, pod->c.name, w->job->ns);
    } else if (pod->scheduled) {
        plan_reason_say(o, "NoAddress",
            "pod %s has a node but no address over %d s after it was created: its image is being "
            "pulled, a volume is not there, or its node is not well; kubectl describe pod %s -n %s "
            "says which",
            pod->c.name, PLAN_LATE, pod->c.name, w->job->ns);
    } else {
        plan_reason_say(o, "NoAddress",
            "pod %s has no node over %d s after it was created, for no stated reason: does "
            "scheduler \"%.*s\" run?",
            pod->c.name, PLAN_LATE, co_utf8_fit(scheduler, 80), scheduler);
    }
}

/* Since when a pod has been waiting without a reason in its status; 0: it does not.  A scheduler
 * that does not run sets none; problems of volumes, images and probes appear in events only; and a
 * lost node does not end its pods. */
static int64_t silent_since(const struct plan_children *w, const struct plan_slot *s) {
    const struct api_pod *pod = s->pod ? s->pod : s->old;
    if (pod && pod->c.deleting) {
        return plan_slot_succeeded(s) ? 0 : pod->c.at;
    }
    if (!s->pod || *pod->cause->reason) {
        return 0;
    }
    if (pod->phase == API_POD_PENDING && !*pod->ip[0]) {
        return pod->c.at;
    }
    if (outlives_training(pod)) {
        return co_time_of(pod->cause->finished);
    }
    bool starts =
        pod->phase == API_POD_PENDING ? !pod->coord : pod->phase == API_POD_RUNNING && !pod->ready;
    if (!starts || !pod->c.at || !w->configmap) {
        return 0;
    }
    /* Until the ConfigMap existed it had to wait for others. */
    return w->configmap->c.at > pod->c.at ? w->configmap->c.at : pod->c.at;
}

static bool find_late(struct plan_assessment *o, const struct plan_children *w) {
    plan_slots_each(s, w) {
        int64_t since = silent_since(w, s);
        if (since && w->now >= since + PLAN_LATE) {
            say_late(o, w, s->pod ? s->pod : s->old);
            return true;
        }
        plan_wake_by(&o->wake_at, since ? since + PLAN_LATE : 0);
    }
    return false;
}

static bool waits_at_gate(const struct plan_children *w) {
    plan_slots_each(s, w) {
        const struct api_pod *pod = s->pod;
        if (pod && pod->coord && !pod->c.deleting) {
            return true;
        }
    }
    return false;
}

/* The job has too few roles or replicas to run, or to end. */
static bool find_lack(
    struct plan_assessment *o, const struct plan_children *w, enum api_lack lack) {
    char text[API_LACK_MAX];
    if (api_job_lack(w->job, text, sizeof(text)) != lack) {
        return false;
    }
    o->blocked = lack == API_LACK_PODS;
    plan_reason_say(o, o->blocked ? "NoPods" : "NoTrainers", "%s", text);
    return true;
}

/* How the job has ended, and what of it is still there.  A job that has succeeded has no reason of
 * its own. */
static void find_ended(struct plan_assessment *o, const struct plan_children *w) {
    /* The condition has only the cause; the status also names the pods that are left. */
    const json_t *failed = plan_condition_stored(w->job, "Failed");
    if (w->job->phase == API_PHASE_FAILED && co_json_str(failed, "message")) {
        plan_reason_quote(o, text_of(w->job->status, "reason"), "%s", text_of(failed, "message"));
    } else if (w->job->phase == API_PHASE_FAILED) { /* by upstream's operator */
        plan_reason_quote(
            o, text_of(w->job->status, "reason"), "%s", text_of(w->job->status, "message"));
        return;
    }
    plan_old_add(o, w);
}

/* ---- */

static void find_live(struct plan_assessment *o, const struct plan_children *w, const json_t *env) {
    const struct api_job *job = w->job;
    char stale[PLAN_STALE_MAX];
    if (o->phase == API_PHASE_SUSPENDED) {
        plan_old_add(o, w);
    }
    if (*o->reason || api_phase_terminal(o->phase)) {
        return;
    }
    if (job->n_problems) {
        plan_reason_say(
            o, api_problem_code_name(job->problems[0].code), "%s", job->problems[0].message);
        o->blocked = true;
    } else if (o->completing) {
        const struct plan_success_text *text = plan_children_success_text(w);
        plan_reason_say(o, text->reason, "%s, %s may still end", text->what, text->others);
    } else if (find_lack(o, w, API_LACK_PODS) || find_away(o, w) || find_taken(o, w) ||
               find_failed(o, w, env) || find_gang(o, w) || find_lost(o, w) ||
               find_disrupted(o, w) || plan_old_find(o, w) || plan_old_find_undeleted(o, w) ||
               find_kept(o, w) || find_waiting(o, w) || find_late(o, w)) {
        return;
    } else if (o->restarting) {
        const json_t *c = plan_condition_stored(job, "Restarting");
        plan_reason_quote(o, text_of(c, "reason"), "%s", text_of(c, "message"));
    } else if (!env && waits_at_gate(w)) {
        plan_reason_say(
            o, "WaitingForAddresses", "pods wait until all pods of the job have an address");
    } else if (o->attempt == job->attempt && plan_stale_say(w, stale, sizeof(stale))) {
        plan_reason_say(o, "StaleAddress", "%s", stale);
    } else {
        (void)find_lack(o, w, API_LACK_TRAINERS);
    }
}

void plan_reason_find(struct plan_assessment *o, const struct plan_children *w, const json_t *env) {
    if (w->job->deleting) {
        return;
    }
    if (api_phase_terminal(w->job->phase)) {
        find_ended(o, w);
        return;
    }
    find_live(o, w, env);
}
