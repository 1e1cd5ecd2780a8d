/* For tests only: a cluster in memory.  It has a job and its children as JSON, and applies actions
 * as an API server would.  One thread. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/contract.h"
#include "operator/api/api_testing.h"
#include "operator/api/began.h"
#include "operator/api/pack.h"
#include "operator/plan/children.h"
#include "operator/plan/object_pod.h"
#include "operator/plan/templates.h"

#define TK_TEMPLATE "'template':{'spec':{'containers':[{'name':'main','image':'img'}]}}"
#define TK_ROLE(name, n) "'" name "':{'replicas':" #n "," TK_TEMPLATE "}"
/* A job called x. */
#define TK_JOB(spec)                                                                               \
    "{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob','metadata':{'name':'x',"         \
    "'namespace':'ns','uid':'uid-x','generation':1,'resourceVersion':'1'},'spec':{" spec "}}"

struct tk_cluster {
    json_t *job;
    json_t *objects[5]; /* by enum below: objects by name */
    bool token;         /* as control remembers it, see plan_seen */
    json_t *templates;  /* owned: as control reads them; NULL: not read */
    struct plan_settings settings;
    size_t creates_max;
    int64_t led_from;
    bool reported, notified;
    json_t *draft; /* owned */
    int64_t now;
    uint64_t version; /* the last resourceVersion and uid */
    uint64_t rng;     /* state of tk_random; 0: the order of children is not shuffled */
    struct plan_failure failures[64];
    char failure_names[64][64];
    size_t n_failures;
    /* what the last plan was shown */
    struct api_job *seen_job;
    struct api_pod *pods[64];
    struct api_service *services[64];
    struct api_configmap *configmap;
    struct api_podgroup *podgroup;
    struct plan_seen seen;
};

enum { TK_PODS, TK_SERVICES, TK_CONFIGMAPS, TK_PODGROUPS, TK_SECRETS, TK_KINDS };

static inline uint64_t tk_random(struct tk_cluster *c) {
    c->rng ^= c->rng << 13;
    c->rng ^= c->rng >> 7;
    c->rng ^= c->rng << 17;
    return c->rng;
}

static inline int tk_below(struct tk_cluster *c, int n) {
    return (int)(tk_random(c) % (uint64_t)n);
}

static inline void tk_init(struct tk_cluster *c, const char *job) {
    *c = (struct tk_cluster){
        .now = 1000000, .settings = {.server_grace = 30, .restart_backoff = 10}};
    c->job = tk_json(job);
    for (size_t i = 0; i < TK_KINDS; i++) {
        c->objects[i] = json_object();
    }
}

static inline void tk_forget(struct tk_cluster *c) {
    for (size_t i = 0; i < 64; i++) {
        free(co_steal_ptr(c->pods[i]));
        free(co_steal_ptr(c->services[i]));
    }
    free(co_steal_ptr(c->configmap));
    free(co_steal_ptr(c->podgroup));
    api_job_free(co_steal_ptr(c->seen_job));
}

static inline void tk_done(struct tk_cluster *c) {
    tk_forget(c);
    json_decref(c->job);
    json_decref(c->draft);
    json_decref(c->templates);
    for (size_t i = 0; i < TK_KINDS; i++) {
        json_decref(c->objects[i]);
    }
}

static inline void tk_swap(void **a, void **b) {
    void *t = *a;
    *a = *b;
    *b = t;
}

/* Sets c->seen to what the planner sees now. */
static inline void tk_look(struct tk_cluster *c) {
    tk_forget(c);
    struct co_err err = {0};
    if (api_job_decode(json_deep_copy(c->job), &c->seen_job, &err)) {
        fail_msg("%s", err.msg);
    }
    c->seen = (struct plan_seen){.pods = (const struct api_pod *const *)c->pods,
        .services = (const struct api_service *const *)c->services,
        .creates_max = c->creates_max,
        .led_from = c->led_from,
        .reported = c->reported,
        .notified = c->notified,
        .draft = c->draft,
        .token = c->token,
        .templates = c->templates,
        .failures = c->failures,
        .n_failures = c->n_failures};
    const char *name;
    json_t *j;
    json_object_foreach(c->objects[TK_PODS], name, j) {
        assert_true(c->seen.n_pods < 64);
        c->pods[c->seen.n_pods++] = (struct api_pod *)api_child_of_tree(api_pod_read, j);
    }
    json_object_foreach(c->objects[TK_SERVICES], name, j) {
        assert_true(c->seen.n_services < 64);
        c->services[c->seen.n_services++] =
            (struct api_service *)api_child_of_tree(api_service_read, j);
    }
    for (size_t i = c->seen.n_pods; c->rng && i > 1; i--) {
        tk_swap((void **)&c->pods[i - 1], (void **)&c->pods[tk_below(c, (int)i)]);
    }
    for (size_t i = c->seen.n_services; c->rng && i > 1; i--) {
        tk_swap((void **)&c->services[i - 1], (void **)&c->services[tk_below(c, (int)i)]);
    }
    j = json_object_get(
        c->objects[TK_CONFIGMAPS], json_string_value(co_json_at(c->job, "metadata", "name")));
    c->configmap = (struct api_configmap *)api_child_of_tree(api_configmap_read, j);
    c->seen.configmap = c->configmap;
    j = json_object_get(
        c->objects[TK_PODGROUPS], json_string_value(co_json_at(c->job, "metadata", "name")));
    c->podgroup = (struct api_podgroup *)api_child_of_tree(api_podgroup_read, j);
    c->seen.podgroup = c->podgroup;
}

