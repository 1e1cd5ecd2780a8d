/* What a server does at each tick of its clock: it checks the leases of trainers, waits for those
 * that are missing or away, and decides when the job is over.  Runs on the rpc's thread. */
#include <stdio.h>
#include <unistd.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server_internal.h"

/* LINGER_MS: how long trainers may take to close after the end of the job.  AWAY_MS: if more time
 * than this passed between two ticks, this process itself was stopped. */
enum { LINGER_MS = 10000, AWAY_MS = 2000 };
/* Between two log lines about missing trainers. */
enum { SAY_MS = 10000 };

void pss_server_check_end(struct pss_server *s) {
    uint32_t done = pss_members_in(&s->members, PSS_MEMBER_FINISHED);
    if (done == s->members.n) {
        pss_server_say(s, "all %u trainers have finished", done);
        pss_server_over(s, &(struct co_err){0});
    }
}

/* A trainer that said it will return is waited for even if return_ms is 0: for one lease. */
static int64_t return_wait(const struct pss_server *s) {
    return s->config.return_ms > 0 ? s->config.return_ms : s->config.lease_ms;
}

void pss_server_miss(struct pss_server *s, uint32_t trainer, const char *cause) {
    struct pss_member *m = &s->members.all[trainer];
    if (atomic_load(&s->stopping)) {
        /* check_leases uses the stream of an ALIVE member, and this one has none any more. */
        pss_member_set(&s->members, trainer, PSS_MEMBER_AWAY);
        return;
    }
    if (s->config.return_ms <= 0) {
        pss_server_lose(s, trainer, cause);
        return;
    }
    int64_t now = co_now_ms();
    char text[640];
    (void)snprintf(m->cause, sizeof(m->cause), "%s", cause);
    m->until_ms = now + s->config.return_ms;
    s->left_ms = now;
    pss_member_set(&s->members, trainer, PSS_MEMBER_AWAY);
    meter_add(METER_M_MISSED, METER_MISSED_AWAY, 1);
    pss_member_describe(&s->members, trainer, now, text, sizeof(text));
    ps_log_warn("%s; waiting for it for %.1f s", text, (double)s->config.return_ms / 1000);
}

void pss_server_expect(struct pss_server *s, uint32_t trainer) {
    struct pss_member *m = &s->members.all[trainer];
    (void)snprintf(m->cause, sizeof(m->cause), "it left to join again");
    s->left_ms = co_now_ms();
    m->until_ms = s->left_ms + return_wait(s);
    pss_member_set(&s->members, trainer, PSS_MEMBER_AWAY);
}

void pss_server_lose(struct pss_server *s, uint32_t trainer, const char *cause) {
    struct pss_member *m = &s->members.all[trainer];
    (void)snprintf(m->cause, sizeof(m->cause), "%s", cause);
    s->left_ms = m->state == PSS_MEMBER_AWAY ? s->left_ms : co_now_ms();
    pss_member_set(&s->members, trainer, PSS_MEMBER_LOST);
    meter_add(METER_M_MISSED, METER_MISSED_LOST, 1);
    char text[640];
    pss_member_describe(&s->members, trainer, co_now_ms(), text, sizeof(text));
    if (s->mode == RT_SYNC && pss_members_in(&s->members, PSS_MEMBER_LOST) > s->backup) {
        struct co_err err = {0};
        co_err_set(&err, CO_PEERLOST, "%s", text);
        pss_server_over(s, &err);
        return;
    }
    ps_log_warn("%s; %s", text,
        s->members.n > 1 ? "training continues without it" : "it was the only trainer");
    pss_server_barrier(s);
    pss_server_pace_check(s, co_now_ms());
    pss_server_check_end(s);
}

/* Closes a connection that has sent no valid hello in time.  One that was refused, and did not
 * close by itself, has been logged before. */
static void drop_silent(struct pss_server *s, struct pss_session *se) {
    struct co_err why = {0};
    if (se->state != PSS_SESSION_REFUSED) {
        co_err_set(&why, CO_TIMEOUT, "no hello within %.3g s", (double)s->config.hello_ms / 1000);
        pss_server_say_refused(s, rpc_stream_peer(se->stream), &why);
        pss_session_set(se, PSS_SESSION_REFUSED);
    }
    rpc_stream_cancel(se->stream);
}

