/* Gets an entry's job for a reconcile: from the store's cache, or else from the API server.
 *
 * Jobs that are fetched, and jobs that are large once parsed, take a seat of the memory budget
 * (desk.h) until the reconcile is over.  Small cached jobs never wait for one.  Owned by the loop's
 * thread. */
#pragma once

#include "operator/control/desk.h"
#include "operator/control/view.h"
#include "operator/kube/client.h"

/* What all readers share. */
struct op_readers {
    struct op_kube_client *client;
    const struct op_kube_type *type; /* of jobs */
    struct op_desk desk;
    struct op_view_memo memo;
    /* A reader that waited has its memory now: op_reader_begin is to be called again. */
    void (*turn)(void *arg, struct op_entry *e);
    /* The API server has answered: code 0 with the job, or an error code with err. */
    void (*came)(void *arg, struct op_entry *e, int code, const struct co_jnode *job,
        const struct co_err *err);
    void *arg;
};

/* The reader of one entry. */
struct op_reader {
    struct op_seat seat; /* must be first */
    struct op_readers *all;
    struct op_entry *entry;
    struct op_kube_op *op; /* the GET in flight; else NULL */
};

/* bytes: the memory budget of all readers.  The caller has set the other fields before. */
void op_readers_init(struct op_readers *all, size_t bytes);
void op_readers_done(struct op_readers *all); /* after all readers have ended */
/* Bytes that one parsed job may take (op_job_of_nodes). */
size_t op_readers_most(const struct op_readers *all);

enum op_read {
    OP_READ_READY,  /* *ret is the job */
    OP_READ_FAILED, /* the job cannot be decoded; err says why */
    OP_READ_WAITS,  /* it waits for memory; `turn` will run */
    OP_READ_COMES,  /* it is being fetched; `came` will run */
};
enum op_read op_reader_begin(struct op_reader *r, struct op_job **ret, struct co_err *err);
/* The reconcile is over or given up: frees the seat and cancels the request. */
void op_reader_end(struct op_reader *r);
bool op_reader_idle(const struct op_reader *r);
bool op_reader_asks(const struct op_reader *r); /* a GET is in flight */
