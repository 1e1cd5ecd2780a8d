/* What the handshake of runtime/net says on a connection to a parameter server.
 *
 * A hello names what the connection is for.  A data lane (lane.h) names its trainer and shard, too,
 * and shows the key from the server's welcome to that trainer.  The proofs cover all of it.
 * Of the handshake's caller's bytes, little-endian; the rest are 0:
 *
 *     0 u32 purpose  4 u32 trainer  8 u32 shard  12 u32 0  16 u64 key */
#pragma once

#include "runtime/net/handshake.h"

enum rpc_purpose {
    RPC_FOR_STREAM, /* gRPC */
    RPC_FOR_LANE,
};

/* What a connection is for. */
struct rpc_pass {
    enum rpc_purpose purpose;
    uint32_t trainer, shard; /* of a lane, like key */
    uint64_t key;
};

extern const struct net_protocol rpc_protocol;
#define RPC_REFUSAL_PURPOSE NET_REFUSAL_OWN /* its only refusal beside those of runtime/net */

void rpc_pass_write(const struct rpc_pass *pass, unsigned char ret[NET_CALLER_BYTES]);
/* NET_REFUSAL_NONE, or RPC_REFUSAL_PURPOSE. */
enum net_refusal rpc_pass_read(const unsigned char caller[NET_CALLER_BYTES], struct rpc_pass *ret);
