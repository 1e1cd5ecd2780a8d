/* Connecting to many endpoints at once with one poll loop, and choosing an address to listen on. */
#include "runtime/net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/conn.h"
#include "common/interrupt.h"
#include "common/listen.h"
#include "common/mem.h"
#include "common/parse.h"

static void freeaddrinfop(struct addrinfo **a) {
    if (*a) {
        freeaddrinfo(*a);
    }
}

static struct addrinfo *resolve_endpoint(const char *endpoint, int flags) {
    struct co_hostport hp;
    if (co_parse_hostport("endpoint", endpoint, &hp, NULL) < 0) {
        return NULL;
    }
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", hp.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    /* no deadline: the resolver has one of its own */
    return getaddrinfo(hp.host, port, &hints, &found) == 0 ? found : NULL;
}

/* NAMES_MS: a resolver that asks its second server, as the first one is dead, takes five seconds.
 */
enum { ADDRESSES = 4, NAMES_MS = 10000 };

/* A connection attempt to one address. The attempts of an endpoint are neighbours in the array. */
struct connect_attempt {
    size_t endpoint;
    char address[64];
};

static void address_text(const struct addrinfo *a, char *ret_text, size_t size) {
    char host[48], port[8];
    int rc = getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), port, sizeof(port),
        NI_NUMERICHOST | NI_NUMERICSERV);
    ret_text[0] = '\0';
    if (rc == 0) {
        (void)snprintf(ret_text, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    }
}

/* Starts to connect. The socket becomes writable when the result is known; -1: it failed at once.
 */
/* A descriptor, or minus an errno. */
static int begin_connect(const struct addrinfo *a) {
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* no wait: the descriptor is non-blocking */
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS) {
        int e = errno;
        co_close(fd);
        return -e;
    }
    return fd < 0 ? -errno : fd;
}

/* What net_connect tries. */
struct reach {
    struct pollfd *fds; /* [m], with room for ADDRESSES of each endpoint */
    struct connect_attempt *attempts;
    size_t m;
    struct co_loop *loop; /* while names are looked up */
    size_t asked;         /* names without an answer yet */
    struct net_reached *ret;
};

/* A name that is looked up. */
struct name {
    struct reach *r;
    size_t endpoint;
    struct co_lookup *lookup; /* NULL: it is known, or not asked for */
};

static void begin_addresses(struct reach *r, size_t endpoint, const struct addrinfo *all) {
    size_t k = 0;
    for (const struct addrinfo *a = all; a && k < ADDRESSES; a = a->ai_next, k++) {
        int fd = begin_connect(a);
        if (fd >= 0) {
            struct connect_attempt *t = &r->attempts[r->m];
            t->endpoint = endpoint;
            address_text(a, t->address, sizeof(t->address));
            r->fds[r->m++] = (struct pollfd){.fd = fd, .events = POLLOUT};
        } else {
            co_err_connect(&r->ret[endpoint].err, -fd, "cannot connect");
        }
    }
}

static void on_found(void *arg, const struct addrinfo *list, const struct co_err *err) {
    struct name *n = arg;
    n->lookup = NULL;
    if (err) {
        n->r->ret[n->endpoint].err = *err;
    }
    begin_addresses(n->r, n->endpoint, list);
    if (--n->r->asked == 0) {
        co_loop_stop(n->r->loop);
    }
}

/* Begins to connect to endpoints that are names, as they become known. */
static void begin_names(
    struct reach *r, const char *const *endpoints, struct name *names, size_t n) {
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    if (co_loop_new(&loop, NULL) < 0) {
        return;
    }
    r->loop = loop;
    r->asked = n;
    for (size_t i = 0; i < n; i++) {
        struct co_hostport hp;
        (void)!co_parse_hostport("endpoint", endpoints[names[i].endpoint], &hp, NULL);
        names[i].lookup = co_lookup_start(loop, hp.host, hp.port, on_found, &names[i]);
    }
    co_lookup_run(loop, co_now_ms() + NAMES_MS);
    for (size_t i = 0; i < n; i++) {
        if (names[i].lookup) {
            co_err_set(&r->ret[names[i].endpoint].err, CO_TIMEOUT,
                "its name is not known within %d s", NAMES_MS / 1000);
            co_lookup_cancel(names[i].lookup);
        }
    }
}

static void begin_all(struct reach *r, const char *const *endpoints, size_t n) {
    CO_AUTOFREE struct name *names = co_xcalloc(n, sizeof(*names));
    size_t n_names = 0;
    for (size_t i = 0; i < n; i++) {
        struct co_hostport hp;
        CO_CLEANUP(freeaddrinfop)
        struct addrinfo *numeric = resolve_endpoint(endpoints[i], AI_NUMERICHOST);
        if (numeric) {
            begin_addresses(r, i, numeric);
        } else if (co_parse_hostport("endpoint", endpoints[i], &hp, NULL) == 0) {
            names[n_names++] = (struct name){.r = r, .endpoint = i};
        }
    }
    if (n_names > 0) {
        begin_names(r, endpoints, names, n_names);
    }
}

/* 0, or why the connection was not made.  To be called once per socket, because reading SO_ERROR
 * clears it. */
static int result_of(int fd) {
    int e = 0;
    socklen_t len = sizeof(e);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len) == 0 ? e : errno;
}

