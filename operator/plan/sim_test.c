/* Properties of the planner over random worlds: its output does not depend on the order of its
 * input, repeated plans come to rest, a performed part of a plan does no harm, and all of it
 * converges to the world that the job asks for. */
#include <time.h>

#include "common/parse.h"
#include "operator/api/range.h"
#include "operator/plan/plan_testing.h"

/* WORLDS_SANITIZED: each takes ten times as long there. SIM_ALL, in make nightly: all of them, and
 * as many that a random seed chooses. */
enum { WORLDS = 600, WORLDS_SANITIZED = 150, CHAOS_ROUNDS = 20, CALM_ROUNDS = 120, TTL = 50 };

static const char *const phases[] = {"", "Pending", "Starting", "Running"};
static const char *const policies[] = {
    "", "Always", "Never", "OnFailure", "OnCompletion", "Running", "Odd"};
static const char *const intranets[] = {"PodIP", "Service", "Host"};

/* What makes a run policy; most jobs have little of it. */
static const struct {
    int odds; /* one in so many */
    const char *text;
} policy_fields[] = {
    {4, ",'backoffLimit':2"},
    {8, ",'failurePolicy':[{'action':'Ignore','exitCodes':'1'}]"},
    {8, ",'activeDeadlineSeconds':300"},
    {8, ",'ttlSecondsAfterFinished':50"},
    {10, ",'suspend':true"},
    {6, ",'successPolicy':'AllPods'"},
    {10, ",'successPolicy':'Worker0'"},
    {6, ",'elastic':1"},
    {6, ",'nodeLostAfter':20"},
};

/* Its node does not answer. */
#define LOST_NODE                                                                                  \
    "{'phase':'Running','podIP':'10.0.0.5','conditions':[{'type':'Ready','status':'False',"        \
    "'reason':'NodeLost','lastTransitionTime':'1970-01-12T13:46:30Z'}]}"

static uint64_t world; /* its seed */

static json_t *noted; /* pods that the stored status could know of, by name, with their attempt */

/* ---- random jobs ---------------------------------------------------------------------------- */

static char *random_job(struct tk_cluster *c, bool token) {
    struct co_buf b = CO_BUF(1 << 14);
    int r = co_buf_addf(&b, NULL, "'cleanPodPolicy':'%s','intranet':'%s','withGloo':%d",
        policies[tk_below(c, CO_ARRAY_LEN(policies))],
        intranets[tk_below(c, CO_ARRAY_LEN(intranets))], tk_below(c, 2));
    static const char *const roles[] = {"ps", "worker", "heter"};
    static const int odds[] = {2, 1, 5};
    for (size_t i = 0; i < 3 && !r; i++) {
        if (tk_below(c, odds[i]) == 0) {
            r = co_buf_addf(
                &b, NULL, ",'%s':{'replicas':%d," TK_TEMPLATE "}", roles[i], tk_below(c, 4));
        }
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(policy_fields) && !r; i++) {
        if (tk_below(c, policy_fields[i].odds) == 0) {
            r = co_buf_adds(&b, policy_fields[i].text, NULL);
        }
    }
    if (!r && token) {
        r = co_buf_addf(&b, NULL, ",'peerAuth':'%s'", tk_below(c, 2) == 0 ? "Token" : "Encrypted");
    }
    assert_int_equal(r, 0);
    CO_AUTOFREE char *spec = co_buf_take(&b);
    return co_xasprintf(TK_JOB("%s"), spec);
}

/* ---- random starting worlds ----------------------------------------------------------------- */

static void set_pod_random(struct tk_cluster *c, json_t *pod) {
    static const char *const states[] = {
        "{'phase':'Pending'}",
        "{'phase':'Pending','podIP':'10.0.0.1'}",
        TK_RUNNING("10.0.0.2"),
        TK_SUCCEEDED("10.0.0.3"),
        "{'phase':'Unknown','podIP':'10.0.0.4'}",
        LOST_NODE,
    };
    co_json_set(pod, "status", tk_json(states[tk_below(c, CO_ARRAY_LEN(states))]));
}

