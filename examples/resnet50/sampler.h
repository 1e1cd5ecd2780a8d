/* Which samples a rank sees in an epoch, and in which order: paddle.io.DistributedBatchSampler's
 * rule (shuffle on), index for index, so that runs here and there can be compared.  The list of
 * all samples is made a multiple of the ranks by its own beginning, shuffled as
 * numpy.random.RandomState(epoch) does, and dealt out in batches.  Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rn_sampler {
    size_t samples, batch; /* of the data set; of a rank's step */
    size_t rank, ranks;
};

/* Samples of one rank in an epoch. */
size_t rn_sampler_count(const struct rn_sampler *s);
/* Fills ret [rn_sampler_count]. */
void rn_sampler_epoch(const struct rn_sampler *s, uint32_t epoch, uint32_t *ret);
