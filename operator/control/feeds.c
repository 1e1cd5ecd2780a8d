/* The watches that fill the store, and what to do when one lists again, breaks off, or shows that
 * the API server's data was restored from a backup. */
#include "operator/control/feeds.h"

#include "common/log.h"
#include "operator/kube/watch.h"

static const struct {
    struct kube_type type;
    const char *selector;
} rows[CTL_STORE_KINDS] = {
    [CTL_STORE_JOBS] = {{API_GROUP, "v1", "paddlejobs", API_KIND}, NULL},
    [CTL_STORE_PODS] = {{"", "v1", "pods", "Pod", &api_pod_proto}, API_SELECTOR},
    [CTL_STORE_SERVICES] = {{"", "v1", "services", "Service"}, API_SELECTOR},
    [CTL_STORE_CONFIGMAPS] = {{"", "v1", "configmaps", "ConfigMap"}, API_SELECTOR},
    /* The gang says which.  No selector: PodGroups that users create have none of our labels. */
    [CTL_STORE_PODGROUPS] = {{0}, NULL},
};

struct feed {
    struct ctl_feeds *all;
    enum ctl_store_kind kind;
    struct kube_watch *watch; /* NULL: this kind is not watched */
    bool absent;              /* the API server does not know this kind */
    bool listing;             /* between sync_begin and sync_end of a list */
    bool other;               /* this list shows that the API server's data was reset */
    /* A write of ours that the watch has not delivered yet. */
    uint64_t written; /* its resourceVersion; 0: none */
    int64_t written_ms;
};

struct ctl_feeds {
    struct ctl_feeds_opts opts;
    struct kube_type group; /* of the gang */
    struct feed feed[CTL_STORE_KINDS];
    bool synced;
};

const struct kube_type *ctl_feeds_type(const struct ctl_feeds *f, enum ctl_store_kind kind) {
    return kind == CTL_STORE_PODGROUPS ? &f->group : &rows[kind].type;
}

bool ctl_feeds_synced(const struct ctl_feeds *f) {
    return f->synced;
}

/* ---- how far behind the watch is -------------------------------------------------------- */

static void observe_lag(struct feed *f, int64_t ms) {
    struct co_metric *m = f->all->opts.metrics->row;
    co_metric_observe(&m[CTL_M_WATCH_LAG], (size_t)f->kind, (double)ms / 1e3);
}

static void note_answer(struct feed *f, uint64_t version) {
    uint64_t reached = kube_watch_version(f->watch);
    if (version > reached && !f->written) {
        f->written = version;
        f->written_ms = co_now_ms();
    } else if (version && version <= reached) {
        observe_lag(f, 0);
    }
    kube_watch_expect(f->watch, version);
}

void ctl_feeds_answered(
    struct ctl_feeds *all, enum ctl_store_kind kind, const struct kube_reply *reply) {
    struct feed *f = &all->feed[kind];
    const struct kube_object object = {reply->nodes, reply->text, reply->len};
    note_answer(f, kube_version(co_jnode_str(reply->nodes, "metadata", "resourceVersion")));
    (void)!ctl_store_put(all->opts.store, kind, &object, kube_watch_version(f->watch), NULL);
}

void ctl_feeds_corrected(
    struct ctl_feeds *all, struct ctl_entry *e, const struct kube_reply *reply) {
    const struct kube_object object = {reply->nodes, reply->text, reply->len};
    if (kube_version(co_jnode_str(reply->nodes, "metadata", "resourceVersion")) == e->version) {
        e->version = 0;
        (void)!ctl_store_put(all->opts.store, CTL_STORE_JOBS, &object, 0, NULL);
    }
}

static void feed_progress(void *arg, uint64_t version) {
    struct feed *f = arg;
    if (f->written && version >= f->written) {
        f->written = 0;
        observe_lag(f, co_now_ms() - f->written_ms);
    }
}

/* ---- callbacks of the watches ----------------------------------------------------------- */

static void feed_begin(void *arg, uint64_t upto) {
    struct feed *f = arg;
    f->listing = true;
    f->other = false;
    f->written = upto == UINT64_MAX ? 0 : f->written;
    ctl_store_sync_begin(f->all->opts.store, f->kind, upto);
}

/* The API server's data was reset.  The watches of other kinds may never notice, as their streams
 * seem to continue where they ended, so all of them relist. */
static void feed_went_back(void *arg) {
    const struct feed *f = arg;
    for (size_t i = 0; i < CTL_STORE_KINDS; i++) {
        struct kube_watch *other = f->all->feed[i].watch;
        if (other && other != f->watch) {
            kube_watch_relist(other);
        }
    }
}

static int feed_object(
    void *arg, enum kube_event type, const struct kube_object *object, struct co_err *err) {
    struct feed *f = arg;
    struct ctl_store *s = f->all->opts.store;
    const struct co_jnode *meta = co_jnode_get(object->nodes, "metadata");
    const char *ns = co_jnode_str(meta, "namespace");
    /* The API server cannot filter by shard, so we do. */
    if (!ctl_shard_has(&f->all->opts.shard, ns ? ns : "")) {
        return 0;
    }
    if (f->listing) {
        return ctl_store_list(s, f->kind, object, &f->other, err);
    }
    if (type != KUBE_DELETED) {
        return ctl_store_put(s, f->kind, object, 0, err);
    }
    const char *name = co_jnode_str(meta, "name");
    if (ns && name) {
        ctl_store_remove(s, f->kind, ns, name, co_jnode_str(meta, "uid"));
    }
    return 0;
}

