#include "operator/control/store.h"

#include "common/parse.h"
#include "operator/kube/client.h"
#include "operator/kube/clock.h"

#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 600 };

static void child_key(
    char key[KEY_MAX], enum op_store_kind kind, const char *ns, const char *name) {
    (void)snprintf(key, KEY_MAX, "%d/%s/%s", (int)kind, ns, name);
}

static void entry_key(char key[KEY_MAX], const char *ns, const char *name) {
    (void)snprintf(key, KEY_MAX, "%s/%s", ns, name);
}

void op_store_init(struct op_store *s, void (*changed)(void *arg, struct op_entry *e),
    void (*gone)(void *arg, struct op_entry *e), void *arg) {
    *s = (struct op_store){.changed = changed, .gone = gone, .arg = arg};
}

static void stored_free(struct op_stored *st) {
    free(st->claim);
    free(st->child);
    free(st);
}

static void entry_free(struct op_entry *e) {
    for (size_t i = 0; i < e->n_children; i++) {
        stored_free(e->children[i]);
    }
    free(e->children);
    free(e->text);
    free(e->ns);
    free(e->name);
    free(e);
}

static void free_each(void *arg, const char *key, void *value) {
    struct op_store *s = arg;
    (void)key;
    s->gone(s->arg, value);
    entry_free(value);
}

void op_store_done(struct op_store *s) {
    co_map_each(&s->entries, free_each, s);
    co_map_done(&s->entries);
    co_map_done(&s->children);
}

struct op_entry *op_store_entry(const struct op_store *s, const char *ns, const char *name) {
    char key[KEY_MAX];
    entry_key(key, ns, name);
    return co_map_get(&s->entries, key);
}

struct op_stored *op_store_child(
    const struct op_store *s, enum op_store_kind kind, const char *ns, const char *name) {
    char key[KEY_MAX];
    child_key(key, kind, ns, name);
    return co_map_get(&s->children, key);
}

static struct op_entry *entry_need(struct op_store *s, const char *ns, const char *name) {
    struct op_entry *e = op_store_entry(s, ns, name);
    if (!e) {
        char key[KEY_MAX];
        e = co_xcalloc(1, sizeof(*e));
        e->ns = co_xstrdup(ns);
        e->name = co_xstrdup(name);
        e->born = ++s->born;
        entry_key(key, ns, name);
        co_map_set(&s->entries, key, e);
    }
    return e;
}

void op_store_release(struct op_store *s, struct op_entry *e) {
    if (e->text || e->n_children || e->held) {
        return;
    }
    char key[KEY_MAX];
    entry_key(key, e->ns, e->name);
    co_map_remove(&s->entries, key);
    s->gone(s->arg, e);
    entry_free(e);
}

/* The entry may be freed. */
static void touched(struct op_store *s, struct op_entry *e) {
    s->changed(s->arg, e);
    op_store_release(s, e);
}

/* ---- jobs ------------------------------------------------------------------------------- */

/* When a job was made, on our clock: creationTimestamp has seconds and another machine's clock, so
 * it counts only for a job that waited for us longer than both could explain. */
static void note_birth(struct op_entry *e, const json_t *obj) {
    enum { LATE_S = 3 };
    const char *text = co_json_str(obj, "metadata", "creationTimestamp");
    e->created = 0;
    (void)!(text && co_parse_time("creationTimestamp", text, &e->created, NULL));
    int64_t age = e->created ? op_kube_clock_seconds() - e->created : 0;
    e->born_ms = e->phase ? 0 : co_now_ms() - (age >= LATE_S ? age * 1000 : 0);
    e->left_ms = 0;
}

/* managedFields are of no use here and often half of the bytes. */
static char *slim_text(const json_t *obj) {
    CO_AUTOJSON json_t *slim = json_copy((json_t *)(uintptr_t)obj);
    CO_AUTOJSON json_t *meta = json_copy(json_object_get(obj, "metadata"));
    json_object_del(meta, "managedFields");
    co_json_set(slim, "metadata", json_incref(meta));
    return co_json_dump(slim);
}

