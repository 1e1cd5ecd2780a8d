/* The connections of an HTTP server, and which one is dropped when there are too many.
 *
 *      accepted -> silent -> (a request: held) -> idle -> (held -> idle)* -> closed
 *
 * silent and idle are rings, ordered by the time of entry.  A held connection has a request in
 * progress; it is in no ring and is never dropped.  A dropped connection is shut down here; the
 * server closes it at its next read.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "common/http/httpd_internal.h"

enum { YOUNG_MS = 1000 }; /* see drop_one */

struct co_http_peer {
    char text[CO_HTTP_PEER_MAX];
    size_t n; /* connections from this address */
};

void co_http_peer_text(const struct sockaddr *addr, char ret[CO_HTTP_PEER_MAX]) {
    *ret = '\0';
    if (addr && addr->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)addr;
        (void)inet_ntop(AF_INET, &v4->sin_addr, ret, CO_HTTP_PEER_MAX);
    } else if (addr && addr->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(v6);
        (void)inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? v6->s6_addr + 12 : v6->s6_addr, ret,
            CO_HTTP_PEER_MAX);
    }
}

static void leave_ring(struct co_http_slot *c) {
    if (c->next) {
        c->prev->next = c->next;
        c->next->prev = c->prev;
        c->next = c->prev = NULL;
    }
}

static void enter_ring(struct co_http_slot *ring, struct co_http_slot *c) {
    leave_ring(c);
    c->next = ring;
    c->prev = ring->prev;
    c->prev->next = c;
    ring->prev = c;
    c->since = co_now_ms();
}

static void give_up(struct co_http_slots *p, struct co_http_slot *c) {
    struct co_http_peer *peer = co_steal_ptr(c->peer);
    leave_ring(c);
    p->n--;
    if (--peer->n == 0) {
        (void)co_map_remove(&p->peers, peer->text);
        free(peer);
    }
}

static void drop(struct co_http_slots *p, struct co_http_slot *c) {
    give_up(p, c);
    (void)shutdown(c->fd, SHUT_RDWR);
}

/* The oldest connection in the ring, from this peer (NULL: from any); NULL: none. */
static struct co_http_slot *oldest_in(struct co_http_slot *ring, const struct co_http_peer *peer) {
    for (struct co_http_slot *c = ring->next; c != ring; c = c->next) {
        if (!peer || c->peer == peer) {
            return c;
        }
    }
    return NULL;
}

/* Drops a connection, of this peer if there is one.  Silent connections go before idle ones, with
 * one exception: a silent connection younger than YOUNG_MS, whose request may be on its way, stays
 * if there is one that has been idle for longer. */
static void drop_one(struct co_http_slots *p, const struct co_http_peer *peer) {
    const int64_t young = co_now_ms() - YOUNG_MS;
    struct co_http_slot *silent = oldest_in(&p->silent, peer); /* at least the new connection */
    struct co_http_slot *idle = oldest_in(&p->idle, peer);
    assert(silent);
    drop(p, silent->since > young && idle && idle->since <= young ? idle : silent);
}

void co_http_slots_init(
    struct co_http_slots *p, size_t max, size_t max_per_peer, int64_t silent_ms) {
    p->max = max;
    p->max_per_peer = max_per_peer;
    p->silent_ms = silent_ms;
    p->silent.next = p->silent.prev = &p->silent;
    p->idle.next = p->idle.prev = &p->idle;
}

void co_http_slots_done(struct co_http_slots *p) {
    co_map_done(&p->peers);
}

struct co_http_slot *co_http_slot_new(
    struct co_http_slots *p, int fd, const struct sockaddr *addr) {
    char text[CO_HTTP_PEER_MAX];
    co_http_peer_text(addr, text);
    struct co_http_peer *peer = co_map_get(&p->peers, text);
    if (!peer) {
        peer = co_xcalloc(1, sizeof(*peer));
        memcpy(peer->text, text, sizeof(text));
        (void)co_map_set(&p->peers, text, peer);
    }
    struct co_http_slot *c = co_xcalloc(1, sizeof(*c));
    c->peer = peer;
    c->fd = fd;
    c->number = ++p->so_far;
    peer->n++;
    p->n++;
    enter_ring(&p->silent, c);
    if (peer->n > p->max_per_peer) {
        drop_one(p, peer);
    } else if (p->n > p->max) {
        drop_one(p, NULL);
    }
    return c;
}

void co_http_slot_free(struct co_http_slots *p, struct co_http_slot *c) {
    if (c->peer) {
        give_up(p, c);
    }
    free(c);
}

void co_http_slot_hold(struct co_http_slot *c) {
    leave_ring(c);
}

void co_http_slot_idle(struct co_http_slots *p, struct co_http_slot *c) {
    if (c->peer) {
        enter_ring(&p->idle, c);
    }
}

int64_t co_http_slots_drop_silent(struct co_http_slots *p) {
    const int64_t now = co_now_ms();
    while (p->silent.next != &p->silent) {
        int64_t left = p->silent.next->since + p->silent_ms - now;
        if (left > 0) {
            return left;
        }
        drop(p, p->silent.next);
    }
    return -1;
}
