/* Checkpoints that the servers write.  One trainer leads them:
 *
 *     order    ->  every shard of every server     <- when its server's part is written: size, hash
 *     commit   ->  server 0, with all parts        <- when the checkpoint is complete
 *
 * rt_checkpoint does both on the caller's thread; saving.c begins those that the options ask for.
 */
#include <inttypes.h>
#include <string.h>

#include "common/loop.h"
#include "common/spare.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/checkpoint_internal.h"
#include "runtime/train/ps/client/options.h"

enum { TRIES = 4 };

/* ---- messages ---- */

int psc_checkpoint_call(struct rt_client *c, const char *what, const Rpc__Control *m,
    enum psc_audience who, struct rt_call **ret, struct co_err *err) {
    const uint32_t servers = who == PSC_TO_SERVER_0 ? 1 : c->n_servers;
    struct rt_call *call =
        psc_call_new(c, what, NULL, who == PSC_TO_SHARDS ? c->base[c->n_servers] : servers);
    uint32_t at = 0;
    const uint64_t steps = c->progress.steps;
    for (uint32_t s = 0; s < servers; s++) {
        for (uint32_t g = c->base[s]; g < (who == PSC_TO_SHARDS ? c->base[s + 1] : c->base[s] + 1);
             g++) {
            struct rpc_frame *f = NULL;
            int rc = ps_control_pack(m, NULL, &f, err);
            if (rc < 0) {
                psc_call_free(call);
                return rc;
            }
            f->head.kind = RPC_FRAME_CHECKPOINT;
            f->head.shard = g - c->base[s];
            f->head.aux = steps;
            psc_call_frame(call, at++, s, f, 0);
        }
    }
    call->harmless = true;
    *ret = call;
    return 0;
}

static int take_found(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *f, struct co_err *err) {
    (void)p;
    CO_CLEANUP(ps_control_freep) Rpc__Control *m = NULL;
    CO_TRY(ps_control_unpack(f, &m, err));
    if (m->body_case != RPC__CONTROL__BODY_CKPT_FOUND) {
        return co_err_set(err, CO_INVALID, "the answer is not the one that was requested");
    }
    Rpc__CkptFound *to = call->arg;
    *to = *m->ckpt_found;
    return 0;
}

int psc_checkpoint_find(struct rt_client *c, const char *dir, uint64_t most, bool restores,
    Rpc__CkptFound *ret, struct co_err *err) {
    Rpc__CkptFind f = RPC__CKPT_FIND__INIT;
    Rpc__Control m = RPC__CONTROL__INIT;
    f.dir = (char *)(uintptr_t)dir;
    f.most = most;
    f.restores = restores;
    m.body_case = RPC__CONTROL__BODY_CKPT_FIND;
    m.ckpt_find = &f;
    struct rt_call *call = NULL;
    CO_TRY(psc_checkpoint_call(c, "find a checkpoint", &m, PSC_TO_SERVER_0, &call, err));
    call->arg = ret;
    call->take = take_found;
    psc_call_start(call);
    return psc_call_wait(call, PSC_PART_MS, err);
}

static int take_part(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *f, struct co_err *err) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *m = NULL;
    struct psc_checkpoint_attempt *a = call->arg;
    CO_TRY(ps_control_unpack(f, &m, err));
    const Rpc__CkptPart *part = m->ckpt_part;
    if (m->body_case != RPC__CONTROL__BODY_CKPT_PART || part->server != p->server) {
        return co_err_set(err, CO_INVALID, "the answer is not the one that was requested");
    }
    a->parts[p->server] = (struct psc_ckpt_part_said){part->shards, part->bytes, part->hash};
    return 0;
}

static void fill_order(
    const struct psc_checkpoint_attempt *a, const char *dir, Rpc__CkptOrder *ret) {
    rpc__ckpt_order__init(ret);
    ret->dir = (char *)(uintptr_t)dir;
    ret->number = a->number;
    ret->root = a->root;
    ret->previous = a->previous;
    ret->step = a->step;
    ret->next = a->next;
    ret->mode = a->mode;
    ret->maker = a->c->incarnation;
}

