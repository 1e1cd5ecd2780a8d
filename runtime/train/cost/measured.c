/* Printed by `make tune-coll`. */
#include "runtime/train/cost/cost.h"

const struct rt_way_cost rt_way_costs[RT_WAYS] = {
    [RT_WAY_DOUBLING] = {5572, 223},
    [RT_WAY_HALVING] = {6505, 197},
    [RT_WAY_RING] = {6359, 201},
    [RT_WAY_REDUCE_TREE] = {2521, 71},
    [RT_WAY_REDUCE_CHAIN] = {6151, 110},
    [RT_WAY_BROADCAST_TREE] = {8331, 114},
    [RT_WAY_BROADCAST_CHAIN] = {8792, 99},
};
const char rt_way_conditions[] = "2, 3 and 4 ranks on 2 cores, loopback; load 2.87;"
                                 " AMD EPYC";
