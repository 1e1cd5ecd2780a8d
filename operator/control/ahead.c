/* The lists of new jobs' children.  Each is a kube_watch that is freed when its list has ended, so
 * pages, errors and retries are its matter. */
#include "operator/control/ahead.h"

#include <string.h>

#include "common/buf.h"
#include "common/log.h"
#include "operator/kube/watch.h"

enum {
    JOBS_MAX = 32,  /* chosen at most; the API server compares each name with each object's label */
    LABEL_MAX = 63, /* a job with a longer name can have no pods */
    SELECTOR_MAX = (JOBS_MAX + 2) * (LABEL_MAX + 1),
};

/* ---- which jobs ------------------------------------------------------------------------- */

struct ahead_choice {
    struct co_buf selector;
    size_t n;
};

static bool is_new(const struct ctl_entry *e) {
    return ctl_entry_has_job(e) && e->waits && e->phase == API_PHASE_NONE && !e->deleting;
}

static void choose_entry(void *arg, struct ctl_entry *e) {
    struct ahead_choice *c = arg;
    if (c->n == JOBS_MAX || !is_new(e) || strlen(e->name) > LABEL_MAX) {
        return;
    }
    e->ahead =
        !co_buf_addf(&c->selector, NULL, "%s%s", c->n ? "," : API_LABEL_JOB " in (", e->name);
    c->n += e->ahead;
}

/* ---- their children --------------------------------------------------------------------- */

static void visit_known(void *arg, struct ctl_entry *e) {
    const struct ctl_ahead *a = arg;
    if (e->ahead) {
        a->known(a->arg, e);
    }
}

static bool is_listing(const struct ctl_ahead *a) {
    size_t i = 0;
    while (i < CTL_STORE_KINDS && !a->lists[i].watch) {
        i++;
    }
    return i < CTL_STORE_KINDS;
}

static void list_begin(void *arg, uint64_t upto) {
    (void)arg;
    (void)upto;
}

/* A job of the same name in another namespace may be another shard's. */
static int list_object(
    void *arg, enum kube_event type, const struct kube_object *object, struct co_err *err) {
    const struct ctl_ahead_list *l = arg;
    const struct ctl_feeds_opts *o = l->all->opts;
    const char *ns = co_jnode_str(object->nodes, "metadata", "namespace");
    (void)type;
    return ctl_shard_has(&o->shard, ns ? ns : "") ? ctl_store_put(o->store, l->kind, object, 0, err)
                                                  : 0;
}

static void list_end(void *arg) {
    struct ctl_ahead_list *l = arg;
    struct ctl_ahead *a = l->all;
    kube_watch_free(co_steal_ptr(l->watch));
    ctl_ahead_step(a, true);
}

static const struct kube_watch_ops ops = {
    .sync_begin = list_begin,
    .object = list_object,
    .sync_end = list_end,
};

static void begin_lists(struct ctl_ahead *a) {
    struct ahead_choice c = {.selector = CO_BUF(SELECTOR_MAX)};
    ctl_store_each(a->opts->store, choose_entry, &c);
    a->state = c.n ? CTL_AHEAD_LISTS : CTL_AHEAD_OVER;
    (void)!co_buf_adds(&c.selector, ")", NULL);
    for (size_t i = 0; c.n && i < CTL_STORE_KINDS; i++) {
        struct ctl_ahead_list *l = &a->lists[i];
        *l = (struct ctl_ahead_list){.all = a, .kind = (enum ctl_store_kind)i};
        /* PodGroups that users create have no label: the list of all of them is waited for. */
        if (i != CTL_STORE_PODGROUPS && !ctl_feeds_listed(a->feeds, l->kind)) {
            l->watch = kube_watch_new(
                a->client, &(struct kube_watch_opts){.type = ctl_feeds_type(a->feeds, l->kind),
                               .ns = a->opts->ns,
                               .label_selector = c.selector.data,
                               .ops = &ops,
                               .arg = l});
        }
    }
    co_buf_done(&c.selector);
}

void ctl_ahead_step(struct ctl_ahead *a, bool leading) {
    if (a->state == CTL_AHEAD_WAITS && leading && ctl_feeds_listed(a->feeds, CTL_STORE_JOBS) &&
        !ctl_feeds_synced(a->feeds)) {
        begin_lists(a);
    }
    if (a->state == CTL_AHEAD_LISTS && !is_listing(a) &&
        ctl_feeds_listed(a->feeds, CTL_STORE_PODGROUPS)) {
        a->state = CTL_AHEAD_KNOWS;
        ctl_store_each(a->opts->store, visit_known, a);
    }
}

bool ctl_ahead_has(const struct ctl_ahead *a, const struct ctl_entry *e) {
    return a->state == CTL_AHEAD_KNOWS && e->ahead;
}

void ctl_ahead_end(struct ctl_ahead *a) {
    for (size_t i = 0; i < CTL_STORE_KINDS; i++) {
        kube_watch_free(co_steal_ptr(a->lists[i].watch));
    }
    a->state = CTL_AHEAD_OVER;
}
