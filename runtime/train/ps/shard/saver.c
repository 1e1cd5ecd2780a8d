/* The saver's thread and its queue: it writes a server's part of a checkpoint.  It also commits and
 * finds checkpoints for the shards. */
#include "common/loop.h"
#include "runtime/net/net.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/shard/saver.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/restore.h"
#include "runtime/train/ps/glog.h"

enum {
    ROOM = 1 << 20, /* the limits for room and batch below */
    BATCH = 256 << 10,
    DIR_MAX = 4096,
    COPIES_MAX = 256 << 20, /* when there is no budget */
    NICE = 10,              /* training comes first */
    PASTS = 16,             /* directories of which it is remembered what this server wrote there */
};

/* Of the part, and of the other job. */
enum save_state {
    NONE,  /* none was begun so far */
    OPEN,  /* being written */
    DONE,  /* part: complete and on disk */
    FAILED /* the error says why */
};

struct listener {
    void (*wake)(void *arg);
    void *arg;
};

/* What this job has in a directory (ckpt_past). */
struct past {
    char *dir;
    uint64_t restored, first; /* first 0: it has written none since */
    struct ckpt_read read;
};

/* The part that was finished last; whether its checkpoint became complete is not known. */
struct part_name {
    char *dir; /* of the checkpoints; NULL: there is none */
    uint64_t number;
};

struct shard_saver {
    struct shard_saver_config config;
    pthread_mutex_t m; /* guards what follows, except for the thread's own fields */
    pthread_cond_t changed;
    pthread_t thread;
    bool running;
    atomic_bool stopping;       /* set under m, and looked at by what may take long */
    struct listener *listeners; /* [shards] */

    /* the part */
    enum save_state state;
    uint64_t number, ticket;
    uint64_t previous; /* the last complete one when it was begun; 0: none is known */
    int64_t begin_ms;
    char *dir;
    uint32_t ended; /* shards that have added all their chunks */
    struct shard_save_chunk *first, **last;
    size_t queued; /* bytes */
    size_t room;   /* with so much queued, shards pause their slices */
    size_t batch;  /* with so much queued, the thread is woken */
    double price;  /* recent cost of a byte, in nanoseconds of the thread's processor time */
    struct ckpt_part result;
    struct co_err err;

    struct past pasts[PASTS]; /* [n_pasts] */
    size_t n_pasts;

    /* the other job: a commit, a find or a check */
    enum save_state job_state; /* OPEN: one is done, or waits, or both */
    Rpc__Control *job, *doing; /* that waits; that the thread does.  NULL: none */
    Rpc__CkptFound found;
    struct co_err job_err;
    const struct ps_table *tables;
    uint32_t n_tables;
    bool sync;

    /* the thread's own */
    struct ckpt_part_writer *writer;
    uint64_t writing; /* ticket of the part that is open; 0: none */
    char *at;         /* directory of that part */
    struct part_name finished;
    struct ckpt_claim *claims[PASTS]; /* [n_claims] */
    size_t n_claims;
};

/* ---- chunks ---- */

struct shard_save_chunk *shard_save_chunk_new(uint32_t kind, size_t room) {
    struct shard_save_chunk *c = co_xmalloc(sizeof(*c) + room);
    memset(c, 0, sizeof(*c));
    c->head.kind = kind;
    c->room = (uint32_t)room;
    c->holders = 1;
    return c;
}

struct shard_save_chunk *shard_save_chunk_hold(struct shard_save_chunk *c) {
    (void)__atomic_fetch_add(&c->holders, 1, __ATOMIC_RELAXED);
    return c;
}

void shard_save_chunk_drop(struct shard_save_chunk *c) {
    if (c && __atomic_fetch_sub(&c->holders, 1, __ATOMIC_ACQ_REL) == 1) {
        free(c);
    }
}

/* The lock is held. */
static struct shard_save_chunk *take_chunk(struct shard_saver *sv) {
    struct shard_save_chunk *c = sv->first;
    sv->first = c->next;
    if (!sv->first) {
        sv->last = &sv->first;
    }
    return c;
}

