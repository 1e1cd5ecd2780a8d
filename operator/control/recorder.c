/* The event recorder: three queues of jobs that have events, and at most CTL_EVENT_WRITES_MAX
 * writes.
 *
 *   ctl_recorder_emit -> fold_event: merged with the job's last event
 *                    or add_event -> GATHERS or PRESSES -- due --> SENDS -> API server
 *                                    Warning, or first of its kind --^ */
#include "operator/control/recorder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/map.h"
#include "common/parse.h"
#include "operator/kube/clock.h"

static const struct kube_type events = {"", "v1", "events", "Event"};

enum {
    MESSAGE_MAX = 1024, /* the API's limit */
    /* The API server deletes an Event an hour after its last write (--event-ttl).  After this much
     * time a repeated Warning becomes a new Event, since the old one may be gone. */
    FOLD_MS = 20 * 60 * 1000,
    /* Longer than pods need to run if their image is on the node, and short for people. */
    GATHER_MS = 5000,
    /* An event costs the API server as much as a pod.  So while it is busy, events are delayed by
     * up to HOLD_MAX_MS after they have gathered; states of jobs, which people look for, only by
     * HOLD_STATE_MS. */
    HOLD_MAX_MS = 25000,
    HOLD_STATE_MS = 3000,
    HOLD_MS = 500,   /* how often the load is checked for delayed events */
    NEWS_MS = 30000, /* an event of a kind not seen for so long is not delayed */
    WAITING_MAX = 8, /* events of one job that wait */
    /* Warnings of one job that are remembered.  A quota and a webhook that reject by turns are two;
     * more are rare, so the rest share an Event (share_event). */
    WARNINGS_MAX = 4,
};

/* A Warning that was sent. */
struct ctl_sent_warning {
    LIST_ENTRY(ctl_sent_warning) link; /* the next was sent before it */
    char *name;                        /* owned: of the Event */
    const char *reason;                /* static */
    bool state;
    uint64_t hash;                 /* see identity */
    int64_t count, at;             /* how often it happened; monotonic ms of the last time */
    struct ctl_event_write *write; /* the last one, until it is answered; else NULL */
};

/* An event that is not sent yet. */
struct ctl_waiting_event {
    struct ctl_waiting_event *next;
    bool warning, deed, state;       /* see struct plan_event */
    const char *reason;              /* static */
    char *message;                   /* owned */
    char *name, *ns, *uid, *version; /* owned: the job's */
    int64_t since, until;            /* seconds: its firstTimestamp and lastTimestamp */
    int64_t count;
    uint64_t id; /* see struct plan_event */
};

static void waiting_free(struct ctl_waiting_event *w) {
    free(w->message);
    free(w->name);
    free(w->ns);
    free(w->uid);
    free(w->version);
    free(w);
}

static void take_out(struct ctl_event_log *s) {
    if (s->queue) {
        TAILQ_REMOVE(&s->queue->logs, s, link);
        s->queue = NULL;
    }
}

/* Moves the log from its queue, if any, to the end of q. */
static void move_log(struct ctl_event_log *s, struct ctl_event_logs *q) {
    take_out(s);
    s->queue = q;
    TAILQ_INSERT_TAIL(&q->logs, s, link);
}

static void forget_warning(struct ctl_sent_warning *g) {
    LIST_REMOVE(g, link);
    if (g->write) {
        g->write->warning = NULL;
    }
    free(g->name);
    free(g);
}

void ctl_event_log_done(struct ctl_event_log *s) {
    take_out(s);
    struct ctl_waiting_event *next;
    for (struct ctl_waiting_event *w = s->first; w; w = next) {
        next = w->next;
        waiting_free(w);
    }
    struct ctl_sent_warning *older;
    for (struct ctl_sent_warning *g = LIST_FIRST(&s->warnings); g; g = older) {
        older = LIST_NEXT(g, link);
        forget_warning(g);
    }
    *s = (struct ctl_event_log){0};
}

static void pump_stories(struct ctl_recorder *r);

