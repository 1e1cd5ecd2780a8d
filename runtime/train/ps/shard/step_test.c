/* Steps of a job on several shards that know nothing of each other: in any order of events, each
 * shard applies each step once and with enough trainers, and no trainer waits for ever.  The
 * trainers are the test's; they follow shard_steps_least and shard_steps_next, as sync.c does. */
#include "runtime/train/ps/shard/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/train/ps/glog.h"
#include "runtime/train/rpc/wire.h"

enum { TRAINERS = 4, SHARDS = 3, STEPS = 12, WORLDS = 20000, EVENTS_MAX = 20000 };

/* A trainer's connection to one shard. */
struct way {
    struct rpc_stream stream; /* must be first */
    uint64_t number;          /* of its last request */
    uint64_t last;            /* the last STEP that reached the shard */
    bool unsent, asked;       /* the STEP is in flight to the shard; it has no answer yet */
    bool over;                /* the shard knows that the trainer makes no more steps */
    uint64_t *least;          /* of the trainer */
};

struct trainer {
    struct way ways[SHARDS];
    uint64_t incarnation, step, saying; /* saying: 0: nothing */
    uint64_t until;                     /* it has data up to this step */
    uint64_t least;
    bool lost, finished;
    unsigned pace; /* one of so many turns is its own */
};

struct shard {
    struct shard_tables tables;
    struct shard_dedup lives[TRAINERS];
    struct shard_steps *steps;
};

struct world {
    uint64_t rng, seed;
    uint32_t n, k, backup;
    struct trainer all[TRAINERS];
    struct shard shards[SHARDS];
};

/* Instead of the one that writes: a line for each late trainer of each world. */
void ps_log(char level, const char *file, int line, const char *fmt, ...) {
    (void)level;
    (void)file;
    (void)line;
    (void)fmt;
}

static uint32_t draw(struct world *w, uint32_t n) {
    w->rng = w->rng * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(w->rng >> 33) % n;
}

/* ---- streams ---- */

static int take_answer(struct rpc_stream *s, struct rpc_frame *f_own, struct co_err *err) {
    struct way *y = (struct way *)s;
    (void)err;
    assert_int_equal(RPC_FRAME_STEP | RPC_FRAME_ANSWER, f_own->head.kind);
    assert_true(y->asked && f_own->head.aux >= y->last);
    y->asked = false;
    *y->least = shard_steps_least(*y->least, f_own->head.aux);
    rpc_frame_free(f_own);
    return 0;
}

/* An answer to NO_MORE has any step. */
static int take_last_answer(struct rpc_stream *s, struct rpc_frame *f_own, struct co_err *err) {
    struct way *y = (struct way *)s;
    (void)err;
    assert_int_equal(RPC_FRAME_STEP | RPC_FRAME_ANSWER, f_own->head.kind);
    y->asked = false;
    rpc_frame_free(f_own);
    return 0;
}

static void keep(struct rpc_stream *s) {
    (void)s;
}

static const struct rpc_stream_ops step_ops = {.send = take_answer, .free = keep};
static const struct rpc_stream_ops last_ops = {.send = take_last_answer, .free = keep};

/* ---- the shards ---- */

static void begin_life(struct world *w, uint32_t i, bool first) {
    struct trainer *t = &w->all[i];
    t->incarnation++;
    t->saying = 0;
    t->lost = false;
    t->step = UINT64_MAX;
    for (uint32_t k = 0; k < w->k; k++) {
        t->step = shard_steps_least(t->step, shard_steps_done(w->shards[k].steps));
    }
    for (uint32_t k = 0; k < w->k; k++) {
        struct shard *s = &w->shards[k];
        t->ways[k] = (struct way){.least = &t->least, .last = t->ways[k].last};
        rpc_stream_init(&t->ways[k].stream, &step_ops, "a trainer");
        if (!first) {
            shard_steps_restart(s->steps, i);
        }
        shard_dedup_begin(&s->lives[i], t->incarnation, t->step);
    }
}

static uint32_t count_over(const struct world *w, uint32_t k) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        n += w->all[i].ways[k].over;
    }
    return n;
}

/* Every step that a shard has applied just now had enough trainers. */
static void check_applied(const struct world *w, uint32_t k, uint64_t before) {
    uint64_t done = shard_steps_done(w->shards[k].steps);
    uint32_t training = w->n - count_over(w, k);
    for (uint64_t step = before + 1; step <= done; step++) {
        uint32_t here = 0;
        for (uint32_t i = 0; i < w->n; i++) {
            here += w->all[i].ways[k].last == step && !w->all[i].ways[k].over;
        }
        if (here < (training > w->backup ? training - w->backup : 1)) {
            fail_msg("seed %llu: shard %u applied step %llu with %u trainers of %u",
                (unsigned long long)w->seed, k, (unsigned long long)step, here, training);
        }
    }
    for (uint32_t i = 0; i < w->k; i++) {
        uint64_t other = shard_steps_done(w->shards[i].steps);
        assert_true(other + 1 >= done && other <= done + 1);
    }
}

