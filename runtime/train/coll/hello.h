/* What the handshake of runtime/net says between two ranks: who connects to whom, and for what.  Of
 * the handshake's caller's bytes, little-endian; the rest are 0:
 *
 *     hello    0 u8 purpose  1 u8 lane  4 u32 rank  8 u32 size  12 u32 to  16 u64 job  24 u64 group
 *              32 u8[16] node
 *     answer  32 u8[16] node */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/net/handshake.h"

enum {
    COLL_NODE_BYTES = 16,
    COLL_LANES_MAX = 8,
    COLL_RANKS_MAX = 4096,
};

enum coll_purpose {
    COLL_FOR_CONTROL, /* one for each pair of ranks, as long as the group lives */
    COLL_FOR_LANE,    /* carries data between machines */
    COLL_FOR_MEMORY,  /* passes the descriptor of the shared memory, then closes */
    COLL_PURPOSES,
};

/* Refusals beside those of runtime/net: */
#define COLL_REFUSAL(i) ((enum net_refusal)(NET_REFUSAL_OWN + (i)))
#define COLL_REFUSAL_LATER COLL_REFUSAL(0)  /* not forming that group now: try again soon */
#define COLL_REFUSAL_JOB COLL_REFUSAL(1)    /* another job, generation, size or list of endpoints */
#define COLL_REFUSAL_RANK COLL_REFUSAL(2)   /* not a rank that may connect here */
#define COLL_REFUSAL_DOUBLE COLL_REFUSAL(3) /* the rank is connected already */

extern const struct net_protocol coll_protocol;

/* Who connects to which rank, and for what. */
struct coll_hello {
    enum coll_purpose purpose;
    uint8_t lane;
    uint32_t rank, size, to;
    uint64_t job, group;
    unsigned char node[COLL_NODE_BYTES];
};

void coll_hello_write(const struct coll_hello *h, unsigned char ret[NET_CALLER_BYTES]);
/* Accepts any bytes: NET_REFUSAL_NONE, or COLL_REFUSAL_RANK. */
enum net_refusal coll_hello_read(
    const unsigned char caller[NET_CALLER_BYTES], struct coll_hello *ret);
/* The node in the bytes of a hello or an answer. */
static inline unsigned char *coll_hello_node(unsigned char *caller) {
    return caller + (NET_CALLER_BYTES - COLL_NODE_BYTES);
}
