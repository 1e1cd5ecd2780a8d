/* One thread for each group that watches the other ranks: it reads the control connections,
 * answers pings and notices when a connection ends.  A loss is sent to all ranks at once, before
 * their own calls fail for reasons that follow from it, so that all name the same rank. */
#include "runtime/train/coll/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bytes.h"
#include "runtime/train/coll/coll.h"

/* A machine that acknowledges no data for SILENT_MS counts as dead (TCP_USER_TIMEOUT). */
enum { EVENTS = 16, SILENT_MS = 30 * 1000 };
enum { MESSAGE_BYTES = COLL_WORD_HEAD + COLL_WORD_MAX };

static uint32_t bits_bytes(const struct rt_group *g) {
    return g->size / 8 + 1;
}

static void send_word(struct rt_group *g, uint32_t to, enum coll_word word, uint32_t rank, int code,
    const unsigned char *more, uint32_t bytes) {
    unsigned char wire[MESSAGE_BYTES];
    struct coll_peer *p = &g->peers[to];
    if (p->control.fd < 0 || atomic_load(&p->gone)) {
        return;
    }
    co_put_u32(wire, (uint32_t)word);
    co_put_u32(wire + 4, rank);
    co_put_u32(wire + 8, (uint32_t)code);
    co_put_u32(wire + 12, bytes);
    if (bytes > 0) {
        memcpy(wire + COLL_WORD_HEAD, more, bytes);
    }
    (void)!net_stream_post(&p->control, wire, COLL_WORD_HEAD + bytes);
}

void coll_monitor_send(struct rt_group *g, enum coll_word word, uint32_t rank, int code,
    const unsigned char *more, uint32_t bytes) {
    for (uint32_t r = 0; r < g->size; r++) {
        send_word(g, r, word, rank, code, more, bytes);
    }
}

void coll_monitor_send_one(struct rt_group *g, uint32_t to, enum coll_word word,
    const unsigned char *more, uint32_t bytes) {
    send_word(g, to, word, 0, 0, more, bytes);
}

/* When it was sent, by this rank's clock, comes back with the answer. */
static void send_ping(struct rt_group *g, uint32_t to, const unsigned char *more, uint32_t bytes) {
    uint64_t now = (uint64_t)co_now_ms();
    send_word(g, to, COLL_WORD_PING, (uint32_t)now, (int)(uint32_t)(now >> 32), more, bytes);
}

void coll_monitor_ping(struct rt_group *g) {
    pthread_mutex_lock(&g->m);
    for (uint32_t r = 0; r < g->size; r++) {
        send_ping(g, r, NULL, 0);
    }
    pthread_mutex_unlock(&g->m);
}

void coll_monitor_ask(struct rt_group *g, const struct rt_coll *c, uint32_t rank) {
    unsigned char question[COLL_QUESTION_MAX];
    uint32_t bytes = coll_question_write(g, c, rank, question);
    pthread_mutex_lock(&g->m);
    atomic_store(&g->peers[rank].asked_ms, co_now_ms());
    send_ping(g, rank, question, bytes);
    pthread_mutex_unlock(&g->m);
}

/* ---- reading ---- */

