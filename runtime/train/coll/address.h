/* Where a rank can be reached.  An endpoint may be a name, and DNS may be down just when a group
 * has lost a rank: a group that is made from another one reuses the addresses that the ranks have
 * there, and no lookup takes longer than its attempt to connect. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"

enum { COLL_ADDRESSES_MAX = 16 };

struct coll_addresses {
    uint32_t n;
    socklen_t bytes[COLL_ADDRESSES_MAX];
    struct sockaddr_storage at[COLL_ADDRESSES_MAX];
};

struct rt_group;
/* Remembers for rank `to` of g the address that its rank r of `from` has. */
void coll_address_inherit(struct rt_group *g, uint32_t to, const struct rt_group *from, uint32_t r);
/* A numeric endpoint is its address.  Otherwise: the inherited one, unless by_name is set, or those
 * that DNS knows.  Waits until end_ms at most.  Codes: CO_INVALID, CO_NOTFOUND, CO_TIMEOUT, or that
 * with which g failed meanwhile. */
CO_MUST_CHECK int coll_address_find(struct rt_group *g, uint32_t to, bool by_name, int64_t end_ms,
    struct coll_addresses *ret, struct co_err *err);