static void weigh_out(struct shard_saver *sv, const struct shard_save_chunk *c) {
    sv->queued -= c->room;
    table_budget_give(sv->config.budget, c->room);
}

static void drop_queue(struct shard_saver *sv) {
    while (sv->first) {
        struct shard_save_chunk *c = take_chunk(sv);
        weigh_out(sv, c);
        shard_save_chunk_drop(c);
    }
}

/* ---- the thread ---- */

static void wake_all(struct shard_saver *sv) {
    for (uint32_t i = 0; i < sv->config.shards; i++) {
        if (sv->listeners[i].wake) {
            sv->listeners[i].wake(sv->listeners[i].arg);
        }
    }
}

static void fail(struct shard_saver *sv, uint64_t ticket, const struct co_err *err) {
    if (sv->ticket == ticket && sv->state == OPEN) {
        sv->state = FAILED;
        meter_add(METER_M_PARTS, METER_FAILED, 1);
        sv->err = *err;
        drop_queue(sv);
        wake_all(sv);
        pthread_cond_signal(&sv->changed); /* the thread removes the unfinished file */
    }
}

/* ---- what this job has written where ---- */

static char *key_of(const char *dir) {
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/') {
        len--;
    }
    return co_xstrndup(dir, len);
}

static void forget(struct past *p) {
    free(p->dir);
    free(p->read.all);
}

/* The lock is held.  If there are too many, the one that came first is forgotten, and then nothing
 * that is there now is ever removed. */
static struct past *past_of(struct shard_saver *sv, const char *dir) {
    CO_AUTOFREE char *key = key_of(dir);
    for (size_t i = 0; i < sv->n_pasts; i++) {
        if (strcmp(sv->pasts[i].dir, key) == 0) {
            return &sv->pasts[i];
        }
    }
    if (sv->n_pasts == PASTS) {
        forget(&sv->pasts[0]);
        memmove(sv->pasts, sv->pasts + 1, (PASTS - 1) * sizeof(*sv->pasts));
        sv->n_pasts--;
    }
    struct past *p = &sv->pasts[sv->n_pasts++];
    *p = (struct past){.dir = co_steal_ptr(key)};
    return p;
}

void shard_saver_restored(struct shard_saver *sv, const char *dir, uint64_t number) {
    pthread_mutex_lock(&sv->m);
    struct past *p = past_of(sv, dir);
    p->restored = number;
    p->first = 0;
    pthread_mutex_unlock(&sv->m);
}

void shard_saver_go_back(struct shard_saver *sv, const char *dir, uint64_t number) {
    pthread_mutex_lock(&sv->m);
    bool same = number > 0 && sv->dir && strcmp(sv->dir, dir) == 0 && sv->number == number;
    if ((sv->state == OPEN || sv->state == DONE) && !same) {
        sv->state = FAILED;
        co_err_set(&sv->err, CO_CANCELED,
            "checkpoint %" PRIu64 " was begun before the job went back to an older one",
            sv->number);
        drop_queue(sv);
        wake_all(sv);
        pthread_cond_signal(&sv->changed);
    }
    pthread_mutex_unlock(&sv->m);
}

static void remove_part(const struct shard_saver *sv, const char *at) {
    CO_AUTOFREE char *name = co_xasprintf("part-%05" PRIu32, sv->config.server);
    (void)!ckpt_disk_remove(at, name, NULL);
}

/* Removes the unfinished file of a part that was given up. */
static void abandon(struct shard_saver *sv) {
    ckpt_part_close(co_steal_ptr(sv->writer));
    remove_part(sv, sv->at);
    free(co_steal_ptr(sv->at));
    sv->writing = 0;
}

/* Removes the finished part of an earlier checkpoint that failed, as it does when another server
 * cannot write.  The next complete checkpoint would remove it as well, but while none succeeds such
 * parts would fill the disk.  The order's word for what is complete comes first: a network file
 * system may show a new manifest late. */
