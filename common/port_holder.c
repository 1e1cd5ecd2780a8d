/* The kernel's tables of TCP sockets name a socket's inode; a process that has it open has a link
 * to it in /proc/PID/fd.  See port_holder.h. */
#include "common/port_holder.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
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

/* An address; one of IPv4 as IPv6 maps it, and any address of either family as all zeros. */
struct place {
    struct in6_addr host;
    uint16_t port;
};

static const struct in6_addr anywhere; /* zeros */

static struct in6_addr map_v4(uint32_t v4) {
    struct in6_addr a = {0};
    if (v4 != INADDR_ANY) {
        a.s6_addr32[2] = htonl(0xffff);
        a.s6_addr32[3] = v4;
    }
    return a;
}

static struct place place_of(const struct sockaddr *at) {
    union {
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    bool v6 = at->sa_family == AF_INET6;
    memcpy(&a, at, v6 ? sizeof(a.v6) : sizeof(a.v4));
    return v6 ? (struct place){a.v6.sin6_addr, ntohs(a.v6.sin6_port)}
              : (struct place){map_v4(a.v4.sin_addr.s_addr), ntohs(a.v4.sin_port)};
}

static bool same_host(const struct in6_addr *a, const struct in6_addr *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* Whether a socket at one of them blocks the other. */
static bool collide(const struct place *a, const struct place *b) {
    return a->port == b->port && (same_host(&a->host, &b->host) || same_host(&a->host, &anywhere) ||
                                     same_host(&b->host, &anywhere));
}

/* The tables have addresses as 32-bit words in this machine's byte order, in hexadecimal. */
static struct place read_place(const char *hex, unsigned port) {
    uint32_t words[4] = {0};
    size_t n = strlen(hex) / 8;
    for (size_t i = 0; i < n && i < 4; i++) {
        char word[9] = "";
        memcpy(word, hex + 8 * i, 8);
        words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    struct place p = {map_v4(words[0]), (uint16_t)port};
    if (n == 4) {
        memcpy(&p.host, words, sizeof(p.host));
    }
    return p;
}

static void format_place(const struct place *p, char *ret_text, size_t size) {
    char host[INET6_ADDRSTRLEN] = "?";
    bool v4 = IN6_IS_ADDR_V4MAPPED(&p->host);
    (void)inet_ntop(v4 ? AF_INET : AF_INET6,
        v4 ? (const void *)&p->host.s6_addr32[3] : (const void *)&p->host, host, sizeof(host));
    co_hostport_format(host, p->port, ret_text, size);
}

/* A socket that listens says more than its connections. */
static void look_into_table(const char *path, const struct place *at, struct holder *h) {
    FILE *f = fopen(path, "re");
    char line[512], own[33], peer[33];
    for (int i = 0; f && i < LINES_MAX && !h->listens && fgets(line, sizeof(line), f); i++) {
        unsigned local = 0, remote = 0, state = 0;
        unsigned long inode = 0;
        if (sscanf(line, " %*d: %32[0-9A-Fa-f]:%x %32[0-9A-Fa-f]:%x %x %*s %*s %*s %*u %*u %lu",
                own, &local, peer, &remote, &state, &inode) != 6 ||
            local != at->port || (h->found && state != LISTENS && !inode)) {
            continue;
        }
        const struct place here = read_place(own, local), there = read_place(peer, remote);
        if (!collide(&here, at)) {
            continue;
        }
        h->found = true;
        h->listens = state == LISTENS;
        h->inode = inode;
        format_place(&there, h->peer, sizeof(h->peer));
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

void co_port_holder(const struct sockaddr *at, char *ret_text, size_t size) {
    const struct place here = place_of(at);
    struct holder h = {.found = false};
    char who[80];
    /* The kernel may skip a socket of its table while others come and go. */
    for (int i = 0; i < LOOKS && !h.found; i++) {
        look_into_table("/proc/self/net/tcp", &here, &h);
        look_into_table("/proc/self/net/tcp6", &here, &h);
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
