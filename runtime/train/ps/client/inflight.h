/* The requests to one server: their queues, numbers and windows.  And the slots by which answers
 * find their requests.  No locks: the owner has one.
 *
 *     line.queue:  [again] [again] [queued] [queued] ...       waiting, the next one first
 *     line.sent:   [sent] <-> [sent] <-> ...                   in flight, the oldest first */
#pragma once

#include "runtime/train/ps/client/call.h"

/* The parts for one shard of a server, or for the server itself.  They keep their order. */
struct psc_line {
    struct psc_part *queue, **queue_end; /* parts that wait */
    struct psc_part *sent, *sent_last;   /* parts without an answer yet */
    size_t bytes;                        /* of sent parts and of their answers */
    uint64_t number;                     /* the last request number given out */
};

struct psc_inflight {
    struct psc_line control; /* control messages */
    struct psc_line *lines;  /* [shards] owned; NULL: the server never said how many it has */
    uint32_t shards;
    uint32_t queued;  /* waiting parts of all lines */
    uint32_t repeats; /* parts that had no answer when the link was lost, and still have none */
    size_t window;    /* bytes of requests and answers in flight; each line has its share */
};

void psc_inflight_init(struct psc_inflight *f);
void psc_inflight_done(struct psc_inflight *f);
/* The server has so many shards, and numbers begin again. */
void psc_inflight_begin(struct psc_inflight *f, uint32_t shards);
/* i = shards, or any larger number: the control line. */
struct psc_line *psc_inflight_line(struct psc_inflight *f, uint32_t i);

void psc_inflight_queue_first(struct psc_inflight *f, struct psc_part *p);
void psc_inflight_queue_last(struct psc_inflight *f, struct psc_part *p);
/* Queues a part before all that were never sent, but after those that are sent again: these have
 * smaller numbers. */
void psc_inflight_queue_next(struct psc_inflight *f, struct psc_part *p);
/* Takes the first part of a line, which has one. */
struct psc_part *psc_inflight_unqueue(struct psc_inflight *f, struct psc_line *line);
/* Takes the parts that `pick` wants out of all queues.  The result is linked by next. */
typedef bool (*psc_pick_fn)(const struct psc_part *p, const void *arg);
struct psc_part *psc_inflight_unqueue_all(
    struct psc_inflight *f, psc_pick_fn pick, const void *arg);

/* Whether the window has room for a part.  A part that is sent again has kept its room.  An empty
 * window takes a part of any size. */
bool psc_inflight_has_room(struct psc_inflight *f, const struct psc_part *p);
/* Gives a part its number and its room; takes the room back. */
void psc_inflight_admit(struct psc_inflight *f, struct psc_part *p);
void psc_inflight_release(struct psc_inflight *f, const struct psc_part *p);
/* The part is sent; it is answered, or goes back to a queue. */
void psc_inflight_sent(struct psc_inflight *f, struct psc_part *p);
void psc_inflight_unsent(struct psc_inflight *f, struct psc_part *p);

struct psc_slots {
    struct psc_part **parts; /* [n]; NULL: free */
    uint32_t *generation;    /* [n] upper half of seq */
    uint32_t n, used;
};

/* Also sets seq in the head of the part's frame. */
void psc_slots_take(struct psc_slots *s, struct psc_part *p);
void psc_slots_give(struct psc_slots *s, const struct psc_part *p);
/* NULL: the request was given up, or never made. */
struct psc_part *psc_slots_find(const struct psc_slots *s, uint64_t seq);
void psc_slots_done(struct psc_slots *s);