/* decided: whatever the version, see op_store_sync_begin. */
static void job_put(struct op_store *s, const json_t *obj, uint64_t version, bool decided) {
    const char *ns = co_json_str(obj, "metadata", "namespace");
    const char *name = co_json_str(obj, "metadata", "name");
    struct op_entry *e = entry_need(s, ns ? ns : "", name);
    e->sync = s->sync[OP_STORE_JOBS];
    if (e->text && version && version <= e->version && !decided) {
        return;
    }
    CO_AUTOFREE char *text = slim_text(obj);
    if (co_streq(text, e->text)) {
        e->version = version;
        return;
    }
    e->phase = (uint8_t)op_phase_parse(co_json_str(obj, "status", "phase"));
    e->waits = e->phase < OP_PHASE_RUNNING && !co_json_str(obj, "status", "startTime") &&
               !op_managed_elsewhere(obj);
    if (!e->text) {
        s->n_jobs++;
        note_birth(e, obj);
    }
    free(e->text);
    e->text = co_steal_ptr(text);
    e->edition = ++s->editions;
    e->deleting = co_json_str(obj, "metadata", "deletionTimestamp") != NULL;
    e->version = version;
    touched(s, e);
}

static void job_gone(struct op_store *s, struct op_entry *e) {
    if (e->text) {
        s->n_jobs--;
        free(co_steal_ptr(e->text));
        e->deleting = false;
        e->version = 0;
        touched(s, e);
    }
}

/* ---- children --------------------------------------------------------------------------- */

static struct op_child *project(enum op_store_kind kind, const json_t *obj) {
    switch (kind) {
    case OP_STORE_PODS:
        return (struct op_child *)op_pod_decode(obj);
    case OP_STORE_SERVICES:
        return (struct op_child *)op_service_decode(obj);
    case OP_STORE_CONFIGMAPS:
        return (struct op_child *)op_configmap_decode(obj);
    case OP_STORE_PODGROUPS:
        return (struct op_child *)op_podgroup_decode(obj);
    case OP_STORE_JOBS:
    case OP_STORE_KINDS:
    default:
        return NULL;
    }
}

/* An entry's name for a child: its owner's, else its own: of a ConfigMap in our way, of a gang's
 * group that a user made. */
static const char *entry_name(enum op_store_kind kind, const struct op_child *c) {
    bool by_name = kind == OP_STORE_CONFIGMAPS || (kind == OP_STORE_PODGROUPS && !*c->owner_uid);
    return *c->owner_job ? c->owner_job : by_name ? c->name : "";
}

static void detach(struct op_store *s, struct op_stored *st) {
    struct op_entry *e = st->entry;
    for (size_t i = 0; i < e->n_children; i++) {
        if (e->children[i] == st) {
            e->children[i] = e->children[--e->n_children];
            break;
        }
    }
    char key[KEY_MAX];
    child_key(key, st->kind, st->child->ns, st->child->name);
    co_map_remove(&s->children, key);
    s->n_pods -= st->kind == OP_STORE_PODS;
    stored_free(st);
}

static void attach(struct op_store *s, struct op_entry *e, struct op_stored *st) {
    if (e->n_children == e->cap_children) {
        e->cap_children = e->cap_children ? e->cap_children * 2 : 4;
        e->children = co_xrealloc(e->children, e->cap_children, sizeof(struct op_stored *));
    }
    e->children[e->n_children++] = st;
    st->entry = e;
    char key[KEY_MAX];
    child_key(key, st->kind, st->child->ns, st->child->name);
    co_map_set(&s->children, key, st);
    if (st->kind == OP_STORE_PODS) {
        s->n_pods++;
        e->made_ms = co_now_ms();
    }
}

