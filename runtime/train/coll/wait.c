/* How long a call waits, and how it finds the rank to blame.  A rank that others wait for
 *
 *     has ended    its control connection ends: the monitor reports that at once
 *     is stopped   its monitor does not answer a ping: lost
 *     is late      its monitor answers, but the call's data does not come: a timeout.  The answers
 *                  say how many calls each rank has begun: those that have begun fewest are named
 *     is elsewhere it makes another call (agree.h): invalid
 *     has left     it said goodbye, and what it had sent before has arrived: lost
 *
 * The ping goes out after half of the call's time limit; the verdict falls at its end, but never
 * before the others had time to answer.  This rank may itself have been stopped for longer than the
 * whole limit: then nobody has been asked yet, or the answers have not been read. */
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/interrupt.h"
#include "common/log.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/monitor.h"

enum {
    GRACE_MS = 1000, /* time to answer a ping, unless half of the limit is shorter */
    /* When a call has lasted so long, this rank asks the one that it waits for whether both make
     * the same call; then after twice the time, and so on, but at least every AGREE_MAX_MS. */
    AGREE_MS = 10,
    AGREE_MAX_MS = 500,
    NAMED_MAX = 4, /* ranks that a message names */
    NAMES_BYTES = 320,
};

void coll_group_notify(struct rt_group *g) {
    const struct coll_failure_report *t = &g->report;
    if (t->code < 0) {
        coll_monitor_send(g, t->word, t->rank, t->code, t->more, t->bytes);
    }
}

/* more NULL: the message itself follows the word. */
static int CO_PRINTF(5, 0) fail(struct rt_group *g, int code, uint32_t rank,
    const struct coll_failure_report *t, const char *fmt, va_list ap) {
    pthread_mutex_lock(&g->m);
    bool first = atomic_load(&g->failed) == 0;
    if (first) {
        (void)co_err_setv(&g->why, code, fmt, ap);
        g->failed_rank = rank;
        size_t len = t->more ? t->bytes : strlen(g->why.msg);
        g->report = (struct coll_failure_report){.word = t->word,
            .more = g->report_text,
            .bytes = len < COLL_WORD_MAX ? (uint32_t)len : COLL_WORD_MAX,
            .code = t->code ? t->code : code,
            .rank = t->code ? t->rank : rank};
        memcpy(g->report_text, t->more ? (const void *)t->more : g->why.msg, g->report.bytes);
        if (t->notify) {
            coll_group_notify(g);
        }
        atomic_store(&g->failed, code);
        (void)eventfd_write(g->alarm, 1);
        pthread_cond_broadcast(&g->changed);
        coll_group_fail_child(g);
    }
    pthread_mutex_unlock(&g->m);
    return atomic_load(&g->failed);
}

int coll_group_fail_as(struct rt_group *g, int code, uint32_t rank,
    const struct coll_failure_report *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int rc = fail(g, code, rank, t, fmt, ap);
    va_end(ap);
    return rc;
}

int coll_group_fail(
    struct rt_group *g, int code, uint32_t rank, bool notify, const char *fmt, ...) {
    struct coll_failure_report t = {.word = COLL_WORD_LOST, .notify = notify};
    va_list ap;
    va_start(ap, fmt);
    int rc = fail(g, code, rank, &t, fmt, ap);
    va_end(ap);
    return rc;
}

void rt_group_abort(struct rt_group *g, const char *why) {
    if (g->fork.forked) {
        return; /* the group is the parent's, which still uses it */
    }
    char text[COLL_WORD_MAX + 1];
    int n = snprintf(text, sizeof(text), "rank %u (%.200s) has given the group up: %s", g->rank,
        g->endpoints[g->rank], why ? why : "no reason was given");
    struct coll_failure_report t = {.word = COLL_WORD_LOST,
        .notify = true,
        .more = (const unsigned char *)text,
        .bytes = n < COLL_WORD_MAX ? (uint32_t)n : COLL_WORD_MAX,
        .code = CO_PEERLOST,
        .rank = g->rank};
    (void)coll_group_fail_as(g, CO_CANCELED, g->size, &t, "this rank has given the group up: %s",
        why ? why : "no reason was given");
}

int coll_group_why(struct rt_group *g, struct co_err *err) {
    int code = atomic_load(&g->failed);
    if (code < 0 && err) {
        pthread_mutex_lock(&g->m);
        *err = g->why;
        pthread_mutex_unlock(&g->m);
    }
    return code;
}