static void deliver(struct world *w, uint32_t i, uint32_t k) {
    struct trainer *t = &w->all[i];
    struct way *y = &t->ways[k];
    struct rpc_frame *f = NULL;
    uint64_t before = shard_steps_done(w->shards[k].steps);
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_STEP, 0, &f, NULL));
    f->head.aux = t->saying;
    f->head.number = y->number;
    f->from = &y->stream;
    y->unsent = false;
    y->asked = true;
    y->over = t->saying == RPC_STEP_NO_MORE;
    y->last = y->over ? y->last : t->saying;
    y->stream.ops = y->over ? &last_ops : &step_ops;
    shard_steps_say(w->shards[k].steps, i, f);
    rpc_frame_free(f);
    check_applied(w, k, before);
}

/* ---- the trainers ---- */

static bool is_waiting(const struct world *w, const struct trainer *t) {
    bool any = false;
    for (uint32_t k = 0; k < w->k; k++) {
        any = any || t->ways[k].unsent || t->ways[k].asked;
    }
    return any;
}

/* All shards have answered: the next STEP, or the end. */
static void end_step(struct world *w, uint32_t i) {
    struct trainer *t = &w->all[i];
    t->finished = t->saying == RPC_STEP_NO_MORE;
    if (t->finished) {
        return;
    }
    t->step = t->saying ? shard_steps_next(t->step, t->least) : t->step;
    t->saying = t->step < t->until ? t->step + 1 : RPC_STEP_NO_MORE;
    t->least = UINT64_MAX;
    for (uint32_t k = 0; k < w->k; k++) {
        t->ways[k].unsent = true;
        t->ways[k].number++;
    }
}

/* The connection broke: what has no answer is sent again, with the same number. */
static void break_way(struct world *w, uint32_t i, uint32_t k) {
    struct way *y = &w->all[i].ways[k];
    shard_steps_left(w->shards[k].steps, i, &y->stream);
    y->unsent = y->unsent || y->asked;
    y->asked = false;
}

static void kill_trainer(struct world *w, uint32_t i) {
    w->all[i].lost = true;
    for (uint32_t k = 0; k < w->k; k++) {
        break_way(w, i, k);
    }
}

static uint32_t count_lost(const struct world *w) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        n += w->all[i].lost;
    }
    return n;
}

/* Something that a job has to stand. */
static void hurt(struct world *w) {
    uint32_t i = draw(w, w->n);
    struct trainer *t = &w->all[i];
    if (t->finished) {
        return;
    }
    if (t->lost) {
        begin_life(w, i, false);
    } else if (draw(w, 3) == 0 && count_lost(w) < w->backup) {
        kill_trainer(w, i);
    } else if (draw(w, 3) == 0) { /* killed and back at once */
        kill_trainer(w, i);
        begin_life(w, i, false);
    } else {
        break_way(w, i, draw(w, w->k));
    }
}

/* Lets something happen that a trainer which is not lost can do.  False: there is nothing. */
static bool do_one(struct world *w) {
    struct {
        uint32_t i, k;
    } all[TRAINERS * (SHARDS + 1)];
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct trainer *t = &w->all[i];
        bool idle = !t->lost && !t->finished && !is_waiting(w, t);
        for (uint32_t k = 0; k < w->k && !t->lost; k++) {
            all[n].i = i;
            all[n].k = k;
            n += t->ways[k].unsent;
        }
        all[n].i = i;
        all[n].k = SHARDS;
        n += idle;
    }
    if (n == 0) {
        return false;
    }
    uint32_t at = draw(w, n), i = all[at].i;
    if (draw(w, w->all[i].pace) > 0 && n > 1) {
        return true; /* it takes its time */
    }
    if (all[at].k == SHARDS) {
        end_step(w, i);
    } else {
        deliver(w, i, all[at].k);
    }
    return true;
}

/* ---- a world ---- */

static void start(struct world *w, uint64_t seed) {
    *w = (struct world){.rng = seed * 0x9E3779B97F4A7C15U, .seed = seed};
    w->n = 1 + draw(w, TRAINERS);
    w->k = 1 + draw(w, SHARDS);
    w->backup = draw(w, w->n < 3 ? w->n : 3);
    for (uint32_t k = 0; k < w->k; k++) {
        struct shard *s = &w->shards[k];
        s->tables.config =
            (struct shard_config){.trainers = w->n, .backup = w->backup, .mode = RT_SYNC};
        s->steps = shard_steps_new(&s->tables, s->lives);
    }
    for (uint32_t i = 0; i < w->n; i++) {
        w->all[i].until = draw(w, STEPS);
        w->all[i].pace = draw(w, 4) == 0 ? 50 : 1 + draw(w, 3);
        begin_life(w, i, true);
    }
}

static void any_order_of_events_ends_well(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        static struct world w;
        start(&w, seed);
        uint32_t events = 0, hurts = draw(&w, 2) ? 0 : draw(&w, 12);
        while (do_one(&w)) {
            assert_true(++events < EVENTS_MAX);
            if (hurts > 0 && draw(&w, 8) == 0) {
                hurts--;
                hurt(&w);
            }
        }
        for (uint32_t i = 0; i < w.n; i++) {
            if (!w.all[i].lost && !w.all[i].finished) {
                fail_msg("seed %llu: trainer %u of %u, %u backups, %u shards, waits in step %llu",
                    (unsigned long long)seed, i, w.n, w.backup, w.k,
                    (unsigned long long)w.all[i].saying);
            }
        }
        for (uint32_t k = 0; k < w.k; k++) {
            shard_steps_free(w.shards[k].steps);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_events_ends_well),
    };
    return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
