/* A semaphore counted in bytes for parsed jobs; see parse_budget.h for its lines and their order.
 */
#include "operator/control/parse_budget.h"

#include "common/mem.h"

struct ctl_parse_line {
    char *ns;                             /* owned */
    size_t used;                          /* bytes of claims that have them */
    size_t n;                             /* claims, those that wait included; freed at 0 */
    TAILQ_HEAD(, ctl_parse_claim) claims; /* that wait, oldest first */
    TAILQ_ENTRY(ctl_parse_line) turn;     /* in ctl_parse_budget.turns, only while a claim waits */
};

void ctl_parse_budget_init(struct ctl_parse_budget *d, size_t max,
    void (*granted)(void *arg, struct ctl_parse_claim *claim), void *arg) {
    *d = (struct ctl_parse_budget){.max = max, .granted = granted, .arg = arg};
    TAILQ_INIT(&d->turns);
}

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
        TAILQ_INIT(&l->claims);
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

static void wait_in(struct ctl_parse_budget *d, struct ctl_parse_claim *claim) {
    struct ctl_parse_line *l = claim->line;
    if (TAILQ_EMPTY(&l->claims)) {
        TAILQ_INSERT_TAIL(&d->turns, l, turn);
    }
    TAILQ_INSERT_TAIL(&l->claims, claim, waits);
}

static void wait_no_more(struct ctl_parse_budget *d, struct ctl_parse_claim *claim) {
    struct ctl_parse_line *l = claim->line;
    TAILQ_REMOVE(&l->claims, claim, waits);
    if (TAILQ_EMPTY(&l->claims)) {
        TAILQ_REMOVE(&d->turns, l, turn);
    }
}

/* The head of the first line whose namespace has room.  NULL: there is none, or the budget has not
 * enough bytes for it: then the others wait as well, so that a large job is not overtaken forever.
 */
static struct ctl_parse_claim *next_claim(const struct ctl_parse_budget *d) {
    const struct ctl_parse_line *l;
    TAILQ_FOREACH(l, &d->turns, turn) {
        struct ctl_parse_claim *first = TAILQ_FIRST(&l->claims);
        if (fits(l->used, first->bytes, ctl_parse_budget_share(d))) {
            return fits(d->used, first->bytes, d->max) ? first : NULL;
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
        if (!TAILQ_EMPTY(&l->claims)) { /* the other namespaces first */
            TAILQ_REMOVE(&d->turns, l, turn);
            TAILQ_INSERT_TAIL(&d->turns, l, turn);
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