static bool is_quiet(const struct ctl_recorder *r) {
    return ctl_load_is_quiet(r->load, co_now_ms());
}

/* For the first log of the delayed queues.  One that is due but still held is checked again in
 * HOLD_MS. */
static void start_timer(struct ctl_recorder *r) {
    int64_t next = INT64_MAX, now = co_now_ms();
    for (size_t i = 0; i < CTL_EVENT_LOG_READY; i++) {
        const struct ctl_event_log *first = TAILQ_FIRST(&r->queue[i].logs);
        int64_t in = first ? first->due - now : INT64_MAX;
        in = in > 0 ? in : HOLD_MS;
        next = in < next ? in : next;
    }
    if (next < INT64_MAX) {
        co_timer_start(r->timer, next);
    }
}

/* Moves all logs that are due to the queue that is sent. */
static void log_due(void *arg) {
    struct ctl_recorder *r = arg;
    int64_t now = co_now_ms();
    bool quiet = is_quiet(r);
    for (size_t i = 0; i < CTL_EVENT_LOG_READY; i++) {
        struct ctl_event_logs *q = &r->queue[i];
        struct ctl_event_log *s;
        while ((s = TAILQ_FIRST(&q->logs)) && s->due + (quiet ? 0 : q->hold_ms) <= now) {
            move_log(s, &r->queue[CTL_EVENT_LOG_READY]);
        }
    }
    start_timer(r);
    pump_stories(r);
}

void ctl_recorder_init(struct ctl_recorder *r, struct co_loop *loop, struct kube_client *client,
    const char *instance, const struct ctl_load *load) {
    *r = (struct ctl_recorder){.client = client, .instance = instance, .load = load};
    for (size_t i = 0; i < CTL_EVENT_LOG_QUEUES; i++) {
        TAILQ_INIT(&r->queue[i].logs);
    }
    r->queue[CTL_EVENT_LOG_GATHERS].hold_ms = HOLD_MAX_MS;
    r->queue[CTL_EVENT_LOG_URGENT].hold_ms = HOLD_STATE_MS;
    r->timer = co_timer_new(loop, log_due, r);
}

void ctl_recorder_done(struct ctl_recorder *r) {
    co_timer_free(r->timer);
}

/* ---- sending ---------------------------------------------------------------------------- */

static void event_written(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_event_write *t = arg;
    struct ctl_recorder *r = t->recorder;
    (void)reply;
    if (code == CO_EXISTS && t->known) { /* the lease holder before us has written it */
        code = 0;
    }
    if (code && code != CO_CANCELED) {
        co_log(api_says_namespace_ends(co_err_text(err)) ? CO_LOG_DEBUG : CO_LOG_WARN,
            "event dropped", CO_E(err));
    }
    if (t->warning) {
        t->warning->write = NULL;
        if (code) { /* the Event may not exist, so the next Warning becomes a new one */
            forget_warning(t->warning);
        }
    }
    *t = (struct ctl_event_write){0};
    r->flying--;
    pump_stories(r);
}

static json_t *message_of(const struct ctl_waiting_event *w) {
    char message[MESSAGE_MAX + 1];
    (void)snprintf(message, sizeof(message), "%s", w->message);
    return co_json_string(message);
}

static json_t *event_body(
    const struct ctl_recorder *r, const struct ctl_waiting_event *w, const char *name) {
    char first[32], last[32];
    co_time_format(w->since, first);
    co_time_format(w->until, last);
    return json_pack("{s:s,s:s,s:{s:s,s:s},s:{s:s,s:s,s:s,s:s,s:s,s:s},s:s,s:o,s:s,s:{s:s},s:s,s:s,"
                     "s:I,s:s,s:s}",
        "apiVersion", "v1", "kind", "Event", "metadata", "name", name, "namespace", w->ns,
        "involvedObject", "apiVersion", API_VERSION, "kind", API_KIND, "name", w->name, "namespace",
        w->ns, "uid", w->uid, "resourceVersion", w->version, "reason", w->reason, "message",
        message_of(w), "type", w->warning ? "Warning" : "Normal", "source", "component",
        "paddlejob-controller", "firstTimestamp", first, "lastTimestamp", last, "count",
        (json_int_t)w->count, "reportingComponent", "paddlejob-controller", "reportingInstance",
        r->instance);
}

