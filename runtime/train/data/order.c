/* Puts samples in the order in which they are taken. */
#include "runtime/train/data/order.h"

#include <string.h>

#include "common/mix.h"

/* ---- random numbers: SplitMix64 (Steele, Lea, Flood 2014) ------------------------------------ */

static uint64_t random_next(uint64_t *state) {
    return co_mix64(*state += 0x9e3779b97f4a7c15U);
}

/* Below n, by the upper half of a product: the error is below n / 2^64. */
static size_t random_below(uint64_t *state, size_t n) {
    return (size_t)(((unsigned __int128)random_next(state) * n) >> 64);
}

static void shuffle(struct da_run *r) {
    uint64_t state =
        co_mix64(r->options.seed ^ co_mix64(r->begin.pass + 1)) ^ co_mix64(r->number + (1U << 20));

    for (size_t i = r->n; i > 1; i--) {
        size_t k = random_below(&state, i);
        struct da_pick pick = r->order[k];

        r->order[k] = r->order[i - 1];
        r->order[i - 1] = pick;
    }
}

/* ---- chunks --------------------------------------------------------------------------------- */

static bool shuffles(const struct da_run *r) {
    return r->options.shuffle > 1;
}

static size_t samples_held(const struct da_run *r) {
    size_t n = 0;

    for (size_t i = 0; i < r->n_chunks; i++) {
        n += r->chunks[i]->samples.n;
    }
    return n > r->skip ? n - r->skip : 0;
}

static bool ended(const struct da_run *r) {
    return r->n_chunks > 0 && r->chunks[r->n_chunks - 1]->last;
}

static void chunks_drop(struct da_run *r, struct da_feed *f) {
    for (size_t i = 0; i < r->n_chunks; i++) {
        da_feed_give_back(f, r->chunks[i]);
    }
    r->n_chunks = 0;
}

void da_run_done(struct da_run *r, struct da_feed *f) {
    chunks_drop(r, f);
    free(r->chunks);
    free(r->order);
    memset(r, 0, sizeof(*r));
}

void da_run_begin(struct da_run *r, struct da_feed *f, const struct rt_data_position *at) {
    chunks_drop(r, f);
    r->skip = at->skip;
    r->number = at->run;
    r->taken = at->taken;
    r->made = false;
    r->n = 0;
    r->begin = at->at;
    r->bad = r->bad_earlier = at->bad;
    memset(&r->tally, 0, sizeof(r->tally));
}

uint64_t da_run_bad(const struct da_run *r) {
    return r->bad_earlier + r->tally.n;
}

void da_run_forget_bad(struct da_run *r) {
    r->bad_earlier = 0;
    memset(&r->tally, 0, sizeof(r->tally));
}

static int bad_check(const struct da_run *r, struct co_err *err) {
    char text[DA_SUMMARY_MAX];

    if (r->options.bad_max == 0 || r->tally.n == 0 || da_run_bad(r) < r->options.bad_max) {
        return 0;
    }
    da_tally_text(&r->tally, text);
    return co_err_set(err, CO_INVALID, "\"%s\" has too many lines that cannot be used: %s",
        r->options.name, text);
}

/* Nothing of a file that cannot be used is kept.  The chunk's place is that of the one before it.
 */
static void chunk_without_samples(struct da_run *r, struct da_feed *f, struct da_chunk *c) {
    if (r->n_chunks > 0) {
        struct da_chunk *before = r->chunks[r->n_chunks - 1];

        before->end = c->end;
        before->tally.n += c->tally.n;
    } else {
        r->begin = c->end;
        r->bad += c->tally.n;
    }
    da_feed_give_back(f, c);
}

static int chunk_take(struct da_run *r, struct da_feed *f, int64_t end_ms, struct co_err *err) {
    struct da_chunk *c = NULL;
    char text[DA_SUMMARY_MAX];
    int rc = da_feed_take(f, end_ms, &c, err);

    if (rc == CO_TIMEOUT && r->tally.n > 0) {
        da_tally_text(&r->tally, text);
        return co_err_set(
            err, rc, "no more samples are read yet of \"%s\": %s", da_feed_describe(f), text);
    }
    CO_TRY(rc);
    da_tally_join(&r->tally, &c->tally);
    if (c->samples.n == 0 && !c->last && c->rc == 0) {
        chunk_without_samples(r, f, c);
        return bad_check(r, err);
    }
    if (r->n_chunks == r->room) {
        r->room += r->room / 2 + 16;
        r->chunks = co_xrealloc(r->chunks, r->room, sizeof(struct da_chunk *));
    }
    r->chunks[r->n_chunks++] = c;
    CO_TRY(bad_check(r, err));
    if (c->rc < 0) { /* CO_TIMEOUT is the caller's, who comes again: not that of a pipe */
        return co_err_set(
            err, c->rc == CO_TIMEOUT ? CO_UNAVAILABLE : c->rc, "%s", co_err_text(&c->err));
    }
    return 0;
}

