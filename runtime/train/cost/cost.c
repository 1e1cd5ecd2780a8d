/* The formula of each algorithm's steps and bytes, and the choice of the cheapest. */
#include "runtime/train/cost/cost.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"
#include "common/mem.h"

/* ---- P ranks, n bytes ---- */

/* log2 P, rounded down; up. */
static uint32_t log_down(uint32_t ranks) {
    uint32_t n = 0;
    while (ranks >>= 1) {
        n++;
    }
    return n;
}
static uint32_t log_up(uint32_t ranks) {
    return log_down(2 * ranks - 1);
}

/* Steps for ranks beyond a power of two: they hand their data to a partner first and get the result
 * from it afterwards. */
static uint32_t folds(uint32_t ranks) {
    return (ranks & (ranks - 1)) != 0 ? 2 : 0;
}

static uint64_t doubling_steps(uint32_t ranks, uint64_t bytes) {
    (void)bytes;
    return log_down(ranks) + folds(ranks);
}
static uint64_t doubling_bytes(uint32_t ranks, uint64_t bytes) {
    return bytes * (log_down(ranks) + folds(ranks));
}

static uint64_t halving_steps(uint32_t ranks, uint64_t bytes) {
    (void)bytes;
    return 2 * log_down(ranks) + folds(ranks);
}
static uint64_t halving_bytes(uint32_t ranks, uint64_t bytes) {
    uint64_t power = (uint64_t)1 << log_down(ranks);
    return 2 * bytes * (power - 1) / power + bytes * folds(ranks);
}

static uint64_t ring_steps(uint32_t ranks, uint64_t bytes) {
    (void)bytes;
    return 2 * ((uint64_t)ranks - 1);
}
static uint64_t ring_bytes(uint32_t ranks, uint64_t bytes) {
    return 2 * bytes * (ranks - 1) / ranks;
}

static uint64_t tree_steps(uint32_t ranks, uint64_t bytes) {
    (void)bytes;
    return log_up(ranks);
}
static uint64_t tree_bytes(uint32_t ranks, uint64_t bytes) {
    return bytes * log_up(ranks);
}

/* A chain is a pipeline: the last rank gets its first piece after ranks - 1 steps. */
static uint64_t chain_steps(uint32_t ranks, uint64_t bytes) {
    uint64_t pieces = (bytes + COST_PIECE - 1) / COST_PIECE;
    return ranks - 2 + (pieces ? pieces : 1);
}
static uint64_t chain_bytes(uint32_t ranks, uint64_t bytes) {
    return bytes + (ranks - 2) * (bytes < COST_PIECE ? bytes : COST_PIECE);
}

typedef uint64_t (*count_fn)(uint32_t ranks, uint64_t bytes);
static const struct {
    const char *call, *name;
    count_fn steps, bytes;
    const char *steps_text, *bytes_text;
} rows[COST_ALGORITHMS] = {
    [COST_ALGORITHM_DOUBLING] = {"all_reduce", "doubling", doubling_steps, doubling_bytes, "log2 P",
        "n log2 P"},
    [COST_ALGORITHM_HALVING] = {"all_reduce", "halving", halving_steps, halving_bytes, "2 log2 P",
        "2 n (P - 1) / P"},
    [COST_ALGORITHM_RING] = {"all_reduce", "ring", ring_steps, ring_bytes, "2 (P - 1)",
        "2 n (P - 1) / P"},
    [COST_ALGORITHM_REDUCE_TREE] = {"reduce", "tree", tree_steps, tree_bytes, "log2 P", "n log2 P"},
    [COST_ALGORITHM_REDUCE_CHAIN] = {"reduce", "chain", chain_steps, chain_bytes, "P - 2 + pieces",
        "n + (P - 2) piece"},
    [COST_ALGORITHM_BROADCAST_TREE] = {"broadcast", "tree", tree_steps, tree_bytes, "log2 P",
        "n log2 P"},
    [COST_ALGORITHM_BROADCAST_CHAIN] = {"broadcast", "chain", chain_steps, chain_bytes,
        "P - 2 + pieces", "n + (P - 2) piece"},
};

const char *cost_algorithm_call(enum cost_algorithm w) {
    return rows[w].call;
}

const char *cost_algorithm_name(enum cost_algorithm w) {
    return rows[w].name;
}

uint64_t cost_algorithm_steps(enum cost_algorithm w, uint32_t ranks, uint64_t bytes) {
    return rows[w].steps(ranks, bytes);
}

uint64_t cost_algorithm_bytes(enum cost_algorithm w, uint32_t ranks, uint64_t bytes) {
    return rows[w].bytes(ranks, bytes);
}

