/* rt_data_...: a reader of samples in batches. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/fork.h"
#include "common/limits.h"
#include "common/spare.h"
#include "runtime/train/data/order.h"

enum { AHEAD = 8, THREADS = 4, ALIGN = 64 };
static const size_t BATCH_BYTES_MAX = (size_t)1 << 36;

struct rt_data {
    struct da_fields fields;
    struct da_feed *feed;
    struct da_run run;
    struct da_samples made; /* of the batch that comes next */
    char *name;             /* of the files, for messages */
    uint32_t batch;
    uint64_t passes, check;
    bool drop_last;
    struct rt_share share;  /* workers at most 1: no other worker has one */
    bool passed;            /* the pass has no more samples, as da_run says */
    bool ended;             /* all passes */
    uint64_t pass, samples; /* of the running pass: taken for batches */
    struct rt_data_position delivered;
    struct co_err failed; /* code 0: nothing */
    struct co_fork fork;
};

CO_DEFINE_CLEANUP(struct rt_data *, rt_data_close)

/* ---- opening -------------------------------------------------------------------------------- */

static uint64_t hash_add(uint64_t hash, const void *bytes, size_t n) {
    return (hash ^ co_hash(bytes, n)) * 0x100000001b3U;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Of all that decides which samples there are, and in which order.  Folders may move. */
static uint64_t check_make(const struct rt_data *d, const struct rt_data_options *o) {
    const uint64_t numbers[] = {(uint64_t)o->format, o->share.worker, o->share.workers,
        (uint64_t)o->share.by, o->pad, o->shuffle, o->shuffle > 1 ? o->seed : 0, o->whole,
        o->unlabelled, da_feed_files(d->feed)};
    uint64_t hash = hash_add(0, numbers, sizeof(numbers));

    for (size_t i = 0; i < d->fields.n; i++) {
        const struct da_field *f = &d->fields.at[i];

        hash = hash_add(hash, f->name, strlen(f->name));
        hash = hash_add(hash, &f->kind, sizeof(f->kind));
    }
    for (size_t i = 0; i < da_feed_files(d->feed); i++) {
        const char *name = base_name(da_feed_path(d->feed, i));

        hash = hash_add(hash, name, strlen(name));
    }
    return hash;
}

static int options_check(const struct rt_data_options *o, struct co_err *err) {
    CO_TRY(CO_SPARE_CHECK(o, "rt_data_options", err));
    if (o->n_paths == 0) {
        return co_err_set(err, CO_INVALID, "paths are none, expected files, folders or patterns");
    }
    if (o->batch > INT_MAX || o->shuffle > INT_MAX || o->ahead > INT_MAX || o->pad > INT_MAX) {
        return co_err_set(err, CO_INVALID,
            "batch, pad, shuffle and ahead are %u, %u, %u, %u, expected below 2^31", o->batch,
            o->pad, o->shuffle, o->ahead);
    }
    return 0;
}

static int feed_open(struct rt_data *d, const struct rt_data_options *o, struct co_err *err) {
    size_t ahead = (size_t)(o->ahead > 0 ? o->ahead : AHEAD) * d->batch;
    uint32_t processors = co_limit_cpus("", NULL);
    uint32_t threads = processors < THREADS ? processors : THREADS;
    struct da_feed_options options = {.paths = o->paths,
        .n_paths = o->n_paths,
        .share = o->share,
        .command = o->pipe_command && o->pipe_command[0] != '\0' ? o->pipe_command : NULL,
        .passes = d->passes,
        .threads = o->threads > 0 ? o->threads : threads};

    options.ahead = (size_t)2 * options.threads * DA_CHUNK_LINES;
    options.ahead = ahead > options.ahead ? ahead : options.ahead;
    options.ahead = o->shuffle > options.ahead ? o->shuffle : options.ahead;
    return da_feed_open(&options, &d->fields, &d->feed, err);
}

int rt_data_open(
    const struct rt_data_options *options, struct rt_data **ret_data, struct co_err *err) {
    CO_CLEANUP(rt_data_closep) struct rt_data *d = co_xcalloc(1, sizeof(*d));
    const struct rt_data_options *o = options;

    CO_TRY(options_check(o, err));
    d->batch = o->batch > 0 ? o->batch : 1;
    d->passes = o->passes > 0 ? o->passes : 1;
    d->drop_last = o->drop_last;
    d->share = o->share;
    d->name = co_xstrdup(o->paths[0]);
    d->run.options = (struct da_run_options){
        .shuffle = o->shuffle, .seed = o->seed, .bad_max = o->bad_max, .name = d->name};
    CO_TRY(da_fields_init(&d->fields, o, err));
    CO_TRY(feed_open(d, o, err));
    da_samples_init(&d->made, &d->fields);
    d->check = d->delivered.check = check_make(d, o);
    co_fork_watch(&d->fork, NULL);
    *ret_data = co_steal_ptr(d);
    return 0;
}

void rt_data_close(struct rt_data *d) {
    if (!d || d->fork.forked) { /* a child has none of the threads, whoever held the lock */
        return;
    }
    co_fork_unwatch(&d->fork);
    if (d->feed) {
        da_run_done(&d->run, d->feed);
    }
    da_feed_close(d->feed);
    da_samples_done(&d->made);
    da_fields_done(&d->fields);
    free(d->name);
    free(d);
}

void rt_data_shape(
    const struct rt_data *d, size_t *ret_labels, size_t *ret_dense, size_t *ret_slots) {
    *ret_labels = d->fields.labels;
    *ret_dense = d->fields.dense;
    *ret_slots = d->fields.slots;
}

const char *rt_data_describe(const struct rt_data *d) {
    return da_feed_describe(d->feed);
}

/* ---- batches -------------------------------------------------------------------------------- */

struct room {
    char *at; /* NULL: to count */
    size_t used;
};

static void *room_take(struct room *r, size_t n, size_t size) {
    size_t at = (r->used + ALIGN - 1) / ALIGN * ALIGN;

    r->used = at + n * size;
    return r->at ? r->at + at : NULL;
}

/* Where the arrays of a batch lie. */
static void batch_lay(const struct da_samples *s, struct room *r, struct rt_data_batch *b) {
    const struct da_fields *f = s->fields;

    b->n = s->n;
    b->n_ids = f->pad > 0 ? s->n * f->slots * f->pad : s->n_ids;
    b->labels = room_take(r, s->n * f->labels, sizeof(float));
    b->dense = room_take(r, s->n * f->dense, sizeof(float));
    b->ids = room_take(r, b->n_ids, sizeof(uint64_t));
    b->offsets = f->pad > 0 ? NULL : room_take(r, f->slots * (s->n + 1), sizeof(int64_t));
    b->counts = f->pad > 0 ? room_take(r, s->n * f->slots, sizeof(uint32_t)) : NULL;
}

static void ids_pad(const struct da_samples *s, uint64_t *ids, uint32_t *counts) {
    const struct da_fields *f = s->fields;
    uint32_t begin = 0;

    for (size_t cell = 0; cell < s->n * f->slots; cell++) {
        uint32_t n = s->ends[cell] - begin;

        for (uint32_t i = 0; i < f->pad; i++) {
            *ids++ = i < n ? s->ids[begin + i] : f->fill;
        }
        counts[cell] = n;
        begin = s->ends[cell];
    }
}

/* From those of a sample together to those of a slot together. */
static void ids_turn(const struct da_samples *s, uint64_t *ids, int64_t *offsets) {
    size_t slots = s->fields->slots;

    for (size_t k = 0; k < slots; k++, offsets += s->n + 1) {
        offsets[0] = 0;
        for (size_t i = 0; i < s->n; i++) {
            size_t cell = i * slots + k;
            uint32_t begin = cell > 0 ? s->ends[cell - 1] : 0, n = s->ends[cell] - begin;

            for (uint32_t j = 0; j < n; j++) {
                *ids++ = s->ids[begin + j];
            }
            offsets[i + 1] = offsets[i] + n;
        }
    }
}

static int batch_make(
    const struct da_samples *s, struct rt_data_batch **ret_batch, struct co_err *err) {
    const struct da_fields *f = s->fields;
    struct rt_data_batch layout = {0};
    struct room room = {.used = sizeof(layout)};
    void *memory = NULL;

    batch_lay(s, &room, &layout);
    if (s->n_ids > UINT32_MAX) {
        return co_err_set(err, CO_NORESOURCE, "%zu ids in a batch, expected below 2^32", s->n_ids);
    }
    CO_TRY(co_try_alloc(1, room.used + ALIGN, BATCH_BYTES_MAX, "a batch", &memory, err));
    struct rt_data_batch *b = memory;
    room = (struct room){.at = memory, .used = sizeof(layout)};
    batch_lay(s, &room, b);
    memcpy((float *)b->labels, s->labels, s->n * f->labels * sizeof(float));
    memcpy((float *)b->dense, s->dense, s->n * f->dense * sizeof(float));
    if (f->pad > 0) {
        ids_pad(s, (uint64_t *)b->ids, (uint32_t *)b->counts);
    } else {
        ids_turn(s, (uint64_t *)b->ids, (int64_t *)b->offsets);
    }
    *ret_batch = b;
    return 0;
}

void rt_data_batch_free(struct rt_data_batch *b) {
    free(b);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* A pass had no line at all for this worker, which is no error where others have some. */
static bool lacks_share(const struct rt_data *d) {
    return d->samples == 0 && d->run.tally.n == 0 && d->share.workers > 1;
}

/* The pass had no more samples: another one begins, or *ret_ends. */
static int pass_next(struct rt_data *d, bool *ret_ends, struct co_err *err) {
    if (d->samples == 0 && !lacks_share(d)) {
        return da_tally_unusable(&d->run.tally, d->name, err);
    }
    d->ended = d->samples == 0 || d->pass + 1 >= d->passes;
    *ret_ends = d->ended;
    if (!d->ended && d->drop_last && d->samples < d->batch) { /* as would all others, without end */
        return co_err_set(err, CO_INVALID,
            "a pass over \"%s\" has %llu samples, which fill no batch of %u, expected a smaller "
            "batch, or no drop_last",
            d->name, (unsigned long long)d->samples, d->batch);
    }
    if (!d->ended) {
        d->passed = false;
        d->pass++;
        d->samples = 0;
        da_run_forget_bad(&d->run);
    }
    return 0;
}

/* Adds samples until they fill a batch, or the pass ends. */
static int batch_fill(struct rt_data *d, int64_t end_ms, struct co_err *err) {
    while (d->made.n < d->batch && !d->passed) {
        CO_TRY(da_run_ready(&d->run, d->feed, end_ms, &d->passed, err));
        if (!d->passed) {
            da_run_take(&d->run, d->feed, &d->made);
            d->samples++;
        }
    }
    if (d->made.n < d->batch && d->drop_last) {
        da_samples_clear(&d->made);
    }
    return 0;
}

static void delivered_note(struct rt_data *d) {
    const struct da_run *r = &d->run;
    bool next = d->passed && d->pass + 1 < d->passes; /* the run is at the next pass already */

    d->delivered = (struct rt_data_position){.at = r->begin,
        .skip = r->skip,
        .run = r->number,
        .taken = r->taken,
        .samples = next ? 0 : d->samples,
        .bad = r->bad,
        .check = d->check};
}

static int next_batch(
    struct rt_data *d, int64_t end_ms, struct rt_data_batch **ret_batch, struct co_err *err) {
    bool ends = d->ended;

    while (!ends) {
        CO_TRY(batch_fill(d, end_ms, err));
        if (d->made.n > 0) {
            CO_TRY(batch_make(&d->made, ret_batch, err));
            da_samples_clear(&d->made);
            delivered_note(d);
            return 0;
        }
        CO_TRY(pass_next(d, &ends, err));
        delivered_note(d);
    }
    *ret_batch = NULL;
    return 0;
}

int rt_data_next(
    struct rt_data *d, int64_t wait_ms, struct rt_data_batch **ret_batch, struct co_err *err) {
    struct co_err why = {0};

    if (d->fork.forked) {
        return co_fork_refuse("the reader of samples", err);
    }
    if (d->failed.code < 0) {
        return co_err_set(err, d->failed.code, "%s", co_err_text(&d->failed));
    }
    int rc = next_batch(d, wait_ms < 0 ? -1 : co_now_ms() + wait_ms, ret_batch, &why);
    if (rc < 0 && rc != CO_TIMEOUT && rc != CO_CANCELED) { /* these may be called again */
        d->failed = why;
    }
    return rc < 0 ? co_err_set(err, rc, "%s", co_err_text(&why)) : 0;
}

/* ---- positions ------------------------------------------------------------------------------ */

void rt_data_tell(const struct rt_data *d, struct rt_data_position *ret) {
    *ret = d->delivered;
}

int rt_data_seek(struct rt_data *d, const struct rt_data_position *at, struct co_err *err) {
    if (d->fork.forked) {
        return co_fork_refuse("the reader of samples", err);
    }
    CO_TRY(CO_SPARE_CHECK(at, "rt_data_position", err));
    if (at->check != d->check) {
        return co_err_set(err, CO_INVALID,
            "the position is of other files, of another share of them, or of other options than "
            "those of \"%s\"",
            d->name);
    }
    da_run_begin(&d->run, d->feed, at);
    da_samples_clear(&d->made);
    CO_TRY(da_feed_seek(d->feed, &at->at, err));
    d->passed = d->ended = false;
    d->pass = at->at.pass;
    d->samples = at->samples;
    d->delivered = *at;
    d->failed.code = 0;
    return 0;
}

void rt_data_count(const struct rt_data *d, struct rt_data_counts *ret) {
    *ret =
        (struct rt_data_counts){.pass = d->pass, .samples = d->samples, .bad = da_run_bad(&d->run)};
    if (d->run.tally.n > 0) {
        da_tally_text(&d->run.tally, ret->text);
    } else if (d->ended && lacks_share(d)) {
        (void)snprintf(ret->text, sizeof(ret->text),
            "worker %u of %u has no line of \"%.200s\" (%.160s): it makes no batch",
            d->share.worker, d->share.workers, d->name, rt_data_describe(d));
    }
}
