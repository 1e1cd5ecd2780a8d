#include "runtime/train/ps/server_internal.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/say.h"

/* From the end of the job until nobody is waited for; between two ticks when it is us who were
 * stopped. */
enum { LINGER_MS = 2000, AWAY_MS = 2000 };
/* Between two lines about trainers that have not come, and about peers that were refused. */
enum { SAY_MS = 10000 };

/* All have finished, or only lost ones are missing. */
void rt_server_check_end(struct rt_server *s) {
    uint32_t done = rt_members_in(&s->members, RT_MEMBER_FINISHED);
    uint32_t lost = rt_members_in(&s->members, RT_MEMBER_LOST);
    if (done == s->members.n) {
        rt_server_say(s, "all %u trainers have finished", done);
        rt_server_over(s, &(struct co_err){0});
    } else if (done + lost == s->members.n && !s->orphan_ms) {
        s->orphan_ms = net_now();
    }
}

void rt_server_lose(struct rt_server *s, uint32_t trainer, const char *cause) {
    struct rt_member *m = &s->members.all[trainer];
    (void)snprintf(m->cause, sizeof(m->cause), "%s", cause);
    rt_member_set(&s->members, trainer, RT_MEMBER_LOST);
    char text[640];
    rt_member_describe(&s->members, trainer, net_now(), text, sizeof(text));
    if (s->mode == RT_SYNC) {
        struct co_err err = {0};
        co_err_set(&err, CO_PEERLOST, "%s", text);
        rt_server_over(s, &err);
        return;
    }
    rt_say_warn("%s; training goes on without it", text);
    rt_server_barrier(s);
    rt_server_check_end(s);
}

/* Refused ones that do not go by themselves were told of before. */
static void drop_silent(struct rt_server *s, struct rt_session *se) {
    struct co_err why = {0};
    if (!se->refused) {
        co_err_set(&why, CO_TIMEOUT, "no hello within %.3g s", (double)s->config.hello_ms / 1000);
        rt_server_say_refused(s, rt_stream_peer(se->stream), &why);
        se->refused = true;
    }
    rt_stream_cancel(se->stream);
}

static void check_leases(struct rt_server *s, int64_t now) {
    /* Stopped ourselves for a while?  Then silence says nothing about the others. */
    bool was_away = s->ticked_ms && now - s->ticked_ms > AWAY_MS;
    s->ticked_ms = now;
    for (uint32_t i = 0; i < s->members.n && !s->over; i++) {
        struct rt_member *m = &s->members.all[i];
        if (m->state == RT_MEMBER_ALIVE && (was_away || rt_stream_paused(m->stream))) {
            m->heard_ms = now; /* it is us who did not listen */
            m->rival_ms = m->rival_ms ? now : 0;
        }
        if (m->state == RT_MEMBER_ALIVE && now - m->heard_ms > s->config.lease_ms) {
            char cause[96];
            (void)snprintf(cause, sizeof(cause), "no sign of life within its lease of %.1f s",
                (double)s->config.lease_ms / 1000);
            struct rt_stream *stream = co_steal_ptr(m->stream);
            rt_server_lose(s, i, cause);
            rt_stream_cancel(stream);
            rt_stream_unref(stream);
        }
    }
    for (struct rt_session *se = s->sessions; se; se = se->next) {
        if (se->trainer == RT_NOBODY && now - se->since_ms > s->config.hello_ms) {
            drop_silent(s, se);
        }
    }
}

/* Nothing bounds the wait for the first trainer (its pod may be waiting for a node): so it is
 * not silent. */
static void say_missing(struct rt_server *s, int64_t now) {
    char list[128];
    uint32_t absent = rt_members_in(&s->members, RT_MEMBER_ABSENT);
    if (s->said_ms && absent > 0 && now - s->said_ms >= SAY_MS) {
        rt_members_list(&s->members, RT_MEMBER_ABSENT, list, sizeof(list));
        rt_server_say(s, "waiting for trainers %s of %u", list, s->config.trainers);
    }
    if (!s->said_ms || now - s->said_ms >= SAY_MS) {
        s->said_ms = now;
    }
}

void rt_server_say_refused(struct rt_server *s, const char *peer, const struct co_err *why) {
    int64_t now = net_now();
    s->refused++;
    if (s->refused_ms && now - s->refused_ms < SAY_MS) {
        s->refused_unsaid++;
        return;
    }
    s->refused_ms = now;
    rt_say_warn("%s refused: %s", peer, co_err_text(why));
}

static void say_refusals(struct rt_server *s, int64_t now) {
    if (s->refused_unsaid > 0 && now - s->refused_ms >= SAY_MS) {
        rt_say_warn("%llu more refused since, %llu in all", (unsigned long long)s->refused_unsaid,
            (unsigned long long)s->refused);
        s->refused_unsaid = 0;
        s->refused_ms = now;
    }
}

static void check_missing(struct rt_server *s, int64_t now) {
    struct co_err err = {0};
    char list[128];
    if (s->first_ms && now - s->first_ms > s->config.start_timeout_ms &&
        rt_members_in(&s->members, RT_MEMBER_ABSENT) > 0) {
        rt_members_list(&s->members, RT_MEMBER_ABSENT, list, sizeof(list));
        co_err_set(&err, CO_TIMEOUT,
            "trainers %s of %u have not come within %.1f s of the first one", list,
            s->config.trainers, (double)s->config.start_timeout_ms / 1000);
        rt_server_over(s, &err);
    } else if (s->orphan_ms && now - s->orphan_ms > s->config.lease_ms) {
        for (uint32_t i = 0; i < s->members.n && !s->over; i++) {
            if (s->members.all[i].state == RT_MEMBER_LOST) {
                char text[640];
                rt_member_describe(&s->members, i, now, text, sizeof(text));
                co_err_set(
                    &err, CO_PEERLOST, "%s, and did not come back before the others ended", text);
                rt_server_over(s, &err);
            }
        }
    }
}

/* Trainers close after their last answer; those that do not are not waited for. */
void rt_server_tell(struct rt_server *s) {
    if (s->over && !s->told && (!s->sessions || net_now() - s->over_ms > LINGER_MS)) {
        s->told = true;
        (void)!write(s->fd, &(uint64_t){1}, sizeof(uint64_t));
    }
}

void rt_server_tick(void *arg) {
    struct rt_server *s = arg;
    int64_t now = net_now();
    if (!s->over) {
        check_leases(s, now);
        check_missing(s, now);
        say_missing(s, now);
    }
    say_refusals(s, now);
    rt_server_tell(s);
}

void rt_server_over(struct rt_server *s, const struct co_err *result) {
    if (s->over) {
        return;
    }
    s->over = true;
    s->over_ms = net_now();
    s->result = *result;
    if (result->code == 0) {
        return;
    }
    rt_say_error("%s", co_err_text(result));
    for (struct rt_session *se = s->sessions; se; se = se->next) {
        if (se->trainer != RT_NOBODY) {
            (void)!rt_stream_send(
                se->stream, rt_frame_error(NULL, result->code, co_err_text(result)), NULL);
            rt_stream_end(se->stream);
        }
    }
}