static int64_t later(int64_t ms, int64_t by_ms, int64_t most_ms) {
    return ms + by_ms < most_ms ? ms + by_ms : most_ms;
}

/* This process was stopped for so long: nobody could come or say anything here, so what others have
 * to do in time they have to do so much later. */
static void excuse(struct pss_server *s, int64_t stopped_ms, int64_t now) {
    for (uint32_t i = 0; i < s->members.n; i++) {
        struct pss_member *m = &s->members.all[i];
        m->until_ms = later(m->until_ms, stopped_ms, now + return_wait(s));
    }
    for (struct pss_session *se = s->sessions; se; se = se->next) {
        se->since_ms = later(se->since_ms, stopped_ms, now);
    }
    s->first_ms = s->first_ms ? later(s->first_ms, stopped_ms, now) : 0;
    s->left_ms = later(s->left_ms, stopped_ms, now);
    s->over_ms = later(s->over_ms, stopped_ms, now);
}

static void check_leases(struct pss_server *s, int64_t now, bool was_away) {
    for (uint32_t i = 0; i < s->members.n && !s->over; i++) {
        struct pss_member *m = &s->members.all[i];
        if (m->state == PSS_MEMBER_ALIVE && (was_away || rpc_stream_paused(m->stream))) {
            m->received_ms = now; /* this server did not read */
            m->rival_ms = m->rival_ms ? now : 0;
        }
        if (m->state == PSS_MEMBER_ALIVE && now - m->received_ms > s->config.lease_ms) {
            char cause[96];
            (void)snprintf(cause, sizeof(cause), "no sign of life within its lease of %.1f s",
                (double)s->config.lease_ms / 1000);
            struct rpc_stream *stream = co_steal_ptr(m->stream);
            pss_server_miss(s, i, cause);
            rpc_stream_cancel(stream);
            rpc_stream_unref(stream);
        } else if (m->state == PSS_MEMBER_AWAY && now > m->until_ms) {
            char cause[sizeof(m->cause) + 64 + PSS_REFUSED_MAX], refused[PSS_REFUSED_MAX];
            pss_members_refused(&s->members, refused, sizeof(refused));
            (void)snprintf(cause, sizeof(cause), "%s, not back within %.1f s%s", m->cause,
                (double)return_wait(s) / 1000, refused);
            pss_server_lose(s, i, cause);
        }
    }
    for (struct pss_session *se = s->sessions; se; se = se->next) {
        if (se->trainer == PSS_NOBODY && now - se->since_ms > s->config.hello_ms) {
            drop_silent(s, se);
        }
    }
}

/* The wait for the first trainer has no limit, since its pod may be waiting for a node.  So the log
 * says that this server waits. */
static void say_missing(struct pss_server *s, int64_t now) {
    char list[128], refused[PSS_REFUSED_MAX];
    uint32_t absent = pss_members_in(&s->members, PSS_MEMBER_ABSENT);
    if (s->said_ms && absent > 0 && now - s->said_ms >= SAY_MS) {
        pss_members_list(&s->members, PSS_MEMBER_ABSENT, list, sizeof(list));
        pss_members_refused(&s->members, refused, sizeof(refused));
        pss_server_say(s, "waiting for trainers %s of %u%s", list, s->config.trainers, refused);
    }
    if (!s->said_ms || now - s->said_ms >= SAY_MS) {
        s->said_ms = now;
    }
}

void pss_server_say_refused(struct pss_server *s, const char *peer, const struct co_err *why) {
    uint64_t n = 0;
    s->refused++;
    meter_add(METER_M_REFUSED, meter_word(METER_M_REFUSED, co_code_name(why->code)), 1);
    if (net_log_due(&s->refusals, 1, &n)) {
        ps_log_warn("%s refused: %s", peer, co_err_text(why));
        s->refusals.unsaid = n - 1;
    }
}

static void say_refusals(struct pss_server *s) {
    uint64_t n = 0;
    if (net_log_due(&s->refusals, 0, &n)) {
        ps_log_warn("%llu more refused since, %llu in all", (unsigned long long)n,
            (unsigned long long)s->refused);
    }
}

/* A server that was restarted while trainers finish: those that had finished here before are gone.
 * One that still trains comes back as from any loss. */
