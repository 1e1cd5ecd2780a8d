/* Groups of the ranks in a list, and whether all of those give the same list.
 *
 * Only the ranks of a list make the call, so the numbers of calls of all ranks (agree.h) do not
 * cover it.  But any two ranks make the calls whose lists have both of them in the same order.  So
 * a rank counts them for each other rank, and as it begins one it sends the ranks of the list the
 * count and the list.  Ranks with different lists for the same count would wait for each other, and
 * so would a rank that continues with a call of all ranks, or leaves.  Who sees that fails the
 * group on all ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/coll/coll.h"

/*     0 u64 count   8 u64 id of the group   16 ... text */
enum { WORD_HEAD = 16, WORD_BYTES = WORD_HEAD + COLL_LIST_TEXT, NAMED_MAX = 16 };

_Static_assert((int)WORD_BYTES <= (int)COLL_WORD_MAX, "a list fits a word");

static void list_text(const uint32_t *ranks, uint32_t n, uint64_t tag, char text[COLL_LIST_TEXT]) {
    int at = snprintf(text, COLL_LIST_TEXT, "sub of ranks");
    for (uint32_t i = 0; i < n && i < NAMED_MAX; i++) {
        at += snprintf(text + at, COLL_LIST_TEXT - (size_t)at, "%s %u", i ? "," : "", ranks[i]);
    }
    if (n > NAMED_MAX) {
        at += snprintf(text + at, COLL_LIST_TEXT - (size_t)at, " and %u more", n - NAMED_MAX);
    }
    (void)snprintf(text + at, COLL_LIST_TEXT - (size_t)at, ", tag %" PRIu64, tag);
}

/* ---- what keeps this rank waiting for another one for ever; the lock is held ---- */

/* The rank makes a call with another list in the place of this rank's call. */
static bool has_other_list(const struct rt_group *g, const struct coll_peer *p) {
    return g->has_list && p->listed && p->list.count == p->list_count && p->list.id != g->list.id;
}

/* The rank is in the list, but has not begun the call so far. */
static bool is_awaited(const struct rt_group *g, const struct coll_peer *p) {
    return g->has_list && p->listed && p->list.count < p->list_count && p->list.id != g->list.id;
}

static int lists_differ(struct rt_group *g, uint32_t rank, const char *does) {
    char own[COLL_LIST_TEXT], other[COLL_LIST_TEXT];
    pthread_mutex_lock(&g->m);
    (void)snprintf(own, sizeof(own), "%s", g->list.text);
    (void)snprintf(other, sizeof(other), "%s", does ? does : g->peers[rank].list.text);
    pthread_mutex_unlock(&g->m);
    return coll_group_fail(g, CO_INVALID, g->size, true,
        "ranks make different calls: rank %u: %s; rank %u: %s", rank, other, g->rank, own);
}

static void check_peer(struct rt_group *g, uint32_t rank) {
    const struct coll_peer *p = &g->peers[rank];
    pthread_mutex_lock(&g->m);
    bool differs = has_other_list(g, p), left = is_awaited(g, p) && atomic_load(&p->left);
    pthread_mutex_unlock(&g->m);
    if (differs) {
        (void)lists_differ(g, rank, NULL);
    } else if (left) {
        (void)coll_group_left(g, rank);
    }
}

/* ---- what the monitor receives ---- */

void coll_list_receive(struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n) {
    struct coll_peer *p = &g->peers[from];
    if (n < WORD_HEAD || n >= WORD_BYTES) {
        return;
    }
    pthread_mutex_lock(&g->m);
    p->list = (struct coll_list){.count = co_get_u64(bytes), .id = co_get_u64(bytes + 8)};
    for (uint32_t i = 0; i < n - WORD_HEAD; i++) {
        char c = (char)bytes[WORD_HEAD + i];
        p->list.text[i] = (char)(c >= ' ' && c <= '~' ? c : '?');
    }
    pthread_mutex_unlock(&g->m);
    check_peer(g, from);
}

void coll_list_left(struct rt_group *g, uint32_t rank) {
    check_peer(g, rank);
}

bool coll_list_compare(
    struct rt_group *g, uint32_t from, uint64_t last, const struct coll_said *call) {
    char text[COLL_CALL_TEXT];
    pthread_mutex_lock(&g->m);
    bool differs = last > g->list_calls && is_awaited(g, &g->peers[from]);
    pthread_mutex_unlock(&g->m);
    if (differs) {
        (void)lists_differ(g, from, coll_call_text(call, text));
    }
    return differs;
}

/* ---- the call ---- */

static void send_list(struct rt_group *g, uint32_t to) {
    unsigned char bytes[WORD_BYTES];
    size_t len = strlen(g->list.text);
    co_put_u64(bytes, g->peers[to].list_count);
    co_put_u64(bytes + 8, g->list.id);
    memcpy(bytes + WORD_HEAD, g->list.text, len);
    coll_monitor_send_one(g, to, COLL_WORD_LIST, bytes, (uint32_t)(WORD_HEAD + len));
}

static void list_begin(
    struct rt_group *g, const uint32_t *ranks, uint32_t n, uint64_t tag, uint64_t id) {
    /* Calls that were started before may yet begin. */
    uint64_t calls = coll_queue_busy(g) ? UINT64_MAX : atomic_load(&g->calls.begun);
    pthread_mutex_lock(&g->m);
    g->has_list = true;
    g->list_calls = calls;
    g->list.id = id;
    list_text(ranks, n, tag, g->list.text);
    for (uint32_t i = 0; i < n; i++) {
        struct coll_peer *p = &g->peers[ranks[i]];
        if (ranks[i] != g->rank) {
            p->listed = true;
            p->list_count++;
            send_list(g, ranks[i]);
        }
    }
    pthread_mutex_unlock(&g->m);
    for (uint32_t i = 0; i < n; i++) {
        check_peer(g, ranks[i]);
    }
}

static void list_end(struct rt_group *g, const uint32_t *ranks, uint32_t n) {
    pthread_mutex_lock(&g->m);
    g->has_list = false;
    for (uint32_t i = 0; i < n; i++) {
        g->peers[ranks[i]].listed = false;
    }
    pthread_mutex_unlock(&g->m);
}

int rt_group_sub(struct rt_group *g, const uint32_t *ranks, uint32_t n, uint64_t tag,
    struct rt_group **ret_group, struct co_err *err) {
    bool member = false, ascending = n > 0;
    for (uint32_t i = 0; i < n; i++) {
        member |= ranks[i] == g->rank;
        ascending &= ranks[i] < g->size && (i == 0 || ranks[i] > ranks[i - 1]);
    }
    if (!member || !ascending) {
        return co_err_set(err, CO_INVALID,
            "the list of %u ranks must be ascending, below %u, and have rank %u in it", n, g->size,
            g->rank);
    }
    uint64_t id = coll_hash_more(coll_hash_more(g->id, "sub", 3), &tag, sizeof(tag));
    id = coll_hash_more(id, ranks, n * sizeof(*ranks));
    int rc = coll_group_enter(g, "sub", err);
    if (rc == 0) {
        list_begin(g, ranks, n, tag, id);
        rc = coll_group_derive(g, ranks, n, id, co_now_ms() + g->form_ms, ret_group, err);
        list_end(g, ranks, n);
        coll_group_leave(g);
    }
    return rc;
}
