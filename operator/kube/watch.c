/* List and watch of one collection:
 *
 *                 410, event that cannot be read, silence
 *            .------------------------------------------------.
 *            v                                                |
 *   PAUSED -> LISTING (page by page) -> STREAMING ------------'
 *      ^         |                        |  ^  |
 *      '---------'--- error: backoff -----'  '--' end in order: reopen at the version reached */
#include "operator/kube/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "operator/kube/frame.h"
#include "operator/kube/item.h"
#include "operator/kube/stream.h"

enum {
    PAGE = 1000,
    LIST_DEADLINE_MS = 60 * 1000,
    /* If no byte of a page comes for so long, its connection may be dead: request it on a new one,
     * and wait twice as long, as the server may just be slow. */
    LIST_IDLE_MS = 10 * 1000,
    /* After so many lists in a row that are older than what was seen before, the API server's data
     * must have been reset.  A single one may come from a server that lags. */
    BEHIND_MAX = 3,
    BACKOFF_MIN_MS = 200,
    BACKOFF_MAX_MS = 8 * 1000,
    IDLE_MAX_MS = 150 * 1000,
    TIMEOUT_MIN_S = 300,
    /* A stream that lived so long was a healthy one: the backoff starts from the beginning. */
    HEALTHY_MS = 3 * 1000,
    /* A stream that the server ended sooner than this without an event counts as a failure.  (A
     * server that drops a slow watcher has sent it events before.) */
    SHORT_MS = 1000,
};

/* Only set_state writes it. */
enum watch_state {
    WATCH_PAUSED,    /* the timer is armed (start or backoff); then it lists, or streams again */
    WATCH_LISTING,   /* a page has been requested */
    WATCH_STREAMING, /* the stream is open or being opened; the timer limits its silence */
};

static const char *const state_names[] = {"paused", "listing", "streaming"};

struct kube_watch {
    struct kube_client *c;
    struct kube_watch_opts opts;
    char *ns, *label_selector;
    enum watch_state state;
    struct kube_op *op;
    struct co_timer *timer;
    struct kube_frame frame;         /* of a stream in JSON */
    struct kube_proto_stream events; /* of a stream in protobuf */
    char *version;                   /* the stream resumes from it; NULL: list first */
    char *next_page;                 /* continue token of the list in progress */
    uint64_t reached;                /* version as a number */
    uint64_t expected;               /* version of the last write that was answered */
    uint64_t floor;                  /* a list that is older than this is stale */
    unsigned failures;               /* in a row */
    unsigned shed;       /* streams in a row that the server ended soon, after some events */
    unsigned behind;     /* stale lists in a row */
    unsigned late;       /* pages in a row that did not come in time */
    int64_t opened;      /* when the stream was requested */
    int64_t received_at; /* when its last byte was read */
    bool begun;          /* false: it is held */
    bool synced;         /* the first list has ended */
    bool reported;       /* the stream has had an event */
    int busy;            /* callbacks of the consumer on the stack */
    bool freed;          /* by one of them; the memory goes when the last one returns */
};

static void set_state(struct kube_watch *w, enum watch_state s) {
    if (w->state != s) {
        co_log_debug("watch", CO_S("resource", w->opts.type->plural),
            CO_S("from", state_names[w->state]), CO_S("to", state_names[s]));
    }
    w->state = s;
}

/* ---- the consumer's callbacks: each may free the watch ---- */

static void watch_free(struct kube_watch *w) {
    free(w->ns);
    free(w->label_selector);
    free(w->version);
    free(w->next_page);
    kube_frame_done(&w->frame);
    kube_proto_stream_done(&w->events);
    free(w);
}

static void enter_callback(struct kube_watch *w) {
    w->busy++;
}

/* False when a callback has freed the watch. */
static bool leave_callback(struct kube_watch *w) {
    w->busy--;
    if (w->freed && !w->busy) {
        watch_free(w);
        return false;
    }
    return !w->freed;
}

