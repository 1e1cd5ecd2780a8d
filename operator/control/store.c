/* The cache of API objects: how versions are compared, how children find their entry, and what
 * counts as a change.
 *
 *   ctl_store_put, ctl_store_list -> read_arrival (parse) -> job_put or child_put -> `changed`
 *   ctl_store_remove, sweep      -> job_gone or lose_child, detach_child         -> `changed` */
#include "operator/control/store.h"

#include <stdio.h>
#include <string.h>

#include "operator/control/counted.h"
#include "operator/kube/text.h"

/* ---- entries, and both indexes ---------------------------------------------------------- */

static uint64_t entry_hash(const char *ns, const char *name) {
    return co_hash_str(ns) * 31 + co_hash_str(name);
}

static uint64_t child_hash(enum ctl_store_kind kind, const char *ns, const char *name) {
    return entry_hash(ns, name) * 31 + kind;
}

void ctl_store_init(struct ctl_store *s, void (*changed)(void *arg, struct ctl_entry *e),
    void (*gone)(void *arg, struct ctl_entry *e), void *arg) {
    *s = (struct ctl_store){.changed = changed, .gone = gone, .arg = arg};
}

static size_t entry_size(const struct ctl_entry *e) {
    return sizeof(*e) + strlen(e->ns) + strlen(e->name) + 2;
}

static struct ctl_entry *entry_of(struct ctl_text_node *text_node) {
    return (struct ctl_entry *)((char *)text_node - offsetof(struct ctl_entry, text_node));
}

static void drop_text(struct ctl_store *s, struct ctl_entry *e) {
    ctl_text_lru_drop(&s->text_lru, &e->text_node);
    free(co_steal_ptr(e->text));
}

/* Caches the job's text in place of an older one, and evicts others if there is no room. */
static void keep_text(struct ctl_store *s, struct ctl_entry *e, const struct kube_object *object) {
    struct ctl_text_node *surplus;
    drop_text(s, e);
    if (e->tree <= CTL_STORE_TREE_MAX) {
        size_t len;
        e->text = kube_text_slim(object->text, object->len, &len);
        ctl_text_lru_put(&s->text_lru, &e->text_node, len);
    }
    while ((surplus = ctl_text_lru_victim(&s->text_lru))) {
        drop_text(s, entry_of(surplus));
    }
}

static void stored_free(struct ctl_stored *st) {
    free(st->claim);
    free(st->child);
    free(st);
}

static void free_list(struct ctl_stored *list) {
    struct ctl_stored *next;
    for (struct ctl_stored *st = list; st; st = next) {
        next = st->next;
        stored_free(st);
    }
}

static void entry_free(struct ctl_store *s, struct ctl_entry *e) {
    free_list(e->children);
    free_list(e->ended);
    drop_text(s, e);
    ctl_text_lru_remove(&s->text_lru, &e->text_node, e->ns, entry_size(e));
    free(e);
}

static void free_each(void *arg, struct ctl_entry *e) {
    struct ctl_store *s = arg;
    s->gone(s->arg, e);
    entry_free(s, e);
}

void ctl_store_done(struct ctl_store *s) {
    ctl_store_each(s, free_each, s);
    co_index_done(&s->entries);
    co_index_done(&s->children);
    ctl_text_lru_done(&s->text_lru);
}

struct entry_visit {
    void (*fn)(void *arg, struct ctl_entry *e);
    void *arg;
};

static void visit_entry(void *arg, struct co_link *l) {
    const struct entry_visit *v = arg;
    v->fn(v->arg, (struct ctl_entry *)l);
}

void ctl_store_each(
    const struct ctl_store *s, void (*fn)(void *arg, struct ctl_entry *e), void *arg) {
    struct entry_visit v = {fn, arg};
    co_index_each(&s->entries, visit_entry, &v);
}

struct ctl_entry *ctl_store_entry(const struct ctl_store *s, const char *ns, const char *name) {
    struct co_link *l = co_index_first(&s->entries, entry_hash(ns, name));
    for (; l; l = co_index_next(l)) {
        struct ctl_entry *e = (struct ctl_entry *)l;
        if (strcmp(e->name, name) == 0 && strcmp(e->ns, ns) == 0) {
            return e;
        }
    }
    return NULL;
}