/* write: what is known of it; its warning is NULL for a Normal event. */
static void send_event(struct ctl_recorder *r, const struct ctl_event_write *write,
    enum kube_verb verb, const char *ns, const char *name, json_t *body) {
    struct ctl_sent_warning *g = write->warning;
    struct ctl_event_write *t = r->event_writes;
    while (t->recorder) {
        t++;
    }
    *t = *write;
    t->recorder = r;
    if (g) {
        if (g->write) {
            g->write->warning = NULL;
        }
        g->write = t;
    }
    struct kube_req req = kube_req_for(verb, &events, ns, name, event_written, t);
    req.class = KUBE_CLASS_EVENTS;
    req.body = body;
    req.answer = KUBE_TEXT;
    r->flying++;
    (void)kube_do(r->client, &req);
}

/* Whether two Warnings are the same one.  A refusal is repeated with other numbers: another pod's
 * is tried, or others have used more of the quota.  In a state of the job numbers matter: a restart
 * is the second of three. */
static uint64_t identity(const struct ctl_waiting_event *w) {
    CO_AUTOFREE char *text = co_xstrdup(w->message);
    char *end = text;
    for (const char *p = text; *p; p++) {
        *end = *p;
        end += w->state || *p < '0' || *p > '9';
    }
    *end = '\0';
    return co_hash_str(w->reason) * 31 + co_hash_str(text);
}

/* Forgets Warnings whose Events may be gone. */
static void forget_old(struct ctl_event_log *s) {
    int64_t now = co_now_ms();
    struct ctl_sent_warning *next;
    for (struct ctl_sent_warning *g = LIST_FIRST(&s->warnings); g; g = next) {
        next = LIST_NEXT(g, link);
        if (now - g->at > FOLD_MS) {
            forget_warning(g);
        }
    }
}

static struct ctl_sent_warning *find_sent(const struct ctl_event_log *s, uint64_t hash) {
    struct ctl_sent_warning *g = LIST_FIRST(&s->warnings);
    while (g && g->hash != hash) {
        g = LIST_NEXT(g, link);
    }
    return g;
}

/* Makes room for one more.  If so many are remembered, a refusal takes the Event of the oldest one
 * with its reason: a webhook may word each of its refusals differently, with a name of its own in
 * it, and each would be an Event.  NULL: it needs an Event of its own. */
static struct ctl_sent_warning *share_event(
    struct ctl_event_log *s, const struct ctl_waiting_event *w) {
    struct ctl_sent_warning *oldest = NULL, *same = NULL, *g;
    size_t n = 0;
    LIST_FOREACH(g, &s->warnings, link) {
        n++;
        oldest = g;
        same = !w->state && !g->state && strcmp(g->reason, w->reason) == 0 ? g : same;
    }
    if (n >= WARNINGS_MAX && !same) {
        forget_warning(oldest);
    }
    return n < WARNINGS_MAX ? NULL : same;
}

/* If the event repeats a Warning, increases the count of that Event and returns true. */
static bool count_again(
    struct ctl_recorder *r, struct ctl_event_log *s, const struct ctl_waiting_event *w) {
    uint64_t hash = identity(w);
    forget_old(s);
    struct ctl_sent_warning *g = find_sent(s, hash);
    g = g ? g : share_event(s, w);
    if (!g) {
        return false;
    }
    LIST_REMOVE(g, link);
    LIST_INSERT_HEAD(&s->warnings, g, link);
    g->hash = hash;
    g->at = co_now_ms();
    g->count += w->count;
    char now[32];
    co_time_format(kube_clock_seconds(), now);
    CO_AUTOJSON json_t *patch = json_pack("{s:I,s:s,s:o}", "count", (json_int_t)g->count,
        "lastTimestamp", now, "message", message_of(w));
    send_event(r, &(struct ctl_event_write){.warning = g}, KUBE_PATCH, w->ns, g->name, patch);
    return true;
}