/* A pod that an earlier pass, or an earlier job of the name, left behind. */
static void leave_pod(struct tk_cluster *c, enum api_role role, int32_t index, bool foreign) {
    json_t *pod =
        plan_object_pod(c->seen_job, c->seen_job->role[role].tmpl, role, index, &c->settings);
    json_t *meta = json_object_get(pod, "metadata");
    const char *name = co_json_str(meta, "name");
    tk_stamp(c, pod, true);
    set_pod_random(c, pod);
    if (foreign) {
        co_json_set(json_array_get(json_object_get(meta, "ownerReferences"), 0), "uid",
            json_string("uid-old"));
    }
    if (foreign ? tk_below(c, 2) == 0 : tk_below(c, 8) == 0) {
        co_json_set(meta, "deletionTimestamp", json_string("2026-01-01T00:00:00Z"));
    }
    co_json_set(c->objects[TK_PODS], name, pod);
}

static void leave_configmap(struct tk_cluster *c, bool foreign) {
    json_t *cm = tk_json("{'metadata':{'name':'x','namespace':'ns','ownerReferences':[{"
                         "'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob','name':'x',"
                         "'uid':'uid-x','controller':true}]},"
                         "'data':{'PADDLE_PORT':'36040','PADDLE_TRAINERS':'old','MINE':'1'}}");
    tk_stamp(c, cm, true);
    if (foreign) {
        co_json_set(json_array_get(co_json_at(cm, "metadata", "ownerReferences"), 0), "uid",
            json_string("uid-old"));
    }
    co_json_set(c->objects[TK_CONFIGMAPS], "x", cm);
}

static void random_world(struct tk_cluster *c) {
    c->settings.gate_image = tk_below(c, 2) ? "gate" : "";
    c->settings.gate_addr = "gate:1";
    c->settings.services_all = tk_below(c, 8) == 0;
    c->settings.server_grace = tk_below(c, 3) ? 30 : 0;
    c->settings.restart_backoff = tk_below(c, 3) ? 10 : 0;
    c->settings.give_back_after = world % 3 == 0 ? 5 : 0;
    co_json_set(json_object_get(c->job, "metadata"), "creationTimestamp",
        json_string("1970-01-12T13:46:40Z")); /* when the clock begins */
    if (tk_below(c, 2)) {
        CO_AUTOFREE char *status =
            co_xasprintf("{'phase':'%s'}", phases[tk_below(c, CO_ARRAY_LEN(phases))]);
        co_json_set(c->job, "status", tk_json(status));
    }
    if (tk_below(c, 4) == 0) {
        co_json_set(json_object_get(c->job, "metadata"), "finalizers",
            tk_json("['finalizers.paddlepaddle.org']"));
    }
    tk_look(c);
    /* Without a template there is nothing to leave behind. */
    for (enum api_role r = API_PS; r < API_ROLES && c->seen_job->n_problems == 0; r++) {
        for (int32_t i = 0; i < 4 && c->seen_job->role[r].present; i++) {
            int dice = tk_below(c, 6);
            if (dice < 3) {
                leave_pod(c, r, i, dice == 2);
            }
        }
    }
    if (tk_below(c, 3) == 0) {
        leave_configmap(c, tk_below(c, 3) == 0);
    }
}

/* ---- what happens by itself ----------------------------------------------------------------- */

static bool is_ours(const json_t *obj) {
    const json_t *owner = json_array_get(co_json_at(obj, "metadata", "ownerReferences"), 0);
    return co_streq(co_json_str(owner, "uid"), "uid-x") != 0;
}

static const char *attempt_of(const json_t *obj) {
    const char *text = co_json_str(obj, "metadata", "labels", API_LABEL_ATTEMPT);
    return text ? text : "0";
}

/* Kubelet holds a container whose ConfigMap is missing; one that is there is of its attempt. */
static bool has_its_env(struct tk_cluster *c, const json_t *pod) {
    const json_t *first = json_array_get(co_json_at(pod, "spec", "containers"), 0);
    const json_t *cm = json_object_get(c->objects[TK_CONFIGMAPS], "x");
    if (!json_object_get(first, "envFrom")) {
        return true;
    }
    if (cm && is_ours(cm) && strcmp(attempt_of(cm), attempt_of(pod)) != 0) {
        fail_msg(
            "a pod of attempt %s starts with the addresses of %s", attempt_of(pod), attempt_of(cm));
    }
    return cm != NULL;
}