/* Counts in KiB, rounded up, so that the product fits 64 bits. */
uint64_t cost_algorithm_ns(enum cost_algorithm w, uint32_t ranks, uint64_t bytes) {
    return cost_algorithm_steps(w, ranks, bytes) * cost_algorithm_costs[w].step +
           (cost_algorithm_bytes(w, ranks, bytes) + 1023) / 1024 * cost_algorithm_costs[w].kib;
}

enum cost_algorithm cost_algorithm_cheapest(
    enum cost_algorithm one, uint32_t ranks, uint64_t bytes) {
    enum cost_algorithm best = one;
    uint64_t least = UINT64_MAX;
    for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
        uint64_t ns =
            co_streq(rows[w].call, rows[one].call) ? cost_algorithm_ns(w, ranks, bytes) : least;
        if (ns < least) {
            best = w;
            least = ns;
        }
    }
    return best;
}

/* ---- for people ---- */

/* Shared memory has no such table: the size and the kind of memory decide. */
static const struct {
    const char *call, *name, *steps, *bytes;
    uint32_t from;
} in_memory[] = {
    {"all_reduce", "everybody reduces all", "1", "P n", 0},
    {"all_reduce", "slices", "2 a chunk", "3 n", COST_SMALL + 1},
    {"all_reduce", "slices, in the group's buffers", "2", "2 n", COST_SMALL + 1},
    {"reduce", "the root reduces all", "1", "P n", 0},
    {"reduce", "slices", "2 a chunk", "2 n", COST_SMALL + 1},
    {"broadcast", "pieces", "1 a piece", "2 n", 0},
    {"all_gather", "pieces", "1 a piece", "P n", 0},
    {"reduce_scatter", "slices", "2 a slice", "2 P n", 0},
    {"barrier", "everybody looks at all", "1", "0", 0},
};

struct page {
    char *text;
    size_t size, at;
};

static void CO_PRINTF(2, 3) add(struct page *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(
        p->at < p->size ? p->text + p->at : NULL, p->at < p->size ? p->size - p->at : 0, fmt, ap);
    va_end(ap);
    p->at += n > 0 ? (size_t)n : 0;
}

/* "0 doubling, 16384 halving, ...": sizes are tried in steps of two. */
static void add_choice(struct page *p, enum cost_algorithm one, uint32_t ranks) {
    enum cost_algorithm last = COST_ALGORITHMS;
    add(p, "%-11s %5u ", rows[one].call, ranks);
    for (uint64_t bytes = 1; bytes <= (uint64_t)1 << 32; bytes *= 2) {
        enum cost_algorithm w = cost_algorithm_cheapest(one, ranks, bytes);
        if (w != last) {
            add(p, "%s %llu %s", last == COST_ALGORITHMS ? "" : ",",
                (unsigned long long)(bytes == 1 ? 0 : bytes), rows[w].name);
        }
        last = w;
    }
    add(p, "\n");
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it is written through the page. */
int cost_algorithm_table(char *ret_text, size_t size) {
    static const uint32_t ranks[] = {2, 3, 4, 8, 16, 64, 256};
    struct page p = {.text = ret_text, .size = size};
    add(&p, "Over TCP, between P machines; n bytes.  Measured: %s.\n\n", cost_algorithm_conditions);
    add(&p, "%-11s %-9s %-15s %-18s %8s %8s\n", "call", "algorithm", "steps", "bytes", "us/step",
        "us/MiB");
    for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
        add(&p, "%-11s %-9s %-15s %-18s %8.1f %8.1f\n", rows[w].call, rows[w].name,
            rows[w].steps_text, rows[w].bytes_text, cost_algorithm_costs[w].step / 1e3,
            cost_algorithm_costs[w].kib * 1.024);
    }
    add(&p, "\n%-11s %5s  %s\n", "call", "P", "from how many bytes on which is taken");
    for (enum cost_algorithm w = 0; w < COST_ALGORITHMS; w++) {
        bool first = w == 0 || !co_streq(rows[w].call, rows[w - 1].call);
        for (size_t i = 0; first && i < CO_ARRAY_LEN(ranks); i++) {
            add_choice(&p, w, ranks[i]);
        }
    }
    add(&p, "\nIn shared memory, between P ranks of a machine.\n\n%-15s %6s  %-31s %-10s %s\n",
        "call", "from", "algorithm", "steps", "bytes");
    for (size_t i = 0; i < CO_ARRAY_LEN(in_memory); i++) {
        add(&p, "%-15s %6u  %-31s %-10s %s\n", in_memory[i].call, in_memory[i].from,
            in_memory[i].name, in_memory[i].steps, in_memory[i].bytes);
    }
    return (int)p.at;
}
