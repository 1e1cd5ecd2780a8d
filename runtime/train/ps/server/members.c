/* The states of trainers and the legal moves between them; when the barrier is full, and whether
 * trainers wait for each other.  Runs on the rpc's thread. */
#include "runtime/train/ps/server/members.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/word_list.h"

/* [from]: a bit for each state that may follow. */
static const unsigned legal[] = {
    [PSS_MEMBER_ABSENT] = 1U << PSS_MEMBER_ALIVE | 1U << PSS_MEMBER_FINISHED,
    [PSS_MEMBER_ALIVE] = 1U << PSS_MEMBER_AWAY | 1U << PSS_MEMBER_LOST | 1U << PSS_MEMBER_FINISHED,
    [PSS_MEMBER_AWAY] = 1U << PSS_MEMBER_ALIVE | 1U << PSS_MEMBER_LOST | 1U << PSS_MEMBER_FINISHED,
    [PSS_MEMBER_LOST] = 1U << PSS_MEMBER_ALIVE | 1U << PSS_MEMBER_FINISHED,
    [PSS_MEMBER_FINISHED] = 0,
};

void pss_members_init(struct pss_members *m, uint32_t n) {
    *m = (struct pss_members){.all = co_xcalloc(n, sizeof(*m->all)), .n = n};
}

void pss_members_done(struct pss_members *m) {
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->all[i].stream) {
            rpc_stream_unref(m->all[i].stream);
        }
    }
    free(m->all);
    *m = (struct pss_members){0};
}

void pss_member_set(struct pss_members *m, uint32_t i, enum pss_member_state to) {
    struct pss_member *t = &m->all[i];
    assert(legal[t->state] & 1U << to);
    t->state = to;
    t->waits = t->waits && (to == PSS_MEMBER_ALIVE || to == PSS_MEMBER_AWAY);
    t->refused[0] = '\0';
}

static bool is_awaited(const struct pss_member *t) {
    return t->state == PSS_MEMBER_ALIVE || t->state == PSS_MEMBER_AWAY;
}

uint32_t pss_members_in(const struct pss_members *m, enum pss_member_state state) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        n += m->all[i].state == state;
    }
    return n;
}

/* Whether the barrier waits for this trainer. */
static bool is_late(const struct pss_member *t) {
    return !t->waits && (t->state == PSS_MEMBER_ABSENT || is_awaited(t));
}

/* Whether that step does. */
static bool is_late_for_step(const struct pss_member *t, uint64_t step) {
    return t->state == PSS_MEMBER_ABSENT || (is_awaited(t) && !t->ended && t->steps < step);
}

bool pss_members_barrier_full(const struct pss_members *m) {
    uint32_t here = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        here += m->all[i].waits;
        if (is_late(&m->all[i])) {
            return false;
        }
    }
    return here > 0;
}

bool pss_members_late(const struct pss_members *m, uint64_t step, char *ret_text, size_t size) {
    bool any = false;
    size_t at = (size_t)snprintf(ret_text, size, "trainer ");
    const char *comma = "";
    for (uint32_t i = 0; i < m->n; i++) {
        const struct pss_member *t = &m->all[i];
        if (step > 0 ? !is_late_for_step(t, step) : !is_late(t)) {
            continue;
        }
        any = true;
        if (at + sizeof(t->peer) + 24 > size) {
            (void)snprintf(ret_text + at, size - at, "%s...", comma);
            return true;
        }
        at += (size_t)snprintf(ret_text + at, size - at, "%s%u (%s)", comma, i,
            t->state == PSS_MEMBER_ABSENT ? "not here yet" : t->peer);
        comma = ", ";
    }
    return any;
}

/* Whether steps wait for this trainer. */
static bool is_training(const struct pss_member *t) {
    return is_awaited(t) && !t->ended;
}

/* Lists the training members ("0, 2") that are at the barrier, or are not, and whose last step is
 * in from .. to; cut with "...". */
