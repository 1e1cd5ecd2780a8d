/* A batch of ids: each distinct id once, grouped by the shard that owns its row.  No shared state;
 * any thread.
 *
 *     ids     7  9  7  4          unique  0  1  0  2
 *     first   0  1  3             next    2  -  -  -      by place in ids; -: PSC_NONE */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"

#define PSC_NONE UINT32_MAX

struct psc_ids {
    uint32_t n;        /* ids given */
    uint32_t n_unique; /* distinct ones */
    uint32_t *unique;  /* [n] id -> number of its distinct id */
    uint32_t *first;   /* [n_unique] its first place in the batch */
    uint32_t *next;    /* [n] next place with the same id, PSC_NONE at the end */
    uint32_t *target;  /* [n_unique] group of the distinct id */
    uint32_t *place;   /* [n_unique] its number within the group */
    uint32_t *count;   /* [n_targets] distinct ids of the group */
};

/* n below 2^31.  A group is a shard, counted over all servers.  base [n_servers + 1]: the first
 * group of each server, then the number of groups. */
void psc_ids_init(
    struct psc_ids *b, const uint64_t *ids, uint32_t n, const uint32_t *base, uint32_t n_servers);
void psc_ids_done(struct psc_ids *b);