static struct ctl_sent_warning *remember_warning(
    struct ctl_event_log *s, const struct ctl_waiting_event *w, const char *name) {
    struct ctl_sent_warning *g = co_xcalloc(1, sizeof(*g));
    *g = (struct ctl_sent_warning){.name = co_xstrdup(name),
        .reason = w->reason,
        .state = w->state,
        .hash = identity(w),
        .count = w->count,
        .at = co_now_ms()};
    LIST_INSERT_HEAD(&s->warnings, g, link);
    return g;
}

/* Nanoseconds since the epoch, forced to grow.  So names of Events are unique across restarts, and
 * `kubectl describe`, which sorts by second and then by name, shows them in order. */
static uint64_t next_number(struct ctl_recorder *r) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t n = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    r->last_number = n > r->last_number ? n : r->last_number + 1;
    return r->last_number;
}

static void record_event(
    struct ctl_recorder *r, struct ctl_event_log *s, const struct ctl_waiting_event *w) {
    if (w->warning && count_again(r, s, w)) {
        return;
    }
    /* A name has at most 253 characters.  Jobs with longer names than 63 get no children, but the
     * event that says so must not fail because of its own name. */
    char name[128];
    uint64_t number = w->id ? w->id : next_number(r);
    r->last_number = number > r->last_number ? number : r->last_number;
    (void)snprintf(name, sizeof(name), "%.100s.%016" PRIx64, w->name, number);
    CO_AUTOJSON json_t *body = event_body(r, w, name);
    if (!body) {
        co_log_warn("event dropped: not UTF-8", CO_S("job", w->name));
        return;
    }
    struct ctl_sent_warning *g = w->warning ? remember_warning(s, w, name) : NULL;
    const struct ctl_event_write write = {.warning = g, .known = w->id};
    send_event(r, &write, KUBE_CREATE, w->ns, NULL, body);
}

static void pump_stories(struct ctl_recorder *r) {
    struct ctl_event_logs *ready = &r->queue[CTL_EVENT_LOG_READY];
    while (!TAILQ_EMPTY(&ready->logs) && r->flying < CTL_EVENT_WRITES_MAX) {
        struct ctl_event_log *s = TAILQ_FIRST(&ready->logs);
        struct ctl_waiting_event *w = s->first;
        take_out(s);
        s->first = w->next;
        if (--s->n_waiting) {
            move_log(s, ready);
        }
        record_event(r, s, w);
        waiting_free(w);
    }
}

void ctl_recorder_flush(struct ctl_recorder *r) {
    for (size_t i = 0; i < CTL_EVENT_LOG_READY; i++) {
        while (!TAILQ_EMPTY(&r->queue[i].logs)) {
            move_log(TAILQ_FIRST(&r->queue[i].logs), &r->queue[CTL_EVENT_LOG_READY]);
        }
    }
    pump_stories(r);
}

size_t ctl_recorder_waiting(const struct ctl_recorder *r) {
    size_t n = r->flying;
    for (size_t i = 0; i < CTL_EVENT_LOG_QUEUES; i++) {
        const struct ctl_event_log *s;
        TAILQ_FOREACH(s, &r->queue[i].logs, link) {
            n += s->n_waiting;
        }
    }
    return n;
}

/* ---- delaying and merging --------------------------------------------------------------- */

static struct ctl_waiting_event *last_of(const struct ctl_event_log *s) {
    struct ctl_waiting_event *w = s->first;
    while (w && w->next) {
        w = w->next;
    }
    return w;
}

/* Merges the event into the job's last one that waits, if that is possible: an identical event
 * increases its count, and a deed is joined with more of its kind or with the state that follows.
 * A state takes nothing in, since a later event would get the earlier one's reason and time. */
