/* The cache of API objects: jobs as text, their children as compact projections, joined
 * by namespace and owner's name in one entry a job.
 *
 *   entries (by ns/job)  --> ctl_entry: text of the job, counters, children --.
 *                                                                           v
 *   children (by kind/ns/name) ------------------------------> ctl_stored -> ctl_stored -> ...
 *                                                              (pod, service, ConfigMap, PodGroup)
 *
 * It is filled by lists, by watches, and by the answers to our own writes, so that a plan made
 * right after a write sees it.  An older version never replaces a newer one, with one exception: a
 * list decides about all versions up to its own, so that data restored from a backup is accepted.
 * An answer counts only while its watch has not reached that version yet.
 *
 * Large jobs, and jobs that the cache has no room for (text_lru.h), have an entry without the text;
 * their reconcile fetches the job.  The store knows nothing of plans or requests.  Owned by the
 * loop's thread. */
#pragma once

#include "common/map.h"
#include "operator/api/child.h"
#include "operator/api/head.h"
#include "operator/control/stages.h"
#include "operator/control/text_lru.h"
#include "operator/kube/object.h"
#include "operator/plan/plan.h"

enum ctl_store_kind {
    CTL_STORE_JOBS,
    CTL_STORE_PODS,
    CTL_STORE_SERVICES,
    CTL_STORE_CONFIGMAPS,
    CTL_STORE_PODGROUPS,
    CTL_STORE_KINDS
};

/* The address that a pod reported itself, before the API server had one. */
struct ctl_claim {
    char ip[48];
};

/* A child in its entry's list.  `kind` says which projection it has. */
struct ctl_stored {
    struct co_link link; /* in ctl_store.children, by kind and names; must be first */
    struct ctl_stored *next;
    struct ctl_entry *entry;
    uint64_t version; /* resourceVersion */
    uint32_t sync;    /* number of the last list that had it */
    enum ctl_store_kind kind;
    struct ctl_claim *claim; /* owned; for a pod whose object has no address yet, else NULL */
    union {
        struct api_child *child; /* what all projections begin with */
        struct api_pod *pod;
        struct api_service *service;
        struct api_configmap *configmap;
        struct api_podgroup *podgroup;
    };
};

/* Counters of an entry's pods by their progress.  The first or the last pod of one of them may let
 * the job make progress. */
enum ctl_pod_state {
    CTL_POD_STATE_UNKNOWN,  /* its address is unknown */
    CTL_POD_STATE_NAMELESS, /* the API server has no address of it, so its DNS name does not resolve
                             */
    CTL_POD_STATE_COMING,   /* it is Pending, or runs and is not ready */
    CTL_POD_STATE_RUNNING,  /* it runs and is ready */
    CTL_POD_STATE_FAILED,
    CTL_POD_STATES
};

/* The host port of an entry's job in Host mode; private to host_ports.c. */
struct ctl_port {
    uint16_t number; /* of a live job; 0: none */
    bool known;      /* the job has been reconciled at least once */
};

/* Everything known under one namespace/name.  Exists as long as the job, a child of it, or work
 * for it (ctl_store_hold) does.  Only the store writes to it, except for the last five fields. */
struct ctl_entry {
    struct co_link link;            /* in ctl_store.entries, by its names; must be first */
    struct ctl_text_node text_node; /* its place in the cache of texts */
    const char *ns, *name;          /* the strings follow the struct */
    char *text;  /* owned: the job's JSON, text_node.size bytes; NULL: it is not in the cache */
    size_t tree; /* bytes of the parsed job, roughly */
    uint64_t version; /* resourceVersion of the job */
    uint64_t digest;  /* hash of the job's text; 0: there is no such job */
    uint64_t uid;     /* hash of the job's uid */
    uint64_t edition; /* changes with each new text; unique in the store */
    uint64_t serial;  /* running number of entries; the client serves them in this order */
    int64_t created;  /* creationTimestamp of the job; seconds since the epoch */
    struct ctl_stored *children; /* owned list, in no order */
    size_t n_children;
    struct ctl_stored *ended; /* owned list: pods that are gone, see ctl_store_mark_planned */
    uint32_t n_ended;
    uint32_t sync;                 /* number of the last list that had the job */
    uint8_t phase;                 /* enum api_phase in its status */
    bool deleting : 1;             /* the job is being deleted */
    bool trained : 1;              /* its training is over */
    bool waits : 1;                /* the job has never been Running and has not ended */
    bool progressed : 1;           /* see ctl_store_take_progress */
    bool held : 1;                 /* see ctl_store_hold */
    uint32_t pods[CTL_POD_STATES]; /* a pod without an address counts in three of them */
    /* Other files' data, which the store only keeps. */
    struct ctl_port port;
    bool ahead; /* see ahead.h */
    struct ctl_stages stages;
    int64_t reported; /* see ctl_executions.led_from; events of this term were emitted */
    bool notified;    /* a server of this job has been notified that its training is over */
    void *work;       /* the controller's */
};

