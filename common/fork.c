/* A list of all watched objects, and the handlers by which a fork finds them. */
#include "common/fork.h"

#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct co_fork *first; /* guarded by m */

/* The forking thread holds the lock, so that the child finds the list whole. */
static void before_fork(void) {
    pthread_mutex_lock(&m);
}

static void in_parent(void) {
    pthread_mutex_unlock(&m);
}

static void in_child(void) {
    for (struct co_fork *f = first; f; f = f->next) {
        if (!f->forked && f->child) {
            f->child(f);
        }
        f->forked = true;
    }
    pthread_mutex_unlock(&m);
}

static void begin(void) {
    (void)pthread_atfork(before_fork, in_parent, in_child);
}

void co_fork_watch(struct co_fork *f, void (*child)(struct co_fork *f)) {
    pthread_once(&once, begin);
    pthread_mutex_lock(&m);
    *f = (struct co_fork){.child = child, .next = first, .at = &first};
    if (first) {
        first->at = &f->next;
    }
    first = f;
    pthread_mutex_unlock(&m);
}

void co_fork_unwatch(struct co_fork *f) {
    pthread_mutex_lock(&m);
    if (f->at) {
        *f->at = f->next;
        if (f->next) {
            f->next->at = f->at;
        }
        f->at = NULL;
    }
    pthread_mutex_unlock(&m);
}

int co_fork_refuse(const char *object, struct co_err *err) {
    return co_err_set(err, CO_INVALID,
        "%s belongs to the process that this one was forked from: a child opens its own", object);
}