static bool fold_event(struct ctl_waiting_event *last, const struct plan_event *event) {
    if (!last || last->warning != event->warning) {
        return false;
    }
    bool same_kind = strcmp(last->reason, event->reason) == 0;
    if (same_kind && strcmp(last->message, event->message) == 0) {
        last->count++;
        last->until = kube_clock_seconds();
        return true;
    }
    if (event->warning || !last->deed || (event->deed && !same_kind)) {
        return false;
    }
    char *both = co_xasprintf("%.*s; %s", MESSAGE_MAX / 2, last->message, event->message);
    free(last->message);
    last->message = both;
    last->until = kube_clock_seconds();
    last->reason = event->reason;
    last->deed = event->deed;
    last->state = last->state || event->state;
    last->id = event->id;
    return true;
}

/* Which events to keep when there are too many.  A deed can be seen in the objects, a refusal will
 * happen again, but the end of a job is reported only once. */
static int event_rank(bool deed, bool state) {
    return deed ? 0 : state ? 2 : 1;
}

/* Drops the oldest of the least important events.  False: all are more important than `event`. */
static bool make_room(
    struct ctl_event_log *s, const struct api_job *job, const struct plan_event *event) {
    struct ctl_waiting_event **least = NULL;
    int lowest = event_rank(event->deed, event->state) + 1;
    for (struct ctl_waiting_event **link = &s->first; *link; link = &(*link)->next) {
        if (event_rank((*link)->deed, (*link)->state) < lowest) {
            lowest = event_rank((*link)->deed, (*link)->state);
            least = link;
        }
    }
    struct ctl_waiting_event *w = least ? *least : NULL;
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

/* Whether no event of this kind was recorded in the last NEWS_MS; notes that there is one now. */
static bool is_news(struct ctl_event_log *s, const struct plan_event *event) {
    uint64_t bit = UINT64_C(1) << event->kind % PLAN_EVENT_KINDS;
    int64_t now = co_now_ms();
    s->kinds = now - s->news_at < NEWS_MS ? s->kinds : 0;
    bool news = !(s->kinds & bit);
    s->kinds |= bit;
    s->news_at = now;
    return news;
}

/* Moves the log to the queue that the event needs, unless it is in a more urgent one.  All its
 * events move together, so that they are sent in order. */
static void queue_log(
    struct ctl_recorder *r, struct ctl_event_log *s, const struct plan_event *event) {
    bool news = !event->warning && is_news(s, event);
    enum ctl_event_queue to = event->warning || (news && is_quiet(r)) ? CTL_EVENT_LOG_READY
                              : news && !event->deed                  ? CTL_EVENT_LOG_URGENT
                                                                      : CTL_EVENT_LOG_GATHERS;
    if (s->queue && s->queue >= &r->queue[to]) {
        return;
    }
    s->due = co_now_ms() + (to == CTL_EVENT_LOG_GATHERS ? GATHER_MS : 0);
    move_log(s, &r->queue[to]);
    start_timer(r);
}

static void add_event(
    struct ctl_event_log *event_log, const struct api_job *job, const struct plan_event *event) {
    struct ctl_waiting_event *w = co_xcalloc(1, sizeof(*w));
    int64_t now = kube_clock_seconds();
    *w = (struct ctl_waiting_event){.warning = event->warning,
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
        .count = 1,
        .id = event->id};
    struct ctl_waiting_event *last = last_of(event_log);
    *(last ? &last->next : &event_log->first) = w;
    event_log->n_waiting++;
}

void ctl_recorder_emit(struct ctl_recorder *r, const struct api_job *job,
    struct ctl_event_log *event_log, const struct plan_event *event) {
    if (!fold_event(last_of(event_log), event)) {
        if (event_log->n_waiting == WAITING_MAX && !make_room(event_log, job, event)) {
            return;
        }
        add_event(event_log, job, event);
    }
    queue_log(r, event_log, event);
    pump_stories(r);
}