static int commit(struct psc_checkpoint_attempt *a, const char *dir, struct co_err *err) {
    uint32_t n = a->c->n_servers;
    CO_AUTOFREE Rpc__CkptPart *parts = co_xcalloc(n, sizeof(*parts));
    CO_AUTOFREE Rpc__CkptPart **list = co_xcalloc(n, sizeof(*list));
    for (uint32_t i = 0; i < n; i++) {
        rpc__ckpt_part__init(&parts[i]);
        parts[i].server = i;
        parts[i].shards = a->parts[i].shards;
        parts[i].bytes = a->parts[i].bytes;
        parts[i].hash = a->parts[i].hash;
        list[i] = &parts[i];
    }
    Rpc__CkptOrder order;
    Rpc__CkptCommit k = RPC__CKPT_COMMIT__INIT;
    Rpc__Control m = RPC__CONTROL__INIT;
    fill_order(a, dir, &order);
    k.order = &order;
    k.n_parts = n;
    k.parts = list;
    k.keep = a->options.keep;
    m.body_case = RPC__CONTROL__BODY_CKPT_COMMIT;
    m.ckpt_commit = &k;
    struct rt_call *call = NULL;
    CO_TRY(psc_checkpoint_call(a->c, "commit a checkpoint", &m, PSC_TO_SERVER_0, &call, err));
    psc_call_start(call);
    return psc_call_wait(call, PSC_PART_MS, err);
}

/* ---- one checkpoint; the caller has taken c->saving ---- */

int psc_checkpoint_learn(struct rt_client *c, const char *dir, struct co_err *err) {
    struct psc_saving *sv = c->saving;
    CO_AUTOFREE char *path = co_path_absolute(dir);
    if (sv->next > 0 && strcmp(sv->dir, path) == 0) {
        return 0;
    }
    Rpc__CkptFound found = RPC__CKPT_FOUND__INIT;
    CO_TRY(psc_checkpoint_find(c, path, UINT64_MAX, false, &found, err));
    free(sv->dir);
    sv->dir = co_steal_ptr(path);
    sv->next = found.last + 1;
    sv->last = found.number;
    sv->root = found.root;
    sv->deltas = found.deltas;
    sv->mode = found.mode;
    return 0;
}

int psc_checkpoint_check(
    const struct rt_client *c, const struct rt_checkpoint_options *o, struct co_err *err) {
    const struct psc_saving *sv = c->saving;
    if ((unsigned)o->mode >= RT_SAVE_MODES) {
        return co_err_set(err, CO_INVALID, "there is no save mode %u", (unsigned)o->mode);
    }
    if (sv->last == 0 || ckpt_save_is_partial(sv->mode) == ckpt_save_is_partial(o->mode)) {
        return 0;
    }
    return co_err_set(err, CO_INVALID,
        "\"%s\" has checkpoints of save mode %u: those of mode %u need a directory of their own",
        sv->dir, sv->mode, (unsigned)o->mode);
}

void psc_attempt_free(struct psc_checkpoint_attempt *a) {
    if (a) {
        free(a->parts);
        free(a);
    }
}
CO_DEFINE_CLEANUP(struct psc_checkpoint_attempt *, psc_attempt_free)

int psc_checkpoint_begin(struct rt_client *c, const struct rt_checkpoint_options *o,
    struct psc_checkpoint_attempt **ret, struct co_err *err) {
    struct psc_saving *sv = c->saving;
    CO_CLEANUP(psc_attempt_freep) struct psc_checkpoint_attempt *a = co_xcalloc(1, sizeof(*a));
    uint32_t most = o->deltas ? o->deltas : PSC_CHECKPOINT_DELTAS;
    most = most < CKPT_CHAIN_MAX ? most : CKPT_CHAIN_MAX; /* more, and nothing can load them */
    bool full = o->full || o->mode == RT_SAVE_DAY || sv->last == 0 || sv->deltas >= most;
    a->c = c;
    a->options = *o;
    a->options.keep = o->keep == UINT32_MAX ? 0 : o->keep ? o->keep : PSC_CHECKPOINT_KEEP;
    a->number = sv->next++;
    a->previous = sv->last;
    a->root = full ? a->number : sv->root;
    a->deltas = full ? 0 : sv->deltas + 1;
    a->mode = full && o->mode == RT_SAVE_DELTA ? RT_SAVE_BASE : o->mode;
    bool sync = c->options.mode == RT_SYNC;
    a->step = sv->origin + (sync ? c->progress.steps : sv->steps);
    a->next = sync && sv->origin != 0 ? c->progress.steps + 1 : 0;
    a->begin_ms = co_now_ms();
    a->parts = co_xcalloc(c->n_servers, sizeof(*a->parts));
    Rpc__CkptOrder order;
    Rpc__Control m = RPC__CONTROL__INIT;
    fill_order(a, sv->dir, &order);
    m.body_case = RPC__CONTROL__BODY_CKPT_ORDER;
    m.ckpt_order = &order;
    CO_TRY(psc_checkpoint_call(c, "checkpoint", &m, PSC_TO_SHARDS, &a->call, err));
    a->call->arg = a;
    a->call->take = take_part;
    psc_call_start(a->call);
    *ret = co_steal_ptr(a);
    return 0;
}

