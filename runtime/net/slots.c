/* Who keeps a slot at a front door when there are more connections than slots. */
#include "runtime/net/slots.h"

#include <stdio.h>
#include <string.h>

size_t net_slots_find(const struct net_slot *slots, size_t n) {
    size_t worst = n;
    for (size_t i = 0; i < n; i++) {
        const struct net_slot *p = &slots[i];
        if (!p->taken) {
            return i;
        }
        if (p->known) {
            continue;
        }
        const struct net_slot *w = worst < n ? &slots[worst] : NULL;
        if (!w || p->mates > w->mates || (p->mates == w->mates && p->since_ms < w->since_ms)) {
            worst = i;
        }
    }
    return worst;
}

static bool are_mates(const struct net_slot *a, const struct net_slot *b) {
    return a->taken && !a->known && strcmp(a->host, b->host) == 0;
}

void net_slots_take(struct net_slot *slots, size_t n, size_t i, const char *host, int64_t now_ms) {
    struct net_slot *p = &slots[i];
    *p = (struct net_slot){.mates = 1, .since_ms = now_ms};
    (void)snprintf(p->host, sizeof(p->host), "%s", host);
    for (size_t k = 0; k < n; k++) {
        bool mate = are_mates(&slots[k], p);
        slots[k].mates += mate;
        p->mates += mate;
    }
    p->taken = true;
}

/* It no longer counts among those of its address. */
static void forget(struct net_slot *slots, size_t n, size_t i) {
    for (size_t k = 0; k < n && !slots[i].known; k++) {
        slots[k].mates -= are_mates(&slots[k], &slots[i]);
    }
}

void net_slots_know(struct net_slot *slots, size_t n, size_t i) {
    forget(slots, n, i);
    slots[i].known = true;
}

void net_slots_leave(struct net_slot *slots, size_t n, size_t i) {
    forget(slots, n, i);
    slots[i].taken = false;
}