bool ctl_feeds_listed(const struct ctl_feeds *all, enum ctl_store_kind kind) {
    const struct feed *f = &all->feed[kind];
    return !f->watch || f->absent || kube_watch_synced(f->watch);
}

static void check_synced(struct ctl_feeds *all) {
    bool done = true;
    for (size_t i = 0; i < CTL_STORE_KINDS; i++) {
        done = done && ctl_feeds_listed(all, (enum ctl_store_kind)i);
    }
    if (!all->synced && all->opts.listed) {
        all->opts.listed(all->opts.arg);
    }
    if (done && !all->synced) {
        const struct ctl_store *s = all->opts.store;
        all->synced = true;
        co_log_info("in sync", CO_I("jobs", s->n_jobs), CO_I("pods", s->n_pods));
        all->opts.synced(all->opts.arg);
    }
}

/* The jobs are listed before all else: the children of new ones can then be listed ahead of the
 * others (ahead.h), and the API server has its processors for that list. */
static void begin_watches(const struct ctl_feeds *all) {
    for (size_t i = 0; i < CTL_STORE_KINDS; i++) {
        if (all->feed[i].watch) {
            kube_watch_begin(all->feed[i].watch);
        }
    }
}

static void feed_end(void *arg) {
    struct feed *f = arg;
    f->absent = f->listing = false;
    ctl_store_sync_end(f->all->opts.store, f->kind);
    if (f->other) {
        co_log_warn("API server data was reset (resourceVersion went back), relisting all kinds",
            CO_S("resource", ctl_feeds_type(f->all, f->kind)->plural));
        feed_went_back(f);
    }
    if (f->kind == CTL_STORE_JOBS) {
        begin_watches(f->all);
    }
    check_synced(f->all);
}

/* Jobs must not wait until somebody installs a gang scheduler.  A kind that comes with Kubernetes
 * (`optional`) will not appear later, so its watch ends; that of an add-on is retried, as the
 * add-on may still be installed. */
static void no_such_groups(struct feed *f) {
    struct ctl_feeds *all = f->all;
    f->absent = true;
    if (all->opts.gang->optional && !all->synced) {
        co_log_warn("API server does not serve the gang's groups, placing pods one by one",
            CO_S("resource", all->group.plural), CO_S("group", all->group.group));
        kube_watch_free(co_steal_ptr(f->watch));
        all->opts.no_groups(all->opts.arg);
    }
    check_synced(all);
}

static void feed_error(void *arg, const struct co_err *err, int64_t retry_ms) {
    struct feed *f = arg;
    co_metric_add(&f->all->opts.metrics->row[CTL_M_WATCH_BREAKS], (size_t)f->kind, 1);
    co_log_warn("watch ended with an error, starting it again",
        CO_S("resource", ctl_feeds_type(f->all, f->kind)->plural), CO_I("retry_ms", retry_ms),
        CO_E(err));
    if (f->kind == CTL_STORE_PODGROUPS && err->code == CO_NOTFOUND) {
        no_such_groups(f);
    }
}

static const struct kube_watch_ops ops = {
    .sync_begin = feed_begin,
    .object = feed_object,
    .sync_end = feed_end,
    .error = feed_error,
    .progress = feed_progress,
    .went_back = feed_went_back,
};

/* ---- life ------------------------------------------------------------------------------- */

struct ctl_feeds *ctl_feeds_new(struct kube_client *client, const struct ctl_feeds_opts *opts) {
    struct ctl_feeds *all = co_xcalloc(1, sizeof(*all));
    const struct plan_gang *g = opts->gang;
    all->opts = *opts;
    if (g) {
        all->group = (struct kube_type){g->group, g->version, g->plural, g->kind};
    }
    for (size_t i = 0; i < CTL_STORE_KINDS; i++) {
        struct feed *f = &all->feed[i];
        *f = (struct feed){.all = all, .kind = (enum ctl_store_kind)i};
        if (f->kind == CTL_STORE_PODGROUPS && !g) {
            continue;
        }
        f->watch = kube_watch_new(
            client, &(struct kube_watch_opts){.type = ctl_feeds_type(all, f->kind),
                        .ns = opts->ns,
                        .label_selector = i == CTL_STORE_JOBS ? opts->selector : rows[i].selector,
                        .held = i != CTL_STORE_JOBS,
                        .idle_max_ms = opts->idle_ms,
                        .ops = &ops,
                        .arg = f});
    }
    return all;
}

void ctl_feeds_free(struct ctl_feeds *all) {
    if (!all) {
        return;
    }
    for (size_t i = 0; i < CTL_STORE_KINDS; i++) {
        kube_watch_free(all->feed[i].watch);
    }
    free(all);
}
