/* One row for each Event that a condition stands for. */
#include "operator/plan/transition.h"

#include <string.h>

#include "common/map.h"
#include "common/parse.h"
#include "operator/plan/conditions.h"
#include "operator/plan/stored.h"

/* Seconds.  A new lease holder begins half a minute after the last one died, or some minutes later
 * if there is one replica, whose node is lost. */
enum { UNREPORTED_MAX = 600 };

static const struct state_row {
    const char *reason, *condition, *value;
    bool restart; /* stays True over several restarts; restartTime says when it was decided */
} rows[] = {
    {"GaveBack", "GaveBack", "True", .restart = true},
    {"Restarting", "Restarting", "True", .restart = true},
    {"Suspended", "Suspended", "True"},
    {"Resumed", "Suspended", "False"},
    {"Running", "Running", "True"},
    {"Completing", "Completing", "True"},
    {"Completed", "Succeeded", "True"},
    {"Failed", "Failed", "True"},
    {"ReplicasBounded", "ReplicasBounded", "True"},
    {"SchedulingPolicyIgnored", "SchedulingPolicyIgnored", "True"},
    {"UnknownValue", "UnknownValue", "True"},
    {"SpecChanged", "SpecChanged", "True"},
    {"StaleAddress", "StaleAddress", "True"},
};

static const struct state_row *find_row(const char *reason) {
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].reason, reason) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static int64_t time_of(const struct state_row *row, const json_t *status, const json_t *condition) {
    int64_t restart = co_time_of(co_json_str(status, "restartTime"));
    return row->restart && restart
               ? restart - json_integer_value(json_object_get(status, "backoffSeconds"))
               : co_time_of(co_json_str(condition, "lastTransitionTime"));
}

/* As control numbers other Events: nanoseconds, so that `kubectl describe` shows them in order.  It
 * is the end of the second, since the cause was reported before; later Events get higher numbers.
 */
static uint64_t make_id(
    const struct api_job *job, const json_t *status, const struct state_row *row, int64_t at) {
    enum { SECOND = 1000000000, ROW = 10000000 };
    uint64_t attempt = (uint64_t)json_integer_value(json_object_get(status, "attempt"));
    uint64_t own = (co_hash_str(job->uid) + attempt) % ROW;
    uint64_t begin = (uint64_t)(at + 1) * SECOND - (uint64_t)PLAN_TRANSITIONS_MAX * ROW;
    return begin + (uint64_t)(row - rows) * ROW + own;
}

bool plan_transition_of(const struct api_job *job, const json_t *status, const char *reason,
    struct plan_transition *ret) {
    const struct state_row *row = find_row(reason);
    const json_t *c = row ? plan_condition_in(status, row->condition) : NULL;
    int64_t at = c ? time_of(row, status, c) : 0;
    if (!at || !co_streq(co_json_str(c, "status"), row->value)) {
        return false;
    }
    const char *message = co_json_str(c, "message");
    *ret = (struct plan_transition){.reason = row->reason,
        .message = message ? message : "",
        .at = at,
        .id = make_id(job, status, row, at)};
    return true;
}

size_t plan_transitions_unreported(
    const struct plan_children *w, struct plan_transition ret[PLAN_TRANSITIONS_MAX]) {
    _Static_assert(CO_ARRAY_LEN(rows) <= PLAN_TRANSITIONS_MAX, "room for all");
    int64_t until = w->seen->reported ? 0 : w->seen->led_from;
    size_t n = 0;
    for (size_t i = 0; until && i < CO_ARRAY_LEN(rows); i++) {
        struct plan_transition t;
        if (!plan_transition_of(w->job, w->job->status, rows[i].reason, &t) || t.at > until ||
            t.at < until - UNREPORTED_MAX) {
            continue;
        }
        size_t k = n++;
        for (; k && ret[k - 1].at > t.at; k--) {
            ret[k] = ret[k - 1];
        }
        ret[k] = t;
    }
    return n;
}
