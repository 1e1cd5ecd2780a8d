/* Gets an entry's job for a reconcile: from the store's cache, or else from the API server.
 *
 * Jobs that are fetched, and jobs that are large once parsed, take a claim of the memory budget
 * (parse_budget.h) until the reconcile is over.  Small cached jobs never wait for one.  Owned by
 * the loop's thread. */
#pragma once

#include "operator/control/parse_budget.h"
#include "operator/control/view.h"
#include "operator/kube/client.h"

/* What all readers share. */
struct ctl_readers {
    struct kube_client *client;
    const struct kube_type *type; /* of jobs */
    struct ctl_parse_budget budget;
    struct ctl_view_memo memo;
    /* A reader that waited has its memory now: ctl_reader_begin is to be called again. */
    void (*turn)(void *arg, struct ctl_entry *e);
    /* The API server has answered: code 0 with the job, or an error code with err. */
    void (*came)(void *arg, struct ctl_entry *e, int code, const struct co_jnode *job,
        const struct co_err *err);
    void *arg;
};

/* The reader of one entry. */
struct ctl_reader {
    struct ctl_parse_claim claim; /* must be first */
    struct ctl_readers *all;
    struct ctl_entry *entry;
    struct kube_op *op; /* the GET in flight; else NULL */
};

/* bytes: the memory budget of all readers.  The caller has set the other fields before. */
void ctl_readers_init(struct ctl_readers *all, size_t bytes);
void ctl_readers_done(struct ctl_readers *all); /* after all readers have ended */
/* Bytes that one parsed job may take (api_job_of_nodes). */
size_t ctl_readers_most(const struct ctl_readers *all);

enum ctl_read {
    CTL_READ_READY,  /* *ret is the job */
    CTL_READ_FAILED, /* the job cannot be decoded; err says why */
    CTL_READ_WAITS,  /* it waits for memory; `turn` will run */
    CTL_READ_COMES,  /* it is being fetched; `came` will run */
};
enum ctl_read ctl_reader_begin(struct ctl_reader *r, struct api_job **ret, struct co_err *err);
/* The reconcile is over or given up: frees the claim and cancels the request. */
void ctl_reader_end(struct ctl_reader *r);
bool ctl_reader_idle(const struct ctl_reader *r);
bool ctl_reader_asks(const struct ctl_reader *r); /* a GET is in flight */
