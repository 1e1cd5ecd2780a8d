/* At the start of a lease holder, jobs that have no status yet do not wait until the children of
 * all jobs are listed: their own are listed first, in one list for each kind.
 *
 *   the jobs are listed, and this process leads
 *     -> ctl_ahead_step: chooses new jobs, and lists their children
 *   the lists have ended
 *     -> `known`: the jobs that ctl_ahead_has may be reconciled
 *   everything is listed, or the lease is lost
 *     -> ctl_ahead_end
 *
 * The objects go into the store as those of a watch do.  The lists of everything decide about them
 * when they come, whether they are older or newer (ctl_store_sync_begin).  Owned by the loop's
 * thread. */
#pragma once

#include "operator/control/feeds.h"

enum ctl_ahead_state {
    CTL_AHEAD_WAITS, /* for the list of jobs, or for the lease */
    CTL_AHEAD_LISTS, /* the children of the chosen jobs are being listed */
    CTL_AHEAD_KNOWS, /* they have been listed */
    CTL_AHEAD_OVER,  /* no job is chosen (any more) */
};

/* The list of one kind. */
struct ctl_ahead_list {
    struct ctl_ahead *all;
    enum ctl_store_kind kind;
    struct kube_watch *watch; /* freed when its list has ended; NULL: this kind is listed */
};

struct ctl_ahead {
    struct kube_client *client;
    struct ctl_feeds *feeds;
    const struct ctl_feeds_opts *opts;             /* those of the feeds */
    void (*known)(void *arg, struct ctl_entry *e); /* runs for each job that may be reconciled */
    void *arg;
    /* Private. */
    enum ctl_ahead_state state;
    struct ctl_ahead_list lists[CTL_STORE_KINDS];
};

/* Does what can be done by now; to be called when a kind has been listed, and when the lease is
 * acquired. */
void ctl_ahead_step(struct ctl_ahead *a, bool leading);
/* The children of this job are known, though not those of all. */
bool ctl_ahead_has(const struct ctl_ahead *a, const struct ctl_entry *e);
void ctl_ahead_end(struct ctl_ahead *a);
