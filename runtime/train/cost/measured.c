/* Printed by `make tune-coll`. */
#include "runtime/train/cost/cost.h"

const struct cost_algorithm_cost cost_algorithm_costs[COST_ALGORITHMS] = {
    [COST_ALGORITHM_DOUBLING] = {5572, 223},
    [COST_ALGORITHM_HALVING] = {6505, 197},
    [COST_ALGORITHM_RING] = {6359, 201},
    [COST_ALGORITHM_REDUCE_TREE] = {2521, 71},
    [COST_ALGORITHM_REDUCE_CHAIN] = {6151, 110},
    [COST_ALGORITHM_BROADCAST_TREE] = {8331, 114},
    [COST_ALGORITHM_BROADCAST_CHAIN] = {8792, 99},
};
const char cost_algorithm_conditions[] = "2, 3 and 4 ranks on 2 cores, loopback; load 2.87;"
                                         " AMD EPYC";