static void remove_failed(
    struct shard_saver *sv, const char *dir, uint64_t number, uint64_t previous) {
    struct ckpt_point p = {0};
    CO_AUTOFREE char *was = co_steal_ptr(sv->finished.dir);
    uint64_t n = sv->finished.number;
    if (!was || (strcmp(was, dir) == 0 && (n == number || n == previous))) {
        return;
    }
    if (ckpt_point_read(was, n, &p, NULL) == CO_NOTFOUND) {
        CO_AUTOFREE char *at = ckpt_point_dir(was, n);
        remove_part(sv, at);
        (void)!ckpt_disk_remove_dir(at, NULL); /* fails while another server's part is in it */
    }
    ckpt_point_done(&p);
}

static int check_incomplete(const char *dir, uint64_t number, struct co_err *err) {
    bool complete = false;
    CO_TRY(ckpt_is_complete(dir, number, &complete, err));
    if (complete) {
        return co_err_set(err, CO_EXISTS,
            "checkpoint %" PRIu64 " in '%s' is complete, it stays as it is", number, dir);
    }
    return 0;
}

static int open_part(struct shard_saver *sv, const char *dir, uint64_t number, uint64_t previous,
    struct co_err *err) {
    struct ckpt_part_origin place = {.number = number,
        .server = sv->config.server,
        .servers = sv->config.servers,
        .shards = sv->config.shards};
    int rc = check_incomplete(dir, number, err);
    if (rc < 0) {
        sv->writing = 0; /* there is nothing to remove */
        return rc;
    }
    sv->at = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *path = ckpt_point_part(dir, number, sv->config.server);
    rc = ckpt_disk_mkdir(sv->at, err);
    remove_failed(sv, dir, number, previous); /* a full disk has room again */
    CO_TRY(rc);
    return ckpt_part_create(path, &place, &sv->writer, err);
}

static int finish_part(struct shard_saver *sv, const char *dir, uint64_t number,
    struct ckpt_part *ret, struct co_err *err) {
    struct ckpt_part_sum sum = {0};
    int rc = ckpt_part_finish(sv->writer, &sum, err);
    if (rc == 0) {
        rc = ckpt_disk_sync_dir(sv->at, err);
    }
    if (rc < 0) {
        abandon(sv);
        return rc;
    }
    sv->finished = (struct part_name){co_xstrdup(dir), number};
    ckpt_part_close(co_steal_ptr(sv->writer));
    free(co_steal_ptr(sv->at));
    sv->writing = 0;
    *ret = (struct ckpt_part){sv->config.server, sv->config.shards, sum.bytes, sum.hash};
    return 0;
}

static void note_part(const struct shard_saver *sv) {
    meter_add(METER_M_PARTS, METER_DONE, 1);
    meter_set(METER_M_PART_NUMBER, 0, (double)sv->number);
    meter_set(METER_M_PART_TIME, 0, (double)co_wall_ms() / 1e3);
    meter_set(METER_M_PART_BYTES, 0, (double)sv->result.bytes);
    meter_set(METER_M_PART_SECONDS, 0, (double)(co_now_ms() - sv->begin_ms) / 1e3);
}

static int64_t cpu_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* A moving average: the writer may only buffer one chunk, and write several with the next. */
static void note_price(struct shard_saver *sv, const struct shard_save_chunk *c, int64_t ns) {
    enum { OF_LATE = 32 };
    double price = c->head.bytes > 0 ? (double)ns / c->head.bytes : 0;
    sv->price += (price - sv->price) / OF_LATE;
}

/* Does one piece of work: opens the part, writes a chunk, completes the part, or removes it.
 * Releases the lock meanwhile.  False: there is nothing to do. */