struct ctl_store {
    struct ctl_text_lru text_lru;
    struct co_index entries, children;
    uint32_t sync[CTL_STORE_KINDS]; /* number of lists so far */
    uint64_t upto[CTL_STORE_KINDS]; /* the version up to which the last list decides */
    uint64_t serial, editions;
    /* Called after a change of an entry that a plan could see; the entry is still valid. */
    void (*changed)(void *arg, struct ctl_entry *e);
    /* Called right before an entry is freed. */
    void (*gone)(void *arg, struct ctl_entry *e);
    void *arg;
    size_t n_jobs, n_pods;
};

/* A parsed job larger than this is never cached.  One of 2,000 pods is smaller. */
enum { CTL_STORE_TREE_MAX = 4 << 20 };

static inline bool ctl_entry_has_job(const struct ctl_entry *e) {
    return e->digest;
}
/* The job's text is in the cache. */
static inline bool ctl_entry_is_cached(const struct ctl_entry *e) {
    return e->text;
}

void ctl_store_init(struct ctl_store *s, void (*changed)(void *arg, struct ctl_entry *e),
    void (*gone)(void *arg, struct ctl_entry *e), void *arg);
void ctl_store_done(struct ctl_store *s);

/* Stores an object from a watch (reached: 0) or from the answer to a write (reached: the version
 * that the watch of this kind has reached).  CO_INVALID: the object has no name. */
CO_MUST_CHECK int ctl_store_put(struct ctl_store *s, enum ctl_store_kind kind,
    const struct kube_object *object, uint64_t reached, struct co_err *err);
/* The watch reports that the object is deleted; uid NULL: of any uid. */
void ctl_store_remove(struct ctl_store *s, enum ctl_store_kind kind, const char *ns,
    const char *name, const char *uid);
/* A plan has taken the entry's data into account, so `ended` can be emptied.  It has the pods that
 * succeeded and were then deleted: only the store still knows that they succeeded.  A standby makes
 * no plans; it keeps them until the job's stored status has them (counted.h), because the lease
 * holder may die before it has written that. */
void ctl_store_mark_planned(struct ctl_entry *e);
/* The API server has accepted a delete: the child counts as deleting, if it is still that uid. */
void ctl_store_mark_deleting(struct ctl_store *s, enum ctl_store_kind kind, const char *ns,
    const char *name, const char *uid);

/* A pod reports its own address, which is used as long as its object has none.  The report is
 * ignored (true) for another uid, and for a pod that has an address or is not pending.  False: the
 * pod has no node yet, so either our watch lags, or the report is not from the pod. */
bool ctl_store_claim(
    struct ctl_store *s, const char *ns, const char *name, const char *uid, const char *ip);

/* Mark and sweep around a list.  The list decides about everything stored with a version up to
 * `upto`, its own (UINT64_MAX: versions cannot be compared with those from before, it decides about
 * all).  What is newer is the answer to a write of ours, which the list could not contain. */
void ctl_store_sync_begin(struct ctl_store *s, enum ctl_store_kind kind, uint64_t upto);
/* An object of the list.  *lacks becomes true when the store has a newer version that the list
 * should have shown: the API server's data was reset.  CO_INVALID: the object has no name. */
CO_MUST_CHECK int ctl_store_list(struct ctl_store *s, enum ctl_store_kind kind,
    const struct kube_object *object, bool *lacks, struct co_err *err);
void ctl_store_sync_end(struct ctl_store *s, enum ctl_store_kind kind);

struct ctl_entry *ctl_store_entry(const struct ctl_store *s, const char *ns, const char *name);
struct ctl_stored *ctl_store_child(
    const struct ctl_store *s, enum ctl_store_kind kind, const char *ns, const char *name);
void ctl_store_each(
    const struct ctl_store *s, void (*fn)(void *arg, struct ctl_entry *e), void *arg);
/* Keeps the entry, even without job and children, until it is released; the release may free it. */
void ctl_store_hold(struct ctl_entry *e);
void ctl_store_release(struct ctl_store *s, struct ctl_entry *e);
/* Whether the job may make progress: since the last call, the first or the last pod was counted in
 * one of pods[], its ConfigMap appeared, or a new phase was stored. */
bool ctl_store_take_progress(struct ctl_entry *e);
