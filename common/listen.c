/* Listening sockets, on one address or dual-stack on all. */
#include "common/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/interrupt.h"
#include "common/loop.h"
#include "common/parse.h"
#include "common/port_holder.h"

enum { BACKLOG = 1024 };

static int bind_and_listen(int fd, const struct sockaddr *addr, socklen_t len, bool dual) {
    int on = 1;
    int v6only = !dual;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) {
        return errno;
    }
    if (addr->sa_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) < 0) {
        return errno;
    }
    return bind(fd, addr, len) < 0 || listen(fd, BACKLOG) < 0 ? errno : 0;
}

/* 0 or an errno. */
static int try_listen(const struct sockaddr *addr, socklen_t len, bool dual, int *ret_fd) {
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int failed = bind_and_listen(fd, addr, len, dual);
    if (failed) {
        co_close(fd);
        return failed;
    }
    *ret_fd = fd;
    return 0;
}

/* One dual-stack socket; IPv4 alone only on machines without IPv6. */
static int listen_everywhere(uint16_t port, int *ret_fd) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int failed = try_listen((const struct sockaddr *)&v6, sizeof(v6), true, ret_fd);
    if (failed == EAFNOSUPPORT || failed == EADDRNOTAVAIL) {
        failed = try_listen((const struct sockaddr *)&v4, sizeof(v4), false, ret_fd);
    }
    return failed;
}

/* 0 or an errno. */
static int listen_at(const struct addrinfo *list, int *ret_fd) {
    int failed = EADDRNOTAVAIL;
    static const int families[] = {AF_INET, AF_INET6}; /* most clients expect IPv4 at localhost */
    for (size_t i = 0; i < CO_ARRAY_LEN(families); i++) {
        for (const struct addrinfo *a = list; a && failed; a = a->ai_next) {
            if (a->ai_family == families[i]) {
                failed = try_listen(a->ai_addr, a->ai_addrlen, false, ret_fd);
            }
        }
    }
    return failed;
}

/* list NULL: everywhere.  0 or an errno. */
static int listen_until(const struct addrinfo *list, uint16_t port, int64_t deadline, int *ret_fd) {
    enum { AGAIN_MS = 50 };
    int64_t ask_ms = co_interrupt_next();
    for (;;) {
        int failed = list ? listen_at(list, ret_fd) : listen_everywhere(port, ret_fd);
        if (failed != EADDRINUSE || co_now_ms() >= deadline) {
            return failed;
        }
        if (co_interrupted(&ask_ms)) {
            return ECANCELED;
        }
        /* The kernel does not report that a port is free again. */
        (void)co_interrupt_poll(NULL, 0, co_now_ms() + AGAIN_MS, &ask_ms);
    }
}

static int set_listen_error(const char *addr, const struct addrinfo *list, uint16_t port,
    int64_t ms, int failed, struct co_err *err) {
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char who[CO_HOST_MAX + 160] = "", tried[40] = "";
    if (failed == EADDRINUSE && err) {
        co_port_holder(list ? list->ai_addr : (const struct sockaddr *)&any, who, sizeof(who));
    }
    if (failed == EADDRINUSE && ms > 0) {
        (void)snprintf(tried, sizeof(tried), " within %g s", (double)ms / 1000);
    }
    int code = co_err_errno(err, failed, "cannot listen on %s%s", addr, tried);
    if (*who && err) {
        size_t n = strlen(err->msg);
        (void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", who);
    }
    return code;
}

int co_listen_within(const char *addr, int64_t ms, int *ret_fd, struct co_err *err) {
    struct co_hostport hp;
    CO_TRY(co_parse_hostport("address to listen on", addr, &hp, err));
    struct addrinfo *list = NULL;
    if (hp.host[0]) {
        char port[8];
        (void)snprintf(port, sizeof(port), "%u", hp.port);
        struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
        /* no deadline: the resolver has one of its own */
        int found = getaddrinfo(hp.host, port, &hints, &list);
        if (found) {
            return co_err_set(
                err, CO_INVALID, "cannot listen on %s: %s", addr, gai_strerror(found));
        }
    }
    int failed = listen_until(list, hp.port, co_now_ms() + ms, ret_fd);
    int rc = failed ? set_listen_error(addr, list, hp.port, ms, failed, err) : 0;
    if (list) {
        freeaddrinfo(list);
    }
    return rc;
}

int co_listen(const char *addr, int *ret_fd, struct co_err *err) {
    return co_listen_within(addr, 0, ret_fd, err);
}

bool co_listen_is_local(const struct sockaddr *addr, socklen_t len) {
    CO_AUTOCLOSE int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage any_port = {0};
    memcpy(&any_port, addr, len);
    /* Both families have their port in the same place. */
    ((struct sockaddr_in *)(void *)&any_port)->sin_port = 0;
    /* In use: the address is its own, and connections from it have taken all ports. */
    return fd >= 0 &&
           (bind(fd, (const struct sockaddr *)&any_port, len) == 0 || errno == EADDRINUSE);
}

uint16_t co_listen_port(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(a);
    (void)getsockname(fd, &a.any, &len);
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}