/* True when a claim goes on standing in for what this version of its pod has not. */
static bool claim_stands(const struct op_stored *st, struct op_child *now) {
    struct op_pod *pod = (struct op_pod *)now;
    if (!st->claim || *pod->ip[0] || strcmp(st->child->uid, now->uid) != 0) {
        return false;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(pod->ip); i++) {
        pod->ip[i] = st->claim->ip[i];
    }
    pod->told = true;
    return true;
}

static bool child_differs(const struct op_stored *st, const struct op_child *now) {
    if (st->kind == OP_STORE_PODS) {
        return op_pod_differs(st->pod, (const struct op_pod *)now);
    }
    if (st->kind == OP_STORE_PODGROUPS) {
        return op_podgroup_differs(st->podgroup, (const struct op_podgroup *)now);
    }
    return true;
}

static void child_put(
    struct op_store *s, enum op_store_kind kind, struct op_child *now, bool decided) {
    uint64_t version = op_kube_version(now->resource_version);
    const char *owner = entry_name(kind, now);
    struct op_stored *st = op_store_child(s, kind, now->ns, now->name);
    if (st && strcmp(st->entry->name, owner) != 0) { /* a new object under an old name */
        struct op_entry *e = st->entry;
        detach(s, st);
        touched(s, e);
        st = NULL;
    }
    if (st && version && version <= st->version && !decided) {
        st->sync = s->sync[kind];
        free(now);
        return;
    }
    if (!*owner) {
        free(now); /* labelled like ours but nobody's: a create will meet it by name */
        return;
    }
    bool claimed = st && claim_stands(st, now);
    bool differs = !st || child_differs(st, now);
    bool placed = kind == OP_STORE_PODS && ((const struct op_pod *)now)->scheduled &&
                  (!st || !st->pod->scheduled);
    if (st) {
        free(claimed ? NULL : co_steal_ptr(st->claim));
        free(st->child);
        st->child = now;
    } else {
        st = co_xcalloc(1, sizeof(*st));
        st->kind = kind;
        st->child = now;
        attach(s, entry_need(s, now->ns, owner), st);
    }
    st->version = version;
    st->sync = s->sync[kind];
    if (placed) {
        st->entry->scheduled_ms = co_now_ms();
    }
    if (differs) {
        touched(s, st->entry);
    }
}

void op_store_put_child(
    struct op_store *s, enum op_store_kind kind, struct op_child *child_own, uint64_t reached) {
    if (!reached || op_kube_version(child_own->resource_version) > reached) {
        child_put(s, kind, child_own, false);
    } else {
        free(child_own); /* the watch has told of this version, and perhaps of later ones */
    }
}

void op_store_put(
    struct op_store *s, enum op_store_kind kind, const json_t *obj, uint64_t reached) {
    uint64_t version = op_kube_object_version(obj);
    struct op_child *child = project(kind, obj);
    if (child) {
        op_store_put_child(s, kind, child, reached);
    } else if (kind == OP_STORE_JOBS && co_json_str(obj, "metadata", "name") &&
               (!reached || version > reached)) {
        job_put(s, obj, version, false);
    }
}

void op_store_remove_child(struct op_store *s, enum op_store_kind kind, const char *ns,
    const char *name, const char *uid) {
    struct op_stored *st = op_store_child(s, kind, ns, name);
    if (st && (!uid || strcmp(uid, st->child->uid) == 0)) {
        struct op_entry *e = st->entry;
        detach(s, st);
        touched(s, e);
    }
}

void op_store_remove(struct op_store *s, enum op_store_kind kind, const json_t *obj) {
    const char *ns = co_json_str(obj, "metadata", "namespace");
    const char *name = co_json_str(obj, "metadata", "name");
    struct op_entry *e = NULL;
    if (!ns || !name) {
        return;
    }
    if (kind != OP_STORE_JOBS) {
        op_store_remove_child(s, kind, ns, name, co_json_str(obj, "metadata", "uid"));
    } else if ((e = op_store_entry(s, ns, name))) {
        job_gone(s, e);
    }
}

