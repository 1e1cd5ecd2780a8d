/* Checkpoints of a server as a whole: its saver, the checkpoint that its tables start from, and
 * going back to a checkpoint.  Shards read and write the data (snapshot.h, restore.h).  Runs on the
 * rpc's thread; pss_server_find_restored on the thread that starts the server. */
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server_internal.h"

void pss_server_make_saver(struct pss_server *s) {
    struct shard_saver_config config = {.server = s->config.index,
        .servers = s->config.servers,
        .shards = s->config.shards,
        .job = s->config.job,
        .endpoint = s->config.endpoint,
        .listens = s->address,
        .root = s->config.checkpoint_dir,
        .budget = &s->budget,
        .quiet = s->config.quiet};
    config.claim_own = co_steal_ptr(s->claim);
    s->saver = shard_saver_new(&config);
    shard_saver_describe(s->saver, s->tables, s->n_tables, s->mode == RT_SYNC);
    if (s->at > 0) {
        shard_saver_restored(s->saver, s->config.restore_dir, s->at);
    }
}

/* Server 0 writes manifests, and removes old checkpoints.  A server that may only read starts all
 * the same: then checkpoints fail. */
int pss_server_claim(struct pss_server *s, struct co_err *err) {
    const struct ckpt_claim_who who = {
        .job = s->config.job, .endpoint = s->config.endpoint, .listens = s->address};
    struct co_err why = {0};
    if (s->config.index != 0 || s->config.servers == 0 || !*s->config.checkpoint_dir) {
        return 0;
    }
    int rc = ckpt_claim_take(s->config.checkpoint_dir, &who, &s->claim, &why);
    if (rc < 0 && rc != CO_EXISTS) {
        ps_log_warn("%s; no checkpoint can be made in \"%s\"", why.msg, s->config.checkpoint_dir);
    }
    return rc == CO_EXISTS ? co_err_set(err, rc, "%s", why.msg) : 0;
}

static void say_skipped(void *arg, const struct co_err *why) {
    const struct pss_server *s = arg;
    if (!s->config.quiet) {
        ps_log_warn("%s; skipped", co_err_text(why));
    }
}

int pss_server_find_restored(struct pss_server *s, const char *dir, struct co_err *err) {
    const struct ckpt_search search = {
        .dir = dir, .most = UINT64_MAX, .verify = true, .skip = say_skipped, .arg = s};
    struct co_err why = {0};
    int rc = ckpt_chain_newest(&search, &s->restored, &why);
    if (rc == CO_NOTFOUND) { /* a program may save its model where its checkpoints will be */
        if (ckpt_expect(dir, CKPT_POINTS, &why) < 0) {
            ps_log_warn("%s; tables begin empty", why.msg);
        }
        return 0;
    }
    if (rc < 0) {
        co_err_set(err, rc, "%s", why.msg);
        return co_err_wrap(err, "looking for a checkpoint to start from");
    }
    const struct ckpt_point *p = pss_server_restored(s);
    pss_server_say(s, "tables begin as in checkpoint %llu (step %llu) in \"%s\"",
        (unsigned long long)p->number, (unsigned long long)p->step, dir);
    if (s->restored->damaged > 0 && !s->config.quiet) {
        ps_log_warn("checkpoint %llu in \"%s\" is damaged: checkpoint %llu is used in its place",
            (unsigned long long)s->restored->damaged, dir, (unsigned long long)p->number);
    }
    s->at = p->number;
    s->at_step = ckpt_point_steps(p);
    s->at_origin = p->step - s->at_step;
    return 0;
}

const struct ckpt_point *pss_server_restored(const struct pss_server *s) {
    return s->restored ? &s->restored->points[s->restored->n - 1] : NULL;
}

/* The shards refuse requests of these trainers from now on.  The error frame also reaches a trainer
 * that has no pending request. */
static void notify_trainers(struct pss_server *s, const struct co_err *why) {
    for (struct pss_session *se = s->sessions; se; se = se->next) {
        if (se->state == PSS_SESSION_BEGUN) {
            pss_session_set(se, PSS_SESSION_JOINED);
            (void)!rpc_stream_send(
                se->stream, rpc_frame_error(NULL, why->code, co_err_text(why)), NULL);
        }
    }
}

/* The step that the furthest shard has reached. */
static uint64_t last_step(const struct pss_server *s) {
    uint64_t step = 0;
    for (uint32_t i = 0; i < s->config.shards; i++) {
        uint64_t one = shard_step(s->shards[i]);
        step = one > step ? one : step;
    }
    return step;
}

/* The shards read the checkpoint, on their threads: a file system may take its time, and meanwhile
 * this thread answers pings. */
int pss_server_go_back(struct pss_server *s, const Rpc__Begin *b, struct co_err *err) {
    const uint64_t number = b->restored, step = b->step;
    const char *dir = s->config.restore_dir;
    if (!*dir) {
        return co_err_set(err, CO_INVALID,
            "the others go back to checkpoint %llu, this server has no directory of checkpoints "
            "(PADDLE_PS_CHECKPOINT_DIR)",
            (unsigned long long)number);
    }
    uint64_t last = last_step(s), lost = last > step ? last - step : 0;
    struct co_err why = {0};
    co_err_set(&why, CO_GONE,
        "the job goes back to checkpoint %llu, step %llu, because a server was restarted",
        (unsigned long long)number, (unsigned long long)step);
    shard_saver_go_back(s->saver, dir, number);
    shard_saver_restored(s->saver, dir, number);
    for (uint32_t i = 0; i < s->config.shards; i++) {
        shard_restore(s->shards[i], dir, number, step);
    }
    for (uint32_t i = 0; i < s->members.n; i++) {
        s->members.all[i].waits = false;
    }
    s->at = number;
    s->at_step = step;
    s->at_origin = b->origin;
    ps_log_warn("%s; %llu steps are repeated", why.msg, (unsigned long long)lost);
    notify_trainers(s, &why);
    return 0;
}

/* ---- what shards could not load ---- */

void pss_server_loaded(void *server, const struct co_err *why) {
    struct pss_server *s = server;
    pthread_mutex_lock(&s->load_m);
    if (why->code != 0 && s->load.code == 0) {
        s->load = *why;
    }
    pthread_mutex_unlock(&s->load_m);
}

void pss_server_check_load(struct pss_server *s) {
    pthread_mutex_lock(&s->load_m);
    struct co_err why = s->load;
    pthread_mutex_unlock(&s->load_m);
    if (why.code != 0) {
        co_err_wrap(&why, "cannot load checkpoint %llu", (unsigned long long)s->at);
        pss_server_over(s, &why);
    }
}