/* As the start gate asks (control/gate_state.c): of this job, and not being deleted. */
static bool is_live(const struct tk_cluster *c, const char *uid) {
    for (size_t i = 0; i < c->seen.n_pods; i++) {
        const struct api_child *pod = &c->seen.pods[i]->c;
        if (strcmp(pod->uid, uid) == 0) {
            return !pod->deleting && strcmp(pod->owner_uid, c->seen_job->uid) == 0;
        }
    }
    return false;
}

static bool start_pod(struct tk_cluster *c, json_t *pod, int number) {
    CO_AUTOFREE char *status = co_xasprintf(TK_RUNNING("10.0.1.%d"), number);
    bool gated = co_json_at(pod, "spec", "initContainers") != NULL;
    if (gated) {
        tk_look(c);
        const char *uid = co_json_str(pod, "metadata", "uid");
        if (!is_live(c, uid) || !plan_gate_open(c->seen_job, &c->seen, &c->settings, NULL)) {
            return false;
        }
    }
    if (!has_its_env(c, pod)) {
        return false;
    }
    co_json_set(pod, "status", tk_json(status));
    return true;
}

/* One step of one pod; true when something changed. */
static bool step_pod(struct tk_cluster *c, const char *name, json_t *pod, bool may_fail) {
    const char *phase = co_json_str(pod, "status", "phase");
    int number = 1;
    for (const char *p = name; *p; p++) {
        number = (number * 7 + *p) % 250 + 1;
    }
    if (co_json_at(pod, "metadata", "deletionTimestamp")) {
        json_object_del(c->objects[TK_PODS], name);
        return true;
    }
    if (!is_ours(pod)) { /* the garbage collector */
        co_json_set(json_object_get(pod, "metadata"), "deletionTimestamp", json_string("t"));
        return true;
    }
    if (co_streq(phase, "Pending") && !co_json_at(pod, "status", "podIP")) {
        CO_AUTOFREE char *status =
            co_xasprintf("{'phase':'Pending','podIP':'10.0.1.%d','initContainerStatuses':[{'name':'"
                         "coord-paddle','state':{'running':{}}}]}",
                number);
        co_json_set(pod, "status", tk_json(status));
        return true;
    }
    bool lost = co_json_at(pod, "status", "conditions");
    if (co_streq(phase, "Pending") || co_streq(phase, "Unknown") || lost) {
        return start_pod(c, pod, number);
    }
    if (co_streq(phase, "Running")) {
        (void)has_its_env(c, pod); /* kubelet may start a container again at any time */
    }
    bool server = strstr(name, "-ps-") != NULL;
    if (co_streq(phase, "Running") && may_fail && tk_below(c, 12) == 0) {
        co_json_set(pod, "status", tk_json(TK_FAILED("10.0.1.1", "1", "t", "boom")));
        return true;
    }
    if (co_streq(phase, "Running") && may_fail && tk_below(c, 20) == 0) {
        co_json_set(pod, "status", tk_json(LOST_NODE));
        return true;
    }
    /* Training ends only when all of it has run together. */
    if (co_streq(phase, "Running") && !server &&
        co_streq(co_json_str(c->job, "status", "phase"), "Running") && tk_below(c, 3) == 0) {
        co_json_set(pod, "status", tk_json(TK_SUCCEEDED("10.0.1.1")));
        return true;
    }
    return false;
}

static void step_all(struct tk_cluster *c, bool calm) {
    CO_AUTOJSON json_t *copy = json_copy(c->objects[TK_PODS]);
    const char *name;
    json_t *pod;
    char now[32];
    co_time_format(c->now, now);
    json_object_foreach(copy, name, pod) {
        if (c->settings.give_back_after && !co_json_at(pod, "metadata", "creationTimestamp")) {
            co_json_set(json_object_get(pod, "metadata"), "creationTimestamp", json_string(now));
        }
        if (calm || tk_below(c, 2)) {
            if (step_pod(c, name, pod, !calm) && json_object_get(c->objects[TK_PODS], name)) {
                tk_stamp(c, pod, false);
            }
        }
    }
    if (co_json_at(c->job, "metadata", "deletionTimestamp")) { /* the garbage collector */
        for (size_t i = 0; i < TK_KINDS; i++) {
            json_object_clear(c->objects[i]);
        }
    }
    json_t *cm = json_object_get(c->objects[TK_CONFIGMAPS], "x");
    if (cm && !is_ours(cm)) {
        json_object_del(c->objects[TK_CONFIGMAPS], "x");
    }
}

