/* What a saver's thread does in directories of checkpoints: it finds the newest one, checks the one
 * that is to be restored, commits what this server and the others have written, and removes what is
 * too old. */
#include <inttypes.h>
#include <string.h>

#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/shard/restore.h"
#include "runtime/train/ps/shard/saver_internal.h"

/* ---- what this job has written where ---- */

static char *key_of(const char *dir) {
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    return co_xstrndup(dir, len);
}

void shard_saver_forget(struct shard_saver_past *p) {
    free(p->dir);
    free(p->read.all);
}

struct shard_saver_past *shard_saver_past(struct shard_saver *sv, const char *dir) {
    CO_AUTOFREE char *key = key_of(dir);
    for (size_t i = 0; i < sv->n_pasts; i++) {
        if (strcmp(sv->pasts[i].dir, key) == 0) {
            return &sv->pasts[i];
        }
    }
    if (sv->n_pasts == SHARD_SAVER_PASTS) {
        shard_saver_forget(&sv->pasts[0]);
        memmove(sv->pasts, sv->pasts + 1, (SHARD_SAVER_PASTS - 1) * sizeof(*sv->pasts));
        sv->n_pasts--;
    }
    struct shard_saver_past *p = &sv->pasts[sv->n_pasts++];
    *p = (struct shard_saver_past){.dir = co_steal_ptr(key)};
    return p;
}

void shard_saver_restored(struct shard_saver *sv, const char *dir, uint64_t number) {
    pthread_mutex_lock(&sv->m);
    struct shard_saver_past *p = shard_saver_past(sv, dir);
    p->restored = number;
    p->first = 0;
    pthread_mutex_unlock(&sv->m);
}

/* ---- requests ---- */

static void say_skipped(void *arg, const struct co_err *why) {
    const struct shard_saver *sv = arg;
    if (!sv->config.quiet) {
        ps_log_warn("%s; skipped", co_err_text(why));
    }
}

/* Makes sure that dir is this job's to write to. */
static int claim(struct shard_saver *sv, const char *dir, struct co_err *err) {
    CO_AUTOFREE char *key = key_of(dir);
    for (size_t i = 0; i < sv->n_claims; i++) {
        if (strcmp(ckpt_claim_dir(sv->claims[i]), key) == 0) {
            return ckpt_claim_check(sv->claims[i], err);
        }
    }
    const struct ckpt_claim_who who = {.job = sv->config.job,
        .endpoint = sv->config.endpoint,
        .listens = sv->config.listens,
        .stop = &sv->stopping};
    struct ckpt_claim *c = NULL;
    CO_TRY(ckpt_claim_take(key, &who, &c, err));
    if (sv->n_claims == SHARD_SAVER_PASTS) {
        ckpt_claim_drop(sv->claims[0]);
        memmove(sv->claims, sv->claims + 1, --sv->n_claims * sizeof(struct ckpt_claim *));
    }
    sv->claims[sv->n_claims++] = c;
    return 0;
}

/* The last number in use: of one that failed early nothing is on disk, but servers answer for it.
 */
static int find_last(
    struct shard_saver *sv, const char *dir, uint64_t *ret_last, struct co_err *err) {
    int rc = ckpt_last_number(dir, ret_last, err);
    pthread_mutex_lock(&sv->m);
    if (rc == 0 && sv->dir && strcmp(sv->dir, dir) == 0 && sv->number > *ret_last) {
        *ret_last = sv->number;
    }
    pthread_mutex_unlock(&sv->m);
    return rc;
}

