#include "operator/control/recorder.h"

#include "common/log.h"
#include "common/map.h"
#include "common/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct op_kube_type events = {"", "v1", "events", "Event"};

enum {
    MESSAGE_MAX = 1024, /* the API's limit */
    /* An Event lives for an hour since it was written last; one that may be gone is not counted
     * up, but made anew. */
    FOLD_MS = 20 * 60 * 1000,
};

void op_last_warning_done(struct op_last_warning *w) {
    free(w->name);
    *w = (struct op_last_warning){0};
}

void op_recorder_init(struct op_recorder *r, struct op_kube_client *client, const char *instance) {
    *r = (struct op_recorder){.client = client, .instance = instance};
}

static void written(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    (void)arg;
    (void)reply;
    if (code && code != CO_CANCELED) {
        co_log_warn("event dropped", CO_E(err));
    }
}

static json_t *event_body(const struct op_recorder *r, const struct op_job *job,
    const struct op_event *event, const char *name) {
    char now[32];
    co_time_format(co_wall_seconds(), now);
    char message[MESSAGE_MAX + 1];
    (void)snprintf(message, sizeof(message), "%s", event->message);
    return json_pack("{s:s,s:s,s:{s:s,s:s},s:{s:s,s:s,s:s,s:s,s:s,s:s},s:s,s:o,s:s,s:{s:s},s:s,s:s,"
                     "s:i,s:s,s:s}",
        "apiVersion", "v1", "kind", "Event", "metadata", "name", name, "namespace", job->ns,
        "involvedObject", "apiVersion", OP_API_VERSION, "kind", OP_KIND, "name", job->name,
        "namespace", job->ns, "uid", job->uid, "resourceVersion", job->resource_version, "reason",
        event->reason, "message", co_json_string(message), "type",
        event->warning ? "Warning" : "Normal", "source", "component", "paddlejob-controller",
        "firstTimestamp", now, "lastTimestamp", now, "count", 1, "reportingComponent",
        "paddlejob-controller", "reportingInstance", r->instance);
}

/* True when `event` is the job's last warning once more and was counted there. */
static bool folded(struct op_recorder *r, const struct op_job *job, struct op_last_warning *last,
    const struct op_event *event) {
    uint64_t hash = co_hash_str(event->reason) * 31 + co_hash_str(event->message);
    int64_t at = co_now_ms();
    if (!event->warning || !last->name || last->hash != hash || at - last->at > FOLD_MS) {
        last->hash = event->warning ? hash : 0;
        return false;
    }
    last->at = at;
    char now[32];
    co_time_format(co_wall_seconds(), now);
    CO_AUTOJSON json_t *patch =
        json_pack("{s:I,s:s}", "count", (json_int_t)++last->count, "lastTimestamp", now);
    struct op_kube_req req =
        op_kube_req_for(OP_KUBE_PATCH, &events, job->ns, last->name, written, NULL);
    req.lane = OP_KUBE_LANE_EVENTS;
    req.patch = OP_KUBE_PATCH_MERGE;
    req.body = patch;
    (void)op_kube_do(r->client, &req);
    return true;
}

/* Nanoseconds since the epoch, made to grow: names are unique over restarts, and `kubectl
 * describe`, which sorts by second and then by name, keeps the order of the story. */
static uint64_t next_number(struct op_recorder *r) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t n = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    r->last_number = n > r->last_number ? n : r->last_number + 1;
    return r->last_number;
}

void op_recorder_emit(struct op_recorder *r, const struct op_job *job, struct op_last_warning *last,
    const struct op_event *event) {
    if (folded(r, job, last, event)) {
        return;
    }
    /* 253 characters are allowed: the job's name is at most 63 when it has any children, but
     * the event that says so must not fail for its length. */
    char name[128];
    (void)snprintf(name, sizeof(name), "%.100s.%016" PRIx64, job->name, next_number(r));
    CO_AUTOJSON json_t *body = event_body(r, job, event, name);
    if (!body) {
        co_log_warn("event dropped: not UTF-8", CO_S("job", job->name));
        return;
    }
    if (event->warning) {
        free(last->name);
        last->name = co_xstrdup(name);
        last->count = 1;
        last->at = co_now_ms();
    }
    struct op_kube_req req = op_kube_req_for(OP_KUBE_CREATE, &events, job->ns, NULL, written, NULL);
    req.lane = OP_KUBE_LANE_EVENTS;
    req.body = body;
    (void)op_kube_do(r->client, &req);
}
