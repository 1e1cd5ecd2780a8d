/* Forms a group in three steps:
 *
 *     1. control connections   Each rank connects to all lower ranks, in order, then accepts all
 *                              higher ones.  Rank 0 accepts from the start, so no cycle of ranks
 *                              can wait for each other.
 *     2. lanes                 The same again for the data connections between machines.
 *     3. shared memory         The first rank of each machine creates the memory and passes its
 *                              descriptor to the others there over a unix socket.  They learn the
 *                              socket's name over their control connections.
 *
 * Groups that form in several threads of a process do not wait for each other: two processes may
 * begin them in different orders.  What they have in common, the door, serves all of them. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/train/coll/coll.h"

/* ---- which ranks are on which machine ---- */

uint64_t coll_hash_more(uint64_t h, const void *data, size_t len) {
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ p[i]) * 0x100000001b3U;
    }
    return h;
}

static void derive_locals(struct rt_group *g) {
    memcpy(g->peers[g->rank].node, g->node, COLL_NODE_BYTES);
    g->locals = co_xcalloc(g->size, sizeof(*g->locals));
    for (uint32_t r = 0; r < g->size; r++) {
        struct coll_peer *p = &g->peers[r];
        p->local = COLL_NOT_LOCAL;
        if (memcmp(p->node, g->node, COLL_NODE_BYTES) == 0) {
            g->local = r == g->rank ? g->n_local : g->local;
            p->local = g->n_local;
            g->locals[g->n_local++] = r;
        }
    }
}

/* Lists the machines in the order of their first ranks.  `share` gets, of each machine, the rank
 * with this rank's index: together they reduce the same part of an all_reduce (hier.c). */
static void derive_nodes(struct rt_group *g) {
    g->leaders = co_xcalloc(g->size, sizeof(*g->leaders));
    g->share = co_xcalloc(g->size, sizeof(*g->share));
    g->even = true;
    for (uint32_t r = 0; r < g->size; r++) {
        uint32_t first = r, members = 0, mine = 0;
        for (uint32_t q = 0; q < g->size; q++) {
            if (memcmp(g->peers[q].node, g->peers[r].node, COLL_NODE_BYTES) == 0) {
                first = q < first ? q : first;
                mine = members == g->local ? q : mine;
                members++;
            }
        }
        if (first == r) {
            g->even &= members == g->n_local;
            g->share[g->n_nodes] = mine;
            g->leaders[g->n_nodes++] = r;
        }
    }
}

/* ---- accepting ---- */

static struct net_stream *place_of(struct rt_group *g, const struct coll_hello *h) {
    struct coll_peer *p = &g->peers[h->rank];
    return h->purpose == COLL_FOR_CONTROL ? &p->control : &p->lanes[h->lane];
}

/* A second connection of a rank is accepted if the first one has ended: the rank may have died
 * and restarted while the group formed. */
static enum net_refusal look_rank(struct rt_group *g, const struct coll_hello *h) {
    if (h->rank <= g->rank || h->purpose == COLL_FOR_MEMORY || h->lane >= g->lanes) {
        return COLL_REFUSAL_RANK;
    }
    const struct net_stream *place = place_of(g, h);
    return place->fd >= 0 && !coll_tcp_ended(place->fd) ? COLL_REFUSAL_DOUBLE : NET_REFUSAL_NONE;
}

static bool take_rank(struct rt_group *g, const struct coll_hello *h, struct net_stream *s) {
    struct net_stream *place = place_of(g, h);
    if (place->fd >= 0) {
        net_stream_close(place);
    } else if (h->purpose == COLL_FOR_CONTROL) {
        g->missing--;
    } else { /* a lane may come early, while control connections are still missing */
        g->lanes_here++;
        g->missing -= g->missing > 0 && g->peers[h->rank].local == COLL_NOT_LOCAL;
    }
    memcpy(g->peers[h->rank].node, h->node, COLL_NODE_BYTES);
    *place = *s;
    return true;
}

