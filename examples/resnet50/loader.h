/* Loads batches of pictures.  Threads decode them ahead of training into a bounded number of slots.
 * The crop of an image depends on (seed, epoch, image) alone, not on threads or ranks.  Call it
 * from one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/resnet50/flowers.h"

struct rn_loader_config {
    const struct rn_flowers *flowers; /* borrowed */
    uint32_t image;                   /* edge of the resulting images */
    size_t batch, threads, ahead;     /* ahead: how many batches, at least 1 */
    uint64_t seed;
    bool augment;  /* crop at random and mirror; otherwise crop the middle */
    bool fail_bad; /* a file that cannot be read fails training; otherwise the next one in the data
                    * set replaces it, and the log names the file once */
};

struct rn_loader;

CO_MUST_CHECK int rn_loader_new(
    const struct rn_loader_config *config, struct rn_loader **ret_loader, struct co_err *err);
void rn_loader_free(struct rn_loader *l); /* stops the threads */
CO_DEFINE_CLEANUP(struct rn_loader *, rn_loader_free)

/* Starts at order[first]; first is a multiple of batch.  order [n] has indexes into the data set
 * and is copied.  Drops what an earlier start has left. */
void rn_loader_start(
    struct rn_loader *l, const uint32_t *order, size_t n, size_t first, uint32_t epoch);
/* Waits for the next batch: images (batch, 3, image, image), labels (batch).  *ret_n may be less
 * than batch at the end, and is 0 after it. */
CO_MUST_CHECK int rn_loader_next(struct rn_loader *l, float *ret_images, uint32_t *ret_labels,
    size_t *ret_n, struct co_err *err);

/* Whether a picture of the data set can be read, before anything is trained; with fail_bad, the
 * first.  CO_INVALID: none can; names the first and why. */
CO_MUST_CHECK int rn_loader_probe(
    const struct rn_flowers *flowers, bool fail_bad, struct co_err *err);
/* How many different files could not be read so far. */
size_t rn_loader_bad(struct rn_loader *l);
