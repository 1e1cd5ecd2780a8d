/* Checkpoints that the servers write.  One trainer leads them:
 *
 *     order    ->  every shard of every server     <- when its server's part is written: size, hash
 *     commit   ->  server 0, with all parts        <- when the checkpoint is complete
 *
 * rt_checkpoint does both on the caller's thread.  The checkpoints that the options ask for begin
 * in rt_step; a thread of their own waits for the parts and commits. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/loop.h"
#include "common/spare.h"
#include "runtime/net/net.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/client/options.h"
#include "runtime/train/ps/glog.h"

/* A part may take long.  The loss of a server ends its calls in any case. */
enum { PART_MS = 3600 * 1000 };

/* A checkpoint in progress. */
struct checkpoint_attempt {
    struct rt_client *c;
    struct rt_call *call;
    struct rt_checkpoint_options options;
    uint64_t number, previous, root, step;
    enum rt_save_mode mode;
    uint32_t deltas;
    int64_t begin_ms;
    struct psc_ckpt_part_said {
        uint32_t shards;
        uint64_t bytes, hash;
    } * parts; /* [servers] */
};

struct psc_saving {
    pthread_mutex_t m;
    pthread_cond_t changed;
    bool busy;           /* a thread makes or restores a checkpoint; it owns what follows */
    char *dir;           /* owned; what is known of the directory: */
    uint64_t next;       /* number of the next one; 0: nothing is known */
    uint64_t last, root; /* the newest complete one and its full one; 0: none to build on */
    uint32_t deltas;     /* from root to last */
    uint32_t mode;       /* save mode of the newest */

    /* for the thread that calls rt_step: */
    uint64_t steps, due_steps;
    int64_t due_ms;
    uint64_t origin; /* from rt_restore: the step in a manifest less the one counted here */
    pthread_t thread;
    bool threaded;     /* `thread` must be joined */
    atomic_bool again; /* the last delta was not possible: make a full one now */
};

static void take_saving(struct psc_saving *sv) {
    pthread_mutex_lock(&sv->m);
    while (sv->busy) {
        /* no deadline: whoever is busy waits for servers, at most PART_MS a call */
        pthread_cond_wait(&sv->changed, &sv->m);
    }
    sv->busy = true;
    pthread_mutex_unlock(&sv->m);
}

static bool try_saving(struct psc_saving *sv) {
    pthread_mutex_lock(&sv->m);
    bool free = !sv->busy;
    sv->busy = true;
    pthread_mutex_unlock(&sv->m);
    return free;
}

static void give_saving(struct psc_saving *sv) {
    pthread_mutex_lock(&sv->m);
    sv->busy = false;
    pthread_cond_broadcast(&sv->changed);
    pthread_mutex_unlock(&sv->m);
}

/* ---- messages ---- */

enum audience { SERVER_0, SERVERS, SHARDS }; /* shard 0 of server 0, of all servers; all shards */

