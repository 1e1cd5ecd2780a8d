/* Groups that form from another group, which watches their ranks meanwhile.
 *
 * A rank may fail to form the group for a reason of its own: it has no descriptor, or no memory.
 * Others may have formed it by then, or wait for that rank.  So it sends them a word (UNABLE) over
 * the connections of the group that they are in, and all fail at once, with its reason.  Those that
 * have formed the group wait for the last one in a barrier.
 *
 * The word carries which group it is about: its id, and how many groups the two ranks have formed
 * together.  It may come before the other rank begins, or when that rank is at the next group.
 * While a group shrinks, a rank that is unable counts as dead (vote.h). */
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/interrupt.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/use.h"

/*     0 u64 key   8 u32 code, negated   12 ... text */
enum { UNABLE_HEAD = 12, UNABLE_BYTES = UNABLE_HEAD + COLL_UNABLE_TEXT };

/* How long the reason of a rank whose connections have ended may take: it comes by another one. */
enum { REASON_MS = 500 };

/* ---- the ranks of the child; the parent's lock is held ---- */

/* For each rank of g its rank in the child; child->size: it is not in there.  Mostly both have the
 * same order, so the search begins behind the rank that was found last. */
static uint32_t *find_places(const struct rt_group *g, const struct rt_group *child) {
    uint32_t *places = co_xcalloc(g->size, sizeof(*places)), next = 0;
    for (uint32_t r = 0; r < g->size; r++) {
        uint32_t tried = 0;
        while (tried < child->size && !co_streq(child->endpoints[next], g->endpoints[r])) {
            next = next + 1 < child->size ? next + 1 : 0;
            tried++;
        }
        places[r] = tried < child->size ? next : child->size;
    }
    return places;
}

static bool is_in_child(const struct rt_group *g, uint32_t r) {
    return g->places[r] < g->child->size;
}

static uint64_t key_of(const struct rt_group *g, uint32_t r) {
    /* Survivors may have made other attempts. */
    uint64_t formed = g->shrinks ? 0 : g->peers[r].formed;
    return coll_hash_more(g->child->id, &formed, sizeof(formed)) | 1;
}

static bool is_unable(const struct rt_group *g, uint32_t r) {
    uint64_t key = g->peers[r].unable.key;
    return key && key == key_of(g, r) && is_in_child(g, r);
}

static void fail_unable(struct rt_group *g, uint32_t r) {
    struct coll_peer *p = &g->peers[r];
    if (!g->child || !is_unable(g, r)) {
        return;
    }
    p->out = g->shrinks;
    pthread_cond_broadcast(&g->changed);
    if (p->unable.code == CO_TIMEOUT) { /* this rank's own time ends, too, with its own reason */
        return;
    }
    (void)coll_group_fail(g->child, g->shrinks ? CO_PEERLOST : p->unable.code, g->places[r], false,
        "rank %u (%.200s) could not form the group: %s", g->places[r], g->endpoints[r],
        p->unable.text);
}

/* coll_group_fail takes the child's lock while the caller holds the parent's.  The order is always
 * parent before child. */
void coll_group_lose_child(struct rt_group *g, uint32_t rank) {
    struct rt_group *child = g->child;
    if (child && !atomic_load(&g->peers[rank].left) && is_in_child(g, rank)) {
        (void)coll_group_fail(child, CO_PEERLOST, g->places[rank], false,
            "rank %u (%.200s) was lost while the group formed", g->places[rank],
            g->endpoints[rank]);
    }
}

void coll_group_fail_child(struct rt_group *g) {
    struct rt_group *child = g->child;
    bool concerned = g->why.code != CO_PEERLOST || g->failed_rank >= g->size;
    if (child && (concerned || is_in_child(g, g->failed_rank))) {
        (void)coll_group_fail(child, g->why.code, child->size, false, "%s", g->why.msg);
    }
}

/* ---- the word ---- */

void coll_unable_receive(
    struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n) {
    struct coll_unable *u = &g->peers[from].unable;
    if (n < UNABLE_HEAD || n >= UNABLE_BYTES) {
        return;
    }
    uint32_t code = co_get_u32(bytes + 8);
    pthread_mutex_lock(&g->m);
    *u = (struct coll_unable){.key = co_get_u64(bytes), .code = coll_code_of_other(code)};
    for (uint32_t i = 0; i < n - UNABLE_HEAD; i++) {
        char c = (char)bytes[UNABLE_HEAD + i];
        u->text[i] = (char)(c >= ' ' && c <= '~' ? c : '?');
    }
    fail_unable(g, from);
    pthread_mutex_unlock(&g->m);
}