/* Bodies of pods in a plan share their common parts; each must be the same, byte for byte, as a
 * body that is built alone. */
static inline void tk_check_bodies(const struct tk_cluster *c, const struct plan *plan) {
    CO_CLEANUP(plan_children_done) struct plan_children w;
    plan_children_init(&w, c->seen_job, &c->seen, c->now, &c->settings);
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct plan_action *a = &plan->actions[i];
        if (a->verb == PLAN_CREATE && a->kind == PLAN_KIND_POD) {
            const json_t *labels = co_json_at(a->body, "metadata", "labels");
            enum api_role role = api_role_parse(co_json_str(labels, API_LABEL_ROLE));
            int32_t index = api_label_number(co_json_str(labels, API_LABEL_INDEX));
            const json_t *tmpl = plan_templates_get(&w, role);
            CO_AUTOJSON json_t *alone = plan_object_pod(w.job, tmpl, role, index, &c->settings);
            CO_AUTOFREE char *have = co_json_dump(a->body);
            CO_AUTOFREE char *want = co_json_dump(alone);
            assert_string_equal(have, want);
        }
    }
}

static inline void tk_plan_once(struct tk_cluster *c, struct plan *ret) {
    tk_look(c);
    struct co_err err = {0};
    if (plan_compute(c->seen_job, &c->seen, c->now, &c->settings, ret, &err)) {
        fail_msg("%s", err.msg);
    }
    tk_check_bodies(c, ret);
}

/* Like control: what a plan lacks is read from the ConfigMap, for the next one. */
static inline void tk_plan(struct tk_cluster *c, struct plan *ret) {
    tk_plan_once(c, ret);
    if (ret->lacks_templates) {
        const char *name = json_string_value(co_json_at(c->job, "metadata", "name"));
        const json_t *cm = json_object_get(c->objects[TK_CONFIGMAPS], name);
        json_decref(c->templates);
        c->templates = json_object();
        for (enum api_role r = API_PS; r < API_ROLES; r++) {
            const char *text = co_json_str(cm, "metadata", "annotations", api_began_annotation(r));
            co_json_set(c->templates, api_role_name(r), api_began_parse(text));
        }
        plan_done(ret);
        tk_plan_once(c, ret);
        assert_false(ret->lacks_templates);
    }
}

static inline void tk_stamp(struct tk_cluster *c, json_t *obj, bool uid) {
    json_t *meta = json_object_get(obj, "metadata");
    CO_AUTOFREE char *version = co_xasprintf("%llu", (unsigned long long)++c->version);
    co_json_set(meta, "resourceVersion", json_string(version));
    if (uid) {
        CO_AUTOFREE char *text = co_xasprintf("u-%s", version);
        co_json_set(meta, "uid", json_string(text));
    }
}

static inline void tk_merge(json_t *into, json_t *patch) {
    const char *key;
    json_t *v;
    json_object_foreach(patch, key, v) {
        json_t *have = json_object_get(into, key);
        if (json_is_null(v)) {
            json_object_del(into, key);
        } else if (json_is_object(v) && json_is_object(have)) {
            tk_merge(have, v);
        } else {
            co_json_set(into, key, json_deep_copy(v));
        }
    }
}

