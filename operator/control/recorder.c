#include "operator/control/recorder.h"

#include "common/log.h"
#include "common/map.h"
#include "common/parse.h"
#include "operator/kube/clock.h"

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
    /* Longer than pods take to run that find their image on the node, and short for people. */
    GATHER_MS = 5000,
    /* An event takes the API server as long as a pod does.  So while it has much to do events wait
     * on, but none for longer than this after it has gathered. */
    HOLD_MAX_MS = 25000,
    HOLD_MS = 500,   /* then it is asked once more whether there still is much to do */
    WAITING_MAX = 8, /* of one job */
};

/* An event before its turn. */
struct op_waiting_event {
    struct op_waiting_event *next;
    bool warning, deed, state;
    const char *reason;              /* static */
    char *message;                   /* owned */
    char *name, *ns, *uid, *version; /* owned: the job's */
    int64_t since, until;            /* seconds: when the first and the last of it happened */
    int64_t count;
};

static void waiting_free(struct op_waiting_event *w) {
    free(w->message);
    free(w->name);
    free(w->ns);
    free(w->uid);
    free(w->version);
    free(w);
}

static void take_out(struct op_story *s) {
    struct op_stories *q = s->queue;
    for (struct op_story **link = &q->head; *link; link = &(*link)->next) {
        if (*link == s) {
            *link = s->next;
            q->tail = s->next ? q->tail : link;
            break;
        }
    }
    s->queue = NULL;
}

/* From the queue that it is in, if any. */
static void move_story(struct op_story *s, struct op_stories *q) {
    if (s->queue) {
        take_out(s);
    }
    s->queue = q;
    s->next = NULL;
    *q->tail = s;
    q->tail = &s->next;
}

void op_story_done(struct op_story *s) {
    if (s->queue) {
        take_out(s);
    }
    struct op_waiting_event *next;
    for (struct op_waiting_event *w = s->first; w; w = next) {
        next = w->next;
        waiting_free(w);
    }
    if (s->telling) {
        s->telling->story = NULL;
    }
    free(s->warning);
    *s = (struct op_story){0};
}

static void pump_stories(struct op_recorder *r);

/* The first of those that gather is due, and perhaps more. */
static void story_gathered(void *arg) {
    struct op_recorder *r = arg;
    int64_t now = co_now_ms();
    int64_t held = op_load_is_quiet(r->load, now) ? 0 : HOLD_MAX_MS;
    while (r->gathering.head && r->gathering.head->due + held <= now) {
        move_story(r->gathering.head, &r->telling);
    }
    if (r->gathering.head) {
        int64_t in = r->gathering.head->due - now;
        co_timer_start(r->timer, in > 0 ? in : HOLD_MS);
    }
    pump_stories(r);
}

void op_recorder_init(struct op_recorder *r, struct co_loop *loop, struct op_kube_client *client,
    const char *instance, const struct op_load *load) {
    *r = (struct op_recorder){.client = client, .instance = instance, .load = load};
    r->gathering.tail = &r->gathering.head;
    r->telling.tail = &r->telling.head;
    r->timer = co_timer_new(loop, story_gathered, r);
}

void op_recorder_done(struct op_recorder *r) {
    co_timer_free(r->timer);
}

/* ---- sending ---------------------------------------------------------------------------- */

static void event_written(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct op_telling *t = arg;
    struct op_recorder *r = t->recorder;
    (void)reply;
    if (code && code != CO_CANCELED) {
        co_log_warn("event dropped", CO_E(err));
    }
    if (t->story) {
        t->story->telling = NULL;
        if (code) { /* it may not be there to be counted up: the next one is made anew */
            free(co_steal_ptr(t->story->warning));
        }
    }
    *t = (struct op_telling){0};
    r->flying--;
    pump_stories(r);
}

