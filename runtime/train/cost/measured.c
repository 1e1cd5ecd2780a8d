/* Printed by `make tune-coll`. */
#include "runtime/train/cost/cost.h"

const struct rt_way_cost rt_way_costs[RT_WAYS] = {
    [RT_WAY_DOUBLING] = {33474, 531},
    [RT_WAY_HALVING] = {31529, 469},
    [RT_WAY_RING] = {38357, 595},
    [RT_WAY_REDUCE_TREE] = {3865, 134},
    [RT_WAY_REDUCE_CHAIN] = {4121, 161},
    [RT_WAY_BROADCAST_TREE] = {4235, 305},
    [RT_WAY_BROADCAST_CHAIN] = {6496, 297},
};
const char rt_way_conditions[] = "2, 3 and 4 ranks on 2 cores, loopback; load 12.3;"
                                 " AMD EPYC";
