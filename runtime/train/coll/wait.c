/* How long a call waits, and how it finds the rank to blame.  A rank that others wait for
 *
 *     has ended    its control connection ends: the monitor reports that at once
 *     is stopped   its monitor does not answer a ping: lost
 *     is late      its monitor answers, but the call's data does not come: a timeout
 *     has left     it said goodbye, and what it had sent before has arrived: lost
 *
 * The ping goes out after half of the call's time limit; the verdict falls at its end, but never
 * before the others had time to answer.  This rank may itself have been stopped for longer than the
 * whole limit: then nobody has been asked yet, or the answers have not been read. */
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/monitor.h"

enum { GRACE_MS = 1000 }; /* time to answer a ping, unless half of the limit is shorter */

int64_t rt_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int rt_group_fail(struct rt_group *g, int code, uint32_t rank, bool tell, const char *fmt, ...) {
    pthread_mutex_lock(&g->m);
    bool first = atomic_load(&g->failed) == 0;
    if (first) {
        va_list ap;
        va_start(ap, fmt);
        (void)co_err_setv(&g->why, code, fmt, ap);
        va_end(ap);
        g->failed_rank = rank;
        if (tell) {
            rt_monitor_tell(g, RT_WORD_LOST, rank, code, NULL, 0);
        }
        atomic_store(&g->failed, code);
        (void)eventfd_write(g->alarm, 1);
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->m);
    return atomic_load(&g->failed);
}

int rt_group_why(struct rt_group *g, struct co_err *err) {
    int code = atomic_load(&g->failed);
    if (code < 0 && err) {
        pthread_mutex_lock(&g->m);
        *err = g->why;
        pthread_mutex_unlock(&g->m);
    }
    return code;
}

int rt_group_left(struct rt_group *g, uint32_t rank) {
    return rt_group_fail(g, CO_PEERLOST, rank, true, "rank %u (%.200s) has left the group", rank,
        g->endpoints[rank]);
}

int rt_group_late(struct rt_group *g, uint32_t rank) {
    return rt_group_fail(g, CO_TIMEOUT, rank, true,
        "rank %u (%.200s) lives, but has not done its part within %lld ms", rank,
        g->endpoints[rank], (long long)g->call_ms);
}

int rt_group_silent(struct rt_group *g, int64_t asked_ms) {
    for (uint32_t r = 0; r < g->size; r++) {
        const struct rt_peer *p = &g->peers[r];
        if (r != g->rank && !atomic_load(&p->left) && atomic_load(&p->heard_ms) < asked_ms) {
            return rt_group_fail(g, CO_PEERLOST, r, true,
                "rank %u (%.200s) is lost: no sign of life for %lld ms", r, g->endpoints[r],
                (long long)(rt_now_ms() - asked_ms));
        }
    }
    return 0;
}

bool rt_patience_over(struct rt_group *g, struct rt_patience *p, int64_t now, int64_t most_ms) {
    int64_t half = g->call_ms / 2, grace = half < GRACE_MS ? half : GRACE_MS;
    p->begun_ms = p->begun_ms ? p->begun_ms : now;
    bool late = now - p->begun_ms >= most_ms;
    bool stopped = p->checked_ms && now - p->checked_ms >= GRACE_MS; /* this rank itself */
    if (p->asked_ms ? late && stopped : now - p->begun_ms >= half) {
        p->asked_ms = now;
        rt_monitor_ping(g);
    }
    p->checked_ms = now;
    return late && p->asked_ms && now - p->asked_ms >= grace;
}

static int check(struct rt_group *g, struct rt_patience *p, uint32_t rank, int64_t most_ms) {
    int code = atomic_load_explicit(&g->failed, memory_order_acquire);
    if (code < 0) {
        return code;
    }
    if (!rt_patience_over(g, p, rt_now_ms(), most_ms)) {
        return 0;
    }
    code = rt_group_silent(g, p->asked_ms);
    return code < 0 ? code : rt_group_late(g, rank);
}

int rt_deadline_check(struct rt_group *g, struct rt_patience *p, uint32_t rank) {
    p->left_ms = 0;
    return check(g, p, rank, g->call_ms + g->call_ms / 8);
}

/* Whether all that a rank sent before it left has come.  In shared memory it is there before the
 * goodbye is.  Over TCP the goodbye, on a connection of its own, may overtake megabytes of data: a
 * call returns when its last bytes are in the socket's buffer.  There the data ends where the
 * connections do, all of which the rank closes. */
static bool all_has_come(const struct rt_group *g, uint32_t rank) {
    const struct rt_peer *p = &g->peers[rank];
    bool come = true;
    for (uint32_t k = 0; p->local == RT_NOT_LOCAL && k < g->lanes; k++) {
        come &= rt_tcp_ended(p->lanes[k]);
    }
    return come;
}

int rt_patience_check(struct rt_group *g, struct rt_patience *p, uint32_t rank) {
    int code = check(g, p, rank, g->call_ms);
    if (code < 0 || !atomic_load_explicit(&g->peers[rank].left, memory_order_acquire)) {
        return code;
    }
    /* Report that it left only at a later check: the caller first looks once more for data that
     * the rank sent before it left. */
    if (p->left_ms == 0 || p->left != rank) {
        p->left = rank;
        p->left_ms = p->checked_ms;
        return 0;
    }
    bool over = p->checked_ms - p->left_ms >= RT_LEFT_MS || all_has_come(g, rank);
    return over ? rt_group_left(g, rank) : 0;
}
