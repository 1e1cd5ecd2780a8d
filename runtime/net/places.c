/* Who keeps a place at a front door when there are more connections than places. */
#include "runtime/net/places.h"

#include <stdio.h>
#include <string.h>

size_t net_places_find(const struct net_place *places, size_t n) {
    size_t worst = n;
    for (size_t i = 0; i < n; i++) {
        const struct net_place *p = &places[i];
        if (!p->taken) {
            return i;
        }
        if (p->known) {
            continue;
        }
        const struct net_place *w = worst < n ? &places[worst] : NULL;
        if (!w || p->mates > w->mates || (p->mates == w->mates && p->since_ms < w->since_ms)) {
            worst = i;
        }
    }
    return worst;
}

static bool are_mates(const struct net_place *a, const struct net_place *b) {
    return a->taken && !a->known && strcmp(a->host, b->host) == 0;
}

void net_places_take(
    struct net_place *places, size_t n, size_t i, const char *host, int64_t now_ms) {
    struct net_place *p = &places[i];
    *p = (struct net_place){.mates = 1, .since_ms = now_ms};
    (void)snprintf(p->host, sizeof(p->host), "%s", host);
    for (size_t k = 0; k < n; k++) {
        bool mate = are_mates(&places[k], p);
        places[k].mates += mate;
        p->mates += mate;
    }
    p->taken = true;
}

/* It no longer counts among those of its address. */
static void forget(struct net_place *places, size_t n, size_t i) {
    for (size_t k = 0; k < n && !places[i].known; k++) {
        places[k].mates -= are_mates(&places[k], &places[i]);
    }
}

void net_places_know(struct net_place *places, size_t n, size_t i) {
    forget(places, n, i);
    places[i].known = true;
}

void net_places_leave(struct net_place *places, size_t n, size_t i) {
    forget(places, n, i);
    places[i].taken = false;
}
