/* Listening sockets, on one address or dual-stack on all. */
#include "common/listen.h"

#include "common/parse.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

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

int co_listen(const char *addr, int *ret_fd, struct co_err *err) {
    struct co_hostport hp;
    int r = co_parse_hostport("address to listen on", addr, &hp, err);
    if (r) {
        return r;
    }
    int failed = 0;
    if (!hp.host[0]) {
        failed = listen_everywhere(hp.port, ret_fd);
        return failed ? co_err_errno(err, failed, "cannot listen on %s", addr) : 0;
    }
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", hp.port);
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    /* no deadline: the resolver has one of its own */
    int found = getaddrinfo(hp.host, port, &hints, &list);
    if (found) {
        return co_err_set(err, CO_INVALID, "cannot listen on %s: %s", addr, gai_strerror(found));
    }
    failed = EADDRNOTAVAIL;
    static const int families[] = {AF_INET, AF_INET6}; /* most clients expect IPv4 at localhost */
    for (size_t i = 0; i < CO_ARRAY_LEN(families); i++) {
        for (const struct addrinfo *a = list; a && failed; a = a->ai_next) {
            if (a->ai_family == families[i]) {
                failed = try_listen(a->ai_addr, a->ai_addrlen, false, ret_fd);
            }
        }
    }
    freeaddrinfo(list);
    return failed ? co_err_errno(err, failed, "cannot listen on %s", addr) : 0;
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