/* A call with the same message to all of them. */
static int to_shards(struct rt_client *c, const char *what, const Rpc__Control *m,
    enum audience who, struct rt_call **ret, struct co_err *err) {
    const uint32_t servers = who == SERVER_0 ? 1 : c->n_servers;
    struct rt_call *call =
        psc_call_new(c, what, NULL, who == SHARDS ? c->base[c->n_servers] : servers);
    uint32_t at = 0;
    const uint64_t steps = c->progress.steps;
    for (uint32_t s = 0; s < servers; s++) {
        for (uint32_t g = c->base[s]; g < (who == SHARDS ? c->base[s + 1] : c->base[s] + 1); g++) {
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

static int find(struct rt_client *c, const char *dir, uint64_t most, bool restores,
    Rpc__CkptFound *ret, struct co_err *err) {
    Rpc__CkptFind f = RPC__CKPT_FIND__INIT;
    Rpc__Control m = RPC__CONTROL__INIT;
    f.dir = (char *)(uintptr_t)dir;
    f.most = most;
    f.restores = restores;
    m.body_case = RPC__CONTROL__BODY_CKPT_FIND;
    m.ckpt_find = &f;
    struct rt_call *call = NULL;
    CO_TRY(to_shards(c, "find a checkpoint", &m, SERVER_0, &call, err));
    call->arg = ret;
    call->take = take_found;
    psc_call_start(call);
    return psc_call_wait(call, PART_MS, err);
}

static int take_part(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *f, struct co_err *err) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *m = NULL;
    struct checkpoint_attempt *a = call->arg;
    CO_TRY(ps_control_unpack(f, &m, err));
    const Rpc__CkptPart *part = m->ckpt_part;
    if (m->body_case != RPC__CONTROL__BODY_CKPT_PART || part->server != p->server) {
        return co_err_set(err, CO_INVALID, "the answer is not the one that was requested");
    }
    a->parts[p->server] = (struct psc_ckpt_part_said){part->shards, part->bytes, part->hash};
    return 0;
}

static void fill_order(const struct checkpoint_attempt *a, const char *dir, Rpc__CkptOrder *ret) {
    rpc__ckpt_order__init(ret);
    ret->dir = (char *)(uintptr_t)dir;
    ret->number = a->number;
    ret->root = a->root;
    ret->previous = a->previous;
    ret->step = a->step;
    ret->mode = a->mode;
}

static int commit(struct checkpoint_attempt *a, const char *dir, struct co_err *err) {
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
    CO_TRY(to_shards(a->c, "commit a checkpoint", &m, SERVER_0, &call, err));
    psc_call_start(call);
    return psc_call_wait(call, PART_MS, err);
}

/* ---- one checkpoint; the caller has taken c->saving ---- */

/* Asks server 0 what is in the directory, unless that is known. */
static int learn(struct rt_client *c, const char *dir, struct co_err *err) {
    struct psc_saving *sv = c->saving;
    CO_AUTOFREE char *path = co_path_absolute(dir);
    if (sv->next > 0 && strcmp(sv->dir, path) == 0) {
        return 0;
    }
    Rpc__CkptFound found = RPC__CKPT_FOUND__INIT;
    CO_TRY(find(c, path, UINT64_MAX, false, &found, err));
    free(sv->dir);
    sv->dir = co_steal_ptr(path);
    sv->next = found.last + 1;
    sv->last = found.number;
    sv->root = found.root;
    sv->deltas = found.deltas;
    sv->mode = found.mode;
    return 0;
}

/* A directory holds either complete checkpoints or ones that leave out rows.  Otherwise a restore
 * could take the newest of one sort for the other, and `keep` would count, and so remove, both. */
static int check_mode(
    const struct rt_client *c, const struct rt_checkpoint_options *o, struct co_err *err) {
    const struct psc_saving *sv = c->saving;
    if ((unsigned)o->mode >= RT_SAVE_MODES) {
        return co_err_set(err, CO_INVALID, "there is no save mode %u", (unsigned)o->mode);
    }
    if (sv->last == 0 || ckpt_save_is_partial(sv->mode) == ckpt_save_is_partial(o->mode)) {
        return 0;
    }
    return co_err_set(err, CO_INVALID,
        "'%s' has checkpoints of save mode %u: those of mode %u need a directory of their own",
        sv->dir, sv->mode, (unsigned)o->mode);
}

static void attempt_free(struct checkpoint_attempt *a) {
    if (a) {
        free(a->parts);
        free(a);
    }
}
CO_DEFINE_CLEANUP(struct checkpoint_attempt *, attempt_free)

/* Sends the order; the checkpoint has the state in which the order finds each shard. */
static int begin(struct rt_client *c, const struct rt_checkpoint_options *o,
    struct checkpoint_attempt **ret, struct co_err *err) {
    struct psc_saving *sv = c->saving;
    CO_CLEANUP(attempt_freep) struct checkpoint_attempt *a = co_xcalloc(1, sizeof(*a));
    uint32_t most = o->deltas ? o->deltas : PSC_CHECKPOINT_DELTAS;
    bool full = o->full || o->mode == RT_SAVE_DAY || sv->last == 0 || sv->deltas >= most;
    a->c = c;
    a->options = *o;
    a->options.keep = o->keep == UINT32_MAX ? 0 : o->keep ? o->keep : PSC_CHECKPOINT_KEEP;
    a->number = sv->next++;
    a->previous = sv->last;
    a->root = full ? a->number : sv->root;
    a->deltas = full ? 0 : sv->deltas + 1;
    a->mode = full && o->mode == RT_SAVE_DELTA ? RT_SAVE_BASE : o->mode;
    a->step = sv->origin + (c->options.mode == RT_SYNC ? c->progress.steps : sv->steps);
    a->begin_ms = co_now_ms();
    a->parts = co_xcalloc(c->n_servers, sizeof(*a->parts));
    Rpc__CkptOrder order;
    Rpc__Control m = RPC__CONTROL__INIT;
    fill_order(a, sv->dir, &order);
    m.body_case = RPC__CONTROL__BODY_CKPT_ORDER;
    m.ckpt_order = &order;
    CO_TRY(to_shards(c, "checkpoint", &m, SHARDS, &a->call, err));
    a->call->arg = a;
    a->call->take = take_part;
    psc_call_start(a->call);
    *ret = co_steal_ptr(a);
    return 0;
}

static void note_made(const struct checkpoint_attempt *a, const struct rt_checkpoint *made) {
    meter_add(METER_M_CHECKPOINTS, METER_DONE, 1);
    meter_set(METER_M_CHECKPOINT_NUMBER, 0, (double)made->number);
    meter_set(METER_M_CHECKPOINT_TIME, 0, (double)co_wall_ms() / 1e3);
    meter_set(METER_M_CHECKPOINT_BYTES, 0, (double)made->bytes);
    meter_set(METER_M_CHECKPOINT_SECONDS, 0, (double)(co_now_ms() - a->begin_ms) / 1e3);
}

static int finish(struct checkpoint_attempt *a, struct rt_checkpoint *ret, struct co_err *err) {
    struct psc_saving *sv = a->c->saving;
    int rc = psc_call_wait(co_steal_ptr(a->call), PART_MS, err);
    if (rc == 0) {
        rc = commit(a, sv->dir, err);
    }
    if (rc < 0) {
        meter_add(METER_M_CHECKPOINTS, METER_FAILED, 1);
        return co_err_wrap(err, "checkpoint %" PRIu64 " in '%s'", a->number, sv->dir);
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

/* Whether a full checkpoint may succeed where this one failed.  CO_CONFLICT: a server does not know
 * what has changed since the last one.  CO_NORESOURCE: perhaps it has a long list of erased ids,
 * which only grows; a full checkpoint has no such list. */
static bool is_for_full(const struct checkpoint_attempt *a, int code) {
    return a->deltas > 0 && (code == CO_CONFLICT || code == CO_NORESOURCE);
}

static int checkpoint(struct rt_client *c, const struct rt_checkpoint_options *o,
    struct rt_checkpoint *ret, struct co_err *err) {
    CO_CLEANUP(attempt_freep) struct checkpoint_attempt *a = NULL;
    struct co_err why = {0};
    int rc = begin(c, o, &a, &why);
    if (rc == 0) {
        rc = finish(a, ret, &why);
    }
    if (rc < 0 && a && is_for_full(a, rc)) {
        struct rt_checkpoint_options full = *o;
        full.full = true;
        return checkpoint(c, &full, ret, err);
    }
    return rc < 0 ? co_err_set(err, rc, "%s", why.msg) : 0;
}

/* Between take_saving and give_saving. */
static int checkpoint_to(struct rt_client *c, const char *dir,
    const struct rt_checkpoint_options *o, struct rt_checkpoint *ret, struct co_err *err) {
    CO_TRY(CO_SPARE_CHECK(o, "rt_checkpoint_options", err));
    CO_TRY(learn(c, dir, err));
    CO_TRY(check_mode(c, o, err));
    return checkpoint(c, o, ret, err);
}

int rt_checkpoint(struct rt_client *c, const char *dir, const struct rt_checkpoint_options *options,
    struct rt_checkpoint *ret, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    struct rt_checkpoint_options o = options ? *options : (struct rt_checkpoint_options){0};
    struct rt_checkpoint made = {0};
    take_saving(c->saving);
    int rc = checkpoint_to(c, dir, &o, &made, err);
    give_saving(c->saving);
    CO_TRY(rc);
    if (ret) {
        *ret = made;
    }
    return 0;
}

/* ---- checkpoints that the options ask for ---- */

static void *await_checkpoint(void *arg) {
    CO_CLEANUP(attempt_freep) struct checkpoint_attempt *a = arg;
    struct psc_saving *sv = a->c->saving;
    struct rt_checkpoint made = {0};
    struct co_err err = {0};
    int rc = finish(a, &made, &err);
    if (rc == 0) {
        ps_log_info("checkpoint %" PRIu64 " (%s, step %" PRIu64 ", %.1f MB) in '%s' after %.1f s",
            made.number, made.full ? "full" : "delta", made.step, (double)made.bytes / 1e6, sv->dir,
            (double)(co_now_ms() - a->begin_ms) / 1000);
    } else if (is_for_full(a, rc)) {
        if (rc != CO_CONFLICT) {
            ps_log_warn("%s; a full one is made at the next step", co_err_text(&err));
        }
        sv->last = 0;
        atomic_store(&sv->again, true);
    } else {
        ps_log_warn("%s; training continues", co_err_text(&err));
    }
    give_saving(sv);
    return NULL;
}

static void join_thread(struct psc_saving *sv) {
    if (sv->threaded) {
        /* no deadline: its calls end within PART_MS, or with the client */
        pthread_join(sv->thread, NULL);
        sv->threaded = false;
    }
}

static int begin_own(struct rt_client *c, struct checkpoint_attempt **ret, struct co_err *err) {
    const struct rt_checkpoint_options o = {
        .deltas = c->options.checkpoint_deltas, .keep = c->options.checkpoint_keep};
    CO_TRY(learn(c, c->options.checkpoint_dir, err));
    CO_TRY(check_mode(c, &o, err));
    return begin(c, &o, ret, err);
}

static void start(struct rt_client *c) {
    struct psc_saving *sv = c->saving;
    struct checkpoint_attempt *a = NULL;
    struct co_err err = {0};
    join_thread(sv);
    int rc = begin_own(c, &a, &err);
    if (rc == 0) {
        int e = pthread_create(&sv->thread, NULL, await_checkpoint, a);
        sv->threaded = e == 0;
        if (e == 0) {
            return;
        }
        struct rt_checkpoint made;
        rc = finish(a, &made, &err);
        attempt_free(a);
    }
    if (rc < 0) {
        ps_log_warn("%s; training continues", co_err_text(&err));
    }
    give_saving(sv);
}

void psc_saving_step(struct rt_client *c) {
    struct psc_saving *sv = c->saving;
    const struct rt_client_options *o = &c->options;
    sv->steps++;
    if (!o->checkpoint_dir || c->trainer != 0) {
        return;
    }
    bool due = atomic_load(&sv->again) || (o->checkpoint_steps > 0 && sv->steps >= sv->due_steps) ||
               (o->checkpoint_ms > 0 && co_now_ms() >= sv->due_ms);
    if (due && try_saving(sv)) {
        atomic_store(&sv->again, false);
        sv->due_steps = sv->steps + o->checkpoint_steps;
        sv->due_ms = co_now_ms() + o->checkpoint_ms;
        start(c);
    }
}

/* Async: nothing to do.  Steps are counted by sv->steps, which counts on whatever servers
 * restore. */
void psc_saving_go_back(struct rt_client *c) {
    if (c->options.mode == RT_SYNC) {
        c->saving->origin = 0;
    }
}

void psc_saving_wait(struct rt_client *c) {
    take_saving(c->saving);
    give_saving(c->saving);
}

/* ---- restore ---- */

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
    const enum audience who = round == RPC__CKPT_RESTORE__ROUND__CHECK ? SERVERS : SHARDS;
    CO_TRY(to_shards(c, "restore", &m, who, &call, err));
    psc_call_start(call);
    return psc_call_wait(call, PART_MS, err);
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
        int rc = find(c, dir, most, true, &found, &why);
        if (rc == 0 && found.number == 0) {
            rc = co_err_set(&why, CO_NOTFOUND, "no checkpoint in '%s'", dir);
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
            ps_log_warn("checkpoint %" PRIu64 " in '%s' is damaged: checkpoint %" PRIu64
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
    CO_AUTOFREE char *path = co_path_absolute(dir);
    Rpc__CkptFound found = RPC__CKPT_FOUND__INIT;
    const struct co_err torn = psc_client_tear(c, &(struct co_err){0});
    int rc = rt_flush(c, err);
    take_saving(sv);
    if (rc == 0) {
        rc = restore_newest(c, path, &found, err);
    }
    if (rc < 0 && torn.code) {
        (void)psc_client_tear(c, &torn);
    }
    if (rc == 0) {
        psc_geo_forget(c->geo);
        sv->next = 0; /* ask again: what was known is no base for a delta any more */
        sv->origin = found.step - (c->options.mode == RT_SYNC ? c->progress.steps : sv->steps);
    }
    give_saving(sv);
    if (rc == 0 && ret) {
        *ret = (struct rt_checkpoint){.number = found.number,
            .step = found.step,
            .full = found.deltas == 0,
            .deltas = found.deltas};
    }
    return rc;
}

/* ---- opening, closing ---- */

void psc_saving_open(struct rt_client *c) {
    struct psc_saving *sv = c->saving = co_xcalloc(1, sizeof(*sv));
    const struct rt_client_options *o = &c->options;
    pthread_mutex_init(&sv->m, NULL);
    pthread_cond_init(&sv->changed, NULL);
    c->options.checkpoint_dir =
        o->checkpoint_dir && *o->checkpoint_dir ? co_xstrdup(o->checkpoint_dir) : NULL;
    sv->due_steps = o->checkpoint_steps;
    sv->due_ms = co_now_ms() + o->checkpoint_ms;
}

void psc_saving_close(struct rt_client *c) {
    struct psc_saving *sv = c->saving;
    if (sv) {
        join_thread(sv);
        pthread_cond_destroy(&sv->changed);
        pthread_mutex_destroy(&sv->m);
        free((char *)(uintptr_t)c->options.checkpoint_dir);
        free(sv->dir);
        free(sv);
    }
}