static bool lacks_control(const struct rt_group *g, const struct coll_peer *p) {
    (void)g;
    return p->control.fd < 0;
}

static bool lacks_lanes(const struct rt_group *g, const struct coll_peer *p) {
    bool lacks = false;
    for (uint32_t k = 0; k < g->lanes; k++) {
        lacks |= p->local == COLL_NOT_LOCAL && p->lanes[k].fd < 0;
    }
    return lacks;
}

static bool lacks_memory(const struct rt_group *g, const struct coll_peer *p) {
    (void)g;
    return p->local != COLL_NOT_LOCAL && !p->has_memory;
}

static int connect_control(struct rt_group *g, int64_t deadline, struct co_err *err) {
    for (uint32_t r = 0; r < g->rank; r++) {
        CO_TRY(coll_join(g, r, COLL_FOR_CONTROL, 0, NULL, 0, deadline, &g->peers[r].control, err));
    }
    g->missing = g->size - 1 - g->rank;
    struct coll_accept a = {.g = g,
        .fd = g->door->fd,
        .missing = &g->missing,
        .look = look_rank,
        .take = take_rank,
        .lacks = lacks_control};
    return coll_accept_run(&a, deadline, err);
}

static int connect_lanes(struct rt_group *g, int64_t deadline, struct co_err *err) {
    uint32_t wanted = 0;
    for (uint32_t r = 0; r < g->size; r++) {
        bool far = r != g->rank && g->peers[r].local == COLL_NOT_LOCAL;
        wanted += far && r > g->rank ? g->lanes : 0;
        for (uint8_t k = 0; far && r < g->rank && k < g->lanes; k++) {
            int rc =
                coll_join(g, r, COLL_FOR_LANE, k, NULL, 0, deadline, &g->peers[r].lanes[k], err);
            if (rc < 0) {
                return rc;
            }
        }
    }
    g->missing = wanted > g->lanes_here ? wanted - g->lanes_here : 0;
    struct coll_accept a = {.g = g,
        .fd = g->door->fd,
        .missing = &g->missing,
        .look = look_rank,
        .take = take_rank,
        .lacks = lacks_lanes};
    return coll_accept_run(&a, deadline, err);
}

/* ---- memory ---- */

/* Sends a descriptor, with one byte because SCM_RIGHTS needs data to travel with. */
static int send_fd(int to, int fd) {
    char byte = 1;
    struct iovec v = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } c = {0};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c.room)};
    c.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&c.head), &fd, sizeof(fd));
    return sendmsg(to, &m, MSG_NOSIGNAL) == 1 ? 0 : CO_PEERLOST;
}

static int recv_fd(struct rt_group *g, int from, int64_t deadline, int *ret, struct co_err *err) {
    char byte;
    struct iovec v = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } c = {0};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c.room)};
    coll_wait_fd(g, from, POLLIN, deadline);
    ssize_t n = recvmsg(from, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const struct cmsghdr *h = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;
    if (n == 1 && m.msg_flags & MSG_CTRUNC) { /* it came, and the kernel had no place for it */
        return co_err_errno(err, EMFILE, "the shared memory of rank %u", g->locals[0]);
    }
    if (!h || h->cmsg_type != SCM_RIGHTS || h->cmsg_len != CMSG_LEN(sizeof(int))) {
        return co_err_set(err, co_now_ms() < deadline ? CO_PEERLOST : CO_TIMEOUT,
            "rank %u, the machine's first, sent no shared memory", g->locals[0]);
    }
    memcpy(ret, CMSG_DATA(h), sizeof(*ret));
    return 0;
}

static enum net_refusal look_member(struct rt_group *g, const struct coll_hello *h) {
    bool member = h->purpose == COLL_FOR_MEMORY && g->peers[h->rank].local != COLL_NOT_LOCAL;
    return member && h->rank != g->rank ? NET_REFUSAL_NONE : COLL_REFUSAL_RANK;
}