/* text: another rank's message, bytes long; only printable ones are believed. */
static void receive_lost(
    struct rt_group *g, uint32_t from, uint32_t rank, int code, const char *text, uint32_t bytes) {
    char said[COLL_WORD_MAX + 1];
    if (code >= 0 || rank > g->size) {
        return;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        said[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    said[bytes] = '\0';
    struct coll_failure_report t = {
        .word = COLL_WORD_LOST, .more = (const unsigned char *)said, .bytes = bytes};
    if (rank == g->rank) {
        (void)coll_group_fail_as(
            g, code, rank, &t, "rank %u, this one, was given up by rank %u: %s", rank, from, said);
    } else {
        (void)coll_group_fail_as(g, code, rank, &t, "%s, as reported by rank %u", said, from);
    }
}

static void receive(struct rt_group *g, uint32_t from, const unsigned char *wire) {
    struct coll_peer *p = &g->peers[from];
    const unsigned char *more = wire + COLL_WORD_HEAD;
    uint32_t rank = co_get_u32(wire + 4), code = co_get_u32(wire + 8);
    uint32_t bytes = co_get_u32(wire + 12);
    uint64_t begun = atomic_load(&g->calls.begun);
    unsigned char sent[COLL_PONG_BYTES];
    switch (co_get_u32(wire)) {
    case COLL_WORD_PING:
        co_put_u64(sent, (uint64_t)code << 32 | rank);
        pthread_mutex_lock(&g->m);
        send_word(g, from, COLL_WORD_PONG, (uint32_t)begun, (int)(uint32_t)(begun >> 32), sent,
            sizeof(sent));
        pthread_mutex_unlock(&g->m);
        coll_question_receive(g, from, more, bytes);
        break;
    case COLL_WORD_PONG:
        if (bytes == COLL_PONG_BYTES) {
            atomic_store(&p->begun, (uint64_t)code << 32 | rank);
            atomic_store(&p->answered_ms, (int64_t)co_get_u64(more));
        }
        break;
    case COLL_WORD_LOST:
        receive_lost(g, from, rank, (int)code, (const char *)more, bytes);
        break;
    case COLL_WORD_DIFFER:
        if (bytes == COLL_DIFFERENCE) {
            coll_difference_receive(g, more);
        }
        break;
    case COLL_WORD_BYE:
        coll_goodbye_receive(g, from, more, bytes);
        atomic_store_explicit(&p->left, true, memory_order_release);
        coll_list_left(g, from);
        break;
    case COLL_WORD_LIST:
        coll_list_receive(g, from, more, bytes);
        break;
    case COLL_WORD_UNABLE:
        coll_unable_receive(g, from, more, bytes);
        break;
    case COLL_WORD_DEAD:
        pthread_mutex_lock(&g->m);
        p->round = rank;
        memcpy(p->dead, more, bytes);
        pthread_cond_broadcast(&g->changed);
        pthread_mutex_unlock(&g->m);
        break;
    case COLL_WORD_AGREED:
        pthread_mutex_lock(&g->m);
        /* A rank that this one has voted dead has no say. */
        if (!g->votes || !(g->votes[from / 8] >> (from % 8) & 1)) {
            g->agreed_round = rank;
            memcpy(g->agreed, more, bytes);
            pthread_cond_broadcast(&g->changed);
        }
        pthread_mutex_unlock(&g->m);
        break;
    default:
        break;
    }
}

static void lose(struct rt_group *g, uint32_t rank, const char *why) {
    struct coll_peer *p = &g->peers[rank];
    (void)epoll_ctl(g->epoll, EPOLL_CTL_DEL, p->control.fd, NULL);
    pthread_mutex_lock(&g->m);
    atomic_store(&p->gone, true);
    coll_group_lose_child(g, rank);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->m);
    if (!atomic_load(&p->left)) {
        (void)coll_group_fail(g, CO_PEERLOST, rank, true, "rank %u (%.200s) is lost: %s", rank,
            g->endpoints[rank], why);
    }
}

/* The words in the peer's message, of which the last may be partial.  False: these are none. */
static bool take_words(struct rt_group *g, uint32_t rank) {
    struct coll_peer *p = &g->peers[rank];
    const unsigned char *at = p->message, *end = p->message + p->unread;
    while (end - at >= COLL_WORD_HEAD) {
        uint32_t more = co_get_u32(at + 12), word = co_get_u32(at);
        bool bits = word == COLL_WORD_DEAD || word == COLL_WORD_AGREED;
        if (more > COLL_WORD_MAX || (bits && more != bits_bytes(g))) {
            return false;
        }
        if (end - at < COLL_WORD_HEAD + (ptrdiff_t)more) {
            break;
        }
        receive(g, rank, at);
        at += COLL_WORD_HEAD + more;
    }
    p->unread = (uint32_t)(end - at);
    memmove(p->message, at, p->unread);
    return true;
}

/* Handles all words that have arrived before it handles the end of the connection: a goodbye
 * turns that end into a normal one. */
static void listen_to(struct rt_group *g, uint32_t rank) {
    struct coll_peer *p = &g->peers[rank];
    for (;;) {
        struct iovec v = {p->message + p->unread, MESSAGE_BYTES - p->unread};
        struct co_err why = {0};
        size_t n = 0;
        pthread_mutex_lock(&g->m); /* others send */
        int rc = net_stream_read(&p->control, &v, 1, &n, &why);
        pthread_mutex_unlock(&g->m);
        p->unread += (uint32_t)n;
        if (rc < 0 || !take_words(g, rank)) {
            lose(g, rank,
                rc == CO_PEERLOST ? "its process or machine has ended"
                : rc < 0          ? co_err_text(&why)
                                  : "it does not speak this protocol");
            return;
        }
        if (n == 0) {
            return;
        }
    }
}

static void *monitor_run(void *arg) {
    struct rt_group *g = arg;
    struct epoll_event events[EVENTS];
    for (;;) {
        /* no deadline: until a peer says something, or coll_monitor_stop */
        int n = epoll_wait(g->epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u32 == g->rank) { /* g->wake: coll_monitor_stop */
                return NULL;
            }
            listen_to(g, events[i].data.u32);
        }
    }
}