/* The result of one attempt is known. If several addresses of an endpoint accept at the same time,
 * the first in the resolver's order is taken. */
static size_t decide_attempt(
    struct pollfd *fd, const struct connect_attempt *t, struct net_reached *ret) {
    struct net_reached *r = &ret[t->endpoint];
    int failed = r->fd < 0 ? result_of(fd->fd) : 0;
    bool taken = r->fd < 0 && !failed;
    if (failed) {
        co_err_connect(&r->err, failed, "cannot connect");
    }
    if (taken) {
        r->fd = fd->fd;
        (void)snprintf(r->address, sizeof(r->address), "%s", t->address);
    } else {
        co_close(fd->fd);
    }
    fd->fd = -1;
    return taken;
}

size_t net_connect(
    const char *const *endpoints, size_t n, int timeout_ms, struct net_reached *ret) {
    CO_AUTOFREE struct pollfd *fds = co_xcalloc(n * ADDRESSES, sizeof(*fds));
    CO_AUTOFREE struct connect_attempt *attempts = co_xcalloc(n * ADDRESSES, sizeof(*attempts));
    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct net_reached){.fd = -1};
    }
    struct reach r = {.fds = fds, .attempts = attempts, .ret = ret};
    begin_all(&r, endpoints, n);
    int64_t end = co_now_ms() + timeout_ms, ask_ms = co_interrupt_next();
    size_t m = r.m, left = m, ok = 0;
    while (left > 0 && ok < n && co_interrupt_poll(fds, m, end, &ask_ms) > 0) {
        for (size_t i = 0; i < m; i++) {
            if (fds[i].fd >= 0 && fds[i].revents) {
                ok += decide_attempt(&fds[i], &attempts[i], ret);
                left--;
            }
        }
    }
    for (size_t i = 0; i < m; i++) {
        if (fds[i].fd >= 0) {
            struct net_reached *late = &ret[attempts[i].endpoint];
            if (late->fd < 0) {
                co_err_connect(&late->err, ETIMEDOUT, "cannot connect");
            }
            co_close(fds[i].fd);
        }
    }
    return ok;
}

/* Whether the host is an address of this machine. */
static bool is_local(const char *host) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    CO_CLEANUP(freeaddrinfop) struct addrinfo *a = NULL;
    /* no wait: a numeric address asks no resolver */
    return getaddrinfo(host, "0", &hints, &a) == 0 && co_listen_is_local(a->ai_addr, a->ai_addrlen);
}

/* A machine without IPv6 cannot listen on [::]. */
static bool has_v6(void) {
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    return co_listen_is_local((struct sockaddr *)&any, sizeof(any));
}

int net_listen_address(const char *endpoint, char *ret_text, size_t size, struct co_err *err) {
    struct co_hostport hp;
    CO_TRY(co_parse_hostport("endpoint", endpoint, &hp, err));
    const char *host = is_local(hp.host) ? hp.host : has_v6() ? "::" : "0.0.0.0";
    co_hostport_format(host, hp.port, ret_text, size);
    return 0;
}

int net_listen(const char *address, int *ret_fd, struct co_err *err) {
    /* Without the "[::]" co_listen takes IPv4, too. */
    const char *all = strncmp(address, "[::]:", 5) == 0 ? address + 4 : address;
    int seconds = 1, rc = co_listen_within(all, CO_LISTEN_MS, ret_fd, err);
    if (rc == 0) {
        (void)setsockopt(*ret_fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
        (void)listen(*ret_fd, SOMAXCONN); /* the kernel keeps as many of them */
    }
    return rc;
}

void net_raise_files(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

bool net_is_scarce(int fd) {
    enum { SPARE = 64 };
    struct rlimit files;
    return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > 2 * SPARE &&
           (rlim_t)fd >= files.rlim_cur - SPARE;
}

void net_peer_of(int fd, struct net_peer *ret) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } a = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(a);
    *ret = (struct net_peer){0};
    if (getpeername(fd, &a.any, &len) < 0) {
        return;
    }
    const void *address = &a.v4.sin_addr;
    uint16_t port = a.v4.sin_port;
    int family = a.any.sa_family;
    if (family == AF_INET6) {
        const unsigned char *b = a.v6.sin6_addr.s6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr);
        family = mapped ? AF_INET : AF_INET6;
        address = mapped ? b + 12 : b;
        port = a.v6.sin6_port;
    }
    if (inet_ntop(family, address, ret->host, sizeof(ret->host))) {
        (void)co_hostport_format(ret->host, ntohs(port), ret->text, sizeof(ret->text));
    }
}

int net_read_part(int fd, unsigned char *to, uint32_t offset, uint32_t bytes, uint32_t *have) {
    while (*have < offset + bytes) {
        ssize_t n = recv(fd, to + (*have - offset), offset + bytes - *have, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 && errno == EAGAIN ? 0 : CO_PEERLOST;
        }
        *have += (uint32_t)n;
    }
    return 1;
}

bool net_log_due(struct net_log_limit *l, uint64_t n, uint64_t *ret_n) {
    int64_t now = co_now_ms();
    l->unsaid += n;
    if (l->unsaid == 0 || (l->said_ms && now - l->said_ms < NET_LOG_MS)) {
        return false;
    }
    *ret_n = l->unsaid;
    *l = (struct net_log_limit){.said_ms = now};
    return true;
}
