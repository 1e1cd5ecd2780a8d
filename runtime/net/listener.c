/* An acceptor with a thread of its own. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/thread.h"
#include "runtime/net/acceptor.h"

struct net_listener {
    int fd, stop_fd;
    pthread_t thread;
    struct net_acceptor *acceptor; /* the thread's */
};

static void *run_listener(void *arg) {
    struct net_listener *l = arg;
    (void)!net_acceptor_run(l->acceptor, l->stop_fd, INT64_MAX);
    return NULL;
}

static int start_thread(struct net_listener *l, struct co_err *err) {
    int failed = co_thread_start(&l->thread, run_listener, l);
    return failed ? co_err_errno(err, failed, "cannot start the thread that accepts") : 0;
}

static void free_listener(struct net_listener *l) {
    net_acceptor_close(l->acceptor);
    co_close(l->fd);
    if (l->stop_fd >= 0) {
        co_close(l->stop_fd);
    }
    free(l);
}

CO_DEFINE_CLEANUP(struct net_listener *, free_listener)

int net_listener_open(int fd_own, const struct net_auth *auth, int prove_ms,
    const struct net_acceptor_ops *ops, void *arg, struct net_listener **ret, struct co_err *err) {
    CO_CLEANUP(free_listenerp) struct net_listener *l = co_xcalloc(1, sizeof(*l));
    l->fd = fd_own;
    l->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (l->stop_fd < 0) {
        return co_err_errno(err, errno, "eventfd");
    }
    CO_TRY(net_acceptor_open(fd_own, auth, prove_ms, ops, arg, &l->acceptor, err));
    CO_TRY(start_thread(l, err));
    *ret = co_steal_ptr(l);
    return 0;
}

void net_listener_close(struct net_listener *l) {
    if (l) {
        (void)!write(l->stop_fd, &(uint64_t){1}, sizeof(uint64_t));
        /* no deadline: the thread reads and sends without blocking */
        pthread_join(l->thread, NULL);
        free_listener(l);
    }
}