static bool save_some(struct shard_saver *sv) {
    struct co_err err = {0};
    uint64_t ticket = sv->ticket, number = sv->number, previous = sv->previous;
    if (sv->writing && (sv->writing != ticket || sv->state != OPEN)) {
        pthread_mutex_unlock(&sv->m);
        abandon(sv);
        pthread_mutex_lock(&sv->m);
        return true;
    }
    if (sv->state != OPEN) {
        return false;
    }
    struct shard_save_chunk *c = NULL;
    struct ckpt_part result = {0};
    bool opens = !sv->writing, complete = false;
    CO_AUTOFREE char *dir = NULL;
    if (opens) {
        dir = co_xstrdup(sv->dir);
        sv->writing = ticket;
    } else if (sv->first) {
        c = take_chunk(sv);
    } else if (sv->ended == sv->config.shards) {
        dir = co_xstrdup(sv->dir);
        complete = true;
    } else {
        return false;
    }
    pthread_mutex_unlock(&sv->m);
    int64_t began = cpu_ns();
    int rc = opens ? open_part(sv, dir, number, previous, &err)
             : c   ? ckpt_part_add(sv->writer, &c->head, c->data, &err)
                   : finish_part(sv, dir, number, &result, &err);
    int64_t took = cpu_ns() - began;
    pthread_mutex_lock(&sv->m);
    if (c) {
        bool full = sv->queued >= sv->room / 2;
        note_price(sv, c, took);
        weigh_out(sv, c);
        shard_save_chunk_drop(c);
        if (full && sv->queued < sv->room / 2) { /* shards that paused may continue */
            wake_all(sv);
        }
    }
    if (rc < 0) {
        fail(sv, ticket, &err);
    } else if (complete && sv->ticket == ticket && sv->state == OPEN) {
        sv->state = DONE;
        sv->result = result;
        note_part(sv);
        wake_all(sv);
    }
    return true;
}

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
    if (sv->n_claims == PASTS) {
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
            " in '%s': is the directory shared by all servers",
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
    bool own = sv->state == DONE && sv->number == o->number && strcmp(sv->dir, o->dir) == 0;
    pthread_mutex_unlock(&sv->m);
    return own;
}

/* Whether the commit was done already, and its answer was lost with the connection or the server.
 */
static bool is_done(const struct ckpt_point *p, const char *dir) {
    struct ckpt_point is = {0};
    bool done = ckpt_point_read(dir, p->number, &is, NULL) == 0 && is.base == p->base &&
                is.previous == p->previous && is.step == p->step && is.n_parts == p->n_parts;
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
    struct past *p = past_of(sv, dir);
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
    past_of(sv, dir)->read = read; /* only this thread puts any there */
    pthread_mutex_unlock(&sv->m);
}

