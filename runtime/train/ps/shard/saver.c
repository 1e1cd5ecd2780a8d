/* The saver's thread and its queue: it writes a server's part of a checkpoint. */
#include "runtime/train/ps/shard/saver.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/loop.h"
#include "runtime/train/meter/meter.h"
#include "runtime/train/ps/shard/saver_internal.h"

enum {
    ROOM = 1 << 20, /* the limits for room and batch below */
    BATCH = 256 << 10,
    DIR_MAX = 4096,
    COPIES_MAX = 256 << 20, /* when there is no budget */
    NICE = 10,              /* training comes first */
};

/* ---- chunks ---- */

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
    if (sv->ticket == ticket && sv->state == SHARD_SAVER_OPEN) {
        sv->state = SHARD_SAVER_FAILED;
        meter_add(METER_M_PARTS, METER_FAILED, 1);
        sv->err = *err;
        drop_queue(sv);
        wake_all(sv);
        pthread_cond_signal(&sv->changed); /* the thread removes the unfinished file */
    }
}

void shard_saver_go_back(struct shard_saver *sv, const char *dir, uint64_t number) {
    pthread_mutex_lock(&sv->m);
    bool same = number > 0 && sv->dir && strcmp(sv->dir, dir) == 0 && sv->number == number;
    if ((sv->state == SHARD_SAVER_OPEN || sv->state == SHARD_SAVER_DONE) && !same) {
        sv->state = SHARD_SAVER_FAILED;
        co_err_set(&sv->err, CO_CANCELED,
            "checkpoint %" PRIu64 " was begun before the job went back to an older one",
            sv->number);
        drop_queue(sv);
        wake_all(sv);
        pthread_cond_signal(&sv->changed);
    }
    pthread_mutex_unlock(&sv->m);
}

static void note_part(const struct shard_saver *sv) {
    meter_add(METER_M_PARTS, METER_DONE, 1);
    meter_set(METER_M_PART_NUMBER, 0, (double)sv->number);
    meter_set(METER_M_PART_TIME, 0, (double)co_wall_ms() / 1e3);
    meter_set(METER_M_PART_BYTES, 0, (double)sv->result.bytes);
    meter_set(METER_M_PART_SECONDS, 0, (double)(co_now_ms() - sv->begin_ms) / 1e3);
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
    if (sv->writing && (sv->writing != ticket || sv->state != SHARD_SAVER_OPEN)) {
        pthread_mutex_unlock(&sv->m);
        shard_saver_part_abandon(sv);
        pthread_mutex_lock(&sv->m);
        return true;
    }
    if (sv->state != SHARD_SAVER_OPEN) {
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
    int64_t began = co_thread_cpu_ns();
    int rc = opens ? shard_saver_part_open(sv, dir, number, previous, &err)
             : c   ? ckpt_part_add(sv->writer, &c->head, c->data, &err)
                   : shard_saver_part_finish(sv, dir, number, &result, &err);
    int64_t took = co_thread_cpu_ns() - began;
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
    } else if (complete && sv->ticket == ticket && sv->state == SHARD_SAVER_OPEN) {
        sv->state = SHARD_SAVER_DONE;
        sv->result = result;
        note_part(sv);
        wake_all(sv);
    }
    return true;
}

static bool do_job(struct shard_saver *sv) {
    if (sv->job_state != SHARD_SAVER_OPEN || !sv->job) {
        return false;
    }
    Rpc__Control *job = sv->doing = co_steal_ptr(sv->job);
    struct co_err err = {0};
    pthread_mutex_unlock(&sv->m);
    int rc = shard_saver_do(sv, job, &err);
    pthread_mutex_lock(&sv->m);
    rpc__control__free_unpacked(co_steal_ptr(sv->doing), NULL);
    if (!sv->job) { /* else nobody asks for this result any more */
        sv->job_state = rc < 0 ? SHARD_SAVER_FAILED : SHARD_SAVER_DONE;
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
        shard_saver_part_abandon(sv);
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
        sv->of_budget = config->budget && config->budget->max;
        sv->config.copies_max = sv->of_budget ? config->budget->max / 8 : COPIES_MAX;
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
        shard_saver_forget(&sv->pasts[i]);
    }
    free(sv);
}

