/* The states of parts, from the queue to their end:
 *
 *     QUEUED <--> MAKING --> SENT --> TAKING --> DONE
 *                            ^  v
 *                            AGAIN       from all of these: --> DONE
 *
 * The links' lock is held. */
#include <assert.h>

#include "runtime/train/ps/client/link_internal.h"

bool psc_part_is_busy(const struct psc_part *p) {
    return p->state == PSC_PART_MAKING || p->state == PSC_PART_TAKING;
}

/* A bit for each state that may follow. */
static const unsigned next_states[] = {
    [PSC_PART_QUEUED] = 1U << PSC_PART_MAKING | 1U << PSC_PART_DONE,
    [PSC_PART_MAKING] = 1U << PSC_PART_QUEUED | 1U << PSC_PART_SENT | 1U << PSC_PART_DONE,
    [PSC_PART_SENT] = 1U << PSC_PART_AGAIN | 1U << PSC_PART_TAKING | 1U << PSC_PART_DONE,
    [PSC_PART_AGAIN] = 1U << PSC_PART_SENT | 1U << PSC_PART_DONE,
    [PSC_PART_TAKING] = 1U << PSC_PART_DONE,
    [PSC_PART_DONE] = 0,
};

void psc_part_set(struct rt_client *c, struct psc_part *p, enum psc_part_state state) {
    assert(next_states[p->state] & 1U << state);
    bool ends = psc_part_is_busy(p) || state == PSC_PART_DONE;
    p->state = state;
    if (ends && c->links->awaiting > 0) {
        psc_client_changed(c);
    }
}

static struct psc_inflight *inflight_of(struct rt_client *c, const struct psc_part *p) {
    return &c->links->at[p->server].inflight;
}

void psc_part_made(struct rt_client *c, struct rt_call *call) {
    if (--call->unsent == 0 && call->ret_sent) {
        *call->ret_sent = true;
        psc_client_changed(c);
    }
}

void psc_part_over(struct rt_client *c, struct psc_part *p) {
    struct psc_links *k = c->links;
    struct rt_call *call = p->call;
    if (p->state == PSC_PART_SENT) {
        psc_inflight_unsent(inflight_of(c, p), p);
    }
    if (p->state == PSC_PART_SENT || p->state == PSC_PART_TAKING || p->state == PSC_PART_AGAIN) {
        psc_slots_give(&k->slots, p);
        psc_inflight_release(inflight_of(c, p), p);
    } else {
        psc_part_made(c, call);
    }
    inflight_of(c, p)->repeats -= p->repeated;
    p->repeated = false;
    psc_part_set(c, p, PSC_PART_DONE);
    k->moved_ms = call->moved_ms = psc_client_time(c);
    if (--call->left > 0) {
        return;
    }
    psc_client_changed(c);
    if (call->done) {
        k->detached--;
        call->next = k->over;
        k->over = call;
    }
}

void psc_part_end(struct rt_client *c, struct psc_part *p, const struct co_err *why) {
    if (!p->call->err.code) {
        p->call->err = *why;
    }
    psc_part_over(c, p);
}

static bool is_any(const struct psc_part *p, const void *arg) {
    (void)p;
    (void)arg;
    return true;
}

static bool is_greeting(const struct psc_part *p, const void *arg) {
    (void)arg;
    return p->call->greets;
}

/* Ends the picked parts of a link, queued or sent, with *why. */
static void end_parts(struct psc_link *l, psc_pick_fn pick, const struct co_err *why) {
    struct psc_part *p = psc_inflight_unqueue_all(&l->inflight, pick, NULL);
    for (struct psc_part *next; p; p = next) {
        next = p->next;
        psc_part_end(l->c, p, why);
    }
    for (uint32_t i = 0; i <= l->inflight.shards; i++) {
        p = psc_inflight_line(&l->inflight, i)->sent;
        for (struct psc_part *next; p; p = next) {
            next = p->next;
            if (pick(p, NULL)) {
                psc_part_end(l->c, p, why);
            }
        }
    }
    psc_client_changed(l->c);
}

void psc_parts_end_all(struct psc_link *l, const struct co_err *why) {
    end_parts(l, is_any, why);
}

uint32_t psc_calls_requeue(struct psc_link *l, const struct co_err *why) {
    end_parts(l, is_greeting, why);
    uint32_t n = 0;
    for (uint32_t i = 0; i <= l->inflight.shards; i++) {
        struct psc_line *line = psc_inflight_line(&l->inflight, i);
        for (struct psc_part *p = line->sent_last; p; p = line->sent_last, n++) {
            psc_inflight_unsent(&l->inflight, p);
            psc_part_set(l->c, p, PSC_PART_AGAIN);
            l->inflight.repeats += !p->repeated;
            p->repeated = true;
            psc_inflight_queue_first(&l->inflight, p);
        }
    }
    return n;
}
