/* Bounds staleness in async mode: no trainer may be more than `ahead` steps ahead of the slowest
 * trainer.  Trainers report their steps to server 0.  Runs on the rpc's thread.
 *
 *     trainer 0  ----------12|        ahead = 2: has to wait, may do up to step 8 + 2
 *     trainer 1  ------8|             the slowest
 *     trainer 2  -----6#              lost, finished, out of data, at a barrier: does not count */
#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/server/server_internal.h"
#include "runtime/train/ps/shard/step.h"

enum { WAIT_MAX_MS = 3600 * 1000 };
#define STEP_MAX (UINT64_C(1) << 62)

/* Whether others wait for this trainer. */
static bool counts(const struct pss_member *m) {
    return (m->state == PSS_MEMBER_ALIVE || m->state == PSS_MEMBER_AWAY ||
               m->state == PSS_MEMBER_ABSENT) &&
           !m->ended && !m->waits;
}

/* The steps that it has completed, as the job counts them. */
static int64_t where(const struct pss_member *m) {
    return m->pace.base + (int64_t)m->pace.done;
}

/* NULL: no trainer counts. */
static const struct pss_member *find_slowest(const struct pss_members *all) {
    const struct pss_member *slowest = NULL;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct pss_member *m = &all->all[i];
        if (counts(m) && (!slowest || where(m) < where(slowest))) {
            slowest = m;
        }
    }
    return slowest;
}

uint64_t pss_server_apart(const struct pss_server *s) {
    const struct pss_member *slowest = find_slowest(&s->members);
    int64_t most = slowest ? where(slowest) : 0;
    for (uint32_t i = 0; slowest && i < s->members.n; i++) {
        const struct pss_member *m = &s->members.all[i];
        most = counts(m) && where(m) > most ? where(m) : most;
    }
    return slowest ? (uint64_t)(most - where(slowest)) : 0;
}

/* Up to which of its own steps the trainer need not wait. */
static uint64_t free_up_to(const struct pss_member *m, const struct pss_member *slowest) {
    if (!slowest) {
        return STEP_MAX;
    }
    int64_t most = where(slowest) + (int64_t)m->pace.ahead - m->pace.base;
    return most > 0 ? (uint64_t)most : 0;
}

static int answer_pace(struct rpc_stream *stream, const struct rpc_frame_head *asked, uint64_t step,
    struct co_err *err) {
    Rpc__Pace p = RPC__PACE__INIT;
    p.step = step;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_PACE;
    c.pace = &p;
    struct rpc_frame *a = NULL;
    CO_TRY(ps_control_pack(&c, asked, &a, err));
    return rpc_stream_send(stream, a, err);
}

static void say_whom(
    const struct pss_server *s, const struct pss_member *m, const struct pss_member *slowest) {
    struct co_err e = {0};
    uint32_t i = (uint32_t)(slowest - s->members.all);
    char refused[PSS_REFUSED_MAX];
    pss_members_refused(&s->members, refused, sizeof(refused));
    co_err_set(&e, CO_TIMEOUT, "step %lld waits for trainer %u (%s), which has made %lld%s",
        (long long)where(m), i,
        slowest->state == PSS_MEMBER_ABSENT ? "not here yet" : slowest->peer,
        (long long)where(slowest), refused);
    (void)!rpc_stream_send(m->stream, rpc_frame_error(&m->pace.asked, e.code, e.msg), NULL);
}

void pss_server_pace_check(struct pss_server *s, int64_t now) {
    const struct pss_member *slowest = NULL;
    for (uint32_t i = 0; i < s->members.n; i++) {
        struct pss_member *m = &s->members.all[i];
        if (m->pace.until_ms == 0 || !m->stream) { /* a trainer that reconnects asks again */
            continue;
        }
        slowest = slowest ? slowest : find_slowest(&s->members);
        uint64_t free = free_up_to(m, slowest);
        if (free >= m->pace.done) {
            m->pace.until_ms = 0;
            (void)!answer_pace(m->stream, &m->pace.asked, free, NULL);
        } else if (now >= m->pace.until_ms) {
            m->pace.until_ms = 0;
            say_whom(s, m, slowest);
        }
    }
}

void pss_server_pace_join(struct pss_server *s, uint32_t trainer) {
    struct pss_member *m = &s->members.all[trainer];
    const struct pss_member *slowest = find_slowest(&s->members);
    m->ended = false;
    m->pace = (struct pss_pace){.base = where(slowest ? slowest : m), .uncounted = true};
}

int pss_server_pace(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Pace *p, struct co_err *err) {
    struct pss_server *s = se->server;
    struct pss_member *m = &s->members.all[se->trainer];
    if (p->step != RPC_STEP_NO_MORE && p->step > STEP_MAX) {
        return co_err_set(err, CO_INVALID, "trainer %u says step %llu, of %llu at most",
            se->trainer, (unsigned long long)p->step, (unsigned long long)STEP_MAX);
    }
    if (p->step < m->pace.done) { /* sent again, since the answer was lost with a connection */
        return answer_pace(se->stream, &f->head, free_up_to(m, find_slowest(&s->members)), err);
    }
    if (m->pace.uncounted && p->step != RPC_STEP_NO_MORE) { /* its first count may be any number */
        m->pace.base -= (int64_t)p->step - 1;
        m->pace.uncounted = false;
    }
    m->ended = m->ended || p->step == RPC_STEP_NO_MORE;
    m->pace.done = m->ended ? m->pace.done : p->step;
    m->pace.ahead = p->ahead < STEP_MAX ? p->ahead : STEP_MAX / 2;
    m->pace.until_ms = 0;
    int rc = 0;
    if (p->wait_ms > 0 && !m->ended) {
        int64_t wait = p->wait_ms < WAIT_MAX_MS ? (int64_t)p->wait_ms : WAIT_MAX_MS;
        m->pace.until_ms = co_now_ms() + wait;
        m->pace.asked = f->head;
    } else {
        rc = answer_pace(se->stream, &f->head, free_up_to(m, find_slowest(&s->members)), err);
    }
    pss_server_pace_check(s, co_now_ms());
    return rc;
}