void kube_watch_free(struct kube_watch *w) {
    if (!w) {
        return;
    }
    kube_cancel(co_steal_ptr(w->op));
    co_timer_free(co_steal_ptr(w->timer));
    w->freed = true;
    if (!w->busy) {
        watch_free(w);
    }
}

/* ---- pauses ---- */

static uint32_t random_below(uint32_t n) {
    uint32_t r = 0;
    (void)!getrandom(&r, sizeof(r), 0); /* if it fails, backoffs are not jittered */
    return n ? r % n : 0;
}

/* Exponential backoff with jitter: between half and all of the doubled step, so that many clients
 * do not come back at the same time. */
static int64_t backoff_ms(struct kube_watch *w) {
    unsigned doublings = w->failures < 16 ? w->failures : 16;
    int64_t ms = w->opts.backoff_min_ms << doublings;
    ms = ms < w->opts.backoff_max_ms ? ms : w->opts.backoff_max_ms;
    w->failures++;
    return ms / 2 + random_below((uint32_t)(ms / 2 + 1));
}

static void pause_for(struct kube_watch *w, int64_t ms) {
    set_state(w, WATCH_PAUSED);
    co_timer_start(w->timer, ms);
}

static void pause_after(struct kube_watch *w, const struct co_err *err, int64_t asked_ms) {
    int64_t ms = backoff_ms(w);
    ms = asked_ms > ms ? asked_ms : ms;
    pause_for(w, ms);
    if (w->opts.ops->error) {
        w->opts.ops->error(w->opts.arg, err, ms);
    }
}

/* The pause after the server has ended a stream early.  A busy API server closes watches, ours and
 * the scheduler's alike.  Reopening at once would add to its load, and the stream would not live
 * long; the events that we miss come in one piece later.  The pause is short, as a job may be
 * waiting for its last event. */
static int64_t shed_ms(struct kube_watch *w) {
    unsigned doublings = w->shed < 16 ? w->shed : 16;
    int64_t ms = (w->opts.backoff_min_ms / 4) << doublings;
    int64_t most = w->opts.backoff_max_ms / 10;
    w->shed++;
    return ms < most ? ms : most;
}

static void forget_version(struct kube_watch *w) {
    free(co_steal_ptr(w->version));
    free(co_steal_ptr(w->next_page));
}

/* ---- listing ---- */

static void begin_list(struct kube_watch *w);
static void begin_stream(struct kube_watch *w);

static void reach_version(struct kube_watch *w, const char *version) {
    if (!version || !*version) {
        return;
    }
    free(w->version);
    w->version = co_xstrdup(version);
    w->reached = kube_version(version);
}

static void list_ended(struct kube_watch *w, const char *version) {
    reach_version(w, version);
    w->synced = true;
    /* The backoff is not reset here, but by a stream that lasts.  Otherwise a list that works and a
     * watch that does not would follow each other without a pause. */
    w->opts.ops->sync_end(w->opts.arg);
    if (!w->freed && w->opts.ops->progress) {
        w->opts.ops->progress(w->opts.arg, w->reached);
    }
    if (!w->freed) {
        begin_stream(w);
    }
}

/* Handles a list that is older than what was known when it was requested.  Either the server lags,
 * which passes, or its data was restored from a backup.  True: the list will be repeated. */
static bool is_behind(struct kube_watch *w, const char *version, uint64_t *upto) {
    uint64_t now = *upto = kube_version(version);
    struct co_err err = {0};
    if (!now || now >= w->floor) {
        w->behind = 0;
        return false;
    }
    if (++w->behind < BEHIND_MAX) {
        co_err_set(&err, CO_UNAVAILABLE, "list %s: version %" PRIu64 " after %" PRIu64,
            w->opts.type->plural, now, w->floor);
        pause_after(w, &err, -1);
        return true;
    }
    co_log_warn("API server data was reset (resourceVersion went back), accepting it",
        CO_S("resource", w->opts.type->plural), CO_I("version", now), CO_I("after", w->floor));
    w->behind = 0;
    w->reached = w->expected = 0;
    *upto = UINT64_MAX;
    if (w->opts.ops->went_back) {
        w->opts.ops->went_back(w->opts.arg);
    }
    return false;
}

