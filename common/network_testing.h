/* A network namespace for a test's program: its ports and connections are nobody else's. */
#pragma once

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"

static inline bool co_test_write(const char *path, const char *text) {
    FILE *f = fopen(path, "we");
    bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

/* From now on this process is in a new one; who is not root becomes it, in a user namespace.
 * False: this user may not have one, and the process is where it was. */
static inline bool co_test_network_new(void) {
    if (unshare(CLONE_NEWNET) == 0) {
        return true;
    }
    CO_AUTOFREE char *map = co_xasprintf("0 %u 1", geteuid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && co_test_write("/proc/self/uid_map", map);
}

/* In the network of this process. */
static inline bool co_test_loopback(bool up) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP | IFF_RUNNING : 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    (void)close(fd);
    return ok;
}

/* For a program that makes more connections than others can do without: each one that has ended
 * keeps a port for a minute, and when all have been used nobody on the machine can listen on a port
 * that the kernel chooses.  Where no network can be made it has this machine's. */
static inline bool co_test_network_own(void) {
    return !co_test_network_new() || co_test_loopback(true);
}
