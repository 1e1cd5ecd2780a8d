/* Which algorithm a call takes from how many bytes on, and what it costs; for people. */
#include <stdio.h>

#include "runtime/train/coll/message.h"
#include "runtime/train/coll/shm_call.h"

/* P ranks, M machines, L ranks of a machine, n bytes.  Steps are waits for others, one after the
 * other; bytes are what a rank reads, writes or sends. */
static const struct {
    enum rt_kind kind;
    const char *where, *name, *steps, *bytes;
    size_t from;
} rows[] = {
    {RT_ALL_REDUCE, "memory", "everybody reduces all", "1", "P n", 0},
    {RT_ALL_REDUCE, "memory", "slices", "2 a chunk", "3 n", RT_SHM_BODY + 1},
    {RT_ALL_REDUCE, "memory", "slices, in the group's buffers", "2", "2 n", RT_SHM_BODY + 1},
    {RT_ALL_REDUCE, "tcp", "doubling", "log2 P", "n log2 P", 0},
    {RT_ALL_REDUCE, "tcp", "ring", "2 (P - 1)", "2 n (P - 1) / P", RT_RING_FROM},
    {RT_ALL_REDUCE, "both", "first ranks", "2 + tcp", "n", 0},
    {RT_ALL_REDUCE, "both", "shares", "4 + tcp", "n / L between machines", RT_SHARE_FROM},
    {RT_REDUCE, "memory", "the root reduces all", "1", "P n", 0},
    {RT_REDUCE, "memory", "slices", "2 a chunk", "2 n", RT_SHM_BODY + 1},
    {RT_REDUCE, "tcp", "tree", "log2 P", "n log2 P", 0},
    {RT_REDUCE, "tcp", "chain", "P - 2 + pieces", "n", RT_PIECE + 1},
    {RT_BROADCAST, "memory", "pieces", "1 a piece", "2 n", 0},
    {RT_BROADCAST, "tcp", "tree", "log2 P", "n log2 P", 0},
    {RT_BROADCAST, "tcp", "chain", "P - 2 + pieces", "n", RT_PIECE + 1},
    {RT_ALL_GATHER, "memory", "pieces", "1 a piece", "P n", 0},
    {RT_ALL_GATHER, "tcp", "ring", "P - 1", "n (P - 1)", 0},
    {RT_REDUCE_SCATTER, "memory", "slices", "2 a slice", "2 P n", 0},
    {RT_REDUCE_SCATTER, "tcp", "ring", "P - 1", "n (P - 1)", 0},
    {RT_SCATTER, "any", "one after the other", "P - 1", "n (P - 1)", 0},
    {RT_GATHER, "any", "one after the other", "P - 1", "n (P - 1)", 0},
    {RT_ALL_TO_ALL, "any", "by distance", "P - 1", "n (P - 1)", 0},
    {RT_BARRIER, "memory", "everybody looks at all", "1", "0", 0},
    {RT_BARRIER, "tcp", "distances 1, 2, 4, ...", "log2 P", "0", 0},
};

int rt_coll_costs(char *ret_text, size_t size) {
    size_t at = 0;
    at += (size_t)snprintf(ret_text, size, "%-15s %-7s %8s  %-31s %-15s %s\n", "call", "over",
        "from", "algorithm", "steps", "bytes");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        at += (size_t)snprintf(at < size ? ret_text + at : NULL, at < size ? size - at : 0,
            "%-15s %-7s %8zu  %-31s %-15s %s\n", rt_kind_name(rows[i].kind), rows[i].where,
            rows[i].from, rows[i].name, rows[i].steps, rows[i].bytes);
    }
    return (int)at;
}