/* Reports the items of a page, one after the other. */
static int report_items(struct kube_watch *w, struct kube_page *p, struct co_err *err) {
    int r = 0;
    while (!r && !w->freed) {
        KUBE_AUTOITEM struct kube_item item = {.text = NULL};
        r = kube_page_next(p, &item, err);
        if (!r) {
            r = w->opts.ops->object(w->opts.arg, KUBE_ADDED, &item.object, err);
        }
    }
    return r == CO_GONE ? 0 : r;
}

static void break_off(struct kube_watch *w, const char *why) {
    struct co_err err = {0};
    co_err_set(&err, CO_UNAVAILABLE, "list %s: %s", w->opts.type->plural, why);
    forget_version(w);
    pause_after(w, &err, -1);
}

static void take_page(struct kube_watch *w, const struct kube_reply *reply) {
    KUBE_AUTOPAGE struct kube_page page = {.at = NULL};
    struct co_err err = {0};
    if (kube_page_open(reply->text, reply->len, w->opts.type->proto, &page, &err)) {
        break_off(w, co_err_text(&err));
        return;
    }
    const char *next = co_jnode_str(page.rest.node, "metadata", "continue");
    const char *version = co_jnode_str(page.rest.node, "metadata", "resourceVersion");
    if (!w->next_page) {
        uint64_t upto;
        if (is_behind(w, version, &upto) || w->freed) {
            return;
        }
        w->opts.ops->sync_begin(w->opts.arg, upto);
    }
    int r = report_items(w, &page, &err);
    if (w->freed) {
        return;
    }
    if (r) {
        break_off(w, co_err_text(&err));
        return;
    }
    free(w->next_page);
    w->next_page = next && *next ? co_xstrdup(next) : NULL;
    if (w->next_page) {
        begin_list(w);
    } else {
        list_ended(w, version);
    }
}

static void on_page(void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct kube_watch *w = arg;
    w->op = NULL;
    w->late = code == CO_TIMEOUT ? w->late + 1 : 0;
    enter_callback(w);
    if (!code) {
        take_page(w, reply);
    } else if (code == CO_GONE && w->next_page) {
        /* The snapshot of the continue token was compacted: start the list over, at once. */
        forget_version(w);
        if (w->failures++) {
            pause_after(w, err, reply->retry_after_ms);
        } else {
            begin_list(w);
        }
    } else if (code == CO_NORESOURCE && w->opts.page > 1) {
        /* The answer exceeds our limit: request smaller pages from now on. */
        w->opts.page /= 2;
        forget_version(w);
        begin_list(w);
    } else {
        /* If the server was only unavailable, the same page is requested again. */
        if (co_code_remedy(code) != CO_BACK_OFF) {
            forget_version(w);
        }
        pause_after(w, err, reply->retry_after_ms);
    }
    (void)leave_callback(w);
}

/* A server that takes longer than this for a page would otherwise never deliver one. */
static int64_t page_silence_ms(const struct kube_watch *w) {
    unsigned doublings = w->late < 16 ? w->late : 16;
    int64_t ms = w->opts.list_idle_ms << doublings;
    return ms < LIST_DEADLINE_MS ? ms : LIST_DEADLINE_MS;
}

static void add_param(struct kube_req *req, const char *key, const char *value) {
    for (size_t i = 0; value && i < KUBE_PARAMS; i++) {
        if (!req->params[i].key) {
            req->params[i] = (struct kube_param){key, value};
            return;
        }
    }
}

static void begin_list(struct kube_watch *w) {
    char limit[16];
    snprintf(limit, sizeof(limit), "%d", w->opts.page);
    struct kube_req req = kube_req_for(KUBE_LIST, w->opts.type, w->ns, NULL, on_page, w);
    req.deadline_ms = LIST_DEADLINE_MS;
    req.silence_ms = page_silence_ms(w);
    req.answer = KUBE_TEXT; /* report_items parses one item at a time */
    add_param(&req, "limit", limit);
    add_param(&req, "labelSelector", w->label_selector);
    add_param(&req, "continue", w->next_page);
    if (!w->next_page) {
        w->floor = w->expected > w->reached ? w->expected : w->reached;
    }
    co_timer_stop(w->timer);
    set_state(w, WATCH_LISTING);
    w->op = kube_do(w->c, &req);
}

