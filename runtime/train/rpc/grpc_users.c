/* Who uses gRPC in this process, so that it is set up once and a forked child knows better. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "common/fork.h"
#include "runtime/train/rpc/rpc_internal.h"

enum { END_MS = 1000 };

/* A forked child has none of gRPC's threads, and its calls would wait for them.  Once nothing uses
 * gRPC any more it has no threads either, and a child begins with its own. */
static struct {
    pthread_mutex_t m;
    size_t n;     /* that use it */
    bool others;  /* the program's own gRPC has it, too */
    bool watched; /* so that a child knows: from the first use until gRPC has ended */
    struct co_fork fork;
    atomic_bool inherited; /* this process is a child that was forked meanwhile */
} users = {.m = PTHREAD_MUTEX_INITIALIZER};

static void in_child(struct co_fork *f) {
    (void)f;
    atomic_store(&users.inherited, true);
}

const char *rpc_grpc_version(void) {
    return grpc_version_string();
}

int rpc_grpc_use(struct co_err *err) {
    if (atomic_load(&users.inherited)) {
        return co_err_set(err, CO_UNSUPPORTED,
            "this process was forked from one that had a client or a server open, and gRPC does "
            "not work in it: fork before that, or start it as a new program (Python: "
            "multiprocessing's "
            "\"spawn\")");
    }
    pthread_mutex_lock(&users.m);
    users.n++;
    if (!users.watched) {
        users.watched = true;
        users.others = grpc_is_initialized();
        co_fork_watch(&users.fork, in_child);
    }
    pthread_mutex_unlock(&users.m);
    grpc_init();
    return 0;
}

/* Channels keep gRPC, too, and its own threads free them: grpc_shutdown may return before the last
 * of these have ended. */
static void await_end(void) {
    int64_t end = co_now_ms() + END_MS;
    while (grpc_is_initialized() && co_now_ms() < end) {
        (void)poll(NULL, 0, 1);
    }
}

void rpc_grpc_leave(void) {
    grpc_shutdown();
    pthread_mutex_lock(&users.m);
    bool last = --users.n == 0, others = users.others;
    pthread_mutex_unlock(&users.m);
    if (!last) {
        return;
    }
    if (!others) {
        await_end(); /* without the lock: another thread may begin to use it */
    }
    pthread_mutex_lock(&users.m);
    if (users.n == 0 && users.watched) {
        users.watched = false;
        co_fork_unwatch(&users.fork);
    }
    pthread_mutex_unlock(&users.m);
}
