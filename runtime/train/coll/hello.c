/* Writes and reads what ranks say in their handshakes. */
#include "runtime/train/coll/hello.h"

#include <string.h>

#include "common/bytes.h"
#include "common/mem.h"

static const char *const refusals[] = {
    "it is not forming this group now",
    "another job, generation or list of endpoints",
    "no such rank, or not one to connect to here",
    "the rank is here already",
};

const struct net_protocol coll_protocol = {.magic = 0x4c4c4f43 /* "COLL" */,
    .purpose = "paddle collective",
    .accepts = "rank",
    .dials = "rank",
    .all = "all ranks",
    .own = refusals,
    .n_own = CO_ARRAY_LEN(refusals)};

enum { LANE = 1, RANK = 4, SIZE = 8, TO = 12, JOB = 16, GROUP = 24, NODE = 32 };

_Static_assert(NODE + COLL_NODE_BYTES == NET_CALLER_BYTES, "coll_hello_node");

void coll_hello_write(const struct coll_hello *h, unsigned char ret[NET_CALLER_BYTES]) {
    memset(ret, 0, NET_CALLER_BYTES);
    ret[0] = (unsigned char)h->purpose;
    ret[LANE] = h->lane;
    co_put_u32(ret + RANK, h->rank);
    co_put_u32(ret + SIZE, h->size);
    co_put_u32(ret + TO, h->to);
    co_put_u64(ret + JOB, h->job);
    co_put_u64(ret + GROUP, h->group);
    memcpy(ret + NODE, h->node, COLL_NODE_BYTES);
}

enum net_refusal coll_hello_read(
    const unsigned char caller[NET_CALLER_BYTES], struct coll_hello *ret) {
    *ret = (struct coll_hello){.purpose = caller[0],
        .lane = caller[LANE],
        .rank = co_get_u32(caller + RANK),
        .size = co_get_u32(caller + SIZE),
        .to = co_get_u32(caller + TO),
        .job = co_get_u64(caller + JOB),
        .group = co_get_u64(caller + GROUP)};
    memcpy(ret->node, caller + NODE, COLL_NODE_BYTES);
    bool fits = caller[0] < COLL_PURPOSES && ret->lane < COLL_LANES_MAX &&
                ret->size <= COLL_RANKS_MAX && ret->rank < ret->size;
    return fits ? NET_REFUSAL_NONE : COLL_REFUSAL_RANK;
}
