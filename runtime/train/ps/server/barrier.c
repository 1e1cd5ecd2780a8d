/* The barrier: server 0 answers those who are there once nobody is left who can still come.  And
 * for whom a step waits.  Runs on the rpc's thread. */
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server_internal.h"
#include "runtime/train/ps/shard/step.h"

enum { WAIT_MAX_MS = 3600 * 1000 };

static void answer_barrier(struct pss_member *m) {
    if (m->stream && m->asks) { /* else it asks again: after it reconnects, or at once */
        (void)!pss_session_answer(m->stream, m->barrier.seq, NULL);
    }
    m->waits = m->asks = false;
}

void pss_server_note_barriers(struct pss_server *s, uint64_t n) {
    if (n <= s->members.barriers) {
        return;
    }
    s->members.barriers = n;
    for (uint32_t i = 0; i < s->members.n; i++) {
        if (s->members.all[i].waits) {
            answer_barrier(&s->members.all[i]);
        }
    }
}

void pss_server_barrier(struct pss_server *s) {
    if (!pss_members_barrier_full(&s->members)) {
        return;
    }
    s->members.barriers++;
    for (uint32_t i = 0; i < s->members.n; i++) {
        if (s->members.all[i].waits) {
            answer_barrier(&s->members.all[i]);
        }
    }
}

void pss_server_barrier_say(struct pss_server *s, int64_t now) {
    for (uint32_t i = 0; i < s->members.n; i++) {
        struct pss_member *m = &s->members.all[i];
        if (!m->waits || !m->asks || !m->stream || m->ask_until_ms == 0 || now < m->ask_until_ms) {
            continue;
        }
        char late[400], refused[PSS_REFUSED_MAX];
        struct co_err e = {0};
        (void)pss_members_late(&s->members, 0, late, sizeof(late));
        pss_members_refused(&s->members, refused, sizeof(refused));
        co_err_set(&e, CO_TIMEOUT, "barrier %llu waits for %s%s",
            (unsigned long long)s->members.barriers + 1, late, refused);
        m->asks = false; /* it is at the barrier all the same */
        (void)!rpc_stream_send(m->stream, rpc_frame_error(&m->barrier, e.code, e.msg), NULL);
    }
}

/* STEP goes to all shards of all servers, a barrier only to server 0.  So server 0 sees both: it
 * reads the steps from its first shard.  False: nobody makes steps. */
static bool read_steps(struct pss_server *s) {
    if (s->mode != RT_SYNC || s->over || !s->shards) {
        return false;
    }
    for (uint32_t i = 0; i < s->members.n; i++) {
        struct pss_member *m = &s->members.all[i];
        uint64_t said = shard_said(s->shards[0], i);
        m->ended = said == RPC_STEP_NO_MORE;
        m->steps = m->ended ? m->steps : said;
    }
    return true;
}

/* Without this check, trainers that wait for each other would do so until their timeouts. */
void pss_server_check_order(struct pss_server *s) {
    struct co_err err = {0};
    if (read_steps(s) && pss_members_check_order(&s->members, s->backup, &err) < 0) {
        pss_server_over(s, &err);
    }
}

/* Who asks is in that step, though the shard may not have its frame yet. */
int pss_session_late(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Late *l, struct co_err *err) {
    struct pss_server *s = se->server;
    struct pss_member *m = &s->members.all[se->trainer];
    char late[400], refused[PSS_REFUSED_MAX];
    if (!read_steps(s) || l->step == 0) {
        return pss_session_answer(se->stream, f->head.seq, err);
    }
    m->steps = m->steps < l->step ? l->step : m->steps;
    if (!pss_members_late(&s->members, l->step, late, sizeof(late))) {
        return pss_session_answer(se->stream, f->head.seq, err);
    }
    struct co_err e = {0};
    pss_members_refused(&s->members, refused, sizeof(refused));
    co_err_set(
        &e, CO_TIMEOUT, "step %llu waits for %s%s", (unsigned long long)l->step, late, refused);
    return rpc_stream_send(se->stream, rpc_frame_error(&f->head, e.code, e.msg), err);
}

int pss_session_barrier(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Barrier *b, struct co_err *err) {
    const uint64_t number = b->number;
    struct pss_member *m = &se->server->members.all[se->trainer];
    uint64_t next = se->server->members.barriers + 1;
    if (number > 0 && number < next) { /* the answer was lost with a broken connection */
        return pss_session_answer(se->stream, f->head.seq, err);
    }
    if (number != next) {
        return co_err_set(err, CO_INVALID,
            "trainer %u is at barrier %llu, the job at %llu: all trainers must call the same ones",
            se->trainer, (unsigned long long)number, (unsigned long long)next);
    }
    m->waits = true; /* it may be set already, if the connection broke */
    m->barrier = f->head;
    m->asks = true;
    m->ask_until_ms =
        b->wait_ms ? co_now_ms() + (int64_t)(b->wait_ms < WAIT_MAX_MS ? b->wait_ms : WAIT_MAX_MS)
                   : 0;
    pss_server_barrier(se->server);
    pss_server_pace_check(se->server, co_now_ms());
    pss_server_check_order(se->server);
    return 0;
}
