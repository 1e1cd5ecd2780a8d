/* Checkpoints that the options ask for: they begin in rt_step, and a thread of their own waits for
 * the parts and commits.  And who may make or restore one: one thread at a time. */
#include <inttypes.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/checkpoint_internal.h"
#include "runtime/train/ps/glog.h"

void psc_saving_take(struct psc_saving *sv) {
    pthread_mutex_lock(&sv->m);
    while (sv->busy) {
        /* no deadline: whoever is busy waits for servers, at most PSC_PART_MS a call */
        pthread_cond_wait(&sv->changed, &sv->m);
    }
    sv->busy = true;
    pthread_mutex_unlock(&sv->m);
}

bool psc_saving_try(struct psc_saving *sv) {
    pthread_mutex_lock(&sv->m);
    bool free = !sv->busy;
    sv->busy = true;
    pthread_mutex_unlock(&sv->m);
    return free;
}

void psc_saving_give(struct psc_saving *sv) {
    pthread_mutex_lock(&sv->m);
    sv->busy = false;
    pthread_cond_broadcast(&sv->changed);
    pthread_mutex_unlock(&sv->m);
}

/* ---- when one is due ---- */

CO_DEFINE_CLEANUP(struct psc_checkpoint_attempt *, psc_attempt_free)

static void *await_checkpoint(void *arg) {
    CO_CLEANUP(psc_attempt_freep) struct psc_checkpoint_attempt *a = arg;
    struct psc_saving *sv = a->c->saving;
    struct rt_checkpoint made = {0};
    struct co_err err = {0};
    int rc = psc_checkpoint_finish(a, &made, &err);
    if (rc == 0) {
        ps_log_info("checkpoint %" PRIu64 " (%s, step %" PRIu64 ", %.1f MB) in \"%s\" after %.1f s",
            made.number, made.full ? "full" : "delta", made.step, (double)made.bytes / 1e6, sv->dir,
            (double)(co_now_ms() - a->begin_ms) / 1000);
    } else if (psc_checkpoint_for_full(a, rc)) {
        if (rc != CO_CONFLICT) {
            ps_log_warn("%s; a full one is made at the next step", co_err_text(&err));
        }
        sv->last = 0;
        atomic_store(&sv->again, true);
    } else {
        ps_log_warn("%s; training continues", co_err_text(&err));
    }
    psc_saving_give(sv);
    return NULL;
}

static void join_thread(struct psc_saving *sv) {
    if (sv->threaded) {
        /* no deadline: its calls end within PSC_PART_MS, or with the client */
        pthread_join(sv->thread, NULL);
        sv->threaded = false;
    }
}

static int begin_own(struct rt_client *c, struct psc_checkpoint_attempt **ret, struct co_err *err) {
    const struct rt_checkpoint_options o = {
        .deltas = c->options.checkpoint_deltas, .keep = c->options.checkpoint_keep};
    CO_TRY(psc_checkpoint_learn(c, c->options.checkpoint_dir, err));
    CO_TRY(psc_checkpoint_check(c, &o, err));
    return psc_checkpoint_begin(c, &o, ret, err);
}

static void start(struct rt_client *c) {
    struct psc_saving *sv = c->saving;
    struct psc_checkpoint_attempt *a = NULL;
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
        rc = psc_checkpoint_finish(a, &made, &err);
        psc_attempt_free(a);
    }
    if (rc < 0) {
        ps_log_warn("%s; training continues", co_err_text(&err));
    }
    psc_saving_give(sv);
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
    if (due && psc_saving_try(sv)) {
        atomic_store(&sv->again, false);
        sv->due_steps = sv->steps + o->checkpoint_steps;
        sv->due_ms = co_now_ms() + o->checkpoint_ms;
        start(c);
    }
}

/* Async: nothing to do.  Steps are counted by sv->steps, which counts on whatever servers
 * restore. */
void psc_saving_joined(struct rt_client *c) {
    if (c->options.mode == RT_SYNC) {
        c->saving->origin = c->progress.origin;
    }
}

void psc_saving_loaded(struct rt_client *c) {
    atomic_store(&c->saving->again, true);
}

void psc_saving_wait(struct rt_client *c) {
    psc_saving_take(c->saving);
    psc_saving_give(c->saving);
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
