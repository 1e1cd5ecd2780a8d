/* Drives a libcurl multi handle by the loop: watches its sockets and runs its timer.  Knows nothing
 * of what the transfers are for.  Owned by the loop's thread.
 *
 * Each event of a socket costs work for every transfer on it, however few bytes have arrived.  So
 * in a burst sockets are read in batches: a socket that becomes readable again within 2 * rest_ms
 * is not polled for rest_ms.  Bytes that arrive after a silence are read at once. */
#pragma once

#include <curl/curl.h>

#include "common/loop.h"

struct kube_multi {
    CURLM *curl;
    struct co_loop *loop;
    struct co_timer *timer;
    int64_t rest_ms;          /* between reads of a socket in a burst; the owner may change it */
    void (*acted)(void *arg); /* libcurl has run: bytes may have arrived, transfers ended */
    void *arg;
};

/* False: no memory.  m must not move in memory. */
bool kube_multi_init(struct kube_multi *m, struct co_loop *loop, long streams_a_connection,
    void (*acted)(void *arg), void *arg);
void kube_multi_done(struct kube_multi *m); /* after all transfers were removed */
