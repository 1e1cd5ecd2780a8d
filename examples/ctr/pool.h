/* Slots with several values: the network sees, for each such slot of a sample, one row more, the
 * sum or the mean of its values' rows, and that row's gradient goes back to all of them.
 *
 *     rows of the batch   (U, R)
 *     rows of the network (V, R): the same, and behind them one for each slot with several values
 *
 * Networks so know nothing of it.  Belongs to a model. */
#pragma once

#include "examples/ctr/model.h"

struct ctr_pool {
    size_t cells_room, rows_room;
    uint32_t *index;     /* (B, S): indexes of the network's rows */
    uint32_t *count;     /* (V - U): values of each */
    uint32_t *cell;      /* (V - U): whose */
    size_t n;            /* V - U */
    float *rows, *grads; /* (V, R) */
};

void ctr_pool_done(struct ctr_pool *p);
/* Puts what the network shall see of b into w; nothing changes for a batch without such slots. */
void ctr_pool_forward(
    struct ctr_pool *p, const struct ctr_batch *b, const float *rows, struct ctr_work *w);
/* Where the network shall write gradients; then, from there to row_grads (U, R). */
float *ctr_pool_grads(struct ctr_pool *p, const struct ctr_batch *b, float *row_grads);
void ctr_pool_backward(
    struct ctr_pool *p, const struct ctr_batch *b, const struct ctr_config *c, float *row_grads);