static void list_at(const struct pss_members *m, bool waits, uint64_t from, uint64_t to,
    char *ret_text, size_t size) {
    ret_text[0] = '\0';
    for (uint32_t i = 0; i < m->n; i++) {
        const struct pss_member *t = &m->all[i];
        if (is_training(t) && t->waits == waits && t->steps >= from && t->steps <= to) {
            co_word_list_add(ret_text, size, "%u", i);
        }
    }
}

/* "; lost: trainer 2", or nothing. */
static void list_lost(const struct pss_members *m, char *ret_text, size_t size) {
    static const char head[] = "; lost: trainer ";
    ret_text[0] = '\0';
    if (pss_members_in(m, PSS_MEMBER_LOST) > 0) {
        (void)snprintf(ret_text, size, "%s", head);
        pss_members_list(m, PSS_MEMBER_LOST, ret_text + strlen(head), size - strlen(head));
    }
}

/* A step does without `backup` trainers, whether they are lost or wait somewhere else. */
int pss_members_check_order(const struct pss_members *m, uint32_t backup, struct co_err *err) {
    uint64_t step = 0, behind = UINT64_MAX;
    uint32_t missing = 0;
    bool parted = false; /* somebody waits at the barrier for those in the step */
    for (uint32_t i = 0; i < m->n; i++) {
        const struct pss_member *t = &m->all[i];
        step = is_training(t) && !t->waits && t->steps > step ? t->steps : step;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const struct pss_member *t = &m->all[i];
        if (is_training(t) && t->waits && t->steps < step) {
            missing++;
            parted = true;
            behind = t->steps < behind ? t->steps : behind;
        }
        missing += t->state == PSS_MEMBER_LOST && !t->ended && t->steps < step;
    }
    if (!parted || missing <= backup) {
        return 0;
    }
    char at_barrier[128], in_step[128], lost[128];
    list_at(m, true, 0, step - 1, at_barrier, sizeof(at_barrier));
    list_at(m, false, step, step, in_step, sizeof(in_step));
    list_lost(m, lost, sizeof(lost));
    return co_err_set(err, CO_INVALID,
        "at barrier %llu, after step %llu: trainer %s; in step %llu: trainer %s%s; each waits "
        "for the other.  All trainers must call rt_step and rt_barrier in the same order; one that "
        "has no "
        "more data calls rt_no_more or rt_finish",
        (unsigned long long)m->barriers + 1, (unsigned long long)behind, at_barrier,
        (unsigned long long)step, in_step, lost);
}

void pss_member_describe(
    const struct pss_members *m, uint32_t i, int64_t now_ms, char *ret_text, size_t size) {
    const struct pss_member *t = &m->all[i];
    (void)snprintf(ret_text, size, "trainer %u (%s) lost: %s, last message %.1f s ago", i, t->peer,
        t->cause, (double)(now_ms - t->received_ms) / 1000);
}

void pss_members_refuse(
    struct pss_members *m, uint32_t i, const char *peer, const struct co_err *why) {
    struct pss_member *t = i < m->n ? &m->all[i] : NULL;
    if (!t) {
        (void)snprintf(m->stranger, sizeof(m->stranger), "%.60s: %.170s", peer, why->msg);
    } else if (t->state != PSS_MEMBER_ALIVE && t->state != PSS_MEMBER_FINISHED) {
        (void)snprintf(t->refused, sizeof(t->refused), "%.230s", why->msg);
    }
}

void pss_members_refused(const struct pss_members *m, char *ret_text, size_t size) {
    bool any = m->stranger[0] && pss_members_in(m, PSS_MEMBER_ABSENT) > 0;
    (void)snprintf(
        ret_text, size, "%s%s", any ? "; refused a connection from " : "", any ? m->stranger : "");
    for (uint32_t i = 0; i < m->n; i++) {
        const struct pss_member *t = &m->all[i];
        if (t->refused[0] && t->state != PSS_MEMBER_LOST) {
            (void)snprintf(ret_text, size, "; trainer %u was refused: %s", i, t->refused);
            return;
        }
    }
}

void pss_members_list(
    const struct pss_members *m, enum pss_member_state state, char *ret_text, size_t size) {
    ret_text[0] = '\0';
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->all[i].state == state) {
            co_word_list_add(ret_text, size, "%u", i);
        }
    }
}
