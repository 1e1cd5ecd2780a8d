/* When a sync step is complete and how it is applied; step.h has the rules. */
#include "runtime/train/ps/shard/step.h"

#include <stdatomic.h>

#include "runtime/train/ps/glog.h"

struct step_member {
    bool waits;                         /* for the answer to a STEP */
    struct rpc_stream *stream;          /* where to answer; counted; NULL: the connection broke */
    struct rpc_frame_head head;         /* of the last STEP */
    struct rpc_frame *held, **held_end; /* with backups: pushes since the last STEP */
    bool finished, no_more;             /* makes no more steps: it ended, or is out of data */
    bool warned;                        /* that it was late */
};

struct shard_steps {
    struct shard_tables *tables;
    struct shard_dedup *lives;
    atomic_uint_least64_t step;  /* the last one that was applied */
    atomic_uint_least64_t *said; /* [n] by trainer */
    uint32_t n, backup;
    uint64_t answered;
    struct step_member *all; /* [n] by trainer */
};

struct shard_steps *shard_steps_new(struct shard_tables *tables, struct shard_dedup *lives) {
    struct shard_steps *s = co_xcalloc(1, sizeof(*s));
    s->tables = tables;
    s->n = tables->config.trainers;
    s->backup = tables->config.backup;
    s->lives = lives;
    s->said = co_xcalloc(s->n, sizeof(*s->said));
    s->all = co_xcalloc(s->n, sizeof(*s->all));
    for (uint32_t i = 0; i < s->n; i++) {
        s->all[i].held_end = &s->all[i].held;
    }
    return s;
}

void shard_steps_free(struct shard_steps *s) {
    for (uint32_t i = 0; s && i < s->n; i++) {
        shard_steps_restart(s, i);
    }
    if (s) {
        free(s->said);
        free(s->all);
        free(s);
    }
}

/* ---- held pushes ---- */

static size_t weigh_frame(const struct rpc_frame *f) {
    return f->room;
}

uint64_t shard_steps_done(const struct shard_steps *s) {
    return atomic_load(&s->step);
}

uint64_t shard_steps_said(const struct shard_steps *s, uint32_t trainer) {
    return atomic_load(&s->said[trainer]);
}

bool shard_steps_replay(const struct shard_steps *s) {
    return s->tables->config.mode == RT_SYNC && s->backup == 0;
}

int shard_steps_hold(
    struct shard_steps *s, uint32_t trainer, struct rpc_frame *f, struct co_err *err) {
    struct step_member *m = &s->all[trainer];
    bool push = f->head.kind == RPC_FRAME_PUSH_DENSE || f->head.kind == RPC_FRAME_PUSH_SPARSE ||
                f->head.kind == RPC_FRAME_PUSH_CLICKS;
    if (s->backup == 0 || !push || f->head.table >= s->tables->config.n_tables ||
        s->tables->tables[f->head.table].mode != RT_SYNC) {
        return 0;
    }
    int rc = table_budget_take(s->tables->config.budget, weigh_frame(f), err);
    if (rc < 0) {
        return co_err_wrap(err, "table \"%s\", gradients that wait for their step",
            s->tables->tables[f->head.table].table->name);
    }
    rpc_frame_detach(f);
    f->next = NULL;
    *m->held_end = rpc_frame_ref(f);
    m->held_end = &f->next;
    return 1;
}

static struct rpc_frame *take_held(struct shard_steps *s, struct step_member *m) {
    struct rpc_frame *f = m->held;
    if (f) {
        m->held = f->next;
        m->held_end = m->held ? m->held_end : &m->held;
        table_budget_give(s->tables->config.budget, weigh_frame(f));
    }
    return f;
}

static void drop_held(struct shard_steps *s, struct step_member *m, bool count) {
    for (struct rpc_frame *f; (f = take_held(s, m));) {
        s->tables->tables[f->head.table].late += count ? f->head.count : 0;
        rpc_frame_free(f);
    }
}

