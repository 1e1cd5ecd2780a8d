/* Small socket helpers: connecting to many endpoints, and choosing the address to listen on. They
 * know no protocol. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/err.h"

struct net_reached {
    int fd;            /* connected, non-blocking, owned by the caller; -1: nobody accepted */
    char address[64];  /* numeric "ip:port" that accepted */
    struct co_err err; /* why nobody did, at the last of its addresses; of no use if one did */
};

/* Connects to all endpoints ("host:port") at the same time, each at up to four of its addresses.
 * ret[i] is the first address that accepts within timeout_ms. Before that, names have ten seconds
 * to become known, all at the same time. Returns how many endpoints accepted, at once if the
 * program ends the wait (common/interrupt.h). */
size_t net_connect(const char *const *endpoints, size_t n, int timeout_ms, struct net_reached *ret);

/* The address to listen on for a server that others reach as `endpoint`: the same one if this
 * machine has it; otherwise (a Service's name, an address behind NAT) all addresses of the machine.
 */
CO_MUST_CHECK int net_listen_address(
    const char *endpoint, char *ret_text, size_t size, struct co_err *err);

/* A listening socket at "host:port" for peers that speak first: who connects and says nothing stays
 * in the kernel for a second or so, before accept() gets it.  Best effort, as a kernel may be short
 * of room.  "[::]:port" is open for IPv4, too: some peers may have only one of them. */
CO_MUST_CHECK int net_listen(const char *address, int *ret_fd, struct co_err *err);

/* Raises this process's limit of descriptors to what it may be.  Systems give 1024 at first, for
 * programs that call select(), and a job of 2,000 servers takes 4,000. */
void net_raise_files(void);

/* Only few descriptors are free beyond this one: a door should close it, so that the process keeps
 * some for files, libraries and the program. */
bool net_is_scarce(int fd);

/* The other end of a connection; "" if it is not known. */
struct net_peer {
    char host[48]; /* numeric; an IPv4 address in its own form */
    char text[64]; /* "host:port" */
};
void net_peer_of(int fd, struct net_peer *ret);

/* Receives from a non-blocking socket what is missing of a message of `bytes` bytes, which follows
 * the first `offset` bytes of the connection; *have counts those.  1: all is here; 0: not yet;
 * CO_PEERLOST: the other end has closed. */
CO_MUST_CHECK int net_read_part(
    int fd, unsigned char *to, uint32_t offset, uint32_t bytes, uint32_t *have);

/* Bounds what strangers can make a process log: of each reason one line a minute. */
enum { NET_LOG_MS = 60000 };
struct net_log_limit {
    int64_t said_ms; /* 0: never */
    uint64_t unsaid; /* since then */
};
/* n more have happened.  Whether a line is due now; *ret_n: for how many it stands. */
bool net_log_due(struct net_log_limit *l, uint64_t n, uint64_t *ret_n);
