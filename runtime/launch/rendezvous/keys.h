/* What a rendezvous stores and lists over HTTP as Paddle's server does: keys that belong to no
 * node, and listings of all keys of a prefix, those of the nodes included.  Part of service.c.
 *
 * Any program may write and read: keys, their bytes, and the work of large listings are bounded. */
#pragma once

#include "common/http/httpd.h"
#include "common/map.h"
#include "runtime/launch/rendezvous/group.h"

enum { RDZV_KEYS_LISTINGS = 4 };

struct rdzv_keys {
    const struct rdzv_group *group;                    /* whose nodes are listed */
    const char *prefix;                                /* of the nodes' keys; borrowed */
    struct co_map map;                                 /* path -> value */
    size_t bytes;                                      /* of all those, with their values */
    uint64_t version;                                  /* of changes to them */
    struct rdzv_listing *listings[RDZV_KEYS_LISTINGS]; /* one reference each; NULL: none */
    int64_t large_listing_at;                          /* when the last large one was made */
};

void rdzv_keys_init(struct rdzv_keys *k, const struct rdzv_group *group, const char *prefix);
void rdzv_keys_done(struct rdzv_keys *k);

/* Each answers the request. */
void rdzv_keys_put(struct rdzv_keys *k, struct co_http_req *r, const char *value);
void rdzv_keys_get(struct rdzv_keys *k, struct co_http_req *r);
void rdzv_keys_delete(struct rdzv_keys *k, struct co_http_req *r);
