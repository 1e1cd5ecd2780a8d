/* Who uses gRPC in this process, so that it is set up once and a forked child knows better. */
#include <pthread.h>
#include <stdatomic.h>

#include "common/fork.h"
#include "runtime/train/rpc/rpc_internal.h"

/* A forked child has none of gRPC's threads, and its calls would wait for them.  Once nothing uses
 * gRPC any more it has no threads either, and a child begins with its own. */
static struct {
    pthread_mutex_t m;
    size_t n; /* that use it */
    struct co_fork fork;
    atomic_bool inherited; /* this process is a child that was forked while n > 0 */
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
    if (users.n++ == 0) {
        co_fork_watch(&users.fork, in_child);
    }
    pthread_mutex_unlock(&users.m);
    grpc_init();
    return 0;
}

void rpc_grpc_leave(void) {
    grpc_shutdown();
    pthread_mutex_lock(&users.m);
    if (--users.n == 0) {
        co_fork_unwatch(&users.fork);
    }
    pthread_mutex_unlock(&users.m);
}