static void delete_some_pod(struct tk_cluster *c) {
    const char *name;
    json_t *pod;
    json_object_foreach(c->objects[TK_PODS], name, pod) {
        if (tk_below(c, 5) == 0) {
            co_json_set(json_object_get(pod, "metadata"), "deletionTimestamp", json_string("t"));
            return;
        }
    }
}

static void edit(struct tk_cluster *c, json_t *in, const char *key, json_t *value_own) {
    co_json_set(in, key, value_own);
    int64_t generation = json_integer_value(co_json_at(c->job, "metadata", "generation"));
    co_json_set(json_object_get(c->job, "metadata"), "generation", json_integer(generation + 1));
}

static void scale(struct tk_cluster *c) {
    json_t *worker = co_json_at(c->job, "spec", "worker");
    if (worker) {
        edit(c, worker, "replicas", json_integer(tk_below(c, 4)));
    }
}

static void toggle_suspend(struct tk_cluster *c) {
    json_t *spec = json_object_get(c->job, "spec");
    bool was = json_is_true(json_object_get(spec, "suspend"));
    edit(c, spec, "suspend", json_boolean(!was));
}

static bool is_relabelled(const json_t *pod, const char *name) {
    const json_t *labels = co_json_at(pod, "metadata", "labels");
    enum api_role role = api_role_parse(co_json_str(labels, API_LABEL_ROLE));
    return api_pod_name_index("x", role, name) !=
           api_label_number(co_json_str(labels, API_LABEL_INDEX));
}

/* Somebody edits labels, a template, or deletes the ConfigMap. */
static void meddle(struct tk_cluster *c) {
    const char *name;
    json_t *pod;
    json_object_foreach(c->objects[TK_PODS], name, pod) {
        if (is_ours(pod) && tk_below(c, 20) == 0) {
            json_t *labels = co_json_at(pod, "metadata", "labels");
            bool index = tk_below(c, 2) == 0;
            co_json_set(labels, index ? API_LABEL_INDEX : API_LABEL_ROLE,
                json_string(index ? "3" : "heter"));
        }
    }
    json_t *list = co_json_at(c->job, "spec", "worker", "template", "spec", "containers");
    if (list && tk_below(c, 8) == 0) {
        edit(c, json_array_get(list, 0), "image", json_string(tk_below(c, 2) ? "img" : "other"));
    }
    if (tk_below(c, 15) == 0) {
        json_object_clear(c->objects[TK_CONFIGMAPS]);
    }
}

/* As the status asks for. */
static void delete_relabelled(struct tk_cluster *c) {
    CO_AUTOJSON json_t *all = json_copy(c->objects[TK_PODS]);
    const char *name;
    json_t *pod;
    json_object_foreach(all, name, pod) {
        if (is_relabelled(pod, name)) {
            json_object_del(c->objects[TK_PODS], name);
        }
    }
}

/* ---- checks --------------------------------------------------------------------------------- */

static char *plan_text(const struct plan *p) {
    struct co_buf b = CO_BUF(1 << 22);
    CO_AUTOFREE char *status = co_json_dump(p->status);
    int r = co_buf_addf(&b, NULL, "%s %d %lld\n", status, p->status_differs, (long long)p->wake_at);
    for (size_t i = 0; i < p->n_actions && !r; i++) {
        const struct plan_action *a = &p->actions[i];
        CO_AUTOFREE char *body = a->body ? co_json_dump(a->body) : co_xstrdup("");
        r = co_buf_addf(&b, NULL, "%d %d %s %s %s\n", a->verb, a->kind, a->name, a->uid, body);
    }
    for (size_t i = 0; i < p->n_events && !r; i++) {
        r = co_buf_addf(&b, NULL, "%s %s\n", p->events[i].reason, p->events[i].message);
    }
    assert_int_equal(r, 0);
    return co_buf_take(&b);
}

