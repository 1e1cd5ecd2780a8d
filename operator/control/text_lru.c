/* Eviction from the cache of job texts; see text_lru.h for the policy. */
#include "operator/control/text_lru.h"

#include "common/mem.h"

struct ctl_text_space {
    size_t bytes;                       /* of its entries and texts */
    size_t n;                           /* entries */
    TAILQ_HEAD(, ctl_text_node) by_age; /* entries with a text, by their last change */
};

void ctl_text_lru_done(struct ctl_text_lru *s) {
    co_map_done(&s->spaces);
}

void ctl_text_lru_add(
    struct ctl_text_lru *s, struct ctl_text_node *ret, const char *ns, size_t bytes) {
    struct ctl_text_space *space = co_map_get(&s->spaces, ns);
    if (!space) {
        space = co_xcalloc(1, sizeof(*space));
        TAILQ_INIT(&space->by_age);
        (void)co_map_set(&s->spaces, ns, space);
    }
    space->n++;
    space->bytes += bytes;
    s->others += bytes;
    *ret = (struct ctl_text_node){.space = space};
}

void ctl_text_lru_remove(
    struct ctl_text_lru *s, struct ctl_text_node *of, const char *ns, size_t bytes) {
    struct ctl_text_space *space = of->space;
    s->others -= bytes;
    space->bytes -= bytes;
    if (--space->n == 0) {
        (void)co_map_remove(&s->spaces, ns);
        free(space);
    }
}

void ctl_text_lru_put(struct ctl_text_lru *s, struct ctl_text_node *of, size_t size) {
    of->size = size;
    TAILQ_INSERT_TAIL(&of->space->by_age, of, link);
    of->space->bytes += size;
    s->texts += size;
    s->n++;
}

void ctl_text_lru_drop(struct ctl_text_lru *s, struct ctl_text_node *of) {
    if (!of->size) {
        return;
    }
    TAILQ_REMOVE(&of->space->by_age, of, link);
    of->space->bytes -= of->size;
    s->texts -= of->size;
    s->n--;
    of->size = 0;
}

static void find_largest(void *arg, const char *key, void *value) {
    struct ctl_text_space **largest = arg, *space = value;
    (void)key;
    if (!TAILQ_EMPTY(&space->by_age) && (!*largest || space->bytes > (*largest)->bytes)) {
        *largest = space;
    }
}

struct ctl_text_node *ctl_text_lru_victim(const struct ctl_text_lru *s) {
    size_t others = s->others < s->max / 2 ? s->others : s->max / 2;
    struct ctl_text_space *largest = NULL;
    if (!s->max || s->texts <= s->max - others) {
        return NULL;
    }
    co_map_each(&s->spaces, find_largest, &largest);
    return TAILQ_FIRST(&largest->by_age);
}
