/* Port numbers for tests whose programs need a port to listen on.
 *
 * Several test programs run at once, so a port that was free a moment ago may be in use a moment
 * later.  So each process reserves a block of ports, by binding a unix socket's name that only one
 * process can have.  tests/ports.py does the same for the blocks below these.  All ports
 * are below the range that the kernel uses for outgoing connections. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CO_PORTS_FIRST = 20000,
    CO_PORTS_BLOCK = 100,
    CO_PORTS_BLOCKS = 120,
    CO_PORTS_HELD = 3, /* by a process at most */
};

/* The name is free again when the last process with the descriptor ends.  Forked children keep it;
 * programs that they execute do not. */
static inline bool co_ports_claim(unsigned first) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n =
        snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "paddlejob-tests-ports-%u", first);
    size_t len = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&name, (socklen_t)len) == 0) {
        return true; /* fd stays open */
    }
    (void)close(fd);
    return false;
}

/* First port of a block that only this process uses. */
static inline unsigned co_ports_block(void) {
    for (unsigned i = 0; i < CO_PORTS_BLOCKS; i++) {
        unsigned block = ((unsigned)getpid() + i) % CO_PORTS_BLOCKS;
        unsigned first = CO_PORTS_FIRST + block * CO_PORTS_BLOCK;
        if (co_ports_claim(first)) {
            return first;
        }
    }
    (void)fprintf(
        stderr, "all %d blocks of ports are claimed by tests that run\n", CO_PORTS_BLOCKS);
    abort();
}

/* Nothing listens on the port, at any address; connections in TIME_WAIT do not count. */
static inline bool co_port_free(unsigned port) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    bool unused = bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;

    (void)close(fd);
    return unused;
}

/* The first of n consecutive ports that no other test uses.  A port is handed out again only after
 * all of CO_PORTS_HELD blocks: until then who got it may not have begun to listen. */
static inline uint16_t co_test_ports(unsigned n) {
    enum { ALL = CO_PORTS_HELD * CO_PORTS_BLOCK };
    static unsigned first[CO_PORTS_HELD], next;

    for (unsigned tries = 0; tries < 2 * ALL; tries++) {
        unsigned left = CO_PORTS_BLOCK - next % CO_PORTS_BLOCK;
        unsigned at = (left < n ? next + left : next) % ALL, ok = 0;
        unsigned *block = &first[at / CO_PORTS_BLOCK];
        *block = *block ? *block : co_ports_block(); /* most programs need one alone */
        next = at + n;
        while (ok < n && co_port_free(*block + at % CO_PORTS_BLOCK + ok)) {
            ok++;
        }
        if (ok == n) {
            return (uint16_t)(*block + at % CO_PORTS_BLOCK);
        }
    }
    (void)fprintf(stderr, "%u ports in a row are not free in blocks %u, %u, %u\n", n, first[0],
        first[1], first[2]);
    abort();
}
