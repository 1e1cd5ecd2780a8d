/* The algorithms that a call over TCP can take, what each costs, and which is the cheapest.
 *
 * An algorithm takes a number of steps (waits for another rank, one after the other) and moves a
 * number of bytes over a rank's connection. Its cost is steps * step + bytes * byte. Both numbers
 * follow from the number of ranks and the size of the call; the cost of one step and one byte was
 * measured (measured.c). The sum is computed in integers, so that all ranks choose the same.
 *
 * Pure: knows no groups, so that the launcher can print the table. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Those of a call stand together. */
enum cost_algorithm {
    COST_ALGORITHM_DOUBLING,
    COST_ALGORITHM_HALVING,
    COST_ALGORITHM_RING,
    COST_ALGORITHM_REDUCE_TREE,
    COST_ALGORITHM_REDUCE_CHAIN,
    COST_ALGORITHM_BROADCAST_TREE,
    COST_ALGORITHM_BROADCAST_CHAIN,
    COST_ALGORITHMS,
};

enum {
    COST_PIECE = 256 << 10, /* bytes that a chain passes on at a time */
    COST_SMALL = 8 << 10,   /* bytes up to which calls in shared memory are small */
};

const char *cost_algorithm_call(enum cost_algorithm w); /* "all_reduce", ... */
const char *cost_algorithm_name(enum cost_algorithm w); /* "ring", ... */
uint64_t cost_algorithm_steps(enum cost_algorithm w, uint32_t ranks, uint64_t bytes);
uint64_t cost_algorithm_bytes(enum cost_algorithm w, uint32_t ranks, uint64_t bytes);
uint64_t cost_algorithm_ns(enum cost_algorithm w, uint32_t ranks, uint64_t bytes);

/* What was measured: ns of a step, and of moving a KiB; and on what. */
struct cost_algorithm_cost {
    uint32_t step, kib;
};
extern const struct cost_algorithm_cost cost_algorithm_costs[COST_ALGORITHMS];
extern const char cost_algorithm_conditions[];

/* The cheapest algorithm for the same call as `one`; ranks >= 2. */
enum cost_algorithm cost_algorithm_cheapest(
    enum cost_algorithm one, uint32_t ranks, uint64_t bytes);

/* A table for people: every algorithm, its cost, and from how many bytes on it is chosen; and what
 * calls in shared memory do. Returns the length of the whole text, as snprintf. */
int cost_algorithm_table(char *ret_text, size_t size);