/* Another trainer may have made checkpoints there since this one looked. */
static void learn_next(struct psc_checkpoint_attempt *a) {
    struct psc_saving *sv = a->c->saving;
    Rpc__CkptFound found = RPC__CKPT_FOUND__INIT;
    if (psc_checkpoint_find(a->c, sv->dir, UINT64_MAX, false, &found, NULL) == 0) {
        a->taken = found.last >= a->number;
        sv->next = found.last >= sv->next ? found.last + 1 : sv->next;
    }
}

static void note_made(const struct psc_checkpoint_attempt *a, const struct rt_checkpoint *made) {
    meter_add(METER_M_CHECKPOINTS, METER_DONE, 1);
    meter_set(METER_M_CHECKPOINT_NUMBER, 0, (double)made->number);
    meter_set(METER_M_CHECKPOINT_TIME, 0, (double)co_wall_ms() / 1e3);
    meter_set(METER_M_CHECKPOINT_BYTES, 0, (double)made->bytes);
    meter_set(METER_M_CHECKPOINT_SECONDS, 0, (double)(co_now_ms() - a->begin_ms) / 1e3);
}

int psc_checkpoint_finish(
    struct psc_checkpoint_attempt *a, struct rt_checkpoint *ret, struct co_err *err) {
    struct psc_saving *sv = a->c->saving;
    int rc = psc_call_wait(co_steal_ptr(a->call), PSC_PART_MS, err);
    if (rc == 0) {
        rc = commit(a, sv->dir, err);
    }
    if (rc == CO_CONFLICT) {
        learn_next(a);
    }
    if (rc < 0) {
        meter_add(METER_M_CHECKPOINTS, METER_FAILED, 1);
        return co_err_wrap(err, "checkpoint %" PRIu64 " in \"%s\"", a->number, sv->dir);
    }
    sv->last = a->number;
    sv->root = a->root;
    sv->deltas = a->deltas;
    sv->mode = a->mode;
    *ret = (struct rt_checkpoint){
        .number = a->number, .step = a->step, .full = a->deltas == 0, .deltas = a->deltas};
    for (uint32_t i = 0; i < a->c->n_servers; i++) {
        ret->bytes += a->parts[i].bytes;
    }
    note_made(a, ret);
    return 0;
}

bool psc_checkpoint_for_full(const struct psc_checkpoint_attempt *a, int code) {
    return (a->taken && code == CO_CONFLICT) ||
           (a->deltas > 0 && (code == CO_CONFLICT || code == CO_NORESOURCE));
}

/* Ends: who makes checkpoints at the same time may take each other's numbers for ever. */
static int checkpoint(struct rt_client *c, const struct rt_checkpoint_options *o, int tries,
    struct rt_checkpoint *ret, struct co_err *err) {
    CO_CLEANUP(psc_attempt_freep) struct psc_checkpoint_attempt *a = NULL;
    struct co_err why = {0};
    int rc = psc_checkpoint_begin(c, o, &a, &why);
    if (rc == 0) {
        rc = psc_checkpoint_finish(a, ret, &why);
    }
    if (rc < 0 && a && tries > 1 && psc_checkpoint_for_full(a, rc)) {
        struct rt_checkpoint_options full = *o;
        full.full = true;
        return checkpoint(c, &full, tries - 1, ret, err);
    }
    return rc < 0 ? co_err_set(err, rc, "%s", why.msg) : 0;
}

/* Between take_saving and give_saving. */
static int checkpoint_to(struct rt_client *c, const char *dir,
    const struct rt_checkpoint_options *o, struct rt_checkpoint *ret, struct co_err *err) {
    CO_TRY(CO_SPARE_CHECK(o, "rt_checkpoint_options", err));
    CO_TRY(psc_checkpoint_learn(c, dir, err));
    CO_TRY(psc_checkpoint_check(c, o, err));
    return checkpoint(c, o, TRIES, ret, err);
}

int rt_checkpoint(struct rt_client *c, const char *dir, const struct rt_checkpoint_options *options,
    struct rt_checkpoint *ret, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    struct rt_checkpoint_options o = options ? *options : (struct rt_checkpoint_options){0};
    struct rt_checkpoint made = {0};
    psc_saving_take(c->saving);
    int rc = checkpoint_to(c, dir, &o, &made, err);
    psc_saving_give(c->saving);
    CO_TRY(rc);
    if (ret) {
        *ret = made;
    }
    return 0;
}