/* ---- streaming ---- */

/* Results of an event, beside the errors of the frame: the consumer has freed the watch; the stream
 * has been stopped. */
enum { STREAM_FREED = 1, STREAM_OVER = 2 };

static void stop_stream(struct kube_watch *w) {
    kube_cancel(co_steal_ptr(w->op));
    co_timer_stop(w->timer);
    kube_frame_clear(&w->frame);
    kube_proto_stream_done(&w->events);
}

static void version_expired(struct kube_watch *w, const struct co_err *err) {
    forget_version(w);
    /* Relist at once the first time: a watch that paused for too long is not a failure. */
    if (w->failures) {
        pause_after(w, err, -1);
    } else {
        w->failures++;
        begin_list(w);
    }
}

static int error_event(struct kube_watch *w, const struct co_jnode *status) {
    const char *message = co_jnode_str(status, "message");
    const char *reason = co_jnode_str(status, "reason");
    int64_t http = 0;
    if (!co_jnode_int(co_jnode_get(status, "code"), &http)) {
        http = 0;
    }
    bool gone = http == 410 || co_streq(reason, "Expired") || co_streq(reason, "Gone");
    struct co_err err = {0};
    co_err_set(&err, gone ? CO_GONE : CO_UNAVAILABLE, "watch %s: %s (%" PRId64 ")",
        w->opts.type->plural, message ? message : "error without a message", http);
    stop_stream(w);
    if (gone) {
        version_expired(w, &err);
    } else {
        pause_after(w, &err, -1);
    }
    return STREAM_OVER;
}

/* Versions of a stream must only grow.  One that goes back comes from a server that lags or was
 * reset; a list will show which. */
static int went_back(struct kube_watch *w, uint64_t version) {
    struct co_err err = {0};
    co_err_set(&err, CO_UNAVAILABLE, "watch %s: version %" PRIu64 " after %" PRIu64,
        w->opts.type->plural, version, w->reached);
    stop_stream(w);
    forget_version(w);
    pause_after(w, &err, -1);
    return STREAM_OVER;
}

static int bad_line(struct kube_watch *w, struct co_err *err) {
    co_err_wrap(err, "watch %s", w->opts.type->plural);
    stop_stream(w);
    pause_after(w, err, -1);
    return STREAM_OVER;
}

/* An event with an object, or a bookmark. */
static int version_event(
    struct kube_watch *w, enum kube_frame_type type, const struct kube_item *item) {
    static const enum kube_event types[] = {
        [KUBE_FRAME_ADDED] = KUBE_ADDED,
        [KUBE_FRAME_MODIFIED] = KUBE_MODIFIED,
        [KUBE_FRAME_DELETED] = KUBE_DELETED,
    };
    struct co_err err = {0};
    const char *version = kube_item_version(item);
    uint64_t number = kube_version(version);
    if (number && number < w->reached) {
        return went_back(w, number);
    }
    /* Set the version before the callback, in which the consumer may ask for it. */
    reach_version(w, version);
    int r = type == KUBE_FRAME_BOOKMARK
                ? 0
                : w->opts.ops->object(w->opts.arg, types[type], &item->object, &err);
    if (r && !w->freed) {
        forget_version(w); /* relist: resuming after this event would lose it silently */
        return bad_line(w, &err);
    }
    if (!w->freed && w->opts.ops->progress) {
        w->opts.ops->progress(w->opts.arg, w->reached);
    }
    return w->freed ? STREAM_FREED : 0;
}

static int take_event(
    struct kube_watch *w, enum kube_frame_type type, const struct kube_item *item) {
    return type == KUBE_FRAME_ERROR ? error_event(w, item->object.nodes)
                                    : version_event(w, type, item);
}