static bool take_member(struct rt_group *g, const struct coll_hello *h, struct net_stream *s) {
    if (send_fd(s->fd, g->memory_fd) < 0) {
        return false;
    }
    net_stream_close(s);
    g->missing -= !g->peers[h->rank].has_memory;
    g->peers[h->rank].has_memory = true;
    return true;
}

/* How the socket's name is sent: its length, then the abstract address that the kernel chose. */
struct socket_name {
    uint32_t bytes;
    struct sockaddr_un address;
};

/* For the first rank of a machine: creates the memory and serves its descriptor. */
static int give_memory(struct rt_group *g, int64_t deadline, struct co_err *err) {
    CO_AUTOCLOSE int memory = -1;
    CO_TRY(coll_shm_create(&g->shm, &memory, err));
    CO_AUTOCLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct socket_name name = {.address.sun_family = AF_UNIX};
    socklen_t len = sizeof(name.address);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name.address, sizeof(sa_family_t)) < 0 ||
        listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)&name.address, &len) < 0) {
        return co_err_errno(err, errno, "a unix socket for shared memory");
    }
    name.bytes = len;
    for (uint32_t i = 1; i < g->n_local; i++) {
        int rc =
            coll_move_all(g, &g->peers[g->locals[i]].control, &name, sizeof(name), true, deadline);
        if (rc < 0) {
            return co_err_set(err, rc, "rank %u left while the group formed", g->locals[i]);
        }
    }
    g->missing = g->n_local - 1;
    g->memory_fd = memory;
    struct coll_accept a = {.g = g,
        .fd = fd,
        .local = true,
        .missing = &g->missing,
        .look = look_member,
        .take = take_member,
        .lacks = lacks_memory};
    CO_TRY(coll_accept_run(&a, deadline, err));
    return coll_shm_map(&g->shm, memory, err);
}

static int get_memory(struct rt_group *g, int64_t deadline, struct co_err *err) {
    struct socket_name name = {0};
    uint32_t first = g->locals[0];
    int rc = coll_move_all(g, &g->peers[first].control, &name, sizeof(name), false, deadline);
    if (rc < 0 || name.bytes > sizeof(name.address) || name.bytes < sizeof(sa_family_t)) {
        return co_err_set(err, rc < 0 ? rc : CO_INVALID, "rank %u %s while the group formed", first,
            rc == CO_TIMEOUT ? "said nothing" : "left");
    }
    CO_AUTOCLOSE int memory = -1;
    struct net_stream s = {.fd = -1};
    rc = coll_join(g, first, COLL_FOR_MEMORY, 0, &name.address, name.bytes, deadline, &s, err);
    if (rc == 0) {
        rc = recv_fd(g, s.fd, deadline, &memory, err);
    }
    net_stream_close(&s);
    CO_TRY(rc);
    return coll_shm_map(&g->shm, memory, err);
}

/* ---- the three steps ---- */

static int connect_all(struct rt_group *g, int64_t deadline, struct co_err *err) {
    CO_TRY(connect_control(g, deadline, err));
    derive_locals(g);
    derive_nodes(g);
    if (g->transport == RT_TRANSPORT_SHM && g->n_local < g->size) {
        return co_err_set(err, CO_UNSUPPORTED,
            "%u of %u ranks share this machine, network namespace and user", g->n_local, g->size);
    }
    if (g->n_local > COLL_SHM_RANKS_MAX) {
        return co_err_set(err, CO_UNSUPPORTED, "%u ranks on one machine, more than %u", g->n_local,
            COLL_SHM_RANKS_MAX);
    }
    CO_TRY(connect_lanes(g, deadline, err));
    if (g->n_local < 2) {
        return 0;
    }
    coll_shm_plan(&g->shm, g->n_local, g->local);
    return g->local == 0 ? give_memory(g, deadline, err) : get_memory(g, deadline, err);
}

int coll_group_form(struct rt_group *g, int64_t deadline_ms, struct co_err *err) {
    if (g->size == 1) {
        derive_locals(g);
        derive_nodes(g);
        return 0;
    }
    CO_TRY(connect_all(g, deadline_ms, err));
    return coll_monitor_start(g, err);
}