struct ctl_stored *ctl_store_child(
    const struct ctl_store *s, enum ctl_store_kind kind, const char *ns, const char *name) {
    struct co_link *l = co_index_first(&s->children, child_hash(kind, ns, name));
    for (; l; l = co_index_next(l)) {
        struct ctl_stored *st = (struct ctl_stored *)l;
        if (st->kind == kind && strcmp(st->child->name, name) == 0 &&
            strcmp(st->child->ns, ns) == 0) {
            return st;
        }
    }
    return NULL;
}

static struct ctl_entry *entry_need(struct ctl_store *s, const char *ns, const char *name) {
    struct ctl_entry *e = ctl_store_entry(s, ns, name);
    if (!e) {
        struct ctl_entry proto = {.ns = ns, .name = name, .serial = ++s->serial};
        e = co_xmalloc(entry_size(&proto));
        *e = proto;
        e->ns = memcpy((char *)(e + 1), ns, strlen(ns) + 1);
        e->name = memcpy((char *)(e + 1) + strlen(ns) + 1, name, strlen(name) + 1);
        co_index_add(&s->entries, &e->link, entry_hash(ns, name));
        ctl_text_lru_add(&s->text_lru, &e->text_node, ns, entry_size(e));
    }
    return e;
}

static void free_if_empty(struct ctl_store *s, struct ctl_entry *e) {
    if (ctl_entry_has_job(e) || e->n_children || e->held) {
        return;
    }
    co_index_remove(&s->entries, &e->link);
    s->gone(s->arg, e);
    entry_free(s, e);
}

void ctl_store_hold(struct ctl_entry *e) {
    e->held = true;
}

void ctl_store_release(struct ctl_store *s, struct ctl_entry *e) {
    e->held = false;
    free_if_empty(s, e);
}

bool ctl_store_take_progress(struct ctl_entry *e) {
    bool progressed = e->progressed;
    e->progressed = false;
    return progressed;
}

/* Reports the change; may free the entry. */
static void entry_touched(struct ctl_store *s, struct ctl_entry *e) {
    s->changed(s->arg, e);
    free_if_empty(s, e);
}

/* ---- jobs ------------------------------------------------------------------------------- */

/* Without annotations, because the decoder does not read them. */
static size_t tree_bytes(const struct co_jnode *job) {
    const struct co_jnode *notes = co_jnode_at(job, "metadata", "annotations");
    return co_json_nodes_bytes(job) - co_json_nodes_bytes(notes);
}

/* Empties `ended` of what the new status has. */
static void drop_counted(
    struct ctl_entry *e, const struct api_job_head *h, const struct co_jnode *job) {
    for (struct ctl_stored **link = &e->ended; *link;) {
        struct ctl_stored *st = *link;
        if (ctl_pod_is_counted(st->pod, h, job)) {
            *link = st->next;
            e->n_ended--;
            stored_free(st);
        } else {
            link = &st->next;
        }
    }
}

/* decided: whatever the stored version is, see ctl_store_sync_begin. */
static void job_put(struct ctl_store *s, const struct api_job_head *h,
    const struct kube_object *object, bool decided) {
    uint64_t version = kube_version(h->version);
    struct ctl_entry *e = entry_need(s, h->ns, h->name);
    e->sync = s->sync[CTL_STORE_JOBS];
    if (ctl_entry_has_job(e) && version && version <= e->version && !decided) {
        return;
    }
    uint64_t digest = co_hash(object->text, object->len);
    digest += !digest;
    if (digest == e->digest) {
        e->version = version;
        return;
    }
    e->progressed =
        e->progressed || e->phase != h->phase; /* clean-ups and restarts wait for the phase */
    e->phase = (uint8_t)h->phase;
    e->waits = e->phase < API_PHASE_RUNNING && !h->started && !h->elsewhere;
    uint64_t uid = co_hash(h->uid, strlen(h->uid));
    s->n_jobs += !ctl_entry_has_job(e);
    if (!ctl_entry_has_job(e) || uid != e->uid) { /* a list may show the next job of the name */
        e->created = h->created;
        e->notified = false;
        ctl_stages_begin(&e->stages, h->phase, h->created);
    }
    e->digest = digest;
    e->uid = uid;
    e->trained = h->trained;
    drop_counted(e, h, object->nodes);
    e->tree = tree_bytes(object->nodes);
    keep_text(s, e, object);
    e->edition = ++s->editions;
    e->deleting = h->deleting;
    e->version = version;
    entry_touched(s, e);
}

static void job_gone(struct ctl_store *s, struct ctl_entry *e) {
    if (ctl_entry_has_job(e)) {
        s->n_jobs--;
        drop_text(s, e);
        ctl_store_mark_planned(e);
        e->digest = 0;
        e->deleting = false;
        e->version = 0;
        entry_touched(s, e);
    }
}

