/* Leader election: acquires, renews and releases the Lease.
 *
 *   standby: attempt every retry_ms -- the ConfigMap and the Lease are free or expired --> leading
 *   leading: renewal every retry_ms -- conflict, another holder, or renew_ms without success -->
 *            standby
 *   ctl_lease_release: one more write, with an empty holder; then `done` */
#include "operator/control/lease.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/map.h"

const struct kube_type ctl_lease_type = {"coordination.k8s.io", "v1", "leases", "Lease"};
static const struct kube_type configmap_type = {"", "v1", "configmaps", "ConfigMap"};

#define LEADER_ANNOTATION "control-plane.alpha.kubernetes.io/leader"

/* leaseDurationSeconds of other holders: used when a record has none, and the most that counts. */
enum { SECONDS_DEFAULT = 15, SECONDS_MAX = 3600 };
enum { LATE_MAX = 2 }; /* doublings of the time for an answer: 20 s */

/* One attempt is: GET [the old lock's ConfigMap, then] the Lease; then create or update it.  The
 * answer of a step starts the next one; the timer starts the next attempt. */
struct ctl_lease {
    struct kube_client *client;
    struct ctl_lease_opts opts;
    struct co_timer *timer;
    struct co_timer *expiry; /* armed while leading: due when no renewal has succeeded in time */
    struct kube_op *op;      /* in flight */
    bool leading, releasing;
    bool asked_again;          /* the release was refused once, and is tried again */
    bool old_held;             /* in this attempt: upstream's operator holds the ConfigMap */
    int64_t renewed_at;        /* monotonic ms: when our last write that succeeded was sent */
    int64_t written_at;        /* monotonic ms: when the last write was sent */
    uint64_t others, old_lock; /* see ctl_lease_expired: the Lease, the ConfigMap */
    int64_t others_since, old_lock_since; /* likewise; monotonic ms */
    bool timed_out;                       /* in this attempt: an answer did not come in time */
    unsigned late;                        /* such attempts in a row, up to LATE_MAX */
    char *holder;                         /* the holder that was logged last */
    json_t *last; /* the Lease as we wrote it last; NULL: read it before the next write */
    void (*done)(void *arg);
    void *done_arg;
};

static void attempt_lease(void *arg);
static void read_lease(struct ctl_lease *l);

static void set_leading(struct ctl_lease *l, bool leading) {
    if (l->leading != leading) {
        l->leading = leading;
        co_log_info(leading ? "leading" : "no longer leading", CO_S("identity", l->opts.identity));
        l->opts.changed(l->opts.arg, leading);
    }
}

static void not_renewed(void *arg) {
    struct ctl_lease *l = arg;
    if (l->leading) {
        co_log_error("lease not renewed in time", CO_I("ms", co_now_ms() - l->renewed_at));
        set_leading(l, false);
    }
}

static void attempt_again(struct ctl_lease *l) {
    if (l->releasing) {
        if (l->done) {
            void (*done)(void *) = co_steal_ptr(l->done);
            done(l->done_arg);
        }
        return;
    }
    co_timer_start(l->timer, l->opts.retry_ms);
}

static void say_failure(struct ctl_lease *l, const char *what, const struct co_err *err) {
    co_log_warn(what, CO_S("lease", l->opts.name), CO_S("namespace", l->opts.ns), CO_E(err));
}

/* Who does not lead has time: each attempt waits twice as long for answers as the last one that got
 * none.  Otherwise a slow API server would never answer. */
static int64_t request_ms(const struct ctl_lease *l) {
    return (l->opts.renew_ms / 2) << (l->leading || l->releasing ? 0 : l->late);
}

static void note_answer(struct ctl_lease *l, int code) {
    l->op = NULL;
    l->timed_out |= code == CO_TIMEOUT;
}

static void send_request(struct ctl_lease *l, struct kube_req *req) {
    req->class = KUBE_CLASS_LEASE;
    req->deadline_ms = request_ms(l);
    l->op = kube_do(l->client, req);
}

void ctl_lease_time(char text[40]) {
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(text + n, 40 - n, ".%06ldZ", ts.tv_nsec / 1000);
}

static void lease_written(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_lease *l = arg;
    note_answer(l, code);
    co_json_decref(&l->last);
    co_metric_add(&l->opts.metrics->row[CTL_M_LEADER_SLOW], 0, code && l->leading);
    if (!code) {
        l->last = json_incref(reply->body);
        l->renewed_at = l->written_at;
        /* A timer of its own, so that it fires even while an attempt waits for an answer. */
        int64_t left = l->renewed_at + l->opts.renew_ms - co_now_ms();
        co_timer_start(l->expiry, left > 0 ? left : 0);
        set_leading(l, !l->releasing && left > 0);
    } else if (code == CO_CONFLICT || code == CO_EXISTS) {
        set_leading(l, false); /* another process wrote it: the next attempt reads it first */
        if (l->releasing && !l->asked_again) { /* or our renewal, sent before it */
            l->asked_again = true;
            read_lease(l);
            return;
        }
    } else {
        say_failure(l, "lease not written, retrying", err);
    }
    attempt_again(l);
}

