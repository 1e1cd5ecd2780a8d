/* Accepts the connections of a group that forms, by an acceptor of runtime/net.
 *
 * Several groups may form at one door, each in a thread of its own, with its own acceptor.  A
 * connection comes to whichever thread accepts first.  If its hello names another group that forms,
 * it is handed to that group's acceptor:
 *
 *     listener --- accept ----> acceptor of A --- hello of A ----> answer
 *         \-- accept ---> acceptor of B        |
 *                                  ^-----------+--- hello of B
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/interrupt.h"
#include "common/log.h"
#include "common/word_list.h"
#include "runtime/net/acceptor.h"
#include "runtime/train/coll/coll.h"

enum { LIST_BYTES = 200, CALLER_BYTES = 100, REFUSED_BYTES = 300 };
enum { NOT_READY_MS = 3000 }; /* when Paddle prints its lines about ranks that are missing */

/* A group that accepts now. */
struct coll_hall {
    const struct coll_accept *a;
    struct net_auth auth;
    struct net_acceptor *acceptor;
    struct coll_hall *next;                    /* of the same door */
    struct net_log_limit limits[NET_REFUSALS]; /* one for each reason */
    char refused[REFUSED_BYTES];               /* the last one, for messages; "": none */
};

int coll_door_open(const char *endpoint, struct coll_door **ret, struct co_err *err) {
    char address[COLL_ADDRESS_MAX];
    int fd = -1;
    CO_TRY(net_listen_address(endpoint, address, sizeof(address), err));
    CO_TRY(net_listen(address, &fd, err));
    struct coll_door *d = co_xcalloc(1, sizeof(*d));
    d->fd = fd;
    d->endpoint = co_xstrdup(endpoint);
    d->refs = 1;
    pthread_mutex_init(&d->m, NULL);
    *ret = d;
    return 0;
}

struct coll_door *coll_door_ref(struct coll_door *d) {
    atomic_fetch_add(&d->refs, 1);
    return d;
}

void coll_door_unref(struct coll_door *d) {
    if (d && atomic_fetch_sub(&d->refs, 1) == 1) {
        if (d->fd >= 0) { /* else this is a forked child */
            co_close(d->fd);
        }
        pthread_mutex_destroy(&d->m);
        free(d->endpoint);
        free(d);
    }
}

/* ---- hellos ---- */

static bool is_for(const struct coll_hello *h, const struct rt_group *g) {
    return h->job == g->job && h->group == g->id;
}

/* Gives a connection to the acceptor of the group that its hello names.  False: there is none. */
static bool hand_over(
    const struct coll_hall *h, const struct coll_hello *who, const struct net_pending *p) {
    struct coll_door *d = h->a->g->door;
    bool handed = false;
    pthread_mutex_lock(&d->m);
    for (const struct coll_hall *other = d->halls; other && !handed; other = other->next) {
        handed = is_for(who, other->a->g) && net_acceptor_hand(other->acceptor, p);
    }
    pthread_mutex_unlock(&d->m);
    return handed;
}

static enum net_refusal on_look(void *arg, const struct net_pending *p, bool proved,
    unsigned char ret_answer[NET_CALLER_BYTES]) {
    const struct coll_hall *h = arg;
    struct rt_group *g = h->a->g;
    struct coll_hello who;
    enum net_refusal why = coll_hello_read(net_caller_bytes(p->shake.hello), &who);
    if (why != NET_REFUSAL_NONE) {
        return why;
    }
    if (!h->a->local && !is_for(&who, g) && hand_over(h, &who, p)) {
        return NET_HANDED;
    }
    if (who.job != g->job) {
        return COLL_REFUSAL_JOB;
    }
    if (!proved) {
        return NET_REFUSAL_TOKEN;
    }
    if (who.group != g->id) {
        return COLL_REFUSAL_LATER;
    }
    if (who.size != g->size) {
        return COLL_REFUSAL_JOB;
    }
    memcpy(coll_hello_node(ret_answer), g->node, COLL_NODE_BYTES);
    return who.to == g->rank ? h->a->look(g, &who) : COLL_REFUSAL_RANK;
}

static void on_enter(void *arg, int fd_own, struct co_tls *tls_own, const struct net_peer *from,
    const unsigned char caller[NET_CALLER_BYTES]) {
    struct coll_hall *h = arg;
    struct coll_hello who;
    struct net_stream s = {.fd = fd_own, .tls = tls_own};
    (void)from;
    (void)coll_hello_read(caller, &who); /* on_look has accepted it */
    if (!h->a->local) {
        coll_tcp_tune(fd_own);
    }
    if (!h->a->take(h->a->g, &who, &s)) {
        net_stream_close(&s);
    }
    if (*h->a->missing == 0) {
        net_acceptor_stop(h->acceptor);
    }
}

/* "rank 1 of 2 from 10.0.0.3": what it says itself, if it says that. */
static void name_caller(const struct coll_hall *h, const struct net_peer *from,
    const unsigned char *caller, char ret[CALLER_BYTES]) {
    struct coll_hello who;
    const char *host = h->a->local ? "this machine" : from->host;
    if (caller && coll_hello_read(caller, &who) == NET_REFUSAL_NONE) {
        (void)snprintf(ret, CALLER_BYTES, "rank %u of %u from %s", who.rank, who.size, host);
    } else {
        (void)snprintf(ret, CALLER_BYTES, "%s", host);
    }
}