/* ---- children --------------------------------------------------------------------------- */

/* How objects of a kind are parsed, and whether a plan could see a difference between two versions;
 * without `differs` it always could. */
static const struct {
    struct api_child *(*read)(const struct co_jnode *obj);
    bool (*differs)(const struct api_child *a, const struct api_child *b);
} children[CTL_STORE_KINDS] = {
    [CTL_STORE_PODS] = {api_pod_read, api_pod_differs},
    [CTL_STORE_SERVICES] = {api_service_read},
    [CTL_STORE_CONFIGMAPS] = {api_configmap_read},
    [CTL_STORE_PODGROUPS] = {api_podgroup_read, api_podgroup_differs},
};

/* The name of the entry that a child belongs to: its owner's, or else its own name.  The latter is
 * for a ConfigMap that has the name of ours, and for a PodGroup that a user created. */
static const char *entry_name(enum ctl_store_kind kind, const struct api_child *c) {
    bool by_name = kind == CTL_STORE_CONFIGMAPS || (kind == CTL_STORE_PODGROUPS && !*c->owner_uid);
    return *c->owner_job ? c->owner_job : by_name ? c->name : "";
}

/* Adds to a counter; its first or last pod may let the job make progress. */
static void count_state(struct ctl_entry *e, enum ctl_pod_state stand, int by) {
    bool none = !e->pods[stand];
    e->pods[stand] += (uint32_t)by;
    e->progressed = e->progressed || none != !e->pods[stand];
}

/* by: 1, or -1 to take it out. */
static void count_pod(struct ctl_entry *e, const struct api_pod *pod, int by) {
    bool running = pod->phase == API_POD_RUNNING && pod->ready && !pod->lost;
    bool unknown = !*pod->ip[0];
    if (unknown) {
        count_state(e, CTL_POD_STATE_UNKNOWN, by);
    }
    if (unknown || pod->reported) {
        count_state(e, CTL_POD_STATE_NAMELESS, by);
    }
    if (running || pod->phase == API_POD_FAILED) {
        count_state(e, running ? CTL_POD_STATE_RUNNING : CTL_POD_STATE_FAILED, by);
    } else if (pod->phase == API_POD_PENDING || pod->phase == API_POD_RUNNING) {
        count_state(e, CTL_POD_STATE_COMING, by);
    }
}

static void take_out(struct ctl_store *s, struct ctl_stored *st) {
    struct ctl_entry *e = st->entry;
    struct ctl_stored **at = &e->children;
    while (*at != st) {
        at = &(*at)->next;
    }
    *at = st->next;
    e->n_children--;
    co_index_remove(&s->children, &st->link);
    if (st->kind == CTL_STORE_PODS) {
        s->n_pods--;
        count_pod(e, st->pod, -1);
    }
}

static void detach_child(struct ctl_store *s, struct ctl_stored *st) {
    take_out(s, st);
    stored_free(st);
}

/* As detach_child, for an object that the watch reports as deleted.  A pod that has succeeded is
 * kept in `ended` until it is counted. */
static void lose_child(struct ctl_store *s, struct ctl_stored *st) {
    struct ctl_entry *e = st->entry;
    bool counts = st->kind == CTL_STORE_PODS && st->pod->ended && ctl_entry_has_job(e) &&
                  !api_phase_terminal((enum api_phase)e->phase) && e->n_ended < API_REPLICAS_MAX;
    take_out(s, st);
    if (counts) {
        st->next = e->ended;
        e->ended = st;
        e->n_ended++;
    } else {
        stored_free(st);
    }
}

void ctl_store_mark_planned(struct ctl_entry *e) {
    free_list(co_steal_ptr(e->ended));
    e->n_ended = 0;
}

static void attach_child(struct ctl_store *s, struct ctl_entry *e, struct ctl_stored *st) {
    st->entry = e;
    st->next = e->children;
    e->children = st;
    e->n_children++;
    co_index_add(&s->children, &st->link, child_hash(st->kind, st->child->ns, st->child->name));
    if (st->kind == CTL_STORE_PODS) {
        s->n_pods++;
        count_pod(e, st->pod, 1);
        ctl_stages_pod_made(&e->stages);
    }
    e->progressed =
        e->progressed || st->kind == CTL_STORE_CONFIGMAPS; /* the start gate waits for it */
}

/* Applies the address that the pod has reported to a version without one.  False: there is no
 * report for this pod, or it is not needed any more. */
