/* The thread behind the front door, which runs an acceptor of runtime/net. */
#include "runtime/train/rpc/front.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/mem.h"
#include "runtime/net/acceptor.h"

struct rpc_front {
    const struct rpc_front_ops *ops;
    void *arg;
    struct net_auth auth; /* the token is owned */
    int fd, stop_fd;
    pthread_t thread;
    struct net_acceptor *acceptor; /* the thread's */
};

static enum net_refusal on_look(void *arg, const struct net_pending *p, bool proved,
    unsigned char ret_answer[NET_CALLER_BYTES]) {
    struct rpc_pass pass;
    (void)arg;
    (void)proved;
    (void)ret_answer; /* who listens here follows from the address */
    return rpc_pass_read(net_caller_bytes(p->shake.hello), &pass);
}

static void on_enter(void *arg, int fd_own, struct co_tls *tls_own, const struct net_peer *from,
    const unsigned char caller[NET_CALLER_BYTES]) {
    struct rpc_front *f = arg;
    struct rpc_pass pass;
    (void)rpc_pass_read(caller, &pass); /* on_look has accepted it */
    f->ops->enter(f->arg, fd_own, tls_own, from->text, &pass);
}

static void on_refuse(
    void *arg, const struct net_peer *from, enum net_refusal refusal, const struct co_err *why) {
    struct rpc_front *f = arg;
    (void)refusal;
    f->ops->refuse(f->arg, from->text, why);
}

static const struct net_acceptor_ops acceptor_ops = {on_look, on_enter, on_refuse};

static void *run_door(void *arg) {
    struct rpc_front *f = arg;
    (void)!net_acceptor_run(f->acceptor, f->stop_fd, INT64_MAX);
    return NULL;
}

/* Signals are for the program's threads. */
static int start_thread(struct rpc_front *f, struct co_err *err) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&f->thread, NULL, run_door, f);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? co_err_errno(err, failed, "cannot start the thread that accepts") : 0;
}

static void free_front(struct rpc_front *f) {
    net_acceptor_close(f->acceptor);
    co_close(f->fd);
    if (f->stop_fd >= 0) {
        co_close(f->stop_fd);
    }
    free((char *)(uintptr_t)f->auth.token);
    free(f);
}

int rpc_front_open(int fd_own, const struct rpc_peer_auth *auth, int prove_ms,
    const struct rpc_front_ops *ops, void *arg, struct rpc_front **ret, struct co_err *err) {
    struct rpc_front *f = co_xcalloc(1, sizeof(*f));
    *f = (struct rpc_front){.ops = ops,
        .arg = arg,
        .auth = {&rpc_protocol, co_xstrdup(auth->token), auth->encrypt},
        .fd = fd_own,
        .stop_fd = eventfd(0, EFD_CLOEXEC)};
    int rc = f->stop_fd < 0 ? co_err_errno(err, errno, "eventfd")
                            : net_acceptor_open(
                                  fd_own, &f->auth, prove_ms, &acceptor_ops, f, &f->acceptor, err);
    rc = rc < 0 ? rc : start_thread(f, err);
    if (rc < 0) {
        free_front(f);
        return rc;
    }
    *ret = f;
    return 0;
}

void rpc_front_close(struct rpc_front *f) {
    if (f) {
        (void)!write(f->stop_fd, &(uint64_t){1}, sizeof(uint64_t));
        /* no deadline: the thread reads and sends without blocking */
        pthread_join(f->thread, NULL);
        free_front(f);
    }
}
