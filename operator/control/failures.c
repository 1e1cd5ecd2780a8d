/* The list of a job's failed requests: exponential backoff from one to thirty seconds for each. */
#include "operator/control/failures.h"

#include <string.h>

#include "common/loop.h"
#include "operator/kube/clock.h"

enum { BACKOFF_MIN_MS = 1000, BACKOFF_MAX_MS = 30000 };

struct ctl_failed_request {
    struct ctl_failed_request *next;
    enum plan_verb verb;
    enum plan_kind kind;
    int code;
    int32_t count;
    char *name, *message; /* owned */
    int64_t retry_at;     /* monotonic ms, so that a wall clock that is set back cannot delay it */
};

static void request_free(struct ctl_failed_request *m) {
    free(m->name);
    free(m->message);
    free(m);
}

void ctl_failures_clear(struct ctl_failures *f) {
    struct ctl_failed_request *next;
    for (struct ctl_failed_request *m = f->first; m; m = next) {
        next = m->next;
        request_free(m);
    }
    free(f->visible);
    *f = (struct ctl_failures){0};
}

/* The link to an action's failure, or to the end of the list. */
static struct ctl_failed_request **find_failure(
    struct ctl_failures *f, const struct plan_action *a) {
    struct ctl_failed_request **link = &f->first;
    while (*link && ((*link)->verb != a->verb || (*link)->kind != a->kind ||
                        strcmp((*link)->name, a->name) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

int32_t ctl_failures_taken(struct ctl_failures *f, const struct plan_action *a) {
    const struct ctl_failed_request *m = *find_failure(f, a);
    return m && m->code == CO_EXISTS ? m->count : 0;
}

static void drop_failure(struct ctl_failures *f, struct ctl_failed_request **link) {
    struct ctl_failed_request *m = *link;
    if (m) {
        *link = m->next;
        f->n--;
        request_free(m);
    }
}

void ctl_failures_forget(struct ctl_failures *f, const struct plan_action *a) {
    drop_failure(f, find_failure(f, a));
}

static int64_t double_wait(int32_t count) {
    int64_t ms = BACKOFF_MIN_MS;
    for (int32_t i = 1; i < count && ms < BACKOFF_MAX_MS; i++) {
        ms *= 2;
    }
    return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

/* A create without an answer: the object may exist or not.  It has no backoff of its own; the
 * execution backs off all creates of the job. */
static bool is_unsure(const struct ctl_failed_request *m) {
    return m->verb == PLAN_CREATE && (m->code == CO_TIMEOUT || m->code == CO_UNAVAILABLE);
}

/* Not shown to the planner yet, see CTL_CREATE_GRACE. */
static bool is_early(const struct ctl_failed_request *m) {
    return m->count < CTL_CREATE_GRACE && (m->code == CO_EXISTS || is_unsure(m));
}

int32_t ctl_failures_note(
    struct ctl_failures *f, const struct plan_action *a, int code, const char *message) {
    struct ctl_failed_request **link = find_failure(f, a);
    struct ctl_failed_request *m = *link;
    if (!m) {
        m = co_xcalloc(1, sizeof(*m));
        m->verb = a->verb;
        m->kind = a->kind;
        m->name = co_xstrdup(a->name);
        *link = m;
        f->n++;
    }
    if ((m->code == CO_EXISTS) != (code == CO_EXISTS)) { /* another problem: count from the start */
        m->count = 0;
    }
    free(m->message);
    m->message = co_xstrdup(message);
    m->code = code;
    m->count++;
    m->retry_at = is_unsure(m) ? 0 : co_now_ms() + double_wait(m->count);
    return m->count;
}

void ctl_failures_view(struct ctl_failures *f,
    bool (*overtaken)(void *arg, enum plan_verb verb, enum plan_kind kind, const char *name),
    void *arg, const struct plan_failure **ret, size_t *ret_n) {
    size_t n = 0;
    int64_t now = co_now_ms();
    int64_t wall = kube_clock_seconds();
    f->visible = co_xrealloc(f->visible, f->n, sizeof(*f->visible));
    for (struct ctl_failed_request **link = &f->first; *link;) {
        const struct ctl_failed_request *m = *link;
        if (overtaken(arg, m->verb, m->kind, m->name)) {
            drop_failure(f, link);
            continue;
        }
        link = &(*link)->next;
        if (!is_early(m)) {
            f->visible[n++] = (struct plan_failure){.verb = m->verb,
                .kind = m->kind,
                .name = m->name,
                .code = m->code,
                .message = m->message,
                .count = m->count,
                .retry_at = m->retry_at > now ? wall + (m->retry_at - now + 999) / 1000 : wall};
        }
    }
    *ret = f->visible;
    *ret_n = n;
}