static json_t *event_body(
    const struct op_recorder *r, const struct op_waiting_event *w, const char *name) {
    char first[32], last[32];
    co_time_format(w->since, first);
    co_time_format(w->until, last);
    char message[MESSAGE_MAX + 1];
    (void)snprintf(message, sizeof(message), "%s", w->message);
    return json_pack("{s:s,s:s,s:{s:s,s:s},s:{s:s,s:s,s:s,s:s,s:s,s:s},s:s,s:o,s:s,s:{s:s},s:s,s:s,"
                     "s:I,s:s,s:s}",
        "apiVersion", "v1", "kind", "Event", "metadata", "name", name, "namespace", w->ns,
        "involvedObject", "apiVersion", OP_API_VERSION, "kind", OP_KIND, "name", w->name,
        "namespace", w->ns, "uid", w->uid, "resourceVersion", w->version, "reason", w->reason,
        "message", co_json_string(message), "type", w->warning ? "Warning" : "Normal", "source",
        "component", "paddlejob-controller", "firstTimestamp", first, "lastTimestamp", last,
        "count", (json_int_t)w->count, "reportingComponent", "paddlejob-controller",
        "reportingInstance", r->instance);
}

/* s: whose warning it is; NULL: good news. */
static void send_event(struct op_recorder *r, struct op_story *s, enum op_kube_verb verb,
    const char *ns, const char *name, json_t *body) {
    struct op_telling *t = r->tellings;
    while (t->recorder) {
        t++;
    }
    *t = (struct op_telling){r, s};
    if (s) {
        if (s->telling) {
            s->telling->story = NULL;
        }
        s->telling = t;
    }
    struct op_kube_req req = op_kube_req_for(verb, &events, ns, name, event_written, t);
    req.lane = OP_KUBE_LANE_EVENTS;
    req.body = body;
    req.answer = OP_KUBE_TEXT;
    r->flying++;
    (void)op_kube_do(r->client, &req);
}

