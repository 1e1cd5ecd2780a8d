/* Accepts the connections of a group that forms.  Anybody may connect, so at most GUESTS
 * connections have their handshake at a time, each for at most GUEST_MS, and a refused address is
 * logged once for each reason.  A "guest" is a connection that has not proven itself yet; a "hall"
 * has those of one group.
 *
 * A rank says its hello as soon as it is connected, and the hello shows that it knows the token.  A
 * stranger has nothing to say: the kernel keeps back who says nothing (net_hide_silent), and those
 * that come in all the same displace each other (places.h), but no guest whose hello was right.
 *
 * Several groups may form at one door, each in a thread of its own.  A guest comes into the hall of
 * whichever thread accepts first.  If its hello names another group that has a hall, it goes there
 * through that hall's pipe:
 *
 *     door ---- accept ----> hall of A ---- hello of A ----> answer
 *         \--- accept ----> hall of B        |
 *                               ^----- pipe --+-- hello of B
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/listen.h"
#include "common/log.h"
#include "runtime/net/net.h"
#include "runtime/net/slots.h"
#include "runtime/train/coll/coll.h"

enum {
    GUESTS = 64,
    GUEST_MS = 3000,
    SAID_MAX = 16,
    AT_ONCE = 256, /* connections that are accepted before the guests are read again */
    WAIT_MS = 50,  /* before accept() is tried again without a free descriptor */
};
/* What a hall waits for: its guests, and these. */
enum { DOOR = GUESTS, HANDED, ALARM, FDS };
/* Reasons in the log beyond enum coll_answer_code. */
enum { SLOW = COLL_ANSWER_CODES, MANY, FEW_FILES };