/* Gives back the chunks of which all samples are taken. */
static void chunks_release(struct da_run *r, struct da_feed *f) {
    size_t n = 0;

    while (n < r->n_chunks && r->skip >= r->chunks[n]->samples.n) {
        struct da_chunk *c = r->chunks[n++];

        r->skip -= c->samples.n;
        r->begin = c->end;
        r->bad += c->tally.n;
        if (c->last) { /* the next pass */
            r->skip = r->bad = r->number = 0;
        }
        da_feed_give_back(f, c);
    }
    r->n_chunks -= n;
    memmove(r->chunks, r->chunks + n, r->n_chunks * sizeof(struct da_chunk *));
}

/* ---- runs ----------------------------------------------------------------------------------- */

static void order_make(struct da_run *r, size_t n) {
    size_t skip = r->skip;

    if (n > r->n_room) {
        r->n_room = n;
        r->order = co_xrealloc(r->order, n, sizeof(*r->order));
    }
    r->n = 0;
    for (uint32_t c = 0; c < r->n_chunks; c++) {
        size_t has = r->chunks[c]->samples.n;

        for (size_t i = skip; i < has && r->n < n; i++) {
            r->order[r->n++] = (struct da_pick){.chunk = c, .sample = (uint32_t)i};
        }
        skip -= skip < has ? skip : has;
    }
    if (shuffles(r)) {
        shuffle(r);
    }
    r->made = true;
}

/* The run is over: what it had is skipped. */
static void run_end(struct da_run *r, struct da_feed *f) {
    r->skip += r->n;
    r->number++;
    r->made = false;
    r->taken -= r->n; /* a position may be behind what is one chunk today */
    r->n = 0;
    chunks_release(r, f);
}

/* Has as many samples as make a run, or all that the pass has. */
static int run_fill(struct da_run *r, struct da_feed *f, int64_t end_ms, struct co_err *err) {
    size_t wanted = shuffles(r) ? r->options.shuffle : 1;

    while (!ended(r) && samples_held(r) < wanted) {
        CO_TRY(chunk_take(r, f, end_ms, err));
    }
    size_t has = samples_held(r);
    order_make(r, shuffles(r) && has > wanted ? wanted : has);
    return 0;
}

/* At the end of a pass: all samples that a position has gone over are there. */
static int gone_check(const struct da_run *r, struct co_err *err) {
    size_t has = 0;

    for (size_t i = 0; i < r->n_chunks; i++) {
        has += r->chunks[i]->samples.n;
    }
    size_t missing = r->taken - r->n + (r->skip > has ? r->skip - has : 0);
    return missing == 0
               ? 0
               : co_err_set(err, CO_INVALID,
                     "the position is %zu samples behind the last one of \"%s\": files have "
                     "lost lines since it was stored",
                     missing, r->options.name);
}

int da_run_ready(
    struct da_run *r, struct da_feed *f, int64_t end_ms, bool *ret_ends, struct co_err *err) {
    while (!r->made || r->taken >= r->n) {
        if (!r->made) {
            CO_TRY(run_fill(r, f, end_ms, err));
        }
        if (r->taken >= r->n) {
            bool last = ended(r) && samples_held(r) == r->n;

            CO_TRY(last ? gone_check(r, err) : 0);
            run_end(r, f);
            if (last) {
                *ret_ends = true;
                return 0;
            }
        }
    }
    *ret_ends = false;
    return 0;
}

void da_run_take(struct da_run *r, struct da_feed *f, struct da_samples *to) {
    const struct da_pick *p = &r->order[r->taken++];

    da_samples_copy(to, &r->chunks[p->chunk]->samples, p->sample);
    if (r->taken == r->n && !(ended(r) && samples_held(r) == r->n)) {
        run_end(r, f);
    }
}
