/* Endpoints on this machine for the ranks of a benchmark. */
#pragma once

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS_MAX = 16 };

/* Ports that were free a moment ago. */
static inline void find_ports(uint32_t n, char text[][32]) {
    int fds[RANKS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(a);
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(fds[i], (struct sockaddr *)&a, len) < 0 ||
            getsockname(fds[i], (struct sockaddr *)&a, &len) < 0) {
            abort();
        }
        (void)snprintf(text[i], sizeof(text[i]), "127.0.0.1:%u", ntohs(a.sin_port));
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
}