/* A checkpoint that is to be made needs no older one: it is full if all are damaged. */
static int find(struct shard_saver *sv, const Rpc__CkptFind *f, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    const struct ckpt_search search = {
        .dir = f->dir, .most = f->most, .skip = say_skipped, .arg = sv};
    struct co_err why = {0};
    rpc__ckpt_found__init(&sv->found);
    if (f->restores) {
        shard_saver_go_back(sv, f->dir, 0);
    }
    CO_TRY(find_last(sv, f->dir, &sv->found.last, err));
    if (!f->restores) { /* the other job, if there was one, may have written more */
        CO_TRY(claim(sv, f->dir, err));
        CO_TRY(find_last(sv, f->dir, &sv->found.last, err));
    }
    int rc = ckpt_chain_newest(&search, &c, &why);
    if (rc == 0) {
        const struct ckpt_point *p = &c->points[c->n - 1];
        sv->found.number = p->number;
        sv->found.root = p->base;
        sv->found.step = p->step;
        sv->found.deltas = c->n - 1;
        sv->found.mode = p->save;
        sv->found.damaged = c->damaged;
    }
    if (rc == CO_NOTFOUND && f->restores && ckpt_expect(f->dir, CKPT_POINTS, err) < 0) {
        return err->code;
    }
    bool none = rc == CO_NOTFOUND || (rc == CO_DAMAGED && !f->restores);
    return rc == 0 || none ? 0 : co_err_set(err, rc, "%s", why.msg);
}

/* The first round of a restore: nothing changes before all servers know that they can load it. */
static int check(struct shard_saver *sv, const Rpc__CkptRestore *r, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    const struct shard_saver_config *k = &sv->config;
    shard_saver_go_back(sv, r->dir, 0);
    int rc = ckpt_chain_open(r->dir, r->number, &c, err);
    if (rc == CO_NOTFOUND) {
        return co_err_set(err, CO_UNAVAILABLE,
            "server %u does not see checkpoint %" PRIu64
            " in \"%s\": is the directory shared by all servers",
            k->server, r->number, r->dir);
    }
    CO_TRY(rc);
    c->stop = &sv->stopping;
    CO_TRY(shard_restore_fits(sv->tables, sv->n_tables, c, err));
    return shard_restore_verify(c, k->server, k->servers, k->shards, err);
}

static bool sees_parts(
    const struct shard_saver *sv, const char *dir, const struct ckpt_point *p, struct co_err *err) {
    struct co_err why = {0};
    if (ckpt_point_check(dir, p, &why) < 0) {
        co_err_set(err, CO_INVALID,
            "not seen by server %u, is the directory shared by all servers: %s", sv->config.server,
            why.msg);
        return false;
    }
    return true;
}

/* Whether this server has written its part since its tables were loaded. */
static bool is_own(struct shard_saver *sv, const Rpc__CkptOrder *o) {
    pthread_mutex_lock(&sv->m);
    bool own =
        sv->state == SHARD_SAVER_DONE && sv->number == o->number && strcmp(sv->dir, o->dir) == 0;
    pthread_mutex_unlock(&sv->m);
    return own;
}

/* Whether the commit was done already, and its answer was lost with the connection or the server.
 */
static bool is_done(const struct ckpt_point *p, const char *dir) {
    struct ckpt_point is = {0};
    bool done = ckpt_point_read(dir, p->number, &is, NULL) == 0 && is.base == p->base &&
                is.previous == p->previous && is.step == p->step && is.next == p->next &&
                is.n_parts == p->n_parts;
    for (uint32_t i = 0; i < p->n_parts && done; i++) {
        done = is.parts[i].hash == p->parts[i].hash && is.parts[i].bytes == p->parts[i].bytes;
    }
    ckpt_point_done(&is);
    return done;
}

static int refuse_late(const Rpc__CkptOrder *o, struct co_err *err) {
    return co_err_set(err, CO_CANCELED,
        "checkpoint %" PRIu64 " was begun before this server loaded its tables", o->number);
}

/* The job may go back while the manifest is being written.  Then it is removed again. */
static int commit_own(struct shard_saver *sv, const Rpc__CkptOrder *o, const struct ckpt_point *p,
    struct co_err *err) {
    CO_TRY(is_own(sv, o) ? ckpt_point_commit(o->dir, p, err) : refuse_late(o, err));
    if (!is_own(sv, o)) {
        ckpt_point_revoke(o->dir, o->number);
        return refuse_late(o, err);
    }
    return 0;
}

