/* What the API server last told: jobs as text, their children as compact projections, joined by
 * namespace and owner name in one entry a job.
 *
 * Three sources feed it: lists, watches, and the answers to our own writes (so that a plan made
 * right after a write sees it).  An older version never replaces a newer one, with one exception: a
 * list is the truth about all versions up to its own, so that data restored from a backup is
 * believed.  An answer counts only while its watch has not reached it yet.  Of large jobs, and of
 * more than a shelf has room for (shelf.h), it keeps no text: who needs one asks the API server.
 * Knows nothing of plans or requests.  Owned by the loop's thread. */
#pragma once

#include "common/map.h"
#include "common/squeeze.h"
#include "operator/api/child.h"
#include "operator/api/head.h"
#include "operator/control/shelf.h"
#include "operator/control/stages.h"
#include "operator/kube/object.h"
#include "operator/plan/plan.h"

enum op_store_kind {
    OP_STORE_JOBS,
    OP_STORE_PODS,
    OP_STORE_SERVICES,
    OP_STORE_CONFIGMAPS,
    OP_STORE_PODGROUPS,
    OP_STORE_KINDS
};

/* The address that a pod told before the API server had any. */
struct op_claim {
    char ip[48];
};

/* A child in its entry's list.  Exactly one of the projections is set, by kind. */
struct op_stored {
    struct co_link link; /* in op_store.children, by kind and names; first */
    struct op_stored *next;
    struct op_entry *entry;
    uint64_t version;
    uint32_t sync; /* number of the last sync that reported it */
    enum op_store_kind kind;
    struct op_claim *claim; /* owned; of a pod whose object has no address yet, else NULL */
    union {
        struct op_child *child; /* the start of each projection */
        struct op_pod *pod;
        struct op_service *service;
        struct op_configmap *configmap;
        struct op_podgroup *podgroup;
    };
};

/* Where pods stand on a job's way. */
enum op_stand {
    OP_STAND_UNKNOWN,  /* of no known address */
    OP_STAND_NAMELESS, /* of none that the API server has: names, for which gates wait, lack it */
    OP_STAND_COMING,
    OP_STAND_RUNNING,
    OP_STAND_FAILED,
    OP_STANDS
};

/* The port of an entry's job in Host mode; all of it is ports.c's. */
struct op_port {
    uint16_t number; /* held by a live job; 0: none */
    bool known;      /* it was looked at once at least */
};

/* Everything known under one namespace/name.  Exists as long as the job, a child of it, or work
 * for it (op_store_hold) does.  The store alone writes it, but for what is others'. */
struct op_entry {
    struct co_link link;       /* in op_store.entries, by its names; first */
    struct op_shelved shelved; /* second */
    const char *ns, *name;     /* behind the struct */
    struct co_squeezed job;    /* its JSON, in the store's slab; none: it is not at hand */
    size_t tree;               /* bytes that it takes, roughly, as a tree */
    uint64_t version;
    uint64_t digest;            /* of the job's text; 0: there is no such job */
    uint64_t edition;           /* of the job: a running number of the store's */
    uint64_t born;              /* running number: entries are served in this order */
    int64_t created;            /* the job was; seconds since the epoch */
    struct op_stored *children; /* owned list, in no order */
    size_t n_children;
    struct op_stored *ended; /* owned list: pods that are gone, see op_store_looked */
    uint32_t sync;
    uint8_t phase;            /* enum op_phase in its status */
    bool deleting : 1;        /* the job is */
    bool waits : 1;           /* it has never been Running and has not ended */
    bool turned : 1;          /* see op_store_take_turn */
    bool held : 1;            /* see op_store_hold */
    uint32_t pods[OP_STANDS]; /* a pod without an address stands in three places */
    /* Others' own, which the store only keeps. */
    struct op_port port;
    struct op_stages stages;
    void *work; /* the controller's */
};