int coll_door_open(const char *endpoint, struct coll_door **ret, struct co_err *err) {
    char address[COLL_ADDRESS_MAX];
    int fd = -1;
    int rc = net_listen_address(endpoint, address, sizeof(address), err);
    /* Without the "[::]" co_listen takes IPv4, too. */
    const char *all = rc == 0 && strncmp(address, "[::]:", 5) == 0 ? address + 4 : address;
    rc = rc < 0 ? rc : co_listen_within(all, CO_LISTEN_MS, &fd, err);
    if (rc < 0) {
        return rc;
    }
    struct coll_door *d = co_xcalloc(1, sizeof(*d));
    net_hide_silent(fd);
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

/* A connection in its handshake: it sends a hello, gets an answer, sends its proof, gets a
 * welcome. */
struct pending_member {
    int fd;        /* -1: unused */
    uint32_t have; /* bytes received, hello and proof together */
    struct coll_hello who;
    unsigned char hello[COLL_HELLO_BYTES], answer[COLL_ANSWER_BYTES], proof[COLL_PROOF_BYTES];
    char from[sizeof(((struct net_peer *)NULL)->host)];
};

_Static_assert(
    sizeof(struct pending_member) <= PIPE_BUF, "a pipe takes a guest whole or not at all");

struct coll_hall {
    const struct coll_accept *a;
    struct coll_hall *next; /* of the same door */
    int handed[2]; /* a pipe of struct pending_member; other halls write to it under the door's m */
    struct pending_member guests[GUESTS];
    struct net_slot slots[GUESTS]; /* of the guests with the same index */
    bool full;                     /* of descriptors: no accept() for WAIT_MS */
    struct {
        char from[sizeof(((struct pending_member *)NULL)->from)];
        uint32_t answer_code;
    } said[SAID_MAX]; /* refusals that were logged; later ones beyond the limit are not */
    uint32_t n_said;
};

/* Frees the place; the descriptor is the caller's. */
static int guest_leave(struct coll_hall *h, struct pending_member *g) {
    int fd = g->fd;
    net_slots_leave(h->slots, GUESTS, (size_t)(g - h->guests));
    g->fd = -1;
    return fd;
}

static void guest_drop(struct coll_hall *h, struct pending_member *g) {
    co_close(guest_leave(h, g));
}

/* Logs one line for each address and reason, not for each attempt; and one about a flood. */
static void say_refused(
    struct coll_hall *h, const struct pending_member *g, uint32_t answer_code, const char *why) {
    for (uint32_t i = 0; i < h->n_said; i++) {
        if (h->said[i].answer_code == answer_code &&
            (answer_code == MANY || co_streq(h->said[i].from, g->from))) {
            return;
        }
    }
    if (h->n_said < SAID_MAX) {
        (void)snprintf(h->said[h->n_said].from, sizeof(h->said[0].from), "%s", g->from);
        h->said[h->n_said++].answer_code = answer_code;
        co_log_warn("refused a connection to the collective group", CO_S("from", g->from),
            CO_S("reason", why), CO_I("rank", h->a->g->rank));
    }
}

static void guest_refuse(
    struct coll_hall *h, struct pending_member *g, enum coll_answer_code answer_code) {
    unsigned char wire[COLL_ANSWER_BYTES];
    struct coll_answer a = {.answer_code = answer_code};
    if (answer_code != COLL_ANSWER_CODE_LATER) {
        say_refused(h, g, answer_code, coll_answer_code_text(answer_code));
    }
    if (answer_code != COLL_ANSWER_CODE_FORM &&
        coll_answer_write(&a, "", g->hello, wire, NULL) == 0) {
        (void)!send(g->fd, wire, sizeof(wire), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    guest_drop(h, g);
}

static void name_from(int fd, bool local, struct pending_member *g) {
    struct net_peer peer;
    net_peer_of(fd, &peer);
    (void)snprintf(g->from, sizeof(g->from), "%s", local ? "this machine" : peer.host);
}

static bool same_user(int fd) {
    struct ucred c;
    socklen_t len = sizeof(c);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) == 0 &&
           (c.uid == geteuid() || c.uid == 0);
}

static void guest_receive(struct coll_hall *h, struct pending_member *g);

/* Gives the guest a place; whose it was has to leave. */
static struct pending_member *guest_seat(
    struct coll_hall *h, size_t i, const struct pending_member *came) {
    struct pending_member *g = &h->guests[i];
    if (g->fd >= 0) {
        say_refused(h, g, MANY, "too many connections without a greeting");
        guest_drop(h, g);
    }
    *g = *came;
    net_slots_take(h->slots, GUESTS, i, g->from, coll_now_ms());
    return g;
}

/* Accepts a connection, and reads it at once: a rank has said its hello by now.  False: there is
 * none, or no room. */
static bool guest_enter(struct coll_hall *h) {
    size_t i = net_slots_find(h->slots, GUESTS);
    /* no wait: the descriptor is non-blocking */
    int fd = i < GUESTS ? accept4(h->a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    if (fd < 0) {
        h->full = i < GUESTS && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
        return false;
    }
    struct pending_member came = {.fd = fd};
    name_from(fd, h->a->local, &came);
    bool few = net_is_scarce(fd);
    if (few || (h->a->local && !same_user(fd))) {
        say_refused(h, &came, few ? (uint32_t)FEW_FILES : COLL_ANSWER_CODE_USER,
            few ? "no descriptors are left (RLIMIT_NOFILE)"
                : coll_answer_code_text(COLL_ANSWER_CODE_USER));
        co_close(fd);
        return true;
    }
    if (!h->a->local) {
        coll_tcp_tune(fd);
    }
    guest_receive(h, guest_seat(h, i, &came));
    return true;
}

/* Receives `bytes` bytes that follow the first `offset` bytes of the handshake.  False: some are
 * still missing, or the guest was dropped. */
static bool guest_read(struct coll_hall *h, struct pending_member *g, unsigned char *to,
    uint32_t offset, uint32_t bytes) {
    while (g->have < offset + bytes) {
        ssize_t n = recv(g->fd, to + (g->have - offset), offset + bytes - g->have, MSG_DONTWAIT);
        if (n <= 0) {
            if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                guest_drop(h, g); /* for example a TCP probe of the kubelet: not worth a log line */
            }
            return false;
        }
        g->have += (uint32_t)n;
    }
    return true;
}

static bool is_for(const struct coll_hello *h, const struct rt_group *g) {
    return h->job == g->job && h->group == g->id;
}

/* Gives a guest to the hall of the group that its hello names.  False: there is none. */
static bool guest_hand_over(struct coll_hall *h, struct pending_member *g) {
    struct coll_door *d = h->a->g->door;
    bool handed = false;
    pthread_mutex_lock(&d->m);
    for (const struct coll_hall *other = d->halls; other && !handed; other = other->next) {
        handed = is_for(&g->who, other->a->g) &&
                 write(other->handed[1], g, sizeof(*g)) == (ssize_t)sizeof(*g);
    }
    pthread_mutex_unlock(&d->m);
    if (handed) {
        (void)guest_leave(h, g);
    }
    return handed;
}

static void guest_hello(struct coll_hall *h, struct pending_member *g) {
    struct rt_group *group = h->a->g;
    enum coll_answer_code v = coll_hello_read(g->hello, &g->who);
    if (v == COLL_ANSWER_CODE_OK && !h->a->local && !is_for(&g->who, group) &&
        guest_hand_over(h, g)) {
        return;
    }
    if (v == COLL_ANSWER_CODE_OK && g->who.job != group->job) {
        v = COLL_ANSWER_CODE_JOB;
    } else if (v == COLL_ANSWER_CODE_OK && !coll_hello_check(group->token, g->hello)) {
        v = COLL_ANSWER_CODE_TOKEN;
    } else if (v == COLL_ANSWER_CODE_OK && g->who.group != group->id) {
        v = COLL_ANSWER_CODE_LATER;
    } else if (v == COLL_ANSWER_CODE_OK) {
        v = g->who.size == group->size ? h->a->look(group, &g->who) : COLL_ANSWER_CODE_JOB;
    }
    if (v != COLL_ANSWER_CODE_OK) {
        guest_refuse(h, g, v);
        return;
    }
    net_slots_know(h->slots, GUESTS, (size_t)(g - h->guests));
    struct coll_answer a = {.answer_code = v, .rank = group->rank};
    memcpy(a.node, group->node, sizeof(a.node));
    if (coll_answer_write(&a, group->token, g->hello, g->answer, NULL) < 0 ||
        send(g->fd, g->answer, sizeof(g->answer), MSG_NOSIGNAL) != sizeof(g->answer)) {
        guest_drop(h, g);
    }
}

static void guest_proof(struct coll_hall *h, struct pending_member *g) {
    struct rt_group *group = h->a->g;
    unsigned char wire[COLL_WELCOME_BYTES];
    enum coll_answer_code v = COLL_ANSWER_CODE_TOKEN;
    if (coll_tcp_ended(g->fd)) { /* it gave up while this rank stood still, and comes again */
        guest_drop(h, g);
        return;
    }
    if (coll_proof_check(group->token, g->hello, g->answer, g->proof)) {
        v = h->a->look(group, &g->who); /* again: its rank may have connected meanwhile */
    }
    coll_welcome_write(v, wire);
    bool sent = send(g->fd, wire, sizeof(wire), MSG_NOSIGNAL) == sizeof(wire);
    if (v == COLL_ANSWER_CODE_OK && sent &&
        h->a->take(group, &g->who, g->fd) == COLL_ANSWER_CODE_OK) {
        (void)guest_leave(h, g);
        return;
    }
    if (v != COLL_ANSWER_CODE_OK) {
        say_refused(h, g, v, coll_answer_code_text(v));
    }
    guest_drop(h, g);
}

static void guest_receive(struct coll_hall *h, struct pending_member *g) {
    if (g->have < COLL_HELLO_BYTES) {
        if (!guest_read(h, g, g->hello, 0, COLL_HELLO_BYTES)) {
            return;
        }
        guest_hello(h, g);
    }
    if (g->fd >= 0 && guest_read(h, g, g->proof, COLL_HELLO_BYTES, COLL_PROOF_BYTES)) {
        guest_proof(h, g);
    }
}

/* Takes in the guests that other halls have handed over, as far as there is room. */
static void guests_take(struct coll_hall *h) {
    struct pending_member came;
    size_t i;
    /* no wait: the descriptor is non-blocking */
    while ((i = net_slots_find(h->slots, GUESTS)) < GUESTS &&
           read(h->handed[0], &came, sizeof(came)) == (ssize_t)sizeof(came)) {
        guest_hello(h, guest_seat(h, i, &came));
    }
}

/* Drops the guests whose time is over. */
static void guests_tire(struct coll_hall *h, int64_t now) {
    for (uint32_t i = 0; i < GUESTS; i++) {
        struct pending_member *g = &h->guests[i];
        if (g->fd >= 0 && h->slots[i].since_ms + GUEST_MS <= now) {
            say_refused(h, g, SLOW, "it did not send a whole greeting within 3 s");
            guest_drop(h, g);
        }
    }
}

static int hall_open(struct coll_hall *h, const struct coll_accept *a, struct co_err *err) {
    h->a = a;
    for (uint32_t i = 0; i < GUESTS; i++) {
        h->guests[i].fd = -1;
    }
    if (pipe2(h->handed, O_CLOEXEC | O_NONBLOCK) < 0) {
        return co_err_errno(err, errno, "a pipe to form the group");
    }
    if (!a->local) {
        struct coll_door *d = a->g->door;
        pthread_mutex_lock(&d->m);
        h->next = d->halls;
        d->halls = h;
        pthread_mutex_unlock(&d->m);
    }
    return 0;
}

static void hall_close(struct coll_hall *h) {
    struct coll_door *d = h->a->g->door;
    struct pending_member late;
    pthread_mutex_lock(&d->m);
    for (struct coll_hall **at = &d->halls; *at; at = &(*at)->next) {
        if (*at == h) {
            *at = h->next;
            break;
        }
    }
    pthread_mutex_unlock(&d->m);
    /* no wait: the descriptor is non-blocking */
    while (read(h->handed[0], &late, sizeof(late)) == (ssize_t)sizeof(late)) {
        co_close(late.fd);
    }
    for (uint32_t i = 0; i < GUESTS; i++) {
        if (h->guests[i].fd >= 0) {
            guest_drop(h, &h->guests[i]);
        }
    }
    co_close(h->handed[0]);
    co_close(h->handed[1]);
}

/* Waits for what comes next.  Where no place is left for strangers, or no descriptor, connections
 * wait in the kernel. */
static void hall_wait(struct coll_hall *h, struct pollfd *fds, int64_t now, int64_t end_ms) {
    bool room = net_slots_find(h->slots, GUESTS) < GUESTS;
    int64_t next = h->full && now + WAIT_MS < end_ms ? now + WAIT_MS : end_ms;
    fds[DOOR] = (struct pollfd){.fd = room && !h->full ? h->a->fd : -1, .events = POLLIN};
    fds[HANDED] = (struct pollfd){.fd = room ? h->handed[0] : -1, .events = POLLIN};
    fds[ALARM] = (struct pollfd){.fd = h->a->g->alarm, .events = POLLIN};
    for (uint32_t i = 0; i < GUESTS; i++) {
        int64_t end = h->slots[i].since_ms + GUEST_MS;
        fds[i] = (struct pollfd){.fd = h->guests[i].fd, .events = POLLIN};
        next = h->guests[i].fd >= 0 && end < next ? end : next;
    }
    h->full = false;
    (void)poll(fds, FDS, (int)(next - now < 1 ? 1 : next - now));
}

static int hall_serve(struct coll_hall *h, int64_t deadline_ms, struct co_err *err) {
    int64_t now = coll_now_ms();
    struct pollfd fds[FDS];
    if (now >= deadline_ms) {
        return co_err_set(err, CO_TIMEOUT, "%u connections are missing", *h->a->missing);
    }
    guests_tire(h, now);
    hall_wait(h, fds, now, deadline_ms);
    for (uint32_t i = 0; i < GUESTS; i++) {
        if (fds[i].fd >= 0 && fds[i].revents && *h->a->missing > 0) {
            guest_receive(h, &h->guests[i]);
        }
    }
    for (int i = 0; fds[DOOR].revents && i<AT_ONCE && * h->a->missing> 0; i++) {
        if (!guest_enter(h)) {
            break;
        }
    }
    if (fds[HANDED].revents) {
        guests_take(h);
    }
    return coll_group_why(h->a->g, err);
}

int coll_accept_run(const struct coll_accept *a, int64_t deadline_ms, struct co_err *err) {
    if (*a->missing == 0) {
        return 0;
    }
    CO_AUTOFREE struct coll_hall *h = co_xcalloc(1, sizeof(*h));
    int rc = hall_open(h, a, err);
    if (rc < 0) {
        return rc;
    }
    while (*a->missing > 0 && rc == 0) {
        rc = hall_serve(h, deadline_ms, err);
    }
    hall_close(h);
    return rc;
}
