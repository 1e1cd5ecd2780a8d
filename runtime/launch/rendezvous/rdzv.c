/* The front end of the rendezvous: checks the options, picks a back end by --master, keeps the
 * state and the deadline, and calls the launcher's callbacks.  See rendezvous.h and backend.h. */
#include <string.h>

#include "common/parse.h"
#include "runtime/launch/rendezvous/backend.h"
#include "runtime/launch/rendezvous/group.h"

enum {
    DEADLINE_MS = 15 * 60 * 1000,
    ELASTIC_MS = 30 * 1000,
    SILENT_MS = 10 * 1000,
    LEAVE_MS = 1000,
    PROGRESS_MS = 5000,      /* until the first log line about a wait; ... */
    PROGRESS_MAX_MS = 30000, /* ... the pause doubles with each line up to this */
};

/* Where the strings are in the options: all of them are copied and freed in a loop. */
static const size_t strings[] = {
    offsetof(struct rdzv_options, job_id),
    offsetof(struct rdzv_options, master),
    offsetof(struct rdzv_options, host),
    offsetof(struct rdzv_options, name),
    offsetof(struct rdzv_options, value),
    offsetof(struct rdzv_options, token),
    offsetof(struct rdzv_options, user),
    offsetof(struct rdzv_options, ca_file),
    offsetof(struct rdzv_options, cert_file),
    offsetof(struct rdzv_options, key_file),
};

static const char **string_at(struct rdzv_options *o, size_t i) {
    return (const char **)(void *)((char *)o + strings[i]);
}

static void copy_options(struct rdzv_options *to, const struct rdzv_options *from) {
    *to = *from;
    to->job_id = from->job_id ? from->job_id : "default";
    for (size_t i = 0; i < CO_ARRAY_LEN(strings); i++) {
        const char **s = string_at(to, i);
        *s = *s ? co_xstrdup(*s) : NULL;
    }
    to->deadline_ms = from->deadline_ms ? from->deadline_ms : DEADLINE_MS;
    to->elastic_ms = from->elastic_ms ? from->elastic_ms : ELASTIC_MS;
    to->silent_ms = from->silent_ms ? from->silent_ms : SILENT_MS;
}

/* Whether s can be part of a URL path and of a header: no space and, unless allowed, no slash. */
static bool is_word(const char *s, bool slash) {
    if (!s || !*s || strlen(s) >= CO_HOST_MAX) {
        return false;
    }
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c <= ' ' || c >= 127 || strchr("?#%", c) || (c == '/' && !slash)) {
            return false;
        }
    }
    return true;
}

static int check_options(const struct rdzv_options *o, struct co_err *err) {
    if (o->min_nodes < 1 || o->max_nodes < o->min_nodes || o->max_nodes > RDZV_GROUP_NODES_MAX) {
        return co_err_set(err, CO_INVALID, "--nnodes %d:%d: expected 1 <= MIN <= MAX <= %d",
            o->min_nodes, o->max_nodes, RDZV_GROUP_NODES_MAX);
    }
    if (!is_word(o->job_id, true)) {
        return co_err_set(err, CO_INVALID,
            "--job_id \"%.100s\": expected letters, digits and punctuation", o->job_id);
    }
    if (!is_word(o->name, false) || (o->host && !is_word(o->host, false))) {
        return co_err_set(err, CO_INVALID, "\"%.100s\" is not a node's name",
            is_word(o->name, false) ? o->host
            : o->name               ? o->name
                                    : "");
    }
    if (!o->value || strlen(o->value) > RDZV_VALUE_MAX) {
        return co_err_set(err, CO_INVALID, "a node's value has at most %d bytes", RDZV_VALUE_MAX);
    }
    if (o->rank < -1 || o->rank >= RDZV_GROUP_NODES_MAX) {
        return co_err_set(err, CO_INVALID, "--rank %d: expected -1 or more", o->rank);
    }
    return 0;
}

/* ---- called by the back end ---- */

void rdzv_note(struct rdzv *m, bool warn, const char *line) {
    if (m->fns.note && m->state < RDZV_LEAVING) {
        m->noted_ms = co_now_ms();
        m->fns.note(m->arg, warn, line);
    }
}

static size_t put_string(char *text, size_t at, const char *s, const char **ret) {
    size_t n = strlen(s) + 1;
    memcpy(text + at, s, n);
    *ret = text + at;
    return at + n;
}

void rdzv_met(
    struct rdzv *m, const struct rdzv_peer *peers, size_t n, size_t self, int round, bool watched) {
    size_t size = 0, at = 0;
    if (m->state != RDZV_MEETING) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        size += strlen(peers[i].name) + strlen(peers[i].value) + 2;
    }
    m->peers = co_xrealloc(m->peers, n, sizeof(*m->peers));
    m->text = co_xrealloc(m->text, size, 1);
    for (size_t i = 0; i < n; i++) {
        at = put_string(m->text, at, peers[i].name, &m->peers[i].name);
        at = put_string(m->text, at, peers[i].value, &m->peers[i].value);
    }
    m->roster = (struct rdzv_roster){m->peers, n, self, round, watched};
    m->state = RDZV_MET;
    co_timer_stop(m->deadline);
    co_timer_stop(m->progress);
    m->fns.met(m->arg, &m->roster);
}

void rdzv_changed(struct rdzv *m, const char *why) {
    if (m->state == RDZV_MET) {
        m->state = RDZV_CHANGED;
        co_timer_stop(m->deadline);
        m->fns.changed(m->arg, why);
    }
}