static void send_unable(struct rt_group *g, int code, const char *text) {
    unsigned char bytes[UNABLE_BYTES];
    size_t len = strnlen(text, COLL_UNABLE_TEXT - 1);
    co_put_u32(bytes + 8, (uint32_t)-code);
    memcpy(bytes + UNABLE_HEAD, text, len);
    for (uint32_t r = 0; r < g->size; r++) {
        if (r != g->rank && is_in_child(g, r)) {
            co_put_u64(bytes, key_of(g, r));
            coll_monitor_send_one(g, r, COLL_WORD_UNABLE, bytes, (uint32_t)(UNABLE_HEAD + len));
        }
    }
}

/* ---- forming ---- */

static void begin(struct rt_group *g, struct rt_group *child) {
    pthread_mutex_lock(&g->m);
    g->child = child;
    g->places = find_places(g, child);
    for (uint32_t r = 0; r < g->size; r++) {
        g->peers[r].formed += is_in_child(g, r);
        if (atomic_load(&g->peers[r].gone)) {
            coll_group_lose_child(g, r);
        }
        fail_unable(g, r);
    }
    if (atomic_load(&g->failed) < 0 && !g->shrinks) {
        coll_group_fail_child(g);
    }
    pthread_mutex_unlock(&g->m);
}

/* The first rank that has said that it is unable; g->size: none has. */
static uint32_t find_unable(const struct rt_group *g) {
    uint32_t r = 0;
    while (r < g->size && !is_unable(g, r)) {
        r++;
    }
    return r;
}

static bool failed_here(struct rt_group *child) {
    pthread_mutex_lock(&child->m);
    bool here = atomic_load(&child->failed) == 0 || child->failed_rank == child->rank;
    pthread_mutex_unlock(&child->m);
    return here;
}

/* The child has not formed: why, if another rank knows it, else that rank learns it. */
static int explain(struct rt_group *g, int rc, struct co_err *err) {
    int64_t end = co_now_ms() + REASON_MS, ask = co_interrupt_next();
    while (rc == CO_PEERLOST && !g->shrinks && find_unable(g) == g->size &&
           atomic_load(&g->failed) == 0 && co_now_ms() < end &&
           !co_interrupt_wait(&g->changed, &g->m, end, &ask)) {
    }
    uint32_t r = find_unable(g);
    if (r < g->size && rc != CO_TIMEOUT) {
        const struct coll_unable *u = &g->peers[r].unable;
        return co_err_set(err, g->shrinks ? CO_PEERLOST : u->code,
            "rank %u (%.200s) could not form the group: %s", g->places[r], g->endpoints[r],
            u->text);
    }
    bool again = g->shrinks && (rc == CO_PEERLOST || rc == CO_TIMEOUT); /* it votes so */
    if (!again && failed_here(g->child)) {
        send_unable(g, rc, co_err_text(err));
    }
    return rc;
}

int coll_child_start(struct rt_group *g, struct rt_group *child, int64_t deadline_ms, bool meet,
    struct co_err *err) {
    struct co_err why = {0};
    begin(g, child);
    int rc = coll_group_start(child, deadline_ms, &why);
    bool formed = rc == 0;
    if (formed && meet) {
        int64_t usual = child->call_ms, left = deadline_ms - co_now_ms();
        child->call_ms += left > 0 ? left : 0; /* others may form until then */
        rc = rt_group_barrier(child, &why);
        child->call_ms = usual;
    }
    pthread_mutex_lock(&g->m);
    if (formed && rc == CO_INVALID && find_unable(g) == g->size) {
        rc = 0; /* others are behind the barrier, and differ: this rank's first call says so */
    }
    if (rc < 0) {
        rc = explain(g, rc, &why);
    }
    g->child = NULL;
    free(g->places);
    g->places = NULL;
    pthread_mutex_unlock(&g->m);
    if (rc < 0 && err) {
        *err = why;
    }
    return rc;
}
