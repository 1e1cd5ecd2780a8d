/* Finds the addresses of ranks.  DNS is asked by common/lookup.c in a thread of its own, on a loop
 * that runs until the answer, the deadline, or the group's failure. */
#include "runtime/train/coll/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "common/conn.h"
#include "common/parse.h"
#include "runtime/train/coll/coll.h"

static void set_port(struct sockaddr_storage *a, uint16_t port) {
    if (a->ss_family == AF_INET) {
        ((struct sockaddr_in *)a)->sin_port = htons(port);
    } else {
        ((struct sockaddr_in6 *)a)->sin6_port = htons(port);
    }
}

/* Only the host is taken from the connection: if the other rank has opened it, its port is not the
 * one at which it listens. */
void coll_address_inherit(
    struct rt_group *g, uint32_t to, const struct rt_group *from, uint32_t r) {
    struct co_hostport hp;
    struct sockaddr_storage a = {0};
    socklen_t bytes = sizeof(a);
    int fd = from->peers[r].control.fd;
    if (fd >= 0 && getpeername(fd, (struct sockaddr *)&a, &bytes) == 0 &&
        (a.ss_family == AF_INET || a.ss_family == AF_INET6) &&
        co_parse_hostport("endpoint", g->endpoints[to], &hp, NULL) == 0) {
        set_port(&a, hp.port);
        g->peers[to].known = a;
    }
}

static void keep(struct coll_addresses *all, const struct sockaddr *a, socklen_t bytes) {
    if (all->n < COLL_ADDRESSES_MAX && bytes <= sizeof(all->at[0])) {
        memcpy(&all->at[all->n], a, bytes);
        all->bytes[all->n++] = bytes;
    }
}

static void keep_list(struct coll_addresses *all, const struct addrinfo *list) {
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        keep(all, a->ai_addr, a->ai_addrlen);
    }
}

struct question {
    struct co_loop *loop;
    struct coll_addresses all;
    struct co_err why;
    bool answered;
};

static void on_answer(void *arg, const struct addrinfo *list, const struct co_err *err) {
    struct question *q = arg;
    q->answered = true;
    q->why = *err;
    keep_list(&q->all, list);
    co_loop_stop(q->loop);
}

static void on_alarm(void *arg, int events) {
    (void)events;
    co_loop_stop(((struct question *)arg)->loop);
}

static int ask(struct rt_group *g, const struct co_hostport *hp, int64_t end_ms,
    struct coll_addresses *ret, struct co_err *err) {
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    struct co_poll *alarm = NULL;
    CO_TRY(co_loop_new(&loop, err));
    struct question q = {.loop = loop};
    CO_TRY(co_poll_new(loop, g->alarm, on_alarm, &q, &alarm, err));
    co_poll_set(alarm, CO_POLL_IN);
    struct co_lookup *lookup = co_lookup_start(loop, hp->host, hp->port, on_answer, &q);
    co_lookup_run(loop, end_ms);
    if (q.answered) {
        *ret = q.all;
        return q.all.n > 0 ? 0 : co_err_set(err, CO_NOTFOUND, "%s", q.why.msg);
    }
    co_lookup_cancel(lookup);
    CO_TRY(coll_group_why(g, err));
    return co_err_set(err, CO_TIMEOUT, "DNS does not answer for %s", hp->host);
}

/* An address that is written as numbers. */
static bool read_numbers(const struct co_hostport *hp, struct coll_addresses *ret) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list = NULL;
    /* no wait: a numeric address asks no resolver */
    if (getaddrinfo(hp->host, NULL, &hints, &list) != 0) {
        return false;
    }
    keep_list(ret, list);
    freeaddrinfo(list);
    for (uint32_t i = 0; i < ret->n; i++) {
        set_port(&ret->at[i], hp->port);
    }
    return true;
}

int coll_address_find(struct rt_group *g, uint32_t to, bool by_name, int64_t end_ms,
    struct coll_addresses *ret, struct co_err *err) {
    struct co_hostport hp;
    const struct sockaddr_storage *known = &g->peers[to].known;
    ret->n = 0;
    int rc = co_parse_hostport("endpoint", g->endpoints[to], &hp, err);
    if (rc < 0 || read_numbers(&hp, ret)) {
        return rc;
    }
    if (known->ss_family != AF_UNSPEC && !by_name) {
        keep(ret, (const struct sockaddr *)known,
            known->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        return 0;
    }
    return ask(g, &hp, end_ms, ret, err);
}