/* All trainers of a job with servers have succeeded. */
static bool training_is_done(const struct tk_cluster *c) {
    const struct api_job *job = c->seen_job;
    int32_t wanted = job->role[API_WORKER].replicas + job->role[API_HETER].replicas;
    for (size_t i = 0; i < c->seen.n_pods; i++) {
        const struct api_pod *p = c->pods[i];
        bool counts = p->role != API_PS && p->phase == API_POD_SUCCEEDED && !p->c.deleting &&
                      strcmp(p->c.owner_uid, job->uid) == 0 && p->attempt == job->attempt &&
                      p->index < job->role[p->role].replicas;
        wanted -= counts;
    }
    return job->mode == API_MODE_PS && job->success == API_SUCCESS_WORKERS && wanted == 0;
}

/* Beyond replicas, or of another attempt than the one that is stored. */
static bool may_go(const struct tk_cluster *c, const char *name) {
    for (size_t i = 0; i < c->seen.n_pods; i++) {
        const struct api_pod *p = c->pods[i];
        if (strcmp(p->c.name, name) == 0) {
            return p->index >= c->seen_job->role[p->role].replicas ||
                   p->attempt != c->seen_job->attempt;
        }
    }
    return false;
}

static void check_job_deletion(const struct tk_cluster *c) {
    int64_t ended = 0;
    const char *text = co_json_str(c->seen_job->status, "completionTime");
    if (!api_phase_terminal(c->seen_job->phase) || !text ||
        co_parse_time("completionTime", text, &ended, NULL) || c->now < ended + TTL) {
        fail_msg("the job is deleted before its time");
    }
}

/* As is stored. */
static bool has_succeeded(const struct tk_cluster *c, const char *name) {
    bool found = false;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const char *text = co_json_str(c->seen_job->status, api_role_name(r), "completedIndexes");
        int32_t index = api_pod_name_index("x", r, name);
        int32_t first, last;
        while (text && *text && api_range_take(&text, 5, &first, &last)) {
            found |= first <= index && index <= last;
        }
    }
    return found;
}

/* The status that was just written is about the pods of the last plan. */
static void note_pods(const struct tk_cluster *c) {
    json_t *now = json_object();
    for (size_t i = 0; i < c->seen.n_pods; i++) {
        const struct api_pod *p = c->pods[i];
        bool wanted = p->index < c->seen_job->role[p->role].replicas;
        bool came = !p->c.deleting || json_object_get(noted, p->c.name);
        if (strcmp(p->c.owner_uid, c->seen_job->uid) == 0 && wanted && came) {
            co_json_set(now, p->c.name, json_integer(p->attempt));
        }
    }
    json_decref(noted);
    noted = now;
}

/* Others run that know the addresses of the attempt's first pods: a lost one cannot join them. */
static void check_group_is_whole(struct tk_cluster *c, const struct plan_action *a) {
    CO_CLEANUP(plan_children_done) struct plan_children w;
    const json_t *attempt = json_object_get(noted, a->name);
    plan_children_init(&w, c->seen_job, &c->seen, c->now, &c->settings);
    if (plan_job_restarts_whole(c->seen_job) && plan_children_has_started(&w) && attempt &&
        json_integer_value(attempt) == w.attempt) {
        fail_msg("%s is created again, beside others of its attempt that have started", a->name);
    }
}

