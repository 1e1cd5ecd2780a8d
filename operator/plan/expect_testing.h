/* For tests only: what the planner's tests expect of a cluster (plan_testing.h), and states of
 * pods. One thread. */
#pragma once

#include "operator/plan/plan_testing.h"

static inline void expect_actions(struct tk_cluster *c, const char *expected) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    CO_AUTOFREE char *text = tk_actions(&plan);
    assert_string_equal(text, expected);
}

/* The value at a path of the status that a plan would write now; "" when absent. */
static inline char *status_text(struct tk_cluster *c, const char *path) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    json_t *j = NULL;
    for (json_type t = JSON_OBJECT; t <= JSON_NULL && !j; t++) {
        if (co_json_get(plan.status, path, t, &j, NULL)) {
            j = NULL;
        }
    }
    if (!j) {
        return co_xstrdup("");
    }
    return json_is_string(j) ? co_xstrdup(json_string_value(j)) : co_json_dump(j);
}

static inline void expect_status(struct tk_cluster *c, const char *path, const char *expected) {
    CO_AUTOFREE char *text = status_text(c, path);
    assert_string_equal(text, expected);
}

/* "status reason message" of a condition that a plan would write now. */
static inline void expect_condition(struct tk_cluster *c, const char *type, const char *expected) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    char text[1024] = "absent";
    size_t i;
    json_t *j;
    json_array_foreach(json_object_get(plan.status, "conditions"), i, j) {
        if (co_streq(co_json_str(j, "type"), type)) {
            (void)snprintf(text, sizeof(text), "%s %s %s", co_json_str(j, "status"),
                co_json_str(j, "reason"), co_json_str(j, "message"));
        }
    }
    assert_string_equal(text, expected);
}

/* "reason: message; …"; warnings begin with "!". */
static inline void expect_events(struct tk_cluster *c, const char *expected) {
    PLAN_AUTOPLAN struct plan plan = {0};
    tk_plan(c, &plan);
    struct co_buf b = CO_BUF(1 << 16);
    assert_int_equal(co_buf_adds(&b, "", NULL), 0);
    for (size_t i = 0; i < plan.n_events; i++) {
        assert_int_equal(
            co_buf_addf(&b, NULL, "%s%s%s: %s", i ? "; " : "", plan.events[i].warning ? "!" : "",
                plan.events[i].reason, plan.events[i].message),
            0);
    }
    CO_AUTOFREE char *text = co_buf_take(&b);
    assert_string_equal(text, expected);
}

/* Plans and applies until nothing is left to do. */
static inline void rest(struct tk_cluster *c) {
    for (int i = 0; i < 5; i++) {
        if (!tk_pass(c)) {
            return;
        }
    }
    fail_msg("does not come to rest");
}

static inline void run_all(struct tk_cluster *c) {
    const char *name;
    json_t *pod;
    int n = 0;
    json_object_foreach(c->objects[TK_PODS], name, pod) {
        CO_AUTOFREE char *status = co_xasprintf(TK_RUNNING("10.0.0.%d"), ++n);
        co_json_set(pod, "status", tk_json(status));
    }
    rest(c);
}

#define TWO_TWO TK_ROLE("ps", 2) "," TK_ROLE("worker", 2)

#define PENDING "{'phase':'Pending'}"
#define GATED                                                                                      \
    "{'phase':'Pending','initContainerStatuses':[{'name':'coord-paddle','state':{'running':{}}}]}"
#define UNREADY                                                                                    \
    "{'phase':'Running','containerStatuses':[{'name':'main','ready':false,'state':{'running':{}}}" \
    "]}"
#define RUNS TK_RUNNING("10.0.0.1")
#define DONE TK_SUCCEEDED("10.0.0.1")
#define BROKEN TK_FAILED("10.0.0.1", "3", "2026-01-01T00:00:01Z", "no data")
#define LOST "{'phase':'Unknown'}"

static inline void set_replicas(struct tk_cluster *c, const char *role, int n) {
    co_json_set(co_json_at(c->job, "spec", role), "replicas", json_integer(n));
    int64_t g = json_integer_value(co_json_at(c->job, "metadata", "generation"));
    co_json_set(json_object_get(c->job, "metadata"), "generation", json_integer(g + 1));
}

static inline void set_spec(struct tk_cluster *c, const char *key, json_t *value_own) {
    co_json_set(json_object_get(c->job, "spec"), key, value_own);
    int64_t g = json_integer_value(co_json_at(c->job, "metadata", "generation"));
    co_json_set(json_object_get(c->job, "metadata"), "generation", json_integer(g + 1));
}

/* Removes pods with a deletion timestamp. */
static inline void bury(struct tk_cluster *c) {
    CO_AUTOJSON json_t *all = json_copy(c->objects[TK_PODS]);
    const char *name;
    json_t *pod;
    json_object_foreach(all, name, pod) {
        if (co_json_at(pod, "metadata", "deletionTimestamp")) {
            json_object_del(c->objects[TK_PODS], name);
        }
    }
}