int coll_group_left(struct rt_group *g, uint32_t rank) {
    return coll_group_fail(g, CO_PEERLOST, rank, true, "rank %u (%.200s) has left the group", rank,
        g->endpoints[rank]);
}

/* The ranks that others wait for in a call. */
struct late {
    uint32_t first; /* of them */
    bool come;      /* they have begun the call */
    bool several;
    char names[NAMES_BYTES];
    char call[COLL_CALL_TEXT];
};

static void late_add(struct rt_group *g, struct late *l, uint32_t rank, uint32_t n) {
    size_t at = strlen(l->names);
    l->first = n == 0 ? rank : l->first;
    l->several = n > 0;
    if (n < NAMED_MAX) {
        (void)snprintf(l->names + at, sizeof(l->names) - at, "%s%u (%.60s)", n ? ", " : "", rank,
            g->endpoints[rank]);
    } else if (n == NAMED_MAX) {
        (void)snprintf(l->names + at, sizeof(l->names) - at, " and others");
    }
}

/* Of a call of all ranks: those that have begun the fewest calls, if that is fewer than this rank
 * has.  They keep all others waiting.  Else `rank`, which this rank waits for. */
static void find_late(
    struct rt_group *g, const struct rt_coll *c, uint32_t rank, struct late *ret_late) {
    uint64_t own = atomic_load(&g->calls.begun), fewest = own;
    struct coll_said said = c ? coll_call_said(c) : (struct coll_said){0};
    uint32_t n = 0;
    *ret_late = (struct late){.call = "the call"};
    if (c) {
        (void)coll_call_text(&said, ret_late->call);
    }
    bool of_all = c && !coll_kinds[c->kind].peer;
    for (uint32_t r = 0; of_all && r < g->size; r++) {
        uint64_t begun = r == g->rank ? own : atomic_load(&g->peers[r].begun);
        fewest = begun < fewest ? begun : fewest;
    }
    for (uint32_t r = 0; fewest < own && r < g->size; r++) {
        if (r != g->rank && atomic_load(&g->peers[r].begun) == fewest) {
            late_add(g, ret_late, r, n++);
        }
    }
    ret_late->come = n == 0;
    if (n == 0) {
        late_add(g, ret_late, rank, n);
    }
}

int coll_group_late(struct rt_group *g, const struct rt_coll *c, uint32_t rank) {
    struct late l;
    find_late(g, c, rank, &l);
    return coll_group_fail(g, CO_TIMEOUT, l.first, true,
        "rank%s %s %s, but %s %s %s within %lld ms", l.several ? "s" : "", l.names,
        l.several ? "live" : "lives", l.several ? "have" : "has",
        l.come ? "not done its part of" : "not come to", l.call, (long long)g->call_ms);
}

static void warn(struct rt_group *g, const struct rt_coll *c, uint32_t rank, int64_t waited_ms) {
    struct late l;
    char text[NAMES_BYTES + COLL_CALL_TEXT + 80];
    if (g->waits_for) {
        (void)snprintf(text, sizeof(text), "waiting for %lld s for %.300s",
            (long long)(waited_ms / 1000), g->waits_for);
        co_log_warn(text);
        return;
    }
    find_late(g, c, rank, &l);
    (void)snprintf(text, sizeof(text), "waiting for rank%s %s for %lld s in %s",
        l.several ? "s" : "", l.names, (long long)(waited_ms / 1000), l.call);
    co_log_warn(text, CO_I("rank", g->rank));
}

static bool silent(const struct rt_group *g, uint32_t r, int64_t since_ms) {
    const struct coll_peer *p = &g->peers[r];
    return r != g->rank && !atomic_load(&p->left) && atomic_load(&p->answered_ms) < since_ms;
}

int coll_group_silent(struct rt_group *g, int64_t asked_ms) {
    for (uint32_t r = 0; r < g->size; r++) {
        if (silent(g, r, asked_ms)) {
            return coll_group_fail(g, CO_PEERLOST, r, true,
                "rank %u (%.200s) is lost: no sign of life for %lld ms", r, g->endpoints[r],
                (long long)(co_now_ms() - asked_ms));
        }
    }
    return 0;
}

bool coll_group_answers(const struct rt_group *g, int64_t since_ms) {
    for (uint32_t r = 0; r < g->size; r++) {
        if (silent(g, r, since_ms)) {
            return false;
        }
    }
    return true;
}