void op_store_mark_deleting(struct op_store *s, enum op_store_kind kind, const char *ns,
    const char *name, const char *uid) {
    struct op_stored *st = op_store_child(s, kind, ns, name);
    if (st && strcmp(st->child->uid, uid) == 0 && !st->child->deleting) {
        st->child->deleting = true;
        touched(s, st->entry);
    }
}

void op_store_claim(struct op_store *s, const char *ns, const char *name, const char *uid,
    const char *ip, const char *second_ip) {
    struct op_stored *st = op_store_child(s, OP_STORE_PODS, ns, name);
    if (!st || strcmp(st->child->uid, uid) != 0 || st->child->deleting || *st->pod->ip[0] ||
        st->pod->phase != OP_POD_PENDING) {
        return;
    }
    st->claim = co_xcalloc(1, sizeof(*st->claim));
    (void)snprintf(st->claim->ip[0], sizeof(st->claim->ip[0]), "%s", ip);
    (void)snprintf(st->claim->ip[1], sizeof(st->claim->ip[1]), "%s", second_ip);
    (void)claim_stands(st, st->child);
    touched(s, st->entry);
}

/* ---- syncs ------------------------------------------------------------------------------ */

void op_store_sync_begin(struct op_store *s, enum op_store_kind kind, uint64_t upto) {
    s->sync[kind]++;
    s->upto[kind] = upto;
}

/* True when a list that shows this version lacks what it should have shown. */
static bool lacks(uint64_t upto, uint64_t known, uint64_t version) {
    return upto != UINT64_MAX && known <= upto && version < known;
}

bool op_store_list_child(struct op_store *s, enum op_store_kind kind, struct op_child *child_own) {
    const struct op_stored *st = op_store_child(s, kind, child_own->ns, child_own->name);
    uint64_t known = st ? st->version : 0, upto = s->upto[kind];
    bool lack = lacks(upto, known, op_kube_version(child_own->resource_version));
    child_put(s, kind, child_own, known <= upto);
    return lack;
}

bool op_store_list(struct op_store *s, enum op_store_kind kind, const json_t *obj) {
    const char *ns = co_json_str(obj, "metadata", "namespace");
    const char *name = co_json_str(obj, "metadata", "name");
    struct op_child *child = project(kind, obj);
    if (child || kind != OP_STORE_JOBS || !name) {
        return child && op_store_list_child(s, kind, child);
    }
    const struct op_entry *e = op_store_entry(s, ns ? ns : "", name);
    uint64_t version = op_kube_object_version(obj);
    uint64_t known = e && e->text ? e->version : 0, upto = s->upto[kind];
    job_put(s, obj, version, known <= upto);
    return lacks(upto, known, version);
}

struct sweep {
    struct op_store *s;
    enum op_store_kind kind;
};

static void sweep_job(void *arg, const char *key, void *value) {
    const struct sweep *w = arg;
    struct op_entry *e = value;
    (void)key;
    if (e->text && e->sync != w->s->sync[OP_STORE_JOBS] &&
        e->version <= w->s->upto[OP_STORE_JOBS]) {
        job_gone(w->s, e);
    }
}

static void sweep_child(void *arg, const char *key, void *value) {
    const struct sweep *w = arg;
    struct op_stored *st = value;
    (void)key;
    if (st->kind == w->kind && st->sync != w->s->sync[w->kind] &&
        st->version <= w->s->upto[w->kind]) {
        struct op_entry *e = st->entry;
        detach(w->s, st);
        touched(w->s, e);
    }
}

void op_store_sync_end(struct op_store *s, enum op_store_kind kind) {
    struct sweep w = {.s = s, .kind = kind};
    if (kind == OP_STORE_JOBS) {
        co_map_each(&s->entries, sweep_job, &w);
    } else {
        co_map_each(&s->children, sweep_child, &w);
    }
}
