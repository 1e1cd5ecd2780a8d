/* CTR-DNN, PaddleRec's models/rank/dnn:
 *
 *     concat(embedding rows of the slots in order, dense) -> hidden layers, relu -> 1
 *
 * PaddleRec has two outputs and a softmax; the sigmoid of one, their difference, is the same. */
#pragma once

#include "examples/ctr/net.h"

/* Criteo's: 1000001 x 9 embeddings, hidden layers of 512, 256, 128 and 32. */
extern const struct ctr_net cd_net;