bool coll_patience_over(struct rt_group *g, struct coll_patience *p, int64_t now, int64_t most_ms) {
    int64_t half = g->call_ms / 2, grace = half < GRACE_MS ? half : GRACE_MS;
    p->begun_ms = p->begun_ms ? p->begun_ms : now;
    bool late = now - p->begun_ms >= most_ms;
    bool stopped = p->checked_ms && now - p->checked_ms >= GRACE_MS; /* this rank itself */
    if (p->asked_ms ? late && stopped : now - p->begun_ms >= half) {
        p->asked_ms = now;
        coll_monitor_ping(g);
    }
    p->checked_ms = now;
    return late && p->asked_ms && now - p->asked_ms >= grace;
}

/* Asks all ranks how far they are; true once they have answered, or have had the time to. */
static bool surveyed(struct rt_group *g, struct coll_patience *p, int64_t now) {
    if (p->survey_ms == 0) {
        p->survey_ms = now;
        coll_monitor_ping(g);
    }
    return now - p->survey_ms >= GRACE_MS || coll_group_answers(g, p->survey_ms);
}

void coll_patience_turn(struct rt_group *g, struct coll_patience *p, uint32_t rank) {
    int64_t waited = p->checked_ms - p->begun_ms;
    int64_t next = p->agree_ms ? p->agree_ms : AGREE_MS;
    const struct coll_peer *other = &g->peers[rank];
    if (waited >= next && atomic_load(&other->answered_ms) >= atomic_load(&other->asked_ms)) {
        p->agree_ms = waited + (waited < AGREE_MAX_MS ? waited : AGREE_MAX_MS);
        coll_monitor_ask(g, p->uncounted ? NULL : p->call, rank);
    }
    next = p->warn_ms ? p->warn_ms : COLL_WARN_MS;
    if (waited >= next && surveyed(g, p, p->checked_ms)) {
        p->survey_ms = 0;
        p->warn_ms = 2 * next;
        warn(g, p->call, rank, waited);
    }
}

int coll_patience_fails(struct rt_group *g, struct coll_patience *p, int64_t now) {
    CO_TRY(atomic_load_explicit(&g->failed, memory_order_acquire));
    p->ask_ms = p->ask_ms ? p->ask_ms : co_interrupt_next();
    if (now >= p->ask_ms && co_interrupted(&p->ask_ms)) {
        /* The others get the same reason: without this rank the call has no result. */
        rt_group_abort(g, "the program has ended the wait");
    }
    return atomic_load(&g->failed);
}

static int check(
    struct rt_group *g, struct coll_patience *p, uint32_t rank, int64_t now, int64_t most_ms) {
    CO_TRY(coll_patience_fails(g, p, now));
    if (!coll_patience_over(g, p, now, most_ms)) {
        return 0;
    }
    CO_TRY(coll_group_silent(g, p->asked_ms));
    if (!surveyed(g, p, p->checked_ms)) {
        return 0;
    }
    /* Who has not answered the survey yet is busy, not lost: it answered since asked_ms. */
    return coll_group_late(g, p->call, rank);
}

int coll_deadline_check(struct rt_group *g, struct coll_patience *p, uint32_t rank, int64_t now) {
    p->left_ms = 0;
    return check(g, p, rank, now, g->call_ms + g->call_ms / 8);
}

/* Whether all that a rank sent before it left has come.  In shared memory it is there before the
 * goodbye is.  Over TCP the goodbye, on a connection of its own, may overtake megabytes of data: a
 * call returns when its last bytes are in the socket's buffer.  There the data ends where the
 * connections do, all of which the rank closes. */
static bool all_has_come(const struct rt_group *g, uint32_t rank) {
    const struct coll_peer *p = &g->peers[rank];
    bool come = true;
    for (uint32_t k = 0; p->local == COLL_NOT_LOCAL && k < g->lanes; k++) {
        come &= coll_tcp_ended(p->lanes[k].fd);
    }
    return come;
}

int coll_patience_check(struct rt_group *g, struct coll_patience *p, uint32_t rank, int64_t now) {
    CO_TRY(check(g, p, rank, now, g->call_ms));
    coll_patience_turn(g, p, rank);
    if (!atomic_load_explicit(&g->peers[rank].left, memory_order_acquire)) {
        return 0;
    }
    /* Report that it left only at a later check: the caller first looks once more for data that
     * the rank sent before it left. */
    if (p->left_ms == 0 || p->left != rank) {
        p->left = rank;
        p->left_ms = p->checked_ms;
        return 0;
    }
    bool over = p->checked_ms - p->left_ms >= COLL_LEFT_NET_MS || all_has_come(g, rank);
    return over ? coll_group_left(g, rank) : 0;
}