/* Adds all held pushes of the trainer to the sums, and returns the first error. */
static int add_held(struct shard_steps *s, uint32_t trainer, struct co_err *err) {
    int rc = 0;
    for (struct rpc_frame *f; (f = take_held(s, &s->all[trainer]));) {
        struct rpc_frame *a = NULL;
        struct co_err why = {0};
        int did = shard_tables_do(s->tables, trainer, f, &a, &why);
        if (did < 0 && rc == 0) {
            rc = co_err_set(err, did, "%s", why.msg);
        }
        rpc_frame_free(a);
        rpc_frame_free(f);
    }
    return rc;
}

/* ---- steps ---- */

static void drop_stream(struct step_member *m) {
    if (m->stream) {
        rpc_stream_unref(m->stream);
        m->stream = NULL;
    }
}

/* The answer has the shard's current step: with backups that may be later than the trainer's. */
static void answer_step(struct shard_steps *s, struct step_member *m, const struct co_err *err) {
    struct rpc_frame *a = NULL;
    m->waits = false;
    s->answered++;
    if (!m->stream) { /* the trainer reconnects and sends its STEP again */
        return;
    }
    if (err->code) {
        shard_refuse(m->stream, &m->head, err);
    } else {
        if (rpc_frame_new(RPC_FRAME_STEP | RPC_FRAME_ANSWER, 0, &a, NULL) == 0) {
            a->head.aux = s->step;
        }
        shard_answer(m->stream, &m->head, a);
    }
    drop_stream(m);
}

bool shard_steps_early(const struct shard_steps *s, uint32_t trainer, const struct rpc_frame *f) {
    const struct step_member *m = &s->all[trainer];
    return f->head.kind == RPC_FRAME_PULL_DENSE && f->head.number > s->step && m->waits &&
           f->head.number == m->head.aux;
}

uint64_t shard_steps_answered(const struct shard_steps *s) {
    return s->answered;
}

static bool is_over(const struct step_member *m) {
    return m->finished || m->no_more;
}

/* Has sent STEP for the step that is to be applied next. */
static bool is_here(const struct shard_steps *s, const struct step_member *m) {
    return m->waits && m->head.aux == s->step + 1;
}

static void apply_step(struct shard_steps *s) {
    struct co_err err[2] = {{0}, {0}};
    uint32_t here = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        here += is_here(s, &s->all[i]);
    }
    /* The mean divides by all trainers that are here, even if a push of one of them was refused. */
    for (uint32_t i = 0; i < s->n; i++) {
        err[1].code = 0;
        if (is_here(s, &s->all[i]) && add_held(s, i, &err[1]) < 0) {
            answer_step(s, &s->all[i], &err[1]);
        }
    }
    (void)!shard_tables_step(s->tables, here, &err[0]);
    atomic_fetch_add(&s->step, 1);
    for (uint32_t i = 0; i < s->n; i++) {
        shard_dedup_stepped(&s->lives[i]);
        if (s->all[i].waits && s->all[i].head.aux == s->step) {
            answer_step(s, &s->all[i], &err[0]);
        }
    }
}

/* Applies steps while enough trainers are here for the next one. */
static void try_step(struct shard_steps *s) {
    for (;;) {
        uint32_t here = 0, training = 0;
        for (uint32_t i = 0; i < s->n; i++) {
            here += is_here(s, &s->all[i]);
            training += !is_over(&s->all[i]);
        }
        uint32_t need = training > s->backup ? training - s->backup : 1;
        if (here == 0 || here < need) {
            return;
        }
        apply_step(s);
    }
}

/* STEP for a step that was applied without the trainer. */
static void come_late(struct shard_steps *s, uint32_t trainer) {
    struct step_member *m = &s->all[trainer];
    if (!m->warned) {
        m->warned = true;
        ps_log_warn("trainer %u was late for step %llu, its gradients are left out; more of it is "
                    "only counted",
            trainer, (unsigned long long)m->head.aux);
    }
    drop_held(s, m, true);
    answer_step(s, m, &(struct co_err){0});
}

