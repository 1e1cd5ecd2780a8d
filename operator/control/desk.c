/* A semaphore counted in bytes for parsed jobs; see desk.h for its lines and their order. */
#include "operator/control/desk.h"

#include "common/mem.h"

struct ctl_desk_line {
    char *ns;                     /* owned */
    size_t used;                  /* bytes of seats that have them */
    size_t n;                     /* seats, those that wait included; freed at 0 */
    struct ctl_seat *head, **end; /* seats that wait, oldest first */
    struct ctl_desk_line *next;   /* in ctl_desk.first, only while a seat waits */
};

size_t ctl_desk_share(const struct ctl_desk *d) {
    return d->max / 2;
}

static void line_free(void *arg, const char *key, void *value) {
    struct ctl_desk_line *l = value;
    (void)arg;
    (void)key;
    free(l->ns);
    free(l);
}

void ctl_desk_done(struct ctl_desk *d) {
    co_map_each(&d->lines, line_free, NULL);
    co_map_done(&d->lines);
}

static struct ctl_desk_line *line_need(struct ctl_desk *d, const char *ns) {
    struct ctl_desk_line *l = co_map_get(&d->lines, ns);
    if (!l) {
        l = co_xcalloc(1, sizeof(*l));
        l->ns = co_xstrdup(ns);
        (void)co_map_set(&d->lines, ns, l);
    }
    return l;
}

/* The first one fits whatever its size, so that no job waits forever. */
static bool fits(size_t used, size_t more, size_t max) {
    return !used || used + more <= max;
}

static void give_seat(struct ctl_desk *d, struct ctl_seat *seat) {
    seat->has = true;
    seat->line->used += seat->bytes;
    d->used += seat->bytes;
}

/* Puts a line that is not empty behind the others. */
static void line_up(struct ctl_desk *d, struct ctl_desk_line *l) {
    struct ctl_desk_line **end = d->first ? d->end : &d->first;
    l->next = NULL;
    *end = l;
    d->end = &l->next;
}

static void line_out(struct ctl_desk *d, struct ctl_desk_line *l) {
    struct ctl_desk_line **at = &d->first;
    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    d->end = *at ? d->end : at;
}

static void wait_in(struct ctl_desk *d, struct ctl_seat *seat) {
    struct ctl_desk_line *l = seat->line;
    struct ctl_seat **end = l->head ? l->end : &l->head;
    if (!l->head) {
        line_up(d, l);
    }
    seat->next = NULL;
    *end = seat;
    l->end = &seat->next;
}

static void wait_no_more(struct ctl_desk *d, struct ctl_seat *seat) {
    struct ctl_desk_line *l = seat->line;
    struct ctl_seat **at = &l->head;
    while (*at != seat) {
        at = &(*at)->next;
    }
    *at = seat->next;
    l->end = *at ? l->end : at;
    if (!l->head) {
        line_out(d, l);
    }
}

/* The head of the first line whose namespace has room.  NULL: there is none, or the desk has not
 * enough bytes for it: then the others wait as well, so that a large job is not overtaken forever.
 */
static struct ctl_seat *next_seat(const struct ctl_desk *d) {
    for (const struct ctl_desk_line *l = d->first; l; l = l->next) {
        if (fits(l->used, l->head->bytes, ctl_desk_share(d))) {
            return fits(d->used, l->head->bytes, d->max) ? l->head : NULL;
        }
    }
    return NULL;
}

/* Serves all seats that can be served now.  asks: the seat of the caller, which sees the result
 * without a callback. */
static void call_waiting(struct ctl_desk *d, const struct ctl_seat *asks) {
    struct ctl_seat *seat;
    while ((seat = next_seat(d))) {
        struct ctl_desk_line *l = seat->line;
        wait_no_more(d, seat);
        if (l->head) { /* the other namespaces first */
            line_out(d, l);
            line_up(d, l);
        }
        give_seat(d, seat);
        if (seat != asks) {
            d->called(d->arg, seat);
        }
    }
}

bool ctl_desk_sit(struct ctl_desk *d, struct ctl_seat *seat, const char *ns, size_t bytes) {
    if (!seat->line) {
        size_t most = ctl_desk_share(d);
        *seat = (struct ctl_seat){.line = line_need(d, ns), .bytes = bytes < most ? bytes : most};
        seat->line->n++;
        wait_in(d, seat);
        call_waiting(d, seat);
    }
    return seat->has;
}

void ctl_desk_leave(struct ctl_desk *d, struct ctl_seat *seat) {
    struct ctl_desk_line *l = seat->line;
    if (!l) {
        return;
    }
    if (seat->has) {
        l->used -= seat->bytes;
        d->used -= seat->bytes;
    } else {
        wait_no_more(d, seat);
    }
    *seat = (struct ctl_seat){0};
    if (--l->n == 0) {
        (void)co_map_remove(&d->lines, l->ns);
        line_free(NULL, NULL, l);
    }
    call_waiting(d, NULL);
}
