/* Batches of pictures, decoded by threads ahead of training into a bounded number of slots.  What
 * comes out of an image depends on (seed, epoch, image) alone, not on threads or ranks.
 * Calls come from one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/resnet50/flowers.h"

struct rn_loader_config {
    const struct rn_flowers *flowers; /* borrowed */
    uint32_t image;                   /* edge of what comes out */
    size_t batch, threads, ahead;     /* ahead: batches, 1 at least */
    uint64_t seed;
    bool augment;  /* random pieces, mirrored; else the middle */
    bool fail_bad; /* a file that cannot be read fails training; else the next one in the data set
                    * takes its place, and the log names the file, once */
};

struct rn_loader;

CO_MUST_CHECK int rn_loader_new(
    const struct rn_loader_config *config, struct rn_loader **ret_loader, struct co_err *err);
void rn_loader_free(struct rn_loader *l); /* stops the threads */
CO_DEFINE_CLEANUP(struct rn_loader *, rn_loader_free)

/* Begins with order[first] (a multiple of batch), order [n] being places in the data set, copied;
 * what an earlier start has left is dropped. */
void rn_loader_start(
    struct rn_loader *l, const uint32_t *order, size_t n, size_t first, uint32_t epoch);
/* The next batch: images (batch, 3, image, image), labels (batch).  Blocks.  *ret_n is less than
 * batch at the end, and 0 after it. */
CO_MUST_CHECK int rn_loader_next(struct rn_loader *l, float *ret_images, uint32_t *ret_labels,
    size_t *ret_n, struct co_err *err);

/* Different files that could not be read so far. */
size_t rn_loader_bad(struct rn_loader *l);
