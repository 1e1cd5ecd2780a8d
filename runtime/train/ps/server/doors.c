/* Decides which data lanes a server accepts: those that present the key from their trainer's
 * welcome.  The front door's thread hands an accepted lane to its shard, with the stream that the
 * lane belongs to.  The key is needed only there; everything else goes by the stream. */
#include <string.h>

#include "common/proof.h"
#include "runtime/train/ps/server/server_internal.h"

int pss_server_open_door(struct pss_server *s, uint32_t trainer, struct rpc_stream *stream,
    uint64_t *ret_key, struct co_err *err) {
    unsigned char nonce[CO_NONCE_BYTES];
    CO_TRY(co_nonce_make(nonce, err));
    memcpy(ret_key, nonce, sizeof(*ret_key));
    *ret_key |= 1; /* 0 means no key */
    pthread_mutex_lock(&s->doors_m);
    struct pss_door old = s->doors[trainer];
    s->doors[trainer] = (struct pss_door){*ret_key, rpc_stream_ref(stream)};
    pthread_mutex_unlock(&s->doors_m);
    if (old.stream) {
        rpc_stream_unref(old.stream);
    }
    return 0;
}

void pss_server_close_door(
    struct pss_server *s, uint32_t trainer, const struct rpc_stream *stream) {
    pthread_mutex_lock(&s->doors_m);
    struct pss_door *d = &s->doors[trainer], old = {0};
    if (d->stream == stream) { /* else a later connection of the trainer has the door */
        old = *d;
        *d = (struct pss_door){0};
    }
    pthread_mutex_unlock(&s->doors_m);
    if (old.stream) {
        rpc_stream_unref(old.stream);
    }
}

int pss_server_on_lane(
    void *server, struct rpc_lane *lane, const struct rpc_pass *pass, struct co_err *err) {
    struct pss_server *s = server;
    const struct pss_server_config *c = &s->config;
    int rc = 0;
    pthread_mutex_lock(&s->doors_m);
    const struct pss_door *d = pass->trainer < c->trainers ? &s->doors[pass->trainer] : NULL;
    if (!d || pass->key == 0) {
        rc = co_err_set(err, CO_PERMISSION, "a data lane of trainer %u of %u%s", pass->trainer,
            c->trainers, pass->key == 0 ? " without a key" : "");
    } else if (d->key != pass->key) {
        /* The trainer may retry: its stream may have broken after its welcome. */
        rc = co_err_set(err, CO_UNAVAILABLE,
            "a data lane of trainer %u, which is not here or has another key", pass->trainer);
    } else if (pass->shard >= c->shards) {
        rc = co_err_set(err, CO_INVALID, "a data lane of trainer %u to shard %u of %u",
            pass->trainer, pass->shard, c->shards);
    } else {
        /* Under the lock, so that the shard gets the lane before it learns that the trainer has
         * left: leave_member closes the door first. */
        (void)rpc_stream_ref(rpc_lane_stream(lane));
        shard_lane(s->shards[pass->shard], pass->trainer, d->stream, lane);
    }
    pthread_mutex_unlock(&s->doors_m);
    return rc;
}
