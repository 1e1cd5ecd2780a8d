/* A libcurl multi handle on the loop: its sockets and its timer, so that transfers go on whenever
 * libcurl has something to do.  Knows nothing of what they are for.  Owned by the loop's thread.
 *
 * Each event of a socket costs work for every transfer on it, however little has come.  With
 * rest_ms a socket that was read twice within two rests is left alone for one: what comes after
 * silence is read at once, a burst together. */
#pragma once

#include "common/loop.h"

#include <curl/curl.h>

struct op_kube_multi {
    CURLM *curl;
    struct co_loop *loop;
    struct co_timer *timer;
    int64_t rest_ms;          /* between readings of a socket in a burst; the owner's to change */
    void (*acted)(void *arg); /* libcurl has worked: bytes may have come, transfers ended */
    void *arg;
};

/* False: no memory.  m must not move. */
bool op_kube_multi_init(struct op_kube_multi *m, struct co_loop *loop, long streams_a_connection,
    void (*acted)(void *arg), void *arg);
void op_kube_multi_done(struct op_kube_multi *m); /* all transfers have been removed */