static bool claim_holds(const struct ctl_stored *st, struct api_child *now) {
    struct api_pod *pod = (struct api_pod *)now;
    if (!st->claim || *pod->ip[0] || strcmp(st->child->uid, now->uid) != 0) {
        return false;
    }
    pod->ip[0] = st->claim->ip;
    pod->reported = true;
    return true;
}

/* Whether a pod counts as succeeded; st: its earlier version, or NULL.  A pod that exits with 0
 * after its deletion began has only reacted to SIGTERM and does not count. */
static bool has_ended(const struct ctl_stored *st, const struct api_pod *now) {
    bool before = st && st->pod->ended && strcmp(st->child->uid, now->c.uid) == 0;
    return now->phase == API_POD_SUCCEEDED && (before || !now->c.deleting);
}

static bool child_differs(const struct ctl_stored *st, const struct api_child *now) {
    bool (*differs)(const struct api_child *, const struct api_child *) =
        children[st->kind].differs;
    return !differs || differs(st->child, now);
}

static void child_put(
    struct ctl_store *s, enum ctl_store_kind kind, struct api_child *now, bool decided) {
    uint64_t version = kube_version(now->resource_version);
    const char *owner = entry_name(kind, now);
    struct ctl_stored *st = ctl_store_child(s, kind, now->ns, now->name);
    if (st && strcmp(st->entry->name, owner) != 0) { /* a new object with the name of an old one */
        struct ctl_entry *e = st->entry;
        detach_child(s, st);
        entry_touched(s, e);
        st = NULL;
    }
    if (st && version && version <= st->version && !decided) {
        st->sync = s->sync[kind];
        free(now);
        return;
    }
    if (!*owner) {
        free(now); /* it has our label but no owner; a create of that name will fail */
        return;
    }
    if (kind == CTL_STORE_PODS) {
        struct api_pod *pod = (struct api_pod *)now;
        pod->ended = has_ended(st, pod);
    }
    bool claimed = st && claim_holds(st, now);
    bool differs = !st || child_differs(st, now);
    bool placed = kind == CTL_STORE_PODS && ((const struct api_pod *)now)->scheduled &&
                  (!st || !st->pod->scheduled);
    if (st) {
        if (kind == CTL_STORE_PODS) {
            count_pod(st->entry, (const struct api_pod *)now, 1);
            count_pod(st->entry, st->pod, -1);
        }
        free(claimed ? NULL : co_steal_ptr(st->claim));
        free(st->child);
        st->child = now;
    } else {
        st = co_xmalloc(sizeof(*st));
        *st = (struct ctl_stored){.kind = kind, .child = now};
        attach_child(s, entry_need(s, now->ns, owner), st);
    }
    st->version = version;
    st->sync = s->sync[kind];
    if (placed) {
        ctl_stages_pod_scheduled(&st->entry->stages);
    }
    if (differs) {
        entry_touched(s, st->entry);
    }
}

/* ---- objects of any kind ---------------------------------------------------------------- */

/* An object that was read: a job's head, or a child. */
struct arrival {
    enum ctl_store_kind kind;
    const struct kube_object *object;
    struct api_job_head head;
    struct api_child *child; /* owned */
    uint64_t version;
};

static int read_arrival(enum ctl_store_kind kind, const struct kube_object *object,
    struct arrival *ret, struct co_err *err) {
    *ret = (struct arrival){.kind = kind, .object = object};
    if (kind == CTL_STORE_JOBS) {
        int r = api_job_head_read(object->nodes, &ret->head, err);
        ret->version = r ? 0 : kube_version(ret->head.version);
        return r;
    }
    ret->child = children[kind].read(object->nodes);
    if (!ret->child) {
        return co_err_set(err, CO_INVALID, "an object without metadata.name");
    }
    ret->version = kube_version(ret->child->resource_version);
    return 0;
}

static void put_arrival(struct ctl_store *s, struct arrival *a, bool decided) {
    if (a->kind == CTL_STORE_JOBS) {
        job_put(s, &a->head, a->object, decided);
    } else {
        child_put(s, a->kind, a->child, decided);
    }
}

/* The version of the object that is stored; 0: none. */
static uint64_t known_version(const struct ctl_store *s, const struct arrival *a) {
    if (a->kind == CTL_STORE_JOBS) {
        const struct ctl_entry *e = ctl_store_entry(s, a->head.ns, a->head.name);
        return e && ctl_entry_has_job(e) ? e->version : 0;
    }
    const struct ctl_stored *st = ctl_store_child(s, a->kind, a->child->ns, a->child->name);
    return st ? st->version : 0;
}

