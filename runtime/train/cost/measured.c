/* Printed by `make tune-coll`. */
#include "runtime/train/cost/cost.h"

const struct rt_way_cost rt_way_costs[RT_WAYS] = {
    [RT_WAY_DOUBLING] = {34038, 391},
    [RT_WAY_HALVING] = {31421, 324},
    [RT_WAY_RING] = {38454, 434},
    [RT_WAY_REDUCE_TREE] = {3553, 155},
    [RT_WAY_REDUCE_CHAIN] = {3986, 152},
    [RT_WAY_BROADCAST_TREE] = {6256, 374},
    [RT_WAY_BROADCAST_CHAIN] = {3592, 239},
};
const char rt_way_conditions[] = "2, 3 and 4 ranks on 2 cores, loopback; load 9.79;"
                                 " AMD EPYC";