/* Whether the trainer may send STEP for that step now. */
static int check_step(
    const struct shard_steps *s, uint32_t trainer, uint64_t step, struct co_err *err) {
    uint64_t last = s->lives[trainer].step;
    bool fits = step == RPC_STEP_NO_MORE || (s->backup > 0 ? step > last : step == last + 1);
    if (!is_over(&s->all[trainer]) && fits) {
        return 0;
    }
    return co_err_set(err, CO_INVALID, "trainer %u says step %llu, this server is at %llu", trainer,
        (unsigned long long)step, (unsigned long long)s->step + 1);
}

/* A STEP may come twice: again on a new connection, or from the restarted trainer. */
static int judge_step(
    struct shard_steps *s, uint32_t trainer, const struct rpc_frame_head *h, struct co_err *err) {
    struct shard_dedup *dedup = &s->lives[trainer];
    if (s->tables->config.mode != RT_SYNC) {
        return co_err_set(err, CO_INVALID, "step: this job is not in sync mode");
    }
    int change = shard_dedup_check(dedup, h, shard_steps_replay(s), s->step, err);
    if (change != SHARD_DEDUP_RESULT_DO) {
        return change;
    }
    int rc = check_step(s, trainer, h->aux, err);
    if (rc < 0) {
        shard_dedup_refused(dedup, h, err);
        return rc;
    }
    atomic_store(&s->said[trainer], h->aux);
    dedup->step = h->aux == RPC_STEP_NO_MORE ? dedup->step : h->aux;
    return SHARD_DEDUP_RESULT_DO;
}

void shard_steps_say(struct shard_steps *s, uint32_t trainer, const struct rpc_frame *f) {
    struct step_member *m = &s->all[trainer];
    struct co_err err = {0};
    int change = judge_step(s, trainer, &f->head, &err);
    if (change < 0) {
        shard_refuse(rpc_frame_stream(f), &f->head, &err);
        return;
    }
    /* Keeps a copy of the head, not the frame: a waiting trainer must not hold its window. */
    drop_stream(m);
    m->stream = rpc_stream_ref(rpc_frame_stream(f));
    m->head = f->head;
    if (f->head.aux == RPC_STEP_NO_MORE) {
        drop_held(s, m, true);
        answer_step(s, m, &err);
        m->no_more = true;
        try_step(s);
    } else if (f->head.aux > s->step) {
        m->waits = true;
        try_step(s);
    } else if (change == SHARD_DEDUP_RESULT_DO && s->backup > 0) {
        come_late(s, trainer);
    } else {
        answer_step(s, m, &err);
    }
}

void shard_steps_finished(struct shard_steps *s, uint32_t trainer) {
    s->all[trainer].finished = true;
    try_step(s);
}

void shard_steps_left(struct shard_steps *s, uint32_t trainer, const struct rpc_stream *stream) {
    if (s->all[trainer].stream == stream) {
        drop_stream(&s->all[trainer]);
    }
}

void shard_steps_go_back(struct shard_steps *s, uint64_t step, const struct co_err *why) {
    for (uint32_t i = 0; i < s->n; i++) {
        struct step_member *m = &s->all[i];
        drop_held(s, m, false);
        if (m->waits) {
            answer_step(s, m, why);
        }
        drop_stream(m);
        m->no_more = false;
        atomic_store(&s->said[i], step);
    }
    atomic_store(&s->step, step);
}

void shard_steps_restart(struct shard_steps *s, uint32_t trainer) {
    struct step_member *m = &s->all[trainer];
    drop_stream(m);
    m->waits = m->waits && shard_steps_replay(s);
    s->answered += !m->waits;
    drop_held(s, m, false);
    if (m->no_more) { /* the new process may have data */
        m->no_more = false;
        atomic_store(&s->said[trainer], s->step);
    }
}