static void on_refuse(void *arg, const struct net_peer *from, const unsigned char *caller,
    enum net_refusal refusal, const struct co_err *why) {
    struct coll_hall *h = arg;
    uint64_t times = 0;
    char name[CALLER_BYTES];
    if (refusal == COLL_REFUSAL_LATER) {
        return;
    }
    name_caller(h, from, caller, name);
    (void)snprintf(h->refused, sizeof(h->refused), "; refused %s: %.180s", name, why->msg);
    if (net_log_due(&h->limits[refusal], 1, &times)) {
        co_log_warn("refused a connection to the collective group", CO_S("from", name),
            CO_S("reason", co_err_text(why)), CO_I("rank", h->a->g->rank),
            CO_I("times", (int64_t)times));
    }
}

static const struct net_acceptor_ops acceptor_ops = {on_look, on_enter, on_refuse};

/* ---- acceptors ---- */

static void enter_list(struct coll_hall *h) {
    struct coll_door *d = h->a->g->door;
    pthread_mutex_lock(&d->m);
    h->next = d->halls;
    d->halls = h;
    pthread_mutex_unlock(&d->m);
}

static void leave_list(struct coll_hall *h) {
    struct coll_door *d = h->a->g->door;
    pthread_mutex_lock(&d->m);
    for (struct coll_hall **at = &d->halls; *at; at = &(*at)->next) {
        if (*at == h) {
            *at = h->next;
            break;
        }
    }
    pthread_mutex_unlock(&d->m);
}

/* "1, 4": those that are above this rank. */
static const char *list_missing(const struct coll_accept *a, char ret_list[LIST_BYTES]) {
    const struct rt_group *g = a->g;
    ret_list[0] = '\0';
    for (uint32_t r = g->rank + 1; r < g->size; r++) {
        if (a->lacks(g, &g->peers[r])) {
            co_word_list_add(ret_list, LIST_BYTES, "%u", r);
        }
    }
    return ret_list;
}

static void log_missing(const struct coll_hall *h, int64_t waited_ms) {
    char list[LIST_BYTES], text[LIST_BYTES + REFUSED_BYTES + 80];
    (void)snprintf(text, sizeof(text), "waiting for rank %s for %lld s to form the group%s",
        list_missing(h->a, list), (long long)(waited_ms / 1000), h->refused);
    co_log_warn(text, CO_I("rank", h->a->g->rank));
}

/* Paddle's rank 0 prints these two lines; users search logs for them. */
static void print_not_ready(const struct coll_accept *a) {
    const struct rt_group *g = a->g;
    CO_AUTOBUF struct co_buf list = CO_BUF(60000);
    for (uint32_t r = g->rank + 1; r < g->size; r++) {
        if (a->lacks(g, &g->peers[r])) {
            (void)!co_buf_addf(&list, NULL, "%s'%s'", list.len ? ", " : "", g->endpoints[r]);
        }
    }
    if (list.len) {
        CO_AUTOFREE char *text = co_xasprintf("server not ready, wait 3 sec to retry...\n"
                                              "not ready endpoints:[%s]\n",
            list.data);
        (void)!write(STDERR_FILENO, text, strlen(text));
    }
}

/* As net_acceptor_run.  The group has failed if the program ends the wait. */
static int accept_until(struct coll_hall *h, int64_t end_ms) {
    struct rt_group *g = h->a->g;
    int64_t ask_ms = co_interrupt_next();
    int rc;
    do {
        rc = net_acceptor_run(h->acceptor, g->alarm, end_ms < ask_ms ? end_ms : ask_ms);
        if (rc == CO_TIMEOUT && co_interrupted(&ask_ms)) {
            return coll_form_end(g);
        }
    } while (rc == CO_TIMEOUT && co_now_ms() < end_ms);
    return rc;
}

/* Until nobody is missing; logs a long wait. */
static int accept_all(struct coll_hall *h, int64_t deadline_ms, struct co_err *err) {
    const struct coll_accept *a = h->a;
    char list[LIST_BYTES];
    int64_t begun = co_now_ms();
    for (int64_t wait = NOT_READY_MS;; wait = wait < COLL_WARN_MS ? COLL_WARN_MS : 2 * wait) {
        bool last = deadline_ms - begun <= wait;
        int rc = accept_until(h, last ? deadline_ms : begun + wait);
        if (rc != CO_TIMEOUT) {
            return coll_group_why(a->g, err);
        }
        if (last && h->refused[0]) {
            return co_err_set(err, rc, "rank %s of %u has not come within %lld ms%s",
                list_missing(a, list), a->g->size, (long long)(deadline_ms - begun), h->refused);
        }
        if (last) {
            return co_err_set(err, rc,
                "rank %s of %u has not come within %lld ms: what does its log say, and may it "
                "connect to \"%.200s\"?",
                list_missing(a, list), a->g->size, (long long)(deadline_ms - begun),
                a->g->endpoints[a->g->rank]);
        }
        if (wait == NOT_READY_MS && !a->local) {
            print_not_ready(a);
        }
        if (wait >= COLL_WARN_MS) {
            log_missing(h, wait);
        }
    }
}

int coll_accept_run(const struct coll_accept *a, int64_t deadline_ms, struct co_err *err) {
    struct rt_group *g = a->g;
    struct coll_hall h = {.a = a, .auth = {&coll_protocol, g->token, g->encrypt && !a->local}};
    if (*a->missing == 0) {
        return 0;
    }
    CO_TRY(net_acceptor_open(a->fd, &h.auth, 0, &acceptor_ops, &h, &h.acceptor, err));
    if (!a->local) {
        enter_list(&h);
    }
    int rc = accept_all(&h, deadline_ms, err);
    if (!a->local) {
        leave_list(&h);
    }
    net_acceptor_close(h.acceptor);
    return rc;
}
