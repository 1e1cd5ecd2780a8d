/* The kernel's tables of TCP sockets name a socket's inode; a process that has it open has a link
 * to it in /proc/PID/fd.  See port_holder.h. */
#include "common/port_holder.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/parse.h"

enum {
    LISTENS = 10 /* the kernel's TCP_LISTEN */,
    PLACE_MAX = CO_HOST_MAX + 10,
    LINES_MAX = 1 << 16,
    LOOKS = 3
};

struct holder {
    bool found, listens;
    unsigned long inode; /* 0: of a connection that no process has any more */
    char peer[PLACE_MAX];
};

/* The tables have addresses as 32-bit words in this machine's byte order, in hexadecimal. */
static void format_peer(const char *hex, unsigned port, char *ret_text, size_t size) {
    uint32_t words[4] = {0};
    char host[INET6_ADDRSTRLEN] = "?";
    size_t n = strlen(hex) / 8;
    for (size_t i = 0; i < n && i < 4; i++) {
        char word[9] = "";
        memcpy(word, hex + 8 * i, 8);
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    bool mapped = n == 4 && !words[0] && !words[1] && words[2] == htonl(0xffff);
    (void)inet_ntop(
        n == 1 || mapped ? AF_INET : AF_INET6, mapped ? &words[3] : words, host, sizeof(host));
    co_hostport_format(host, port, ret_text, size);
}

/* A socket that listens says more than its connections. */
static void look_into_table(const char *path, uint16_t port, struct holder *h) {
    FILE *f = fopen(path, "re");
    char line[512], peer[33];
    for (int i = 0; f && i < LINES_MAX && !h->listens && fgets(line, sizeof(line), f); i++) {
        unsigned local = 0, remote = 0, state = 0;
        unsigned long inode = 0;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %32[0-9A-Fa-f]:%x %x %*s %*s %*s %*u %*u %lu",
                &local, peer, &remote, &state, &inode) != 5 ||
            local != port || (h->found && state != LISTENS && !inode)) {
            continue;
        }
        h->found = true;
        h->listens = state == LISTENS;
        h->inode = inode;
        format_peer(peer, remote, h->peer, sizeof(h->peer));
    }
    if (f) {
        (void)fclose(f);
    }
}

static bool has_open(const char *pid, const char *socket) {
    char path[64], to[64];
    (void)snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *d; dir && !found && (d = readdir(dir));) {
        ssize_t n = readlinkat(dirfd(dir), d->d_name, to, sizeof(to) - 1);
        to[n > 0 ? n : 0] = '\0';
        found = strcmp(to, socket) == 0;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return found;
}

/* "process 12 (python3)" */
static void name_process(unsigned long inode, char *ret_text, size_t size) {
    char socket[64];
    DIR *dir = opendir("/proc");
    (void)snprintf(socket, sizeof(socket), "socket:[%lu]", inode);
    (void)snprintf(ret_text, size, "another process");
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (!isdigit((unsigned char)d->d_name[0]) || !has_open(d->d_name, socket)) {
            continue;
        }
        char path[64], name[32] = "?";
        (void)snprintf(path, sizeof(path), "/proc/%.16s/comm", d->d_name);
        FILE *f = fopen(path, "re");
        if (f) {
            (void)!fgets(name, sizeof(name), f);
            (void)fclose(f);
        }
        name[strcspn(name, "\n")] = '\0';
        (void)snprintf(ret_text, size, "process %.16s (%s)", d->d_name, name);
        break;
    }
    if (dir) {
        (void)closedir(dir);
    }
}

void co_port_holder(uint16_t port, char *ret_text, size_t size) {
    struct holder h = {.found = false};
    char who[80];
    /* The kernel may skip a socket of its table while others come and go. */
    for (int i = 0; i < LOOKS && !h.found; i++) {
        look_into_table("/proc/self/net/tcp", port, &h);
        look_into_table("/proc/self/net/tcp6", port, &h);
    }
    *ret_text = '\0';
    if (!h.found) {
        return;
    }
    name_process(h.inode, who, sizeof(who));
    if (h.listens) {
        (void)snprintf(ret_text, size, "%s listens there", who);
    } else {
        (void)snprintf(ret_text, size, "%s has a connection from there to %s", who, h.peer);
    }
}
