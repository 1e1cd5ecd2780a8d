/* The list of a job's status writes that got no answer. */
#include "operator/control/unanswered.h"

#include <string.h>

#include "operator/control/diff.h"

/* Tries for one stored version with different statuses; more come only while the API server answers
 * nothing at all. */
enum { WRITES_MAX = 4 };

struct ctl_unanswered_write {
    struct ctl_unanswered_write *next;
    char *version; /* owned: the resourceVersion it was sent for */
    enum api_phase from;
    struct plan plan; /* only its phase, status and events */
};

static void drop_first(struct ctl_unanswered *u) {
    struct ctl_unanswered_write *w = u->first;
    u->first = w->next;
    u->n--;
    plan_done(&w->plan);
    free(w->version);
    free(w);
}

void ctl_unanswered_clear(struct ctl_unanswered *u) {
    while (u->first) {
        drop_first(u);
    }
}

static bool is_status(const json_t *stored, const json_t *status) {
    CO_AUTOJSON json_t *diff = ctl_merge_diff(stored, status);
    return stored && !diff;
}

void ctl_unanswered_note(struct ctl_unanswered *u, const struct api_job *job, struct plan *plan) {
    if (u->first && strcmp(u->first->version, job->resource_version) != 0) {
        ctl_unanswered_clear(u);
    }
    struct ctl_unanswered_write **end = &u->first;
    for (; *end; end = &(*end)->next) {
        if (is_status((*end)->plan.status, plan->status)) {
            return;
        }
    }
    struct ctl_unanswered_write *w = co_xcalloc(1, sizeof(*w));
    w->version = co_xstrdup(job->resource_version);
    w->from = job->phase;
    w->plan.phase = plan->phase;
    w->plan.status = co_steal_ptr(plan->status);
    w->plan.events = co_steal_ptr(plan->events);
    w->plan.n_events = plan->n_events;
    plan->n_events = 0;
    *end = w;
    if (++u->n > WRITES_MAX) {
        drop_first(u);
    }
}

bool ctl_unanswered_take(struct ctl_unanswered *u, const struct api_job *job, struct plan *ret,
    enum api_phase *ret_from) {
    if (!u->first || strcmp(u->first->version, job->resource_version) == 0) {
        return false; /* the watch may still deliver a newer version */
    }
    struct ctl_unanswered_write *w = u->first;
    while (w && !is_status(job->status, w->plan.status)) {
        w = w->next;
    }
    if (w) {
        *ret_from = w->from;
        *ret = w->plan;
        w->plan = (struct plan){.n_actions = 0};
    }
    ctl_unanswered_clear(u);
    return w;
}