/* True when the event is the job's last warning once more and was counted there. */
static bool count_again(
    struct op_recorder *r, struct op_story *s, const struct op_waiting_event *w) {
    uint64_t hash = co_hash_str(w->reason) * 31 + co_hash_str(w->message);
    int64_t at = co_now_ms();
    if (!w->warning || !s->warning || s->hash != hash || at - s->at > FOLD_MS) {
        s->hash = w->warning ? hash : 0;
        return false;
    }
    s->at = at;
    s->count += w->count;
    char now[32];
    co_time_format(op_kube_clock_seconds(), now);
    CO_AUTOJSON json_t *patch =
        json_pack("{s:I,s:s}", "count", (json_int_t)s->count, "lastTimestamp", now);
    send_event(r, s, OP_KUBE_PATCH, w->ns, s->warning, patch);
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

static void tell_event(
    struct op_recorder *r, struct op_story *s, const struct op_waiting_event *w) {
    if (count_again(r, s, w)) {
        return;
    }
    /* 253 characters are allowed: the job's name is at most 63 when it has any children, but
     * the event that says so must not fail for its length. */
    char name[128];
    (void)snprintf(name, sizeof(name), "%.100s.%016" PRIx64, w->name, next_number(r));
    CO_AUTOJSON json_t *body = event_body(r, w, name);
    if (!body) {
        co_log_warn("event dropped: not UTF-8", CO_S("job", w->name));
        return;
    }
    if (w->warning) {
        free(s->warning);
        s->warning = co_xstrdup(name);
        s->count = w->count;
        s->at = co_now_ms();
    }
    send_event(r, w->warning ? s : NULL, OP_KUBE_CREATE, w->ns, NULL, body);
}

static void pump_stories(struct op_recorder *r) {
    while (r->telling.head && r->flying < OP_TELLINGS_MAX) {
        struct op_story *s = r->telling.head;
        struct op_waiting_event *w = s->first;
        take_out(s);
        s->first = w->next;
        if (--s->n_waiting) {
            move_story(s, &r->telling);
        }
        tell_event(r, s, w);
        waiting_free(w);
    }
}

void op_recorder_flush(struct op_recorder *r) {
    while (r->gathering.head) {
        move_story(r->gathering.head, &r->telling);
    }
    pump_stories(r);
}

size_t op_recorder_waiting(const struct op_recorder *r) {
    const struct op_story *const heads[] = {r->gathering.head, r->telling.head};
    size_t n = r->flying;
    for (size_t i = 0; i < CO_ARRAY_LEN(heads); i++) {
        for (const struct op_story *s = heads[i]; s; s = s->next) {
            n += s->n_waiting;
        }
    }
    return n;
}

/* ---- waiting ---------------------------------------------------------------------------- */

static struct op_waiting_event *last_of(const struct op_story *s) {
    struct op_waiting_event *w = s->first;
    while (w && w->next) {
        w = w->next;
    }
    return w;
}

/* The last one that waits takes in the same warning once more, and what was done goes with the good
 * news before or after it; where the job stood is never lost among it. */
static bool fold_event(struct op_waiting_event *last, const struct op_event *event) {
    if (!last || last->warning != event->warning) {
        return false;
    }
    if (event->warning) {
        bool same =
            strcmp(last->reason, event->reason) == 0 && strcmp(last->message, event->message) == 0;
        last->count += same;
        last->until = same ? op_kube_clock_seconds() : last->until;
        return same;
    }
    if (!last->deed && !event->deed) {
        return false;
    }
    char *both = co_xasprintf("%.*s; %s", MESSAGE_MAX / 2, last->message, event->message);
    free(last->message);
    last->message = both;
    last->until = op_kube_clock_seconds();
    last->reason = event->deed ? last->reason : event->reason;
    last->deed = last->deed && event->deed;
    last->state = last->state || event->state;
    return true;
}

/* What was done can be seen in what there is, what was refused comes again, but how the job ended
 * is told once. */
static int event_rank(bool deed, bool state) {
    return deed ? 0 : state ? 2 : 1;
}

/* Makes room for one more: the oldest of those that matter least goes.  False: all matter more. */
static bool make_room(struct op_story *s, const struct op_job *job, const struct op_event *event) {
    struct op_waiting_event **least = NULL;
    int lowest = event_rank(event->deed, event->state) + 1;
    for (struct op_waiting_event **link = &s->first; *link; link = &(*link)->next) {
        if (event_rank((*link)->deed, (*link)->state) < lowest) {
            lowest = event_rank((*link)->deed, (*link)->state);
            least = link;
        }
    }
    struct op_waiting_event *w = least ? *least : NULL;
    co_log_warn("event dropped: too many of the job are waiting", CO_S("job", job->name),
        CO_S("namespace", job->ns), CO_S("reason", w ? w->reason : event->reason));
    if (!w) {
        return false;
    }
    *least = w->next;
    s->n_waiting--;
    waiting_free(w);
    return true;
}

void op_recorder_emit(struct op_recorder *r, const struct op_job *job, struct op_story *story,
    const struct op_event *event) {
    if (fold_event(last_of(story), event) ||
        (story->n_waiting == WAITING_MAX && !make_room(story, job, event))) {
        return;
    }
    struct op_waiting_event *w = co_xcalloc(1, sizeof(*w));
    int64_t now = op_kube_clock_seconds();
    *w = (struct op_waiting_event){.warning = event->warning,
        .deed = event->deed,
        .state = event->state,
        .reason = event->reason,
        .message = co_xstrdup(event->message),
        .name = co_xstrdup(job->name),
        .ns = co_xstrdup(job->ns),
        .uid = co_xstrdup(job->uid),
        .version = co_xstrdup(job->resource_version),
        .since = now,
        .until = now,
        .count = 1};
    struct op_waiting_event *last = last_of(story);
    *(last ? &last->next : &story->first) = w;
    story->n_waiting++;
    if (w->warning && story->queue != &r->telling) {
        move_story(story, &r->telling);
    } else if (!story->queue) {
        story->due = co_now_ms() + GATHER_MS;
        move_story(story, &r->gathering);
        if (!co_timer_armed(r->timer)) {
            co_timer_start(r->timer, GATHER_MS);
        }
    }
    pump_stories(r);
}
