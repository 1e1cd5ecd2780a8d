/* rt_restore: all servers load the newest checkpoint that is not damaged. */
#include <inttypes.h>

#include "common/loop.h"
#include "runtime/train/ps/client/checkpoint_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/glog.h"

/* One round of control.proto's CkptRestore. */
static int do_round(struct rt_client *c, const char *dir, uint64_t number,
    Rpc__CkptRestore__Round round, struct co_err *err) {
    Rpc__CkptRestore r = RPC__CKPT_RESTORE__INIT;
    Rpc__Control m = RPC__CONTROL__INIT;
    r.dir = (char *)(uintptr_t)dir;
    r.number = number;
    r.round = round;
    m.body_case = RPC__CONTROL__BODY_CKPT_RESTORE;
    m.ckpt_restore = &r;
    struct rt_call *call = NULL;
    const enum psc_audience who =
        round == RPC__CKPT_RESTORE__ROUND__CHECK ? PSC_TO_SERVERS : PSC_TO_SHARDS;
    CO_TRY(psc_checkpoint_call(c, "restore", &m, who, &call, err));
    psc_call_start(call);
    return psc_call_wait(call, PSC_PART_MS, err);
}

static int restore_one(struct rt_client *c, const char *dir, uint64_t number, struct co_err *err) {
    static const Rpc__CkptRestore__Round rounds[] = {RPC__CKPT_RESTORE__ROUND__CHECK,
        RPC__CKPT_RESTORE__ROUND__CLEAR, RPC__CKPT_RESTORE__ROUND__LOAD,
        RPC__CKPT_RESTORE__ROUND__OPEN};
    for (size_t i = 0; i < CO_ARRAY_LEN(rounds); i++) {
        CO_TRY(do_round(c, dir, number, rounds[i], err));
    }
    return 0;
}

/* Restores the newest checkpoint that is not damaged. */
static int restore_newest(
    struct rt_client *c, const char *dir, Rpc__CkptFound *ret, struct co_err *err) {
    struct co_err damage = {0}; /* of the newest damaged one: */
    uint64_t damaged = 0;
    for (uint64_t most = UINT64_MAX;;) {
        Rpc__CkptFound found = RPC__CKPT_FOUND__INIT;
        struct co_err why = {0};
        int rc = psc_checkpoint_find(c, dir, most, true, &found, &why);
        if (rc == 0 && found.number == 0) {
            rc = co_err_set(&why, CO_NOTFOUND, "no checkpoint in \"%s\"", dir);
        } else if (rc == 0) {
            damaged = damaged ? damaged : found.damaged;
            rc = restore_one(c, dir, found.number, &why);
        }
        if (rc == CO_DAMAGED && found.number > 0) {
            ps_log_warn("%s; skipped", co_err_text(&why));
            most = found.number - 1;
            damaged = damaged ? damaged : found.number;
            damage = damage.code ? damage : why;
            continue;
        }
        if (rc == 0 && damaged) {
            ps_log_warn("checkpoint %" PRIu64 " in \"%s\" is damaged: checkpoint %" PRIu64
                        " is used in its place",
                damaged, dir, (uint64_t)found.number);
        }
        *ret = found;
        bool all = damage.code && (rc == CO_NOTFOUND || rc == CO_DAMAGED);
        return rc == 0 ? 0
                       : co_err_set(err, all ? damage.code : rc, "%s", all ? damage.msg : why.msg);
    }
}

int rt_restore(
    struct rt_client *c, const char *dir, struct rt_checkpoint *ret, struct co_err *err) {
    CO_TRY(psc_client_here(c, err));
    struct psc_saving *sv = c->saving;
    if (psc_client_behind(c)) {
        return 0;
    }
    c->progress.loads = true;
    CO_AUTOFREE char *path = co_path_absolute(dir);
    Rpc__CkptFound found = RPC__CKPT_FOUND__INIT;
    const struct co_err torn = psc_client_tear(c, &(struct co_err){0});
    int rc = rt_flush(c, err);
    psc_saving_take(sv);
    if (rc == 0) {
        rc = restore_newest(c, path, &found, err);
    }
    if (rc < 0 && torn.code) {
        (void)psc_client_tear(c, &torn);
    }
    if (rc == 0) {
        psc_geo_forget(c->geo);
        psc_rates_forget(c);
        psc_saving_loaded(c);
        sv->next = 0; /* ask again: what was known is no base for a delta any more */
        sv->origin = found.step - (c->options.mode == RT_SYNC ? c->progress.steps : sv->steps);
    }
    psc_saving_give(sv);
    if (rc == 0 && ret) {
        *ret = (struct rt_checkpoint){.number = found.number,
            .step = found.step,
            .full = found.deltas == 0,
            .deltas = found.deltas};
    }
    return rc;
}