/* A line in an unusual format: parses all of it, with keys in any order. */
static int odd_line(struct kube_watch *w, const char *line, size_t len) {
    struct co_err err = {0};
    KUBE_AUTOITEM struct kube_item whole = {.text = NULL};
    enum kube_frame_type type = KUBE_FRAME_ERROR;
    if (kube_item_json(line, len, &whole, &err)) {
        return bad_line(w, &err);
    }
    const char *name = co_jnode_str(whole.object.nodes, "type");
    const struct co_jnode *object = co_jnode_get(whole.object.nodes, "object");
    if (kube_frame_type_parse(name ? name : "", name ? strlen(name) : 0, &type, &err)) {
        return bad_line(w, &err);
    }
    if (!co_jnode_is(object, CO_J_OBJECT)) {
        (void)co_err_set(&err, CO_INVALID, "an event without object");
        return bad_line(w, &err);
    }
    KUBE_AUTOITEM struct kube_item item = kube_item_part(object);
    return take_event(w, type, &item);
}

static int on_line(void *arg, const char *line, size_t len) {
    struct kube_watch *w = arg;
    enum kube_frame_type type;
    const char *text;
    size_t n;
    KUBE_AUTOITEM struct kube_item item = {.text = NULL};
    w->reported = true;
    const bool odd =
        kube_frame_split(line, len, &type, &text, &n, NULL) || kube_item_json(text, n, &item, NULL);
    return odd ? odd_line(w, line, len) : take_event(w, type, &item);
}

static int on_event(void *arg, const char *name, size_t name_len, const char *object, size_t len,
    struct co_err *err) {
    struct kube_watch *w = arg;
    enum kube_frame_type type;
    struct co_jdoc doc = {.text = NULL};
    w->reported = true;
    CO_TRY(kube_frame_type_parse(name, name_len, &type, err));
    CO_TRY(kube_proto_read(w->opts.type->proto, object, len, &doc, err));
    KUBE_AUTOITEM struct kube_item item = kube_item_proto(&doc);
    return take_event(w, type, &item);
}

static void on_data(void *arg, const char *data, size_t len) {
    struct kube_watch *w = arg;
    struct co_err err = {0};
    w->received_at = co_now_ms();
    if (w->received_at - w->opened > w->opts.healthy_ms) {
        w->failures = 0;
    }
    enter_callback(w);
    bool proto = w->opts.type->proto && kube_proto_stream_is(&w->events, data, len);
    int rc = proto ? kube_proto_feed(&w->events, KUBE_EVENT_MAX, data, len, on_event, w, &err)
                   : kube_frame_feed(&w->frame, data, len, on_line, w, &err);
    if (rc < 0) {
        forget_version(w); /* relist: resuming after this event would lose it silently */
        (void)bad_line(w, &err);
    }
    (void)leave_callback(w);
}

static void on_stream_end(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct kube_watch *w = arg;
    int64_t lived = co_now_ms() - w->opened;
    bool torn = kube_frame_torn(&w->frame) || w->events.part.len;
    w->op = NULL;
    stop_stream(w);
    /* Without an answer the time went into connecting: that is no reason to come back sooner. */
    if (lived > w->opts.healthy_ms && reply->status == 200) {
        w->failures = w->shed = 0;
    }
    enter_callback(w);
    if (code == CO_GONE) {
        version_expired(w, err);
    } else if (code) {
        pause_after(w, err, reply->retry_after_ms);
    } else if (torn || (lived < SHORT_MS && !w->reported)) {
        struct co_err early = {0};
        co_err_set(&early, CO_UNAVAILABLE, "watch %s: ended after %" PRId64 " ms%s",
            w->opts.type->plural, lived, torn ? " inside an event" : "");
        pause_after(w, &early, -1);
    } else if (lived < w->opts.healthy_ms) {
        pause_for(w, shed_ms(w));
    } else {
        begin_stream(w);
    }
    (void)leave_callback(w);
}