static bool all_finished_before(const struct pss_server *s, int64_t now) {
    uint32_t absent = pss_members_in(&s->members, PSS_MEMBER_ABSENT);
    return s->ending && absent > 0 && now - s->first_ms > return_wait(s) &&
           absent + pss_members_in(&s->members, PSS_MEMBER_FINISHED) == s->members.n;
}

/* All but lost trainers have finished. */
static bool is_orphaned(const struct pss_server *s) {
    uint32_t lost = pss_members_in(&s->members, PSS_MEMBER_LOST);
    return lost > 0 && lost + pss_members_in(&s->members, PSS_MEMBER_FINISHED) == s->members.n;
}

static void check_missing(struct pss_server *s, int64_t now) {
    struct co_err err = {0};
    char list[128], refused[PSS_REFUSED_MAX];
    if (all_finished_before(s, now)) {
        pss_members_list(&s->members, PSS_MEMBER_ABSENT, list, sizeof(list));
        pss_server_say(s,
            "trainers %s of %u finished before this server was restarted: they did not come back "
            "within %.1f s, and all others have finished",
            list, s->config.trainers, (double)return_wait(s) / 1000);
        pss_server_over(s, &err);
    } else if (s->first_ms && now - s->first_ms > s->config.start_timeout_ms &&
               pss_members_in(&s->members, PSS_MEMBER_ABSENT) > 0) {
        pss_members_list(&s->members, PSS_MEMBER_ABSENT, list, sizeof(list));
        pss_members_refused(&s->members, refused, sizeof(refused));
        co_err_set(&err, CO_TIMEOUT,
            "trainers %s of %u have not come within %.1f s of the first one%s", list,
            s->config.trainers, (double)s->config.start_timeout_ms / 1000, refused);
        pss_server_over(s, &err);
    } else if (is_orphaned(s) && now - s->left_ms > s->config.return_ms) {
        for (uint32_t i = 0; i < s->members.n && !s->over; i++) {
            if (s->members.all[i].state == PSS_MEMBER_LOST) {
                char text[640];
                pss_member_describe(&s->members, i, now, text, sizeof(text));
                co_err_set(
                    &err, CO_PEERLOST, "%s, and did not come back before the others ended", text);
                pss_server_over(s, &err);
            }
        }
    }
}

/* True while a finished trainer may still connect to send its finish.  If the server ended before,
 * that trainer would fail with a lost server. */
static bool is_one_to_come(const struct pss_server *s) {
    bool any = false;
    for (uint32_t i = 0; i < s->members.n && s->result.code == 0; i++) {
        any = any || pss_member_may_return(&s->members.all[i]);
    }
    return any;
}

/* Trainers close after their last answer.  If one does not, the server waits LINGER_MS for it. */
void pss_server_notify(struct pss_server *s) {
    bool waits = s->sessions || is_one_to_come(s);
    if (s->over && !s->signaled && (!waits || co_now_ms() - s->over_ms > LINGER_MS)) {
        s->signaled = true;
        (void)!write(s->fd, &(uint64_t){1}, sizeof(uint64_t));
    }
}

void pss_server_tick(void *arg) {
    struct pss_server *s = arg;
    int64_t now = co_now_ms(), since = s->ticked_ms ? now - s->ticked_ms : 0;
    bool was_away = since > AWAY_MS;
    s->ticked_ms = now;
    if (was_away) {
        excuse(s, since, now);
    }
    if (!s->over && !atomic_load(&s->stopping)) {
        pss_server_send_finished(s);
        check_leases(s, now, was_away);
        pss_server_check_load(s);
        pss_server_check_order(s);
        check_missing(s, now);
        pss_server_pace_check(s, now);
        pss_server_barrier_say(s, now);
        say_missing(s, now);
    }
    say_refusals(s);
    pss_server_meter_tick(s);
    pss_server_notify(s);
}

void pss_server_over(struct pss_server *s, const struct co_err *result) {
    if (s->over) {
        return;
    }
    s->over = true;
    s->over_ms = co_now_ms();
    s->result = *result;
    atomic_store(&s->trained, result->code == 0);
    if (result->code == 0) {
        return;
    }
    ps_log_error("%s", co_err_text(result));
    for (struct pss_session *se = s->sessions; se; se = se->next) {
        if (se->trainer != PSS_NOBODY) {
            (void)!rpc_stream_send(
                se->stream, rpc_frame_error(NULL, result->code, co_err_text(result)), NULL);
            rpc_stream_end(se->stream);
        }
    }
}