static void check_actions(struct tk_cluster *c, const struct plan *plan) {
    bool stored_end = api_phase_terminal(c->seen_job->phase);
    bool trainers = c->seen_job->role[API_WORKER].replicas + c->seen_job->role[API_HETER].replicas;
    bool ended = api_phase_terminal(plan->phase) || c->seen_job->deleting ||
                 (trainers && training_is_done(c));
    CO_AUTOFREE char *attempt = co_xasprintf("%d", (int)c->seen_job->attempt);
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct plan_action *a = &plan->actions[i];
        if (a->verb == PLAN_CREATE && ended) {
            fail_msg("%s is created for a job that has ended", a->name);
        }
        if (a->verb == PLAN_CREATE && c->seen_job->suspend) {
            fail_msg("%s is created for a job that is suspended", a->name);
        }
        if (a->verb == PLAN_CREATE && a->kind == PLAN_KIND_POD && has_succeeded(c, a->name)) {
            fail_msg("%s is created, but has succeeded", a->name);
        }
        if (a->verb == PLAN_CREATE && a->kind == PLAN_KIND_POD &&
            strcmp(attempt_of(a->body), attempt) != 0) {
            fail_msg("%s is created for an attempt that is not stored", a->name);
        }
        if (a->verb == PLAN_CREATE && a->kind == PLAN_KIND_POD &&
            c->seen_job->peer_auth != API_PEER_NONE && !json_object_size(c->objects[TK_SECRETS])) {
            fail_msg("%s is created before its Secret", a->name);
        }
        if (a->verb == PLAN_CREATE && a->kind == PLAN_KIND_POD) {
            check_group_is_whole(c, a);
        }
        if (a->verb == PLAN_DELETE && a->kind == PLAN_KIND_JOB) {
            check_job_deletion(c);
        }
        /* Were the status write lost, the pod would be recreated and train again.  One of a dead
         * node is to be. */
        if (a->verb == PLAN_DELETE && a->kind == PLAN_KIND_POD && !a->at_once && !stored_end &&
            !may_go(c, a->name)) {
            fail_msg("%s is deleted before what is to come is stored", a->name);
        }
        json_t *have = a->kind == PLAN_KIND_JOB
                           ? NULL
                           : json_object_get(c->objects[a->kind - PLAN_KIND_POD], a->name);
        /* In a world seen as it is, no create meets something, no delete misses it; Secrets are not
         * seen. */
        if (a->kind != PLAN_KIND_JOB && a->kind != PLAN_KIND_SECRET &&
            (a->verb == PLAN_CREATE) == (have != NULL)) {
            fail_msg("action on %s does not fit what is there", a->name);
        }
        if (have && !is_ours(have)) {
            fail_msg("%s of somebody else is touched", a->name);
        }
    }
}

/* Plans twice from differently shuffled views. */
static void plan_checked(struct tk_cluster *c, struct plan *ret) {
    PLAN_AUTOPLAN struct plan other = {0};
    tk_plan(c, &other);
    tk_plan(c, ret);
    CO_AUTOFREE char *a = plan_text(&other);
    CO_AUTOFREE char *b = plan_text(ret);
    assert_string_equal(a, b);
    check_actions(c, ret);
}

/* The server says no: remembered, as control does, until it is made or overtaken. */
static void note_failure(struct tk_cluster *c, const struct plan_action *a) {
    static const char *const messages[] = {"exceeded quota: q", "denied by a webhook"};
    if (c->n_failures == CO_ARRAY_LEN(c->failures)) {
        return;
    }
    c->failures[c->n_failures] = (struct plan_failure){.kind = a->kind,
        .name = c->failure_names[c->n_failures],
        .code = CO_PERMISSION,
        .message = messages[tk_below(c, 2)],
        .count = 1,
        .retry_at = c->now + 1 + tk_below(c, 30)};
    (void)snprintf(c->failure_names[c->n_failures], sizeof(c->failure_names[0]), "%s", a->name);
    c->n_failures++;
}

/* Control forgets what is long past. */
static void forget_failures(struct tk_cluster *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->n_failures; i++) {
        if (c->failures[i].retry_at + 20 > c->now) {
            c->failures[kept] = c->failures[i];
            memmove(c->failure_names[kept], c->failure_names[i], sizeof(c->failure_names[0]));
            c->failures[kept].name = c->failure_names[kept];
            kept++;
        }
    }
    c->n_failures = kept;
}

