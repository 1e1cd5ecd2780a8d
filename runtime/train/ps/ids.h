/* A batch of ids, each distinct one once, grouped by where its row lives.  Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"

#define RT_NONE UINT32_MAX

struct rt_ids {
    uint32_t n;        /* ids given */
    uint32_t n_unique; /* distinct ones */
    uint32_t *unique;  /* [n] id -> number of its distinct id */
    uint32_t *first;   /* [n_unique] first place where it stands */
    uint32_t *next;    /* [n] next place with the same id, RT_NONE at the end */
    uint32_t *target;  /* [n_unique] group of the distinct id */
    uint32_t *place;   /* [n_unique] its number within the group */
    uint32_t *count;   /* [n_targets] distinct ids of the group */
};

/* n below 2^31.  base[s] = number of the first group of server s, of n_servers + 1. */
void rt_ids_init(
    struct rt_ids *b, const uint64_t *ids, uint32_t n, const uint32_t *base, uint32_t n_servers);
void rt_ids_done(struct rt_ids *b);
