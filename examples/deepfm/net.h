/* DeepFM (Guo et al. 2017, arXiv:1703.04247), as PaddleRec's models/rank/deepfm has it:
 *
 *     fields f = 1 .. S + D: a slot's is the row of its id, x = 1; a number's has parameters, x =
 * it first  = sum of w_f x_f second = sum over pairs f < g of <v_f x_f, v_g x_g> deep   =
 * concat(v_f x_f in order) -> hidden layers, relu -> 1 logit  = first + second + deep
 *
 * A sparse row is w, then v: R = 1 + E floats. */
#pragma once

#include "examples/ctr/net.h"

/* Criteo's: E = 9, hidden layers of 512, 256, 128 and 32. */
extern const struct ctr_net fm_net;
