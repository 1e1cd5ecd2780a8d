/* Messages between machines: non-blocking sockets. */
#include <errno.h>
#include <sys/socket.h>

#include "runtime/train/coll/message.h"

static size_t tcp_write(
    struct rt_group *g, uint32_t to, uint32_t lane, const struct iovec *v, int n) {
    struct msghdr m = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n};
    ssize_t got = sendmsg(g->peers[to].lanes[lane], &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

static size_t tcp_read(
    struct rt_group *g, uint32_t from, uint32_t lane, const struct iovec *v, int n) {
    struct msghdr m = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n};
    ssize_t got = recvmsg(g->peers[from].lanes[lane], &m, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

const struct rt_pipe_ops rt_pipe_tcp = {.name = "tcp", .write = tcp_write, .read = tcp_read};