/* Applies an action like the API server: 0, or the code of a rejection. */
static inline int tk_apply(struct tk_cluster *c, const struct plan_action *a) {
    if (a->kind == PLAN_KIND_JOB && a->verb == PLAN_DELETE) {
        co_json_set(json_object_get(c->job, "metadata"), "deletionTimestamp", json_string("now"));
        return 0;
    }
    if (a->kind == PLAN_KIND_JOB) {
        tk_merge(c->job, a->body);
        tk_stamp(c, c->job, false);
        return 0;
    }
    json_t *all = c->objects[a->kind - PLAN_KIND_POD];
    json_t *have = json_object_get(all, a->name);
    if (a->verb == PLAN_CREATE) {
        if (have) {
            return CO_EXISTS;
        }
        json_t *obj = json_deep_copy(a->body);
        tk_stamp(c, obj, true);
        if (a->kind == PLAN_KIND_POD) {
            co_json_set(obj, "status", tk_json("{'phase':'Pending'}"));
        }
        co_json_set(all, a->name, obj);
        return 0;
    }
    if (!have) {
        return CO_NOTFOUND;
    }
    json_t *meta = json_object_get(have, "metadata");
    if (a->verb == PLAN_PATCH) {
        if (!co_streq(co_json_str(a->body, "metadata", "uid"), co_json_str(meta, "uid"))) {
            return CO_CONFLICT;
        }
        tk_merge(have, a->body);
        tk_stamp(c, have, false);
        return 0;
    }
    if (!co_streq(a->uid, co_json_str(meta, "uid"))) {
        return CO_CONFLICT;
    }
    if (a->kind == PLAN_KIND_POD && !a->at_once) {
        co_json_set(meta, "deletionTimestamp", json_string("2026-01-01T00:00:00Z"));
        tk_stamp(c, have, false);
    } else {
        json_object_del(all, a->name);
    }
    return 0;
}

/* The Secret exists after the action; like control, this includes one that existed before. */
static inline bool tk_made_token(const struct plan_action *a, int code) {
    return a->kind == PLAN_KIND_SECRET && (code == 0 || code == CO_EXISTS);
}

static inline void tk_write_status(struct tk_cluster *c, const struct plan *plan) {
    if (plan->status_differs) {
        co_json_set(c->job, "status", json_deep_copy(plan->status));
        tk_stamp(c, c->job, false);
    }
}

/* One reconcile; returns whether there was anything to do. */
static inline bool tk_pass(struct tk_cluster *c) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    bool token = c->token;
    for (size_t i = 0; i < plan.n_actions; i++) {
        int r = tk_apply(c, &plan.actions[i]);
        token = token || tk_made_token(&plan.actions[i], r);
        assert_true(r == 0 || r == CO_NOTFOUND || tk_made_token(&plan.actions[i], r));
    }
    c->token = token && plan.lacks_pods;
    tk_write_status(c, &plan);
    return plan.n_actions || plan.status_differs;
}

/* Replaces a pod's status: JSON with ' for ". */
static inline void tk_pod_status(struct tk_cluster *c, const char *name, const char *status) {
    json_t *pod = json_object_get(c->objects[TK_PODS], name);
    assert_non_null(pod);
    co_json_set(pod, "status", tk_json(status));
    tk_stamp(c, pod, false);
}

/* "create Pod x-ps-0; delete Service x-ps-1; …"; the caller frees. */
static inline char *tk_actions(const struct plan *plan) {
    static const char *const verbs[] = {"create", "delete", "patch"};
    static const char *const kinds[] = {"Job", "Pod", "Service", "ConfigMap", "PodGroup", "Secret"};
    struct co_buf b = CO_BUF(1 << 16);
    int r = co_buf_adds(&b, "", NULL);
    for (size_t i = 0; i < plan->n_actions && !r; i++) {
        const struct plan_action *a = &plan->actions[i];
        r = co_buf_addf(
            &b, NULL, "%s%s %s %s", i ? "; " : "", verbs[a->verb], kinds[a->kind], a->name);
    }
    assert_int_equal(r, 0);
    return co_buf_take(&b);
}

#define TK_RUNNING(ip)                                                                             \
    "{'phase':'Running','podIP':'" ip "','containerStatuses':[{'name':'main','ready':true,"        \
    "'state':{'running':{}}}]}"
#define TK_SUCCEEDED(ip)                                                                           \
    "{'phase':'Succeeded','podIP':'" ip "','containerStatuses':[{'name':'main','state':{"          \
    "'terminated':{'exitCode':0}}}]}"
#define TK_FAILED(ip, code, at, words)                                                             \
    "{'phase':'Failed','podIP':'" ip "','containerStatuses':[{'name':'main','state':{"             \
    "'terminated':{'exitCode':" code ",'reason':'Error','finishedAt':'" at "','message':'" words   \
    "'}}}]}"