int ctl_store_put(struct ctl_store *s, enum ctl_store_kind kind, const struct kube_object *object,
    uint64_t reached, struct co_err *err) {
    struct arrival a;
    CO_TRY(read_arrival(kind, object, &a, err));
    if (!reached || a.version > reached) {
        put_arrival(s, &a, false);
    } else { /* the watch has delivered this version, and perhaps later ones */
        free(a.child);
    }
    return 0;
}

int ctl_store_list(struct ctl_store *s, enum ctl_store_kind kind, const struct kube_object *object,
    bool *lacks, struct co_err *err) {
    struct arrival a;
    CO_TRY(read_arrival(kind, object, &a, err));
    uint64_t known = known_version(s, &a), upto = s->upto[kind];
    *lacks = *lacks || (upto != UINT64_MAX && known <= upto && a.version < known);
    put_arrival(s, &a, known <= upto);
    return 0;
}

void ctl_store_remove(struct ctl_store *s, enum ctl_store_kind kind, const char *ns,
    const char *name, const char *uid) {
    if (kind == CTL_STORE_JOBS) {
        struct ctl_entry *e = ctl_store_entry(s, ns, name);
        if (e) {
            job_gone(s, e);
        }
        return;
    }
    struct ctl_stored *st = ctl_store_child(s, kind, ns, name);
    if (st && (!uid || strcmp(uid, st->child->uid) == 0)) {
        struct ctl_entry *e = st->entry;
        lose_child(s, st);
        entry_touched(s, e);
    }
}

void ctl_store_mark_deleting(struct ctl_store *s, enum ctl_store_kind kind, const char *ns,
    const char *name, const char *uid) {
    struct ctl_stored *st = ctl_store_child(s, kind, ns, name);
    if (st && strcmp(st->child->uid, uid) == 0 && !st->child->deleting) {
        st->child->deleting = true;
        st->child->at = 0; /* the watch will deliver the deletion time */
        entry_touched(s, st->entry);
    }
}

bool ctl_store_claim(
    struct ctl_store *s, const char *ns, const char *name, const char *uid, const char *ip) {
    struct ctl_stored *st = ctl_store_child(s, CTL_STORE_PODS, ns, name);
    if (!st || strcmp(st->child->uid, uid) != 0 || st->child->deleting || *st->pod->ip[0] ||
        st->pod->phase != API_POD_PENDING) {
        return true;
    }
    if (!st->pod->scheduled) {
        return false;
    }
    st->claim = co_xcalloc(1, sizeof(*st->claim));
    (void)snprintf(st->claim->ip, sizeof(st->claim->ip), "%s", ip);
    if (claim_holds(st, st->child) && *ip) {
        count_state(st->entry, CTL_POD_STATE_UNKNOWN, -1);
    }
    entry_touched(s, st->entry);
    return true;
}

/* ---- lists ------------------------------------------------------------------------------ */

void ctl_store_sync_begin(struct ctl_store *s, enum ctl_store_kind kind, uint64_t upto) {
    s->sync[kind]++;
    s->upto[kind] = upto;
}

struct sweep {
    struct ctl_store *s;
    enum ctl_store_kind kind;
};

static void sweep_job(void *arg, struct ctl_entry *e) {
    const struct sweep *w = arg;
    if (ctl_entry_has_job(e) && e->sync != w->s->sync[CTL_STORE_JOBS] &&
        e->version <= w->s->upto[CTL_STORE_JOBS]) {
        job_gone(w->s, e);
    }
}

static void sweep_child(void *arg, struct co_link *l) {
    const struct sweep *w = arg;
    struct ctl_stored *st = (struct ctl_stored *)l;
    if (st->kind == w->kind && st->sync != w->s->sync[w->kind] &&
        st->version <= w->s->upto[w->kind]) {
        struct ctl_entry *e = st->entry;
        bool same_data =
            w->s->upto[w->kind] != UINT64_MAX; /* it was deleted in a gap of the watch */
        (same_data ? lose_child : detach_child)(w->s, st);
        entry_touched(w->s, e);
    }
}

void ctl_store_sync_end(struct ctl_store *s, enum ctl_store_kind kind) {
    struct sweep w = {.s = s, .kind = kind};
    if (kind == CTL_STORE_JOBS) {
        ctl_store_each(s, sweep_job, &w);
    } else {
        co_index_each(&s->children, sweep_child, &w);
    }
}