const char *shard_saver_root(const struct shard_saver *sv) {
    return sv->config.root;
}

void shard_saver_listen(
    struct shard_saver *sv, uint32_t shard, void (*wake)(void *arg), void *arg) {
    pthread_mutex_lock(&sv->m);
    sv->listeners[shard] = (struct shard_saver_listener){wake, arg};
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
            "checkpoint directory \"%.200s\" is not an absolute path of up to %d bytes", dir,
            DIR_MAX);
    }
    if (strstr(dir, "/../") || (len >= 3 && strcmp(dir + len - 3, "/..") == 0)) {
        return co_err_set(err, CO_PERMISSION,
            "checkpoint directory \"%.200s\" has '..' in it, expected the path without", dir);
    }
    if (!below) {
        return co_err_set(err, CO_PERMISSION,
            "checkpoint directory \"%.200s\" is not below \"%.200s\", where this server keeps them",
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
    uint64_t maker, uint64_t *ret_ticket, struct co_err *err) {
    CO_TRY(shard_saver_check_dir(sv->config.root, dir, err));
    pthread_mutex_lock(&sv->m);
    bool here = sv->dir && strcmp(sv->dir, dir) == 0;
    int rc = start_thread(sv, err);
    if (rc == 0 && here && number <= sv->number && maker != sv->maker) {
        rc = co_err_set(err, CO_CONFLICT, "checkpoint %" PRIu64 " was begun before", number);
    } else if (rc == 0 && here && number < sv->number) {
        rc = co_err_set(err, CO_CANCELED, "checkpoint %" PRIu64 " was begun after %" PRIu64,
            sv->number, number);
    }
    if (rc == 0 && !(here && number == sv->number)) {
        drop_queue(sv);
        free(sv->dir);
        sv->dir = co_xstrdup(dir);
        sv->number = number;
        sv->previous = previous;
        sv->maker = maker;
        sv->ticket++;
        sv->state = SHARD_SAVER_OPEN;
        sv->begin_ms = co_now_ms();
        sv->ended = 0;
        sv->err = (struct co_err){0};
        struct shard_saver_past *past = shard_saver_past(sv, dir);
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
            "%zu bytes of a checkpoint wait to be written, and %u more do not fit in the %zu that "
            "may%s, expected a %sfaster disk",
            sv->queued, c->room, sv->config.copies_max,
            sv->of_budget ? ", an eighth of memory_max" : "",
            sv->of_budget ? "larger memory_max, or a " : "");
    }
    int rc = table_budget_take(sv->config.budget, c->room, err);
    sv->queued += rc < 0 ? 0 : c->room;
    return rc;
}

int shard_saver_add(struct shard_saver *sv, uint64_t ticket, struct shard_save_chunk *chunk_own,
    struct co_err *err) {
    struct co_err why = {0};
    pthread_mutex_lock(&sv->m);
    int rc = sv->ticket == ticket && sv->state == SHARD_SAVER_OPEN
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
    } else if (sv->state == SHARD_SAVER_FAILED) {
        rc = co_err_set(err, sv->err.code, "%s", sv->err.msg);
    } else if (sv->state == SHARD_SAVER_DONE) {
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
    if (sv->job_state == SHARD_SAVER_OPEN && is_same(sv->job ? sv->job : sv->doing, request)) {
        rpc__control__free_unpacked(co_steal_ptr(request), NULL);
    } else if (sv->job_state == SHARD_SAVER_OPEN && waits) {
        rc = co_err_set(err, CO_CONFLICT, "another checkpoint is being checked");
    } else {
        rc = start_thread(sv, err);
    }
    if (rc == 0 && request) {
        if (sv->job) {
            rpc__control__free_unpacked(sv->job, NULL);
        }
        sv->job = co_steal_ptr(request);
        sv->job_state = SHARD_SAVER_OPEN;
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
    if (sv->job_state == SHARD_SAVER_FAILED) {
        rc = co_err_set(err, sv->job_err.code, "%s", sv->job_err.msg);
    } else if (sv->job_state == SHARD_SAVER_DONE) {
        *ret = sv->found;
        rc = 1;
    }
    pthread_mutex_unlock(&sv->m);
    return rc;
}
