/* An open connection between two processes of a job, plain or in TLS: reads and writes that do not
 * block and keep nothing back.  What both ends say over it is up to them.
 *
 *     write --> TLS records, STREAM_BATCH bytes at a time --> socket
 *     socket --> as many bytes as the records of what is wanted have --> TLS --> read
 *
 * A byte counts as written once the kernel has it, so nothing is left to send when a call that
 * wrote all of it returns.  A read takes no byte from the kernel beyond what is wanted, so polling
 * the descriptor shows whether there is more.
 *
 * In TLS both ends must cut alike: what one end writes from one buffer (iovec) must lie within what
 * one read of the other end wants.  Then a record that is longer than what is wanted was changed in
 * transit.  Without this check the reader would wait for bytes that nobody sends.
 *
 * Reads are for one thread at a time, and so are writes; in TLS both together are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/err.h"
#include "common/tls.h"

enum { NET_RECORD_HEAD = 5 };

struct net_stream {
    int fd;             /* connected, non-blocking, owned; -1: none */
    struct co_tls *tls; /* owned, its handshake is complete; NULL: plain */
    size_t sealed;      /* bytes at the start of the next write that are encrypted already */
    /* The record that is being received: its first bytes, and how many of it have come. */
    unsigned char head[NET_RECORD_HEAD];
    uint32_t have;
    bool damaged; /* the next record was changed in transit */
};

/* Closes it without a word: the end of a connection is no message (common/tls.h has one).  No
 * effect if it is closed. */
void net_stream_close(struct net_stream *s);
/* For a forked child: closes its descriptor only, as the parent's threads may have been using s. */
void net_stream_disown(struct net_stream *s);

/* Writes what the socket takes; *ret_n: how many bytes, 0 if none at the moment.  In TLS the next
 * write must begin with what was not counted.  CO_PEERLOST: the other end has closed. */
CO_MUST_CHECK int net_stream_write(
    struct net_stream *s, const struct iovec *v, int n, size_t *ret_n, struct co_err *err);
/* Reads what is there; wants a byte at least.  CO_PEERLOST: the other end has closed.  CO_INVALID:
 * what came was changed in transit; bytes before that are returned first, so do not read again
 * after it. */
CO_MUST_CHECK int net_stream_read(
    struct net_stream *s, const struct iovec *v, int n, size_t *ret_n, struct co_err *err);
/* Writes all or nothing, for messages that may be dropped: false if the socket is full.  Not
 * together with net_stream_write while that has something left. */
bool net_stream_post(struct net_stream *s, const void *bytes, size_t n);
