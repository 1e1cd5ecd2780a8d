/* The transport between machines: non-blocking TCP sockets, with TLS if the job encrypts. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "runtime/train/coll/message.h"

enum { NEAR_US = 200, NEAR_BYTES = 256 << 10 };

/* On near paths, limits the send buffer.  The kernel would let it grow to megabytes, which drop
 * out of the CPU caches before they are sent.  A path on the machine or in its rack holds less than
 * the limit: 20 Gbit/s for NEAR_US are twice NEAR_BYTES, and the kernel doubles what one sets.  On
 * loopback this nearly halves the time of an all_reduce. */
void coll_tcp_tune(int fd) {
    int one = 1, bytes = NEAR_BYTES;
    struct tcp_info info;
    socklen_t size = sizeof(info);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_rtt < NEAR_US) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
}

bool coll_tcp_ended(int fd) {
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* What a rank has moved.  Who has closed the connection is the monitor's to find out. */
static ssize_t moved(
    struct rt_group *g, uint32_t rank, int rc, size_t n, const struct co_err *err) {
    if (rc < 0 && rc != CO_PEERLOST) {
        return coll_group_fail(g, CO_PEERLOST, rank, true,
            "the connection to rank %u (%.200s) has failed: %s", rank, g->endpoints[rank],
            co_err_text(err));
    }
    return (ssize_t)n;
}

static ssize_t tcp_write(
    struct rt_group *g, uint32_t to, uint32_t lane, const struct iovec *v, int n) {
    struct co_err err = {0};
    size_t sent = 0;
    int rc = net_stream_write(&g->peers[to].lanes[lane], v, n, &sent, &err);
    return moved(g, to, rc, sent, &err);
}

static ssize_t tcp_read(
    struct rt_group *g, uint32_t from, uint32_t lane, const struct iovec *v, int n) {
    struct co_err err = {0};
    size_t came = 0;
    int rc = net_stream_read(&g->peers[from].lanes[lane], v, n, &came, &err);
    return moved(g, from, rc, came, &err);
}

const struct coll_pipe_ops coll_pipe_tcp = {.name = "tcp", .write = tcp_write, .read = tcp_read};
