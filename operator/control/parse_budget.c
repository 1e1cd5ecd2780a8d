/* A semaphore counted in bytes for parsed jobs; see parse_budget.h for its lines and their order.
 */
#include "operator/control/parse_budget.h"

#include "common/mem.h"

struct ctl_parse_line {
    char *ns;                            /* owned */
    size_t used;                         /* bytes of claims that have them */
    size_t n;                            /* claims, those that wait included; freed at 0 */
    struct ctl_parse_claim *head, **end; /* claims that wait, oldest first */
    struct ctl_parse_line *next;         /* in ctl_parse_budget.first, only while a claim waits */
};

size_t ctl_parse_budget_share(const struct ctl_parse_budget *d) {
    return d->max / 2;
}

static void line_free(void *arg, const char *key, void *value) {
    struct ctl_parse_line *l = value;
    (void)arg;
    (void)key;
    free(l->ns);
    free(l);
}

void ctl_parse_budget_done(struct ctl_parse_budget *d) {
    co_map_each(&d->lines, line_free, NULL);
    co_map_done(&d->lines);
}

static struct ctl_parse_line *line_need(struct ctl_parse_budget *d, const char *ns) {
    struct ctl_parse_line *l = co_map_get(&d->lines, ns);
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

static void grant(struct ctl_parse_budget *d, struct ctl_parse_claim *claim) {
    claim->has = true;
    claim->line->used += claim->bytes;
    d->used += claim->bytes;
}

/* Puts a line that is not empty behind the others. */
static void line_up(struct ctl_parse_budget *d, struct ctl_parse_line *l) {
    struct ctl_parse_line **end = d->first ? d->end : &d->first;
    l->next = NULL;
    *end = l;
    d->end = &l->next;
}

static void line_out(struct ctl_parse_budget *d, struct ctl_parse_line *l) {
    struct ctl_parse_line **at = &d->first;
    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    d->end = *at ? d->end : at;
}

static void wait_in(struct ctl_parse_budget *d, struct ctl_parse_claim *claim) {
    struct ctl_parse_line *l = claim->line;
    struct ctl_parse_claim **end = l->head ? l->end : &l->head;
    if (!l->head) {
        line_up(d, l);
    }
    claim->next = NULL;
    *end = claim;
    l->end = &claim->next;
}

static void wait_no_more(struct ctl_parse_budget *d, struct ctl_parse_claim *claim) {
    struct ctl_parse_line *l = claim->line;
    struct ctl_parse_claim **at = &l->head;
    while (*at != claim) {
        at = &(*at)->next;
    }
    *at = claim->next;
    l->end = *at ? l->end : at;
    if (!l->head) {
        line_out(d, l);
    }
}

/* The head of the first line whose namespace has room.  NULL: there is none, or the budget has not
 * enough bytes for it: then the others wait as well, so that a large job is not overtaken forever.
 */
static struct ctl_parse_claim *next_claim(const struct ctl_parse_budget *d) {
    for (const struct ctl_parse_line *l = d->first; l; l = l->next) {
        if (fits(l->used, l->head->bytes, ctl_parse_budget_share(d))) {
            return fits(d->used, l->head->bytes, d->max) ? l->head : NULL;
        }
    }
    return NULL;
}

/* Serves all claims that can be served now.  asks: the claim of the caller, which sees the result
 * without a callback. */
static void grant_waiting(struct ctl_parse_budget *d, const struct ctl_parse_claim *asks) {
    struct ctl_parse_claim *claim;
    while ((claim = next_claim(d))) {
        struct ctl_parse_line *l = claim->line;
        wait_no_more(d, claim);
        if (l->head) { /* the other namespaces first */
            line_out(d, l);
            line_up(d, l);
        }
        grant(d, claim);
        if (claim != asks) {
            d->granted(d->arg, claim);
        }
    }
}

bool ctl_parse_budget_claim(
    struct ctl_parse_budget *d, struct ctl_parse_claim *claim, const char *ns, size_t bytes) {
    if (!claim->line) {
        size_t most = ctl_parse_budget_share(d);
        *claim = (struct ctl_parse_claim){
            .line = line_need(d, ns), .bytes = bytes < most ? bytes : most};
        claim->line->n++;
        wait_in(d, claim);
        grant_waiting(d, claim);
    }
    return claim->has;
}

void ctl_parse_budget_release(struct ctl_parse_budget *d, struct ctl_parse_claim *claim) {
    struct ctl_parse_line *l = claim->line;
    if (!l) {
        return;
    }
    if (claim->has) {
        l->used -= claim->bytes;
        d->used -= claim->bytes;
    } else {
        wait_no_more(d, claim);
    }
    *claim = (struct ctl_parse_claim){0};
    if (--l->n == 0) {
        (void)co_map_remove(&d->lines, l->ns);
        line_free(NULL, NULL, l);
    }
    grant_waiting(d, NULL);
}
