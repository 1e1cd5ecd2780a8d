/* Walks the chunks of one part of a servers' checkpoint. Shared by view.c, sparse_rows.c and
 * values.c. */
#pragma once

#include "runtime/tools/inspect/inspect.h"

struct inspect_walk {
    const struct ckpt_chain *chain;
    uint32_t table;
    unsigned kinds; /* mask of enum ckpt_part_kind */
    bool heads;     /* data is not read; take gets NULL */
    /* Whether its data is wanted; NULL: all. */
    bool (*wants)(void *arg, const struct ckpt_part_chunk *c);
    /* Returns 1 to stop. */
    int (*take)(
        void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err);
    void *arg;
};

/* 1: take stopped the walk. */
CO_MUST_CHECK int inspect_walk_part(
    const struct inspect_walk *w, uint32_t point, uint32_t part, struct co_err *err);