static void chaos_round(struct tk_cluster *c) {
    PLAN_AUTOPLAN struct plan plan = {0};
    plan_checked(c, &plan);
    bool dies = tk_below(c, 3) == 0; /* in the middle, before the status write */
    size_t n = dies && plan.n_actions ? (size_t)tk_below(c, (int)plan.n_actions) : plan.n_actions;
    bool token = c->token;
    int odds = world % 5 ? 12 : 2; /* of a create in a full namespace */
    for (size_t i = 0; i < n; i++) {
        if (tk_below(c, odds) == 0) {
            note_failure(c, &plan.actions[i]);
        } else {
            int r = tk_apply(c, &plan.actions[i]);
            bool made = tk_made_token(&plan.actions[i], r);
            assert_true(r == 0 || made);
            token = token || made;
        }
    }
    c->token = token && plan.lacks_pods && !dies; /* who dies forgets it */
    if (!dies) {
        tk_write_status(c, &plan);
        note_pods(c);
    }
    if (json_object_size(c->objects[TK_SECRETS]) && !c->token && tk_below(c, 5) == 0) {
        json_object_clear(c->objects[TK_SECRETS]); /* by somebody */
    }
    step_all(c, false);
    if (tk_below(c, 8) == 0) {
        delete_some_pod(c);
    }
    if (tk_below(c, 10) == 0) {
        scale(c);
    }
    if (tk_below(c, 12) == 0) {
        toggle_suspend(c);
    }
    if (world % 7 == 3) {
        meddle(c);
    }
    c->now += tk_below(c, 20);
    forget_failures(c);
}

/* Plans without anything happening in between: must come to rest at once. */
static void check_rest(struct tk_cluster *c) {
    for (int i = 0; i < 6; i++) {
        if (!tk_pass(c)) {
            return;
        }
    }
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    CO_AUTOFREE char *text = plan_text(&plan);
    if (plan.n_actions || plan.status_differs) {
        CO_AUTOFREE char *was = co_json_dump(json_object_get(c->job, "status"));
        fail_msg("does not come to rest: %s\nstored: %s", text, was);
    }
}

static bool settled(struct tk_cluster *c) {
    struct plan plan = {0};
    tk_plan(c, &plan);
    bool idle = !plan.n_actions && !plan.status_differs && plan.wake_at == 0;
    enum api_phase phase = plan.phase;
    plan_done(&plan);
    if (!idle || json_object_size(c->objects[TK_PODS]) != c->seen.n_pods) {
        return false;
    }
    for (size_t i = 0; i < c->seen.n_pods; i++) {
        const struct api_pod *p = c->pods[i];
        bool server_runs = p->role == API_PS && p->phase == API_POD_RUNNING;
        bool done = p->phase == API_POD_SUCCEEDED || p->phase == API_POD_FAILED || server_runs;
        if (p->c.deleting || (!done && !api_phase_terminal(phase))) {
            return false;
        }
    }
    return true;
}

/* What the job asks for is what there is. */
static void check_end(struct tk_cluster *c) {
    const struct api_job *job = c->seen_job;
    int64_t wanted = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        wanted += job->role[r].present ? job->role[r].replicas : 0;
    }
    bool fails = job->phase == API_PHASE_FAILED;
    if (job->deleting) {
        assert_int_equal(c->seen.n_pods, 0);
        return;
    }
    bool cleans =
        job->clean == API_CLEAN_ALWAYS ||
        (fails ? job->clean == API_CLEAN_ON_FAILURE
               : job->clean == API_CLEAN_DEFAULT || job->clean == API_CLEAN_ON_COMPLETION);
    if (api_phase_terminal(job->phase)) {
        assert_non_null(co_json_str(job->status, "completionTime"));
        if (cleans) {
            assert_int_equal(c->seen.n_pods, 0);
            assert_int_equal(c->seen.n_services, 0);
        }
        return;
    }
    if (job->suspend) {
        assert_int_equal(job->phase, API_PHASE_SUSPENDED);
        assert_int_equal(c->seen.n_pods, 0);
        assert_null(c->seen.configmap);
        return;
    }
    int64_t gone = 0; /* have succeeded, and were deleted */
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        gone += json_integer_value(co_json_at(job->status, api_role_name(r), "succeeded"));
    }
    for (size_t i = 0; i < c->seen.n_pods; i++) {
        assert_int_equal(c->pods[i]->attempt, job->attempt);
        gone -= c->pods[i]->phase == API_POD_SUCCEEDED;
    }
    /* A job without pods runs for ever; servers without workers, too; AllPods waits for them. */
    bool endless = wanted == 0 || job->success == API_SUCCESS_ALL ||
                   (job->success == API_SUCCESS_WORKER_0 && job->role[API_WORKER].replicas == 0) ||
                   (job->role[API_PS].replicas > 0 &&
                       job->role[API_WORKER].replicas + job->role[API_HETER].replicas == 0);
    if (job->n_problems == 0 && !endless) {
        CO_AUTOFREE char *text = co_json_dump(job->json);
        fail_msg("a job that could end is %s: %s", api_phase_name(job->phase), text);
    }
    if (job->n_problems == 0) {
        assert_int_equal(job->phase, API_PHASE_RUNNING);
        assert_true(job->deadline == 0);
        assert_int_equal(c->seen.n_pods + (size_t)gone, wanted);
        assert_non_null(c->seen.configmap);
    }
}

