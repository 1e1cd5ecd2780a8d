/* A file system that is slow: each file of a checkpoint is opened when the test lets it.  For one
 * reading thread at a time. */
#pragma once

#include <pthread.h>

#include "runtime/train/ckpt/disk.h"

static struct {
    pthread_mutex_t m;
    pthread_cond_t changed;
    unsigned came, let;
} slow = {.m = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void slow_hold(void) {
    pthread_mutex_lock(&slow.m);
    slow.came++;
    pthread_cond_broadcast(&slow.changed);
    while (slow.let < slow.came) {
        pthread_cond_wait(&slow.changed, &slow.m); /* no deadline: the test lets it go */
    }
    pthread_mutex_unlock(&slow.m);
}

/* From now on; every file that is opened then needs a slow_release. */
static inline void slow_begin(void) {
    slow.came = slow.let = 0;
    ckpt_disk_opens = slow_hold;
}

/* Waits until somebody opens a file. */
static inline void slow_await(void) {
    pthread_mutex_lock(&slow.m);
    while (slow.came == slow.let) {
        pthread_cond_wait(&slow.changed, &slow.m); /* no deadline: a reader is on its way */
    }
    pthread_mutex_unlock(&slow.m);
}

static inline void slow_release(void) {
    slow_await();
    pthread_mutex_lock(&slow.m);
    slow.let = slow.came;
    pthread_cond_broadcast(&slow.changed);
    pthread_mutex_unlock(&slow.m);
}

/* When nobody reads any more. */
static inline void slow_end(void) {
    ckpt_disk_opens = NULL;
}