static void begin_stream(struct kube_watch *w) {
    char timeout[24];
    int64_t min_s = w->opts.timeout_min_s;
    snprintf(timeout, sizeof(timeout), "%" PRId64, min_s + random_below((uint32_t)min_s + 1));
    struct kube_req req = kube_req_for(KUBE_WATCH, w->opts.type, w->ns, NULL, on_stream_end, w);
    add_param(&req, "watch", "true");
    add_param(&req, "allowWatchBookmarks", "true");
    add_param(&req, "resourceVersion", w->version);
    add_param(&req, "timeoutSeconds", timeout);
    add_param(&req, "labelSelector", w->label_selector);
    w->reported = false;
    w->opened = w->received_at = co_now_ms();
    set_state(w, WATCH_STREAMING);
    co_timer_start_awake(w->timer, w->opts.idle_max_ms);
    w->op = kube_stream(w->c, &req, on_data);
}

static void check_silence(struct kube_watch *w) {
    int64_t left = w->received_at + w->opts.idle_max_ms - co_now_ms();
    if (left > 0) {
        co_timer_start_awake(w->timer, left);
        return;
    }
    struct co_err err = {0};
    co_err_set(&err, CO_TIMEOUT, "watch %s: nothing received for %" PRId64 " s",
        w->opts.type->plural, w->opts.idle_max_ms / 1000);
    stop_stream(w);
    kube_client_distrust_streams(w->c);
    w->failures = 0; /* the silence was long enough a pause */
    /* Relist, because a server that has lost our version may be silent, too. */
    forget_version(w);
    pause_after(w, &err, -1);
}

static void on_timer(void *arg) {
    struct kube_watch *w = arg;
    enter_callback(w);
    if (w->state == WATCH_STREAMING) {
        check_silence(w);
    } else if (w->version) {
        begin_stream(w);
    } else {
        begin_list(w);
    }
    (void)leave_callback(w);
}

/* ---- life ---- */

static int64_t or_default(int64_t v, int64_t fallback) {
    return v > 0 ? v : fallback;
}

static char *copy_text(const char *s) {
    return s ? co_xstrdup(s) : NULL;
}

struct kube_watch *kube_watch_new(struct kube_client *c, const struct kube_watch_opts *opts) {
    struct kube_watch *w = co_xcalloc(1, sizeof(*w));
    w->c = c;
    w->opts = *opts;
    w->ns = copy_text(opts->ns);
    w->label_selector = copy_text(opts->label_selector);
    w->opts.page = opts->page > 0 ? opts->page : PAGE;
    w->opts.backoff_min_ms = or_default(opts->backoff_min_ms, BACKOFF_MIN_MS);
    w->opts.backoff_max_ms = or_default(opts->backoff_max_ms, BACKOFF_MAX_MS);
    w->opts.idle_max_ms = or_default(opts->idle_max_ms, IDLE_MAX_MS);
    w->opts.list_idle_ms = or_default(opts->list_idle_ms, LIST_IDLE_MS);
    w->opts.healthy_ms = or_default(opts->healthy_ms, HEALTHY_MS);
    w->opts.timeout_min_s = or_default(opts->timeout_min_s, TIMEOUT_MIN_S);
    kube_frame_init(&w->frame, KUBE_EVENT_MAX);
    w->timer = co_timer_new(kube_client_loop(c), on_timer, w);
    if (!opts->held) {
        kube_watch_begin(w);
    }
    return w;
}

void kube_watch_begin(struct kube_watch *w) {
    if (!w->begun) {
        w->begun = true;
        pause_for(w, 0);
    }
}

void kube_watch_expect(struct kube_watch *w, uint64_t version) {
    w->expected = version > w->expected ? version : w->expected;
}

void kube_watch_relist(struct kube_watch *w) {
    w->begun = true;
    stop_stream(w);
    forget_version(w);
    pause_for(w, backoff_ms(w));
}

bool kube_watch_synced(const struct kube_watch *w) {
    return w->synced;
}

uint64_t kube_watch_version(const struct kube_watch *w) {
    return w->reached;
}