/* Worlds beyond the first ones in which something was wrong once. */
static const uint64_t found[] = {1046, 2142, 60530};

struct ends {
    int n[API_PHASES];
    int attempts, restarts;
};

static void one_world(uint64_t seed, struct ends *ends) {
    world = seed;
    struct tk_cluster c = {.rng = seed * 0x9E3779B97F4A7C15U};
    noted = json_object();
    CO_AUTOFREE char *job = random_job(&c, seed % 4 == 0);
    uint64_t rng = c.rng;
    tk_init(&c, job);
    c.rng = rng;
    random_world(&c);
    for (int i = 0; i < CHAOS_ROUNDS; i++) {
        chaos_round(&c);
    }
    if (tk_below(&c, 5)) {
        edit(&c, json_object_get(c.job, "spec"), "suspend", json_false());
    }
    delete_relabelled(&c);
    int rounds = 0;
    while (!settled(&c) && rounds < CALM_ROUNDS) {
        check_rest(&c);
        step_all(&c, true);
        c.now += 10;
        forget_failures(&c);
        rounds++;
    }
    if (rounds == CALM_ROUNDS) {
        CO_AUTOFREE char *text = co_json_dump(c.job);
        fail_msg("does not converge: %s", text);
    }
    check_end(&c);
    ends->n[c.seen_job->phase]++;
    ends->attempts += c.seen_job->attempt;
    ends->restarts += (int)json_integer_value(co_json_at(c.job, "status", "restarts"));
    tk_done(&c);
    json_decref(co_steal_ptr(noted));
    world = 0;
}

static void random_worlds_converge(void **state) {
    (void)state;
    struct ends ends = {0};
    bool all = !getenv("PADDLE_SANITIZED") || getenv("SIM_ALL");
    int worlds = all ? WORLDS : WORLDS_SANITIZED;
    for (int n = 0; n < worlds; n++) {
        one_world((uint64_t)n + 1, &ends);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(found); i++) {
        one_world(found[i], &ends);
    }
    print_message("completed %d, failed %d, running %d, suspended %d; %d attempts, %d restarts\n",
        ends.n[API_PHASE_COMPLETED], ends.n[API_PHASE_FAILED], ends.n[API_PHASE_RUNNING],
        ends.n[API_PHASE_SUSPENDED], ends.attempts, ends.restarts);
    if (!all) {
        return; /* whether they come to all ends, all of them say */
    }
    assert_true(ends.n[API_PHASE_COMPLETED] > worlds / 5);
    assert_true(ends.n[API_PHASE_FAILED] > worlds / 20);
    assert_true(ends.n[API_PHASE_RUNNING] > worlds / 50);
    assert_true(ends.n[API_PHASE_SUSPENDED] > worlds / 50);
    assert_true(ends.attempts > worlds / 2);
    assert_true(ends.restarts > worlds / 50);
}

/* Those that nobody has seen yet; SEED begins with the world of that number. */
static void other_worlds_converge(void **state) {
    (void)state;
    const char *text = getenv("SEED");
    if (!text && !getenv("SIM_ALL")) {
        return;
    }
    uint64_t first = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL) * WORLDS;
    print_message("SEED=%llu\n", (unsigned long long)first);
    struct ends ends = {0};
    for (uint64_t n = 0; n < WORLDS; n++) {
        one_world(first + n, &ends);
    }
}

static int say_world(void **state) {
    (void)state;
    if (world) {
        print_message("failed in world %llu: SEED=%llu begins there\n", (unsigned long long)world,
            (unsigned long long)world);
    }
    world = 0;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(random_worlds_converge, say_world),
        cmocka_unit_test_teardown(other_worlds_converge, say_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
