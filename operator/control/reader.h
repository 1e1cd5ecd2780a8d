/* The job of an entry, for a look: from the store where it is at hand, else from the API server.
 *
 * What is read so, and trees of large jobs, have a seat at the desk (desk.h) until the look, with
 * its round, is over; small jobs that are at hand never wait for one.  Owned by the loop's thread.
 */
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
    /* The reader's turn has come: to be begun again. */
    void (*turn)(void *arg, struct op_entry *e);
    /* What the API server says, 0 with the job or a code with err. */
    void (*came)(void *arg, struct op_entry *e, int code, const struct co_jnode *job,
        const struct co_err *err);
    void *arg;
};

/* An entry's. */
struct op_reader {
    struct op_seat seat; /* first */
    struct op_readers *all;
    struct op_entry *entry;
    struct op_kube_op *op; /* on its way */
};

/* All else is set; so many bytes may be read at a time. */
void op_readers_init(struct op_readers *all, size_t bytes);
void op_readers_done(struct op_readers *all); /* all have ended */
/* Bytes that the tree of one job may take (op_job_of_nodes). */
size_t op_readers_most(const struct op_readers *all);

enum op_read {
    OP_READ_READY,  /* here it is */
    OP_READ_FAILED, /* it is none that a plan can be made for */
    OP_READ_WAITS,  /* for its turn */
    OP_READ_COMES,  /* it was asked for */
};
enum op_read op_reader_begin(struct op_reader *r, struct op_job **ret, struct co_err *err);
/* The look is over, or given up: nothing comes any more. */
void op_reader_end(struct op_reader *r);
bool op_reader_idle(const struct op_reader *r);
bool op_reader_asks(const struct op_reader *r); /* a job is on its way */