/* The checkpoint that a delta builds on may have been removed meanwhile. */
static int check_previous(const Rpc__CkptOrder *o, struct co_err *err) {
    struct ckpt_point p = {0};
    struct co_err why = {0};
    if (o->root == o->number) {
        return 0;
    }
    int rc = ckpt_point_read(o->dir, o->previous, &p, &why);
    bool fits = rc == 0 && p.base == o->root &&
                ckpt_save_is_partial(p.save) == ckpt_save_is_partial(o->mode);
    ckpt_point_done(&p);
    return fits ? 0
                : co_err_set(err, CO_CONFLICT, "the checkpoint that it is based on is missing%s%s",
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
    CO_TRY(check_previous(o, err));
    CO_TRY(commit_own(sv, o, &p, err));
    prune(sv, o->dir, &p, m->keep);
    return 0;
}

static int do_request(struct shard_saver *sv, const Rpc__Control *job, struct co_err *err) {
    switch (job->body_case) {
    case RPC__CONTROL__BODY_CKPT_FIND:
        return find(sv, job->ckpt_find, err);
    case RPC__CONTROL__BODY_CKPT_RESTORE:
        return check(sv, job->ckpt_restore, err);
    default:
        return commit(sv, job->ckpt_commit, err);
    }
}

static bool do_job(struct shard_saver *sv) {
    if (sv->job_state != OPEN || !sv->job) {
        return false;
    }
    Rpc__Control *job = sv->doing = co_steal_ptr(sv->job);
    struct co_err err = {0};
    pthread_mutex_unlock(&sv->m);
    int rc = do_request(sv, job, &err);
    pthread_mutex_lock(&sv->m);
    rpc__control__free_unpacked(co_steal_ptr(sv->doing), NULL);
    if (!sv->job) { /* else nobody asks for this result any more */
        sv->job_state = rc < 0 ? FAILED : DONE;
        sv->job_err = err;
        wake_all(sv);
    }
    return true;
}

static void *run(void *arg) {
    struct shard_saver *sv = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pthread_mutex_lock(&sv->m);
    while (!atomic_load(&sv->stopping)) {
        if (!save_some(sv) && !do_job(sv) && !atomic_load(&sv->stopping)) {
            /* no deadline: until there is something to write, or shard_saver_free */
            pthread_cond_wait(&sv->changed, &sv->m);
        }
    }
    pthread_mutex_unlock(&sv->m);
    if (sv->writing) {
        abandon(sv);
    }
    return NULL;
}

/* ---- calls of the shards ---- */

struct shard_saver *shard_saver_new(const struct shard_saver_config *config) {
    struct shard_saver *sv = co_xcalloc(1, sizeof(*sv));
    sv->config = *config;
    rpc__ckpt_found__init(&sv->found); /* a commit is answered with it, too */
    sv->config.root = co_xstrdup(config->root ? config->root : "");
    sv->config.job = co_xstrdup(config->job ? config->job : "");
    sv->config.endpoint = co_xstrdup(config->endpoint ? config->endpoint : "");
    sv->config.listens = co_xstrdup(config->listens ? config->listens : "");
    if (config->claim_own) {
        sv->claims[sv->n_claims++] = config->claim_own;
    }
    if (!sv->config.copies_max) {
        sv->config.copies_max =
            config->budget && config->budget->max ? config->budget->max / 8 : COPIES_MAX;
    }
    sv->room = sv->config.copies_max / 2 < ROOM ? sv->config.copies_max / 2 : ROOM;
    sv->batch = sv->room / 2 < BATCH ? sv->room / 2 : BATCH;
    sv->listeners = co_xcalloc(config->shards, sizeof(*sv->listeners));
    sv->last = &sv->first;
    pthread_mutex_init(&sv->m, NULL);
    pthread_cond_init(&sv->changed, NULL);
    return sv;
}

void shard_saver_free(struct shard_saver *sv) {
    if (!sv) {
        return;
    }
    pthread_mutex_lock(&sv->m);
    atomic_store(&sv->stopping, true);
    pthread_cond_signal(&sv->changed);
    pthread_mutex_unlock(&sv->m);
    if (sv->running) {
        /* no deadline: it writes to its disk; where it waits or reads much, it sees `stopping` */
        pthread_join(sv->thread, NULL);
    }
    drop_queue(sv);
    if (sv->job) {
        rpc__control__free_unpacked(sv->job, NULL);
    }
    pthread_cond_destroy(&sv->changed);
    pthread_mutex_destroy(&sv->m);
    for (size_t i = 0; i < sv->n_claims; i++) {
        ckpt_claim_drop(sv->claims[i]);
    }
    free((char *)(uintptr_t)sv->config.job);
    free((char *)(uintptr_t)sv->config.endpoint);
    free((char *)(uintptr_t)sv->config.listens);
    free((char *)(uintptr_t)sv->config.root);
    free(sv->listeners);
    free(sv->dir);
    free(sv->finished.dir);
    for (size_t i = 0; i < sv->n_pasts; i++) {
        forget(&sv->pasts[i]);
    }
    free(sv);
}

const char *shard_saver_root(const struct shard_saver *sv) {
    return sv->config.root;
}

void shard_saver_listen(
    struct shard_saver *sv, uint32_t shard, void (*wake)(void *arg), void *arg) {
    pthread_mutex_lock(&sv->m);
    sv->listeners[shard] = (struct listener){wake, arg};
    pthread_mutex_unlock(&sv->m);
}

void shard_saver_describe(
    struct shard_saver *sv, const struct ps_table *tables, uint32_t n, bool sync) {
    pthread_mutex_lock(&sv->m);
    sv->tables = tables;
    sv->n_tables = n;
    sv->sync = sync;
    pthread_mutex_unlock(&sv->m);
}

int shard_saver_check_dir(const char *root, const char *dir, struct co_err *err) {
    size_t n = root ? strlen(root) : 0;
    while (n > 1 && root[n - 1] == '/') {
        n--;
    }
    bool below = n == 0 || (strncmp(dir, root, n) == 0 &&
                               (dir[n] == '\0' || dir[n] == '/' || root[n - 1] == '/'));
    size_t len = strlen(dir);
    if (len == 0 || len > DIR_MAX || dir[0] != '/') {
        return co_err_set(err, CO_INVALID,
            "checkpoint directory '%.200s' is not an absolute path of up to %d bytes", dir,
            DIR_MAX);
    }
    if (strstr(dir, "/../") || (len >= 3 && strcmp(dir + len - 3, "/..") == 0)) {
        return co_err_set(err, CO_PERMISSION,
            "checkpoint directory '%.200s' has '..' in it, expected the path without", dir);
    }
    if (!below) {
        return co_err_set(err, CO_PERMISSION,
            "checkpoint directory '%.200s' is not below '%.200s', where this server keeps them",
            dir, root);
    }
    return 0;
}

/* The lock is held. */
static int start_thread(struct shard_saver *sv, struct co_err *err) {
    if (!sv->running) {
        int e = pthread_create(&sv->thread, NULL, run, sv);
        if (e) {
            return co_err_errno(err, e, "cannot start the thread that saves");
        }
        sv->running = true;
    }
    pthread_cond_signal(&sv->changed);
    return 0;
}

int shard_saver_begin(struct shard_saver *sv, const char *dir, uint64_t number, uint64_t previous,
    uint64_t *ret_ticket, struct co_err *err) {
    int rc = shard_saver_check_dir(sv->config.root, dir, err);
    if (rc < 0) {
        return rc;
    }
    pthread_mutex_lock(&sv->m);
    bool here = sv->dir && strcmp(sv->dir, dir) == 0;
    rc = start_thread(sv, err);
    if (rc == 0 && here && number < sv->number) {
        rc = co_err_set(err, CO_CANCELED, "checkpoint %" PRIu64 " was begun after %" PRIu64,
            sv->number, number);
    }
    if (rc == 0 && !(here && number == sv->number)) {
        drop_queue(sv);
        free(sv->dir);
        sv->dir = co_xstrdup(dir);
        sv->number = number;
        sv->previous = previous;
        sv->ticket++;
        sv->state = OPEN;
        sv->begin_ms = co_now_ms();
        sv->ended = 0;
        sv->err = (struct co_err){0};
        struct past *past = past_of(sv, dir);
        past->first = past->first ? past->first : number;
        wake_all(sv); /* shards that wait for the part before learn that it has ended */
    }
    *ret_ticket = sv->ticket;
    pthread_mutex_unlock(&sv->m);
    return rc;
}

bool shard_saver_has_room(struct shard_saver *sv) {
    pthread_mutex_lock(&sv->m);
    bool room = sv->queued < sv->room;
    pthread_mutex_unlock(&sv->m);
    return room;
}

double shard_saver_price(struct shard_saver *sv) {
    pthread_mutex_lock(&sv->m);
    double price = sv->price;
    pthread_mutex_unlock(&sv->m);
    return price;
}

/* The lock is held. */
static int weigh_in(struct shard_saver *sv, const struct shard_save_chunk *c, struct co_err *err) {
    if (sv->queued > 0 && sv->queued + c->room > sv->config.copies_max) {
        return co_err_set(err, CO_NORESOURCE,
            "the disk is too slow: %zu bytes wait to be written, at most %zu may", sv->queued,
            sv->config.copies_max);
    }
    int rc = table_budget_take(sv->config.budget, c->room, err);
    sv->queued += rc < 0 ? 0 : c->room;
    return rc;
}

int shard_saver_add(struct shard_saver *sv, uint64_t ticket, struct shard_save_chunk *chunk_own,
    struct co_err *err) {
    struct co_err why = {0};
    pthread_mutex_lock(&sv->m);
    int rc = sv->ticket == ticket && sv->state == OPEN
                 ? weigh_in(sv, chunk_own, &why)
                 : co_err_set(&why, CO_CANCELED, "this checkpoint has ended");
    if (rc == 0) {
        chunk_own->next = NULL;
        *sv->last = chunk_own;
        sv->last = &chunk_own->next;
        if (sv->queued >= sv->batch && sv->queued - chunk_own->room < sv->batch) {
            pthread_cond_signal(&sv->changed); /* once: it empties the queue before it waits */
        }
    } else {
        fail(sv, ticket, &why);
    }
    pthread_mutex_unlock(&sv->m);
    if (rc < 0) {
        shard_save_chunk_drop(chunk_own);
        return co_err_set(err, why.code, "%s", why.msg);
    }
    return 0;
}

void shard_saver_fail(struct shard_saver *sv, uint64_t ticket, const struct co_err *err) {
    pthread_mutex_lock(&sv->m);
    fail(sv, ticket, err);
    pthread_mutex_unlock(&sv->m);
}

void shard_saver_end(struct shard_saver *sv, uint64_t ticket) {
    pthread_mutex_lock(&sv->m);
    if (sv->ticket == ticket) {
        sv->ended++;
        pthread_cond_signal(&sv->changed);
    }
    pthread_mutex_unlock(&sv->m);
}

int shard_saver_result(
    struct shard_saver *sv, uint64_t ticket, struct ckpt_part *ret, struct co_err *err) {
    int rc = 0;
    pthread_mutex_lock(&sv->m);
    if (sv->ticket != ticket) {
        rc = co_err_set(err, CO_CANCELED, "checkpoint %" PRIu64 " was begun instead", sv->number);
    } else if (sv->state == FAILED) {
        rc = co_err_set(err, sv->err.code, "%s", sv->err.msg);
    } else if (sv->state == DONE) {
        *ret = sv->result;
        rc = 1;
    }
    pthread_mutex_unlock(&sv->m);
    return rc;
}

/* NULL allowed: no request. */
static bool is_same(const Rpc__Control *a, const Rpc__Control *b) {
    size_t n = a && b ? rpc__control__get_packed_size(a) : 0;
    if (n == 0 || rpc__control__get_packed_size(b) != n) {
        return false;
    }
    CO_AUTOFREE unsigned char *packed = co_xmalloc(2 * n);
    rpc__control__pack(a, packed);
    rpc__control__pack(b, packed + n);
    return memcmp(packed, packed + n, n) == 0;
}

int shard_saver_submit(
    struct shard_saver *sv, Rpc__Control *request_own, bool waits, struct co_err *err) {
    Rpc__Control *request = request_own;
    int rc = 0;
    pthread_mutex_lock(&sv->m);
    if (sv->job_state == OPEN && is_same(sv->job ? sv->job : sv->doing, request)) {
        rpc__control__free_unpacked(co_steal_ptr(request), NULL);
    } else if (sv->job_state == OPEN && waits) {
        rc = co_err_set(err, CO_CONFLICT, "another checkpoint is being checked");
    } else {
        rc = start_thread(sv, err);
    }
    if (rc == 0 && request) {
        if (sv->job) {
            rpc__control__free_unpacked(sv->job, NULL);
        }
        sv->job = co_steal_ptr(request);
        sv->job_state = OPEN;
    }
    pthread_mutex_unlock(&sv->m);
    if (request) {
        rpc__control__free_unpacked(request, NULL);
    }
    return rc;
}

int shard_saver_answer(struct shard_saver *sv, Rpc__CkptFound *ret, struct co_err *err) {
    int rc = 0;
    pthread_mutex_lock(&sv->m);
    if (sv->job_state == FAILED) {
        rc = co_err_set(err, sv->job_err.code, "%s", sv->job_err.msg);
    } else if (sv->job_state == DONE) {
        *ret = sv->found;
        rc = 1;
    }
    pthread_mutex_unlock(&sv->m);
    return rc;
}