/* old: the Lease as the API server has it, NULL when there is none. */
static void write_lease(struct ctl_lease *l, const json_t *old) {
    const char *holder = co_json_str(old, "spec", "holderIdentity");
    bool ours = co_streq(holder, l->opts.identity);
    const json_t *changes = co_json_at(old, "spec", "leaseTransitions");
    const char *since = ours ? co_json_str(old, "spec", "acquireTime") : NULL;
    char now[40];
    ctl_lease_time(now);
    CO_AUTOJSON json_t *body = json_pack("{s:s,s:s,s:{s:s,s:s,s:s*},s:{s:s,s:i,s:s,s:s,s:I}}",
        "apiVersion", "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name", l->opts.name,
        "namespace", l->opts.ns, "resourceVersion", co_json_str(old, "metadata", "resourceVersion"),
        "spec", "holderIdentity", l->releasing ? "" : l->opts.identity, "leaseDurationSeconds",
        l->releasing ? 1 : (int)(l->opts.duration_ms / 1000), "acquireTime", since ? since : now,
        "renewTime", now, "leaseTransitions", json_integer_value(changes) + (old && !ours));
    struct kube_req req = kube_req_for(old ? KUBE_UPDATE : KUBE_CREATE, &ctl_lease_type, l->opts.ns,
        old ? l->opts.name : NULL, lease_written, l);
    req.body = body;
    l->written_at = co_now_ms();
    send_request(l, &req);
}

bool ctl_lease_expired(const json_t *record, uint64_t *hash, int64_t *since) {
    int64_t seconds = json_integer_value(json_object_get(record, "leaseDurationSeconds"));
    seconds = seconds < 1 ? SECONDS_DEFAULT : seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
    CO_AUTOFREE char *text = co_json_dump_sorted(record);
    uint64_t h = co_hash_str(text);
    int64_t now = co_now_ms();
    if (h != *hash || !*since) {
        *hash = h;
        *since = now;
    }
    return now - *since >= seconds * 1000;
}

static void say_holder(struct ctl_lease *l, const char *holder) {
    if (!co_streq(holder, l->holder)) {
        free(l->holder);
        l->holder = co_xstrdup(holder);
        co_log_info("waiting for the lease", CO_S("holder", holder));
    }
}

static void lease_read(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_lease *l = arg;
    note_answer(l, code);
    if (code && code != CO_NOTFOUND) {
        say_failure(l, "lease not read, retrying", err);
        attempt_again(l);
        return;
    }
    const json_t *spec = code ? NULL : co_json_at(reply->body, "spec");
    const char *holder = co_json_str(spec, "holderIdentity");
    bool ours = co_streq(holder, l->opts.identity);
    if (l->releasing && !ours) {
        attempt_again(l);
        return;
    }
    if (holder && *holder && !ours) {
        set_leading(l, false);
        if (!ctl_lease_expired(spec, &l->others, &l->others_since)) {
            say_holder(l, holder);
            attempt_again(l);
            return;
        }
    }
    if (l->old_held) {
        attempt_again(l);
        return;
    }
    write_lease(l, code ? NULL : reply->body);
}

static void read_lease(struct ctl_lease *l) {
    struct kube_req req =
        kube_req_for(KUBE_GET, &ctl_lease_type, l->opts.ns, l->opts.name, lease_read, l);
    send_request(l, &req);
}

static void old_lock_read(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_lease *l = arg;
    note_answer(l, code);
    if (code && co_code_remedy(code) == CO_BACK_OFF) { /* it may be held, so we must not lead */
        say_failure(l, "old lock not read, retrying", err);
        attempt_again(l);
        return;
    }
    const char *text =
        code ? NULL : co_json_str(reply->body, "metadata", "annotations", LEADER_ANNOTATION);
    CO_AUTOJSON json_t *record = NULL;
    if (text && !co_json_parse(text, strlen(text), &record, NULL)) {
        const char *holder = co_json_str(record, "holderIdentity");
        l->old_held =
            holder && *holder && !ctl_lease_expired(record, &l->old_lock, &l->old_lock_since);
        if (l->old_held) {
            say_holder(l, holder);
        }
    }
    /* Read the Lease in any case: upstream's operator holds both locks, and both must expire. */
    read_lease(l);
}

static void attempt_lease(void *arg) {
    struct ctl_lease *l = arg;
    l->late = !l->timed_out ? 0 : l->late < LATE_MAX ? l->late + 1 : LATE_MAX;
    l->old_held = l->timed_out = false;
    if (l->leading) {
        if (l->last) {
            write_lease(l, l->last);
        } else {
            read_lease(l);
        }
        return;
    }
    struct kube_req req =
        kube_req_for(KUBE_GET, &configmap_type, l->opts.ns, CTL_LEASE_NAME, old_lock_read, l);
    send_request(l, &req);
}

struct ctl_lease *ctl_lease_new(
    struct co_loop *loop, struct kube_client *client, const struct ctl_lease_opts *opts) {
    struct ctl_lease *l = co_xcalloc(1, sizeof(*l));
    l->client = client;
    l->opts = *opts;
    l->opts.name = opts->name ? opts->name : CTL_LEASE_NAME;
    l->opts.duration_ms = opts->duration_ms ? opts->duration_ms : 15000;
    l->opts.renew_ms = opts->renew_ms ? opts->renew_ms : 10000;
    l->opts.retry_ms = opts->retry_ms ? opts->retry_ms : 2000;
    l->timer = co_timer_new(loop, attempt_lease, l);
    l->expiry = co_timer_new(loop, not_renewed, l);
    co_timer_start(l->timer, 0);
    return l;
}

void ctl_lease_release(struct ctl_lease *l, void (*done)(void *arg), void *arg) {
    bool held = l->leading;
    l->releasing = true;
    l->done = done;
    l->done_arg = arg;
    co_timer_stop(l->timer);
    kube_cancel(co_steal_ptr(l->op));
    if (held) {
        l->leading = false; /* without the callback: the caller has stopped acting already */
        read_lease(l);
    } else {
        attempt_again(l);
    }
}

void ctl_lease_free(struct ctl_lease *l) {
    if (l) {
        kube_cancel(l->op);
        co_timer_free(l->timer);
        co_timer_free(l->expiry);
        co_json_decref(&l->last);
        free(l->holder);
        free(l);
    }
}
