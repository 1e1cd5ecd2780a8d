/* What a trainer keeps on server 0 for its restart: rt_keep, rt_resume. */
#include <string.h>

#include "runtime/train/ps/client/client_internal.h"

/* Makes a call to shard 0 of server 0, which stores what rt_keep sends.  A shard is asked, because
 * it sees these frames in order with the trainer's steps. */
static int to_keeper(struct rt_client *c, const char *what, uint8_t kind, uint64_t step,
    const void *data, size_t bytes, struct rt_call **ret, struct co_err *err) {
    struct rpc_frame *f = NULL;
    CO_TRY(rpc_frame_new(kind, bytes, &f, err));
    if (bytes > 0) {
        memcpy(f->payload, data, bytes);
    }
    f->head.aux = step;
    *ret = psc_call_new(c, what, NULL, 1);
    psc_call_frame(*ret, 0, 0, f, 0);
    return 0;
}

int rt_keep(struct rt_client *c, const void *data, size_t bytes, struct co_err *err) {
    CO_TRY(psc_client_here(c, err));
    if (bytes > RT_KEEP_MAX) {
        return co_err_set(err, CO_INVALID, "%zu bytes to be kept, at most %d", bytes, RT_KEEP_MAX);
    }
    struct rt_call *call = NULL;
    CO_TRY(to_keeper(c, "keep", RPC_FRAME_KEEP, c->progress.steps + 1, data, bytes, &call, err));
    call->done = psc_call_free;
    return psc_call_detach(call, false, err);
}

/* Where the answer to a recall goes. */
struct recall {
    struct rt_place *place;
    void *data;
    size_t size;
};

static int take_recall(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    (void)p;
    struct recall *r = call->arg;
    if (a->head.bytes > r->size) {
        return co_err_set(err, CO_NORESOURCE, "%u bytes were kept, there is room for %zu",
            a->head.bytes, r->size);
    }
    if (a->head.bytes > 0) { /* without, r->data may be NULL */
        memcpy(r->data, a->payload, a->head.bytes);
    }
    r->place->kept = a->head.aux;
    r->place->bytes = a->head.bytes;
    return 0;
}

int rt_resume(struct rt_client *c, void *ret_data, size_t size, struct rt_place *ret_place,
    struct co_err *err) {
    CO_TRY(psc_client_here(c, err));
    bool sync = c->options.mode == RT_SYNC;
    if (psc_client_failure(c, NULL) == CO_GONE) {
        CO_TRY(psc_client_rejoin(c, err));
        c->progress.no_more = false; /* it was said in steps that are repeated now */
    }
    struct rt_place place = {.step = c->progress.steps};
    struct recall r = {&place, ret_data, size};
    struct rt_call *call = NULL;
    CO_TRY(to_keeper(
        c, "resume", RPC_FRAME_RECALL, sync ? c->progress.steps : UINT64_MAX, NULL, 0, &call, err));
    call->take = take_recall;
    call->arg = &r;
    psc_call_start(call);
    CO_TRY(psc_call_wait(call, c->options.call_timeout_ms, err));
    if (!sync) {
        place.step = place.kept;
        c->progress.steps = place.kept;
    }
    *ret_place = place;
    return 0;
}
