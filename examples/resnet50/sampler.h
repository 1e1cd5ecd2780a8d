/* Which samples a rank sees in an epoch, and in which order: exactly those of
 * paddle.io.DistributedBatchSampler with shuffle, so that runs can be compared with Paddle's.  The
 * list of all samples is padded from its own beginning to a multiple of the number of ranks,
 * shuffled like numpy.random.RandomState(epoch) does, and dealt out in batches. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rn_sampler {
    size_t samples, batch; /* in the data set; in a rank's step */
    size_t rank, ranks;
};

/* How many samples one rank gets in an epoch. */
size_t rn_sampler_count(const struct rn_sampler *s);
/* Fills ret [rn_sampler_count]. */
void rn_sampler_epoch(const struct rn_sampler *s, uint32_t epoch, uint32_t *ret);
