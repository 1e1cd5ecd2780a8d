/* Queues, numbers, windows and slots of requests.  See inflight.h. */
#include "runtime/train/ps/client/inflight.h"

#include "common/mem.h"

/* Bytes that a part counts in the window besides its payloads; this bounds the slots in use. */
enum { PART_WEIGHT = 64 };

/* ---- queues ---- */

static void init_line(struct psc_line *line) {
    *line = (struct psc_line){0};
    line->queue_end = &line->queue;
}

void psc_inflight_init(struct psc_inflight *f) {
    *f = (struct psc_inflight){0};
    init_line(&f->control);
}

void psc_inflight_done(struct psc_inflight *f) {
    free(f->lines);
}

void psc_inflight_begin(struct psc_inflight *f, uint32_t shards) {
    if (!f->lines || shards != f->shards) {
        free(f->lines);
        f->lines = co_xcalloc(shards, sizeof(*f->lines));
        f->shards = shards;
        for (uint32_t i = 0; i < shards; i++) {
            init_line(&f->lines[i]);
        }
    }
    for (uint32_t i = 0; i < shards; i++) {
        f->lines[i].number = 0;
    }
}

struct psc_line *psc_inflight_line(struct psc_inflight *f, uint32_t i) {
    return i < f->shards ? &f->lines[i] : &f->control;
}

static struct psc_line *line_of(struct psc_inflight *f, const struct psc_part *p) {
    return psc_inflight_line(f, p->head.kind == RPC_FRAME_CONTROL ? UINT32_MAX : p->head.shard);
}

static void queue_at(
    struct psc_inflight *f, struct psc_line *line, struct psc_part **at, struct psc_part *p) {
    p->next = *at;
    *at = p;
    if (!p->next) {
        line->queue_end = &p->next;
    }
    f->queued++;
}

void psc_inflight_queue_first(struct psc_inflight *f, struct psc_part *p) {
    struct psc_line *line = line_of(f, p);
    queue_at(f, line, &line->queue, p);
}

void psc_inflight_queue_last(struct psc_inflight *f, struct psc_part *p) {
    struct psc_line *line = line_of(f, p);
    queue_at(f, line, line->queue_end, p);
}

void psc_inflight_queue_next(struct psc_inflight *f, struct psc_part *p) {
    struct psc_line *line = line_of(f, p);
    struct psc_part **at = &line->queue;
    while (*at && (*at)->state == PSC_PART_AGAIN && !p->call->greets) {
        at = &(*at)->next;
    }
    queue_at(f, line, at, p);
}

struct psc_part *psc_inflight_unqueue(struct psc_inflight *f, struct psc_line *line) {
    struct psc_part *p = line->queue;
    line->queue = p->next;
    if (!line->queue) {
        line->queue_end = &line->queue;
    }
    f->queued--;
    return p;
}

struct psc_part *psc_inflight_unqueue_all(
    struct psc_inflight *f, psc_pick_fn pick, const void *arg) {
    struct psc_part *taken = NULL;
    for (uint32_t i = 0; i <= f->shards && f->queued > 0; i++) {
        struct psc_line *line = psc_inflight_line(f, i);
        struct psc_part **at = &line->queue;
        while (*at) {
            struct psc_part *p = *at;
            if (!pick(p, arg)) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            p->next = taken;
            taken = p;
            f->queued--;
        }
        line->queue_end = at;
    }
    return taken;
}

/* ---- numbers and windows ---- */

static size_t weigh_part(const struct psc_part *p) {
    return (size_t)p->head.bytes + p->answer + PART_WEIGHT;
}

bool psc_inflight_has_room(struct psc_inflight *f, const struct psc_part *p) {
    size_t bytes = line_of(f, p)->bytes, share = f->window / (f->shards ? f->shards : 1);
    return p->state == PSC_PART_AGAIN || bytes == 0 || bytes + weigh_part(p) <= share;
}

void psc_inflight_admit(struct psc_inflight *f, struct psc_part *p) {
    struct psc_line *line = line_of(f, p);
    if (rpc_frame_changes(p->head.kind)) {
        p->frame->head.number = ++line->number;
    }
    line->bytes += weigh_part(p);
}

void psc_inflight_release(struct psc_inflight *f, const struct psc_part *p) {
    line_of(f, p)->bytes -= weigh_part(p);
}

void psc_inflight_sent(struct psc_inflight *f, struct psc_part *p) {
    struct psc_line *line = line_of(f, p);
    p->next = NULL;
    p->prev = line->sent_last;
    *(line->sent_last ? &line->sent_last->next : &line->sent) = p;
    line->sent_last = p;
}

void psc_inflight_unsent(struct psc_inflight *f, struct psc_part *p) {
    struct psc_line *line = line_of(f, p);
    *(p->prev ? &p->prev->next : &line->sent) = p->next;
    *(p->next ? &p->next->prev : &line->sent_last) = p->prev;
}

/* ---- slots ---- */

/* seq = how often the slot was used << 32 | slot.  So a late answer to a part that was given up is
 * not taken for the answer to the next part in the slot. */
void psc_slots_take(struct psc_slots *s, struct psc_part *p) {
    if (s->used == s->n) {
        uint32_t n = s->n ? s->n * 2 : 64;
        s->parts = co_xrealloc(s->parts, n, sizeof(struct psc_part *));
        s->generation = co_xrealloc(s->generation, n, sizeof(*s->generation));
        for (uint32_t i = s->n; i < n; i++) {
            s->parts[i] = NULL;
            s->generation[i] = 0;
        }
        s->n = n;
    }
    uint32_t i = s->used & (s->n - 1);
    while (s->parts[i]) {
        i = (i + 1) & (s->n - 1);
    }
    s->parts[i] = p;
    s->used++;
    p->slot = i;
    p->frame->head.seq = (uint64_t)++s->generation[i] << 32 | i;
}

void psc_slots_give(struct psc_slots *s, const struct psc_part *p) {
    s->parts[p->slot] = NULL;
    s->used--;
}

struct psc_part *psc_slots_find(const struct psc_slots *s, uint64_t seq) {
    uint32_t slot = (uint32_t)seq;
    return slot < s->n && s->generation[slot] == seq >> 32 ? s->parts[slot] : NULL;
}

void psc_slots_done(struct psc_slots *s) {
    free(s->parts);
    free(s->generation);
}
