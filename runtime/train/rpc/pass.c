/* What rpc's hello says. */
#include "runtime/train/rpc/pass.h"

#include <string.h>

#include "common/bytes.h"
#include "common/mem.h"

static const char *const refusals[] = {"it has no connections of that kind"};

const struct net_protocol rpc_protocol = {.magic = 0x53504450 /* "PDPS" */,
    .purpose = "paddle parameter server",
    .accepts = "server",
    .dials = "trainer",
    .all = "trainers and servers",
    .own = refusals,
    .n_own = CO_ARRAY_LEN(refusals)};

enum { PURPOSE = 0, TRAINER = 4, SHARD = 8, KEY = 16 }; /* offsets in the caller's bytes */

void rpc_pass_write(const struct rpc_pass *pass, unsigned char ret[NET_CALLER_BYTES]) {
    memset(ret, 0, NET_CALLER_BYTES);
    co_put_u32(ret + PURPOSE, pass->purpose);
    co_put_u32(ret + TRAINER, pass->trainer);
    co_put_u32(ret + SHARD, pass->shard);
    co_put_u64(ret + KEY, pass->key);
}

enum net_refusal rpc_pass_read(const unsigned char caller[NET_CALLER_BYTES], struct rpc_pass *ret) {
    uint32_t purpose = co_get_u32(caller + PURPOSE);
    *ret = (struct rpc_pass){.purpose = purpose == RPC_FOR_LANE ? RPC_FOR_LANE : RPC_FOR_STREAM,
        .trainer = co_get_u32(caller + TRAINER),
        .shard = co_get_u32(caller + SHARD),
        .key = co_get_u64(caller + KEY)};
    return purpose <= RPC_FOR_LANE ? NET_REFUSAL_NONE : RPC_REFUSAL_PURPOSE;
}
