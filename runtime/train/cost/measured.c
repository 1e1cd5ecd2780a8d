/* Printed by `make tune-coll`. */
#include "runtime/train/cost/cost.h"

const struct cost_way_cost cost_way_costs[COST_WAYS] = {
    [COST_WAY_DOUBLING] = {5572, 223},
    [COST_WAY_HALVING] = {6505, 197},
    [COST_WAY_RING] = {6359, 201},
    [COST_WAY_REDUCE_TREE] = {2521, 71},
    [COST_WAY_REDUCE_CHAIN] = {6151, 110},
    [COST_WAY_BROADCAST_TREE] = {8331, 114},
    [COST_WAY_BROADCAST_CHAIN] = {8792, 99},
};
const char cost_way_conditions[] = "2, 3 and 4 ranks on 2 cores, loopback; load 2.87;"
                                   " AMD EPYC";
