/* Wide & deep, of FleetX's examples:
 *
 *     deep = concat(embedding rows of the slots in order, dense) -> hidden layers, relu -> 1
 *     wide = linear(dense) -> 1 */
#pragma once

#include "examples/ctr/net.h"

/* Criteo's: 1000001 x 10 embeddings, 26 slots, 13 numbers, three hidden layers of 400; 430815 dense
 * parameters. */
extern const struct ctr_net wd_net;