static void prune(
    struct shard_saver *sv, const char *dir, const struct ckpt_point *newest, uint32_t keep) {
    struct co_err why = {0};
    pthread_mutex_lock(&sv->m);
    struct shard_saver_past *p = shard_saver_past(sv, dir);
    struct ckpt_read read = p->read; /* other threads may move p meanwhile */
    const struct ckpt_past past = {.newest = newest,
        .restored = p->restored,
        .first = p->first ? p->first : newest->number,
        .read = &read,
        .stop = &sv->stopping};
    p->read = (struct ckpt_read){0};
    pthread_mutex_unlock(&sv->m);
    if (keep > 0 && ckpt_prune(dir, keep, &past, &why) < 0) {
        say_skipped(sv, &why);
    }
    pthread_mutex_lock(&sv->m);
    shard_saver_past(sv, dir)->read = read; /* only this thread puts any there */
    pthread_mutex_unlock(&sv->m);
}

/* The checkpoints that a delta builds on may have been removed meanwhile, any of them: a clean-up
 * of old files begins with the full one.  ret_hash: of the manifest of the last one; 0 for a full
 * one, which builds on none. */
static int check_previous(
    struct shard_saver *sv, const Rpc__CkptOrder *o, uint64_t *ret_hash, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    struct co_err why = {0};
    *ret_hash = 0;
    if (o->root == o->number) {
        return 0;
    }
    int rc = ckpt_chain_open(o->dir, o->previous, &c, &why);
    const struct ckpt_point *p = rc == 0 ? &c->points[c->n - 1] : NULL;
    if (p && c->n <= CKPT_CHAIN_MAX && p->base == o->root &&
        ckpt_save_is_partial(p->save) == ckpt_save_is_partial(o->mode)) {
        *ret_hash = p->hash;
        return 0;
    }
    if (rc < 0 && !sv->config.quiet) {
        ps_log_warn("%s; the next checkpoint is a full one", why.msg);
    }
    return co_err_set(err, CO_CONFLICT, "the checkpoint that it is based on is missing%s%s",
        rc < 0 ? ": " : "", rc < 0 ? why.msg : "");
}

static int commit(struct shard_saver *sv, const Rpc__CkptCommit *m, struct co_err *err) {
    const Rpc__CkptOrder *o = m->order;
    if (!o || m->n_parts < 1 || m->n_parts != sv->config.servers) {
        return co_err_set(
            err, CO_INVALID, "the commit has %zu parts, expected one of each server", m->n_parts);
    }
    CO_AUTOFREE struct ckpt_table *tables = co_xcalloc(sv->n_tables, sizeof(*tables));
    CO_AUTOFREE struct ckpt_part *parts = co_xcalloc(m->n_parts, sizeof(*parts));
    struct ckpt_point p = {.number = o->number,
        .base = o->root,
        .previous = o->root == o->number ? 0 : o->previous,
        .step = o->step,
        .next = o->next,
        .sync = sv->sync,
        .save = o->mode,
        .n_tables = sv->n_tables,
        .n_parts = (uint32_t)m->n_parts,
        .tables = tables,
        .parts = parts};
    for (uint32_t i = 0; i < sv->n_tables; i++) {
        ps_table_describe(&sv->tables[i], &tables[i]);
    }
    for (uint32_t i = 0; i < p.n_parts; i++) {
        const Rpc__CkptPart *q = m->parts[i];
        parts[i] = (struct ckpt_part){q->server, q->shards, q->bytes, q->hash};
    }
    CO_TRY(shard_saver_check_dir(sv->config.root, o->dir, err));
    if (!sees_parts(sv, o->dir, &p, err)) {
        return err->code;
    }
    if (is_done(&p, o->dir)) {
        return 0;
    }
    CO_TRY(claim(sv, o->dir, err));
    CO_TRY(check_previous(sv, o, &p.after, err));
    CO_TRY(commit_own(sv, o, &p, err));
    prune(sv, o->dir, &p, m->keep);
    return 0;
}

int shard_saver_do(struct shard_saver *sv, const Rpc__Control *job, struct co_err *err) {
    switch (job->body_case) {
    case RPC__CONTROL__BODY_CKPT_FIND:
        return find(sv, job->ckpt_find, err);
    case RPC__CONTROL__BODY_CKPT_RESTORE:
        return check(sv, job->ckpt_restore, err);
    default:
        return commit(sv, job->ckpt_commit, err);
    }
}