void rdzv_all_done(struct rdzv *m) {
    if (m->state == RDZV_MET && m->fns.all_done) {
        m->fns.all_done(m->arg);
    }
}

void rdzv_overdue(struct rdzv *m, const char *why) {
    struct co_err err = {0};
    if (m->state == RDZV_MET && m->fns.overdue) {
        (void)co_err_set(&err, CO_UNAVAILABLE, "%s", why);
        m->fns.overdue(m->arg, &err);
    }
}

void rdzv_end(struct rdzv *m, int code, const char *why) {
    if (m->state >= RDZV_LEAVING) {
        return;
    }
    struct co_err err = {0};
    (void)co_err_set(&err, code, "%s", why);
    m->state = RDZV_ENDED;
    co_timer_stop(m->deadline);
    co_timer_stop(m->progress);
    m->fns.ended(m->arg, &err);
}

void rdzv_gone(struct rdzv *m) {
    if (m->state == RDZV_LEAVING && m->gone) {
        co_timer_stop(m->deadline);
        void (*gone)(void *arg) = m->gone;
        m->gone = NULL;
        gone(m->arg);
    }
}

void rdzv_finish(struct rdzv *m, const struct co_err *over) {
    if (m->state == RDZV_LEAVING) {
        rdzv_gone(m);
    } else {
        rdzv_end(m, over->code, over->msg);
    }
}

/* ---- waiting for the others ---- */

static void start_waiting(struct rdzv *m) {
    m->since_ms = co_now_ms();
    m->progress_ms = PROGRESS_MS;
    co_timer_start(m->deadline, m->options.deadline_ms);
    co_timer_start(m->progress, m->progress_ms);
}

static void on_progress(void *arg) {
    struct rdzv *m = arg;
    const int64_t now = co_now_ms(), waited = now - m->since_ms;
    if (m->state != RDZV_MEETING) {
        return;
    }
    /* Not when another log line has just said what is missing. */
    if (now - m->noted_ms >= m->progress_ms / 2) {
        CO_AUTOFREE char *line =
            co_xasprintf("waiting for the other nodes since %lld s: %s; giving "
                         "up in %lld s (--join_timeout)",
                (long long)waited / 1000, m->backend->describe(m->with),
                (long long)(m->options.deadline_ms - waited) / 1000);
        rdzv_note(m, true, line);
        m->progress_ms =
            m->progress_ms * 2 < PROGRESS_MAX_MS ? m->progress_ms * 2 : PROGRESS_MAX_MS;
    }
    co_timer_start(m->progress, m->progress_ms);
}

static void on_deadline(void *arg) {
    struct rdzv *m = arg;
    if (m->state == RDZV_LEAVING) {
        rdzv_gone(m);
        return;
    }
    struct co_err err = {0};
    (void)co_err_set(&err, CO_TIMEOUT,
        m->state == RDZV_MET ? "the restart of all nodes did not begin within %.3g s "
                               "(--join_timeout): %s"
                             : "the job's nodes did not meet within %.3g s: %s",
        (double)m->options.deadline_ms / 1000, m->backend->describe(m->with));
    rdzv_end(m, err.code, err.msg);
}

/* ---- called by the launcher ---- */

int rdzv_open(struct co_loop *l, const struct rdzv_options *options, const struct rdzv_fns *fns,
    void *arg, struct rdzv **ret, struct co_err *err) {
    CO_CLEANUP(rdzv_closep) struct rdzv *m = co_xcalloc(1, sizeof(*m));
    m->loop = l;
    m->fns = *fns;
    m->arg = arg;
    copy_options(&m->options, options);
    m->deadline = co_timer_new(l, on_deadline, m);
    m->progress = co_timer_new(l, on_progress, m);
    const char *master = m->options.master;
    m->backend = master && co_is_etcd(master) ? &rdzv_etcd : &rdzv_kv;
    CO_TRY(check_options(&m->options, err));
    CO_TRY(m->backend->start(m, &m->with, err));
    start_waiting(m);
    *ret = co_steal_ptr(m);
    return 0;
}

void rdzv_again(struct rdzv *m) {
    if (m->state != RDZV_CHANGED) {
        return;
    }
    m->state = RDZV_MEETING;
    start_waiting(m);
    m->backend->again(m->with);
}

void rdzv_restart(struct rdzv *m, const char *why) {
    if (m->state == RDZV_MET) {
        co_timer_start(m->deadline, m->options.deadline_ms); /* until `changed` */
        m->backend->restart(m->with, why);
    }
}

void rdzv_done(struct rdzv *m) {
    if (m->state == RDZV_MET) {
        m->backend->done(m->with);
    }
}

void rdzv_leave(struct rdzv *m, int code, const char *why, void (*gone)(void *arg)) {
    if (m->state == RDZV_LEAVING) {
        return;
    }
    bool ended = m->state == RDZV_ENDED;
    m->state = RDZV_LEAVING;
    m->gone = gone;
    if (ended) {
        co_timer_start(m->deadline, 0);
    } else {
        co_timer_start_awake(m->deadline, LEAVE_MS);
        m->backend->leave(m->with, code, why ? why : "");
    }
}

void rdzv_close(struct rdzv *m) {
    if (!m) {
        return;
    }
    if (m->with) {
        m->backend->free(m->with);
    }
    co_timer_free(m->deadline);
    co_timer_free(m->progress);
    for (size_t i = 0; i < CO_ARRAY_LEN(strings); i++) {
        free((void *)(uintptr_t)*string_at(&m->options, i));
    }
    free(m->peers);
    free(m->text);
    free(m);
}