struct op_store {
    struct co_slab slab; /* has all of it: what stays lies apart from what comes and goes */
    struct op_shelf shelf;
    struct co_index entries, children;
    uint32_t sync[OP_STORE_KINDS]; /* running number of syncs */
    uint64_t upto[OP_STORE_KINDS]; /* what the list of the last one decides */
    uint64_t born, editions;
    /* Called after anything of an entry changed in a way that a plan could see; the entry is
     * still valid. */
    void (*changed)(void *arg, struct op_entry *e);
    /* Called right before an entry is freed. */
    void (*gone)(void *arg, struct op_entry *e);
    void *arg;
    size_t n_jobs, n_pods;
};

/* A job that takes more than this as a tree is never at hand.  One of 2,000 pods does not. */
enum { OP_STORE_TREE_MAX = 4 << 20 };

static inline bool op_entry_has_job(const struct op_entry *e) {
    return e->digest;
}
static inline bool op_entry_at_hand(const struct op_entry *e) {
    return e->job.data;
}

void op_store_init(struct op_store *s, void (*changed)(void *arg, struct op_entry *e),
    void (*gone)(void *arg, struct op_entry *e), void *arg);
void op_store_done(struct op_store *s);

/* An object as the watch (reached: 0) or the answer to a write (reached: where the watch of the
 * kind stands) has it.  CO_INVALID: it has no name. */
CO_MUST_CHECK int op_store_put(struct op_store *s, enum op_store_kind kind,
    const struct op_kube_object *object, uint64_t reached, struct co_err *err);
/* The object is no more; uid NULL: whatever it was. */
void op_store_remove(
    struct op_store *s, enum op_store_kind kind, const char *ns, const char *name, const char *uid);
/* A look has seen what the entry shows.  Until then a pod that had succeeded before it was deleted,
 * and is gone, is kept in `ended`: nobody else knows that it has. */
void op_store_looked(struct op_store *s, struct op_entry *e);
/* A delete was accepted: the child counts as deleting from now on, if it is still that uid. */
void op_store_mark_deleting(
    struct op_store *s, enum op_store_kind kind, const char *ns, const char *name, const char *uid);

/* A pod tells its address: it stands in for the object's own as long as that has none.  Ignored
 * for another uid, and for a pod that has an address or is not pending.  False: so it is for a pod
 * without a node, for which only somebody else can speak, unless our watch is behind kubelet's. */
bool op_store_claim(
    struct op_store *s, const char *ns, const char *name, const char *uid, const char *ip);

/* Mark and sweep around a list.  It decides about all that is known in versions up to `upto`, its
 * own (UINT64_MAX: versions from before say nothing about those that come); what is beyond is an
 * answer to a write of ours, which the list could not see. */
void op_store_sync_begin(struct op_store *s, enum op_store_kind kind, uint64_t upto);
/* An object of the list.  *lacks becomes true when something newer was known that the list should
 * have shown: the API server's data is another one now.  CO_INVALID: it has no name. */
CO_MUST_CHECK int op_store_list(struct op_store *s, enum op_store_kind kind,
    const struct op_kube_object *object, bool *lacks, struct co_err *err);
void op_store_sync_end(struct op_store *s, enum op_store_kind kind);

struct op_entry *op_store_entry(const struct op_store *s, const char *ns, const char *name);
struct op_stored *op_store_child(
    const struct op_store *s, enum op_store_kind kind, const char *ns, const char *name);
void op_store_each(const struct op_store *s, void (*fn)(void *arg, struct op_entry *e), void *arg);
/* The entry stays, whatever goes, until it is released, which frees it when nothing is left. */
void op_store_hold(struct op_entry *e);
void op_store_release(struct op_store *s, struct op_entry *e);
/* True when, since this was asked last, the first or the last of its pods has come to a stand, its
 * ConfigMap has, or its phase was stored. */
bool op_store_take_turn(struct op_entry *e);