/* ---- life ---- */

static int watch(struct rt_group *g, int fd, uint32_t rank) {
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = rank};
    return epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &e);
}

int coll_monitor_start(struct rt_group *g, struct co_err *err) {
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    g->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int bad = g->epoll < 0 || g->wake < 0 || watch(g, g->wake, g->rank) < 0;
    int64_t now = co_now_ms();
    g->agreed = co_xcalloc(1, bits_bytes(g));
    for (uint32_t r = 0; r < g->size && !bad; r++) {
        struct coll_peer *p = &g->peers[r];
        if (r != g->rank) {
            unsigned silent = SILENT_MS;
            int one = 1;
            (void)setsockopt(p->control.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof(silent));
            (void)setsockopt(p->control.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
            (void)setsockopt(p->control.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            p->message = co_xcalloc(1, MESSAGE_BYTES);
            p->dead = co_xcalloc(1, bits_bytes(g));
            atomic_store(&p->answered_ms, now);
            bad = watch(g, p->control.fd, r) < 0;
        }
    }
    if (bad) {
        return co_err_errno(err, errno, "watch the group's connections");
    }
    int e = pthread_create(&g->monitor, NULL, monitor_run, g);
    if (e) {
        return co_err_errno(err, e, "a thread for the group's connections");
    }
    g->monitored = true;
    return 0;
}

/* A socket that is closed with something unread is reset, and what it has still to send is dropped:
 * the reason why the group failed, say. */
static void read_the_rest(int fd) {
    unsigned char rest[MESSAGE_BYTES];
    while (fd >= 0 && recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
    }
}

void coll_monitor_stop(struct rt_group *g) {
    if (g->monitored) {
        unsigned char calls[COLL_QUESTION_MAX];
        uint32_t bytes = coll_question_write(g, NULL, g->rank, calls);
        pthread_mutex_lock(&g->m);
        coll_group_notify(g);
        coll_monitor_send(g, COLL_WORD_BYE, g->rank, 0, calls, bytes);
        pthread_mutex_unlock(&g->m);
        (void)eventfd_write(g->wake, 1);
        /* no deadline: the thread reads and sends without blocking */
        pthread_join(g->monitor, NULL);
        for (uint32_t r = 0; r < g->size; r++) {
            read_the_rest(g->peers[r].control.fd);
        }
        g->monitored = false;
    }
}
