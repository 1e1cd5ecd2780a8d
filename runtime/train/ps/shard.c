#include "runtime/train/ps/shard.h"

#include <pthread.h>
#include <string.h>

#include "runtime/train/ps/shard_tables.h"

/* A trainer that has said STEP and waits for the others. */
struct parked {
    struct rt_stream *stream; /* counted; NULL: not waiting */
    struct rt_frame_head head;
};

struct item {
    struct rt_frame *frame; /* NULL: what follows */
    uint32_t trainer;
    enum { FINISHED, LEFT } note;
};

struct rt_shard {
    struct rt_shard_tables tables; /* the shard's thread, after start */
    uint64_t step;                 /* steps completed */
    struct parked *parked;         /* by trainer */
    bool *finished;                /* by trainer */
    pthread_t thread;

    pthread_mutex_t m; /* guards what follows */
    pthread_cond_t changed;
    struct item *queue; /* swapped with the thread's own array */
    size_t n, cap;
    bool stopping;
};

static void send_answer(
    struct rt_stream *s, const struct rt_frame_head *h, struct rt_frame *a_own) {
    if (!a_own && rt_frame_new(h->kind | RT_FRAME_ANSWER, 0, &a_own, NULL) < 0) {
        rt_stream_cancel(s);
        return;
    }
    a_own->head.seq = h->seq;
    a_own->head.table = h->table;
    a_own->head.shard = h->shard;
    (void)!rt_stream_send(s, a_own, NULL); /* a closed stream is noticed where it is read */
}

static void send_refusal(
    struct rt_stream *s, const struct rt_frame_head *h, const struct co_err *err) {
    (void)!rt_stream_send(s, rt_frame_error(h, err->code, co_err_text(err)), NULL);
}

static void release_parked(struct parked *p, const struct co_err *err) {
    if (err->code) {
        send_refusal(p->stream, &p->head, err);
    } else {
        send_answer(p->stream, &p->head, NULL);
    }
    rt_stream_unref(p->stream);
    p->stream = NULL;
}

/* Applies the step when nobody is missing. */
static void try_step(struct rt_shard *s) {
    uint32_t here = 0;
    for (uint32_t i = 0; i < s->tables.config.trainers; i++) {
        here += s->parked[i].stream != NULL;
        if (!s->parked[i].stream && !s->finished[i]) {
            return;
        }
    }
    if (here == 0) {
        return;
    }
    struct co_err err = {0};
    (void)!rt_shard_tables_step(&s->tables, here, &err);
    s->step++;
    for (uint32_t i = 0; i < s->tables.config.trainers; i++) {
        if (s->parked[i].stream) {
            release_parked(&s->parked[i], &err);
        }
    }
}

static void do_step(struct rt_shard *s, uint32_t trainer, const struct rt_frame *f) {
    struct co_err err = {0};
    struct rt_stream *stream = rt_frame_stream(f);
    if (s->tables.config.mode != RT_SYNC) {
        co_err_set(&err, CO_INVALID, "step: this job is asynchronous");
    } else if (s->parked[trainer].stream || s->finished[trainer] || f->head.aux != s->step + 1) {
        co_err_set(&err, CO_INVALID, "trainer %u says step %llu, this server is at %llu", trainer,
            (unsigned long long)f->head.aux, (unsigned long long)s->step + 1);
    }
    if (err.code) {
        send_refusal(stream, &f->head, &err);
        return;
    }
    /* The frame itself is given back: a waiting trainer must not hold its window. */
    s->parked[trainer] = (struct parked){rt_stream_ref(stream), f->head};
    try_step(s);
}

static void handle_item(struct rt_shard *s, const struct item *it) {
    struct rt_frame *f = it->frame;
    if (!f && it->note == LEFT) {
        struct parked *p = &s->parked[it->trainer];
        if (p->stream) {
            rt_stream_unref(p->stream);
            p->stream = NULL;
        }
        return;
    }
    if (!f) {
        s->finished[it->trainer] = true;
        try_step(s);
        return;
    }
    if (f->head.kind == RT_FRAME_STEP) {
        do_step(s, it->trainer, f);
    } else {
        struct co_err err = {0};
        struct rt_frame *a = NULL;
        if (rt_shard_tables_do(&s->tables, it->trainer, f, &a, &err) < 0) {
            rt_frame_free(a);
            send_refusal(rt_frame_stream(f), &f->head, &err);
        } else {
            send_answer(rt_frame_stream(f), &f->head, a);
        }
    }
    rt_frame_free(f);
}

static void drop_items(struct item *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        rt_frame_free(items[i].frame);
    }
}

static void *run_shard(void *arg) {
    struct rt_shard *s = arg;
    struct item *mine = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        pthread_mutex_lock(&s->m);
        while (s->n == 0 && !s->stopping) {
            pthread_cond_wait(&s->changed, &s->m);
        }
        bool stop = s->stopping;
        struct item *swap = s->queue;
        size_t swap_cap = s->cap;
        n = s->n;
        s->queue = mine;
        s->cap = cap;
        s->n = 0;
        pthread_mutex_unlock(&s->m);
        mine = swap;
        cap = swap_cap;
        if (stop) {
            drop_items(mine, n);
            free(mine);
            return NULL;
        }
        for (size_t i = 0; i < n; i++) {
            handle_item(s, &mine[i]);
        }
    }
}

static void post_item(struct rt_shard *s, struct item it) {
    pthread_mutex_lock(&s->m);
    if (s->stopping) {
        pthread_mutex_unlock(&s->m);
        rt_frame_free(it.frame);
        return;
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 64;
        s->queue = co_xrealloc(s->queue, s->cap, sizeof(*s->queue));
    }
    s->queue[s->n++] = it;
    if (s->n == 1) {
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->m);
}

void rt_shard_post(struct rt_shard *s, uint32_t trainer, struct rt_frame *f_own) {
    post_item(s, (struct item){.frame = f_own, .trainer = trainer});
}

void rt_shard_finished(struct rt_shard *s, uint32_t trainer) {
    post_item(s, (struct item){.trainer = trainer, .note = FINISHED});
}

void rt_shard_left(struct rt_shard *s, uint32_t trainer) {
    post_item(s, (struct item){.trainer = trainer, .note = LEFT});
}

static void shard_free(struct rt_shard *s) {
    rt_shard_tables_done(&s->tables);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->m);
    free(s->queue);
    free(s->parked);
    free(s->finished);
    free(s);
}

int rt_shard_start(
    const struct rt_shard_config *config, struct rt_shard **ret, struct co_err *err) {
    struct rt_shard *s = co_xcalloc(1, sizeof(*s));
    pthread_mutex_init(&s->m, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->parked = co_xcalloc(config->trainers, sizeof(*s->parked));
    s->finished = co_xcalloc(config->trainers, sizeof(*s->finished));
    int rc = rt_shard_tables_init(&s->tables, config, err);
    if (rc == 0) {
        int e = pthread_create(&s->thread, NULL, run_shard, s);
        rc = e ? co_err_errno(err, e, "cannot start a shard thread") : 0;
    }
    if (rc < 0) {
        shard_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void rt_shard_stop(struct rt_shard *s) {
    if (!s) {
        return;
    }
    pthread_mutex_lock(&s->m);
    s->stopping = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->m);
    pthread_join(s->thread, NULL);
    for (uint32_t i = 0; i < s->tables.config.trainers; i++) {
        if (s->parked[i].stream) {
            rt_stream_unref(s->parked[i].stream);
        }
    }
    shard_free(s);
}
