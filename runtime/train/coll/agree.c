/* Numbers and signs of calls; asks other ranks for theirs, and says which calls differ. */
#include "runtime/train/coll/agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/coll/coll.h"

/* How long coll_calls_differ waits for the other rank to say which calls differ. */
enum { TELL_MS = 500 };

/* ---- this rank's calls ---- */

struct coll_said coll_call_said(const struct rt_coll *c) {
    const struct coll_needs *k = &coll_kinds[c->kind];
    uint64_t what = (uint64_t)c->kind;
    what |= k->moves ? (uint64_t)c->dtype << 8 : 0;
    what |= k->reduces || coll_use_name(c->kind, c->op) ? (uint64_t)c->op << 16 : 0;
    what |= k->rooted ? (uint64_t)c->root << 32 : 0;
    return (struct coll_said){.what = what, .n = k->moves && !k->counts ? c->n : 0};
}

static uint64_t mix(uint64_t h, uint64_t with) {
    h = (h ^ with) * 0x9e3779b97f4a7c15U;
    return h ^ h >> 29;
}

uint64_t coll_pair_sign(const struct rt_coll *c) {
    /* Another beginning than that of calls of all ranks: 0 made a first barrier equal to a send. */
    static const uint64_t pairs = 0x5bd1e9955bd1e995U;
    return mix(mix(pairs, RT_SEND | (uint64_t)c->dtype << 8), c->n);
}

void coll_call_begin(struct rt_group *g, const struct rt_coll *c) {
    struct coll_calls *a = &g->calls;
    struct coll_said s = coll_call_said(c);
    s.number = a->now.number + 1;
    s.sign = mix(mix(a->now.sign, s.what), s.n);
    for (uint32_t r = 0; c->kind == RT_ALL_GATHERV && r < g->size; r++) {
        s.n += c->counts[r];
        s.sign = mix(s.sign, c->counts[r]);
    }
    a->now = s;
    size_t i = s.number % COLL_CALLS_KEPT;
    atomic_store_explicit(&a->kept[i].number, 0, memory_order_relaxed);
    atomic_store_explicit(&a->kept[i].sign, s.sign, memory_order_release);
    atomic_store_explicit(&a->kept[i].what, s.what, memory_order_release);
    atomic_store_explicit(&a->kept[i].n, s.n, memory_order_release);
    atomic_store_explicit(&a->kept[i].number, s.number, memory_order_release);
    atomic_store_explicit(&a->begun, s.number, memory_order_release);
}

void coll_call_end(struct rt_group *g) {
    atomic_store_explicit(&g->calls.ended, g->calls.now.number, memory_order_release);
}

/* False: the call is not among those that are kept. */
static bool said_at(const struct coll_calls *a, uint64_t number, struct coll_said *ret) {
    size_t i = number % COLL_CALLS_KEPT;
    ret->number = atomic_load_explicit(&a->kept[i].number, memory_order_acquire);
    ret->sign = atomic_load_explicit(&a->kept[i].sign, memory_order_acquire);
    ret->what = atomic_load_explicit(&a->kept[i].what, memory_order_acquire);
    ret->n = atomic_load_explicit(&a->kept[i].n, memory_order_acquire);
    return number > 0 && ret->number == number &&
           atomic_load_explicit(&a->kept[i].number, memory_order_relaxed) == number;
}

/* ---- texts ---- */

const char *coll_call_text(const struct coll_said *s, char ret_text[COLL_CALL_TEXT]) {
    enum rt_kind kind = s->what & 0xff;
    enum rt_dtype dtype = s->what >> 8 & 0xff;
    enum rt_op op = s->what >> 16 & 0xff;
    char root[32] = "";
    const struct coll_use_name *use = coll_use_name(kind, op);
    if (kind >= RT_KINDS || dtype >= RT_DTYPES || (op >= RT_OPS && !use)) { /* from another rank */
        (void)snprintf(ret_text, COLL_CALL_TEXT, "an unknown call");
        return ret_text;
    }
    const struct coll_needs *k = &coll_kinds[kind];
    if (k->rooted) {
        (void)snprintf(root, sizeof(root), " %s rank %u", k->to_root ? "to" : "from",
            (uint32_t)(s->what >> 32));
    }
    if (use && !use->sized) {
        (void)snprintf(ret_text, COLL_CALL_TEXT, "%s", use->text);
    } else if (use) {
        (void)snprintf(ret_text, COLL_CALL_TEXT, "%s, %llu %s", use->text, (unsigned long long)s->n,
            rt_dtype_name(dtype));
    } else if (!k->moves) {
        (void)snprintf(ret_text, COLL_CALL_TEXT, "%s", k->name);
    } else if (k->out_counts) {
        (void)snprintf(ret_text, COLL_CALL_TEXT, "%s of %s", k->name, rt_dtype_name(dtype));
    } else {
        (void)snprintf(ret_text, COLL_CALL_TEXT, "%s of %llu %s%s%s%s", k->name,
            (unsigned long long)s->n, rt_dtype_name(dtype), k->reduces ? ", " : "",
            k->reduces ? rt_op_name(op) : "", root);
    }
    return ret_text;
}

/* ---- differences ---- */

/* A call of a rank. */
struct claim {
    uint64_t rank; /* without a gap behind it, for gcc's analyzer */
    struct coll_said said;
};

static void claims_write(const struct claim claims[2], unsigned char *ret_bytes) {
    for (uint32_t i = 0; i < 2; i++) {
        unsigned char *p = ret_bytes + i * (size_t)40;
        co_put_u64(p, claims[i].rank);
        co_put_u64(p + 8, claims[i].said.number);
        co_put_u64(p + 16, claims[i].said.sign);
        co_put_u64(p + 24, claims[i].said.what);
        co_put_u64(p + 32, claims[i].said.n);
    }
}

/* Puts this rank in the place of one of the two, so that it reads what is wrong about its own call.
 */
static void take_part(struct rt_group *g, struct claim claims[2]) {
    struct coll_said own;
    if (claims[0].rank == g->rank) {
        struct claim other = claims[1];
        claims[1] = claims[0];
        claims[0] = other;
    } else if (claims[1].rank != g->rank && claims[0].said.number == claims[1].said.number &&
               said_at(&g->calls, claims[0].said.number, &own)) {
        const struct claim *other = &claims[own.sign == claims[0].said.sign];
        claims[0] = (struct claim){.rank = other->rank, .said = other->said};
        claims[1] = (struct claim){.rank = g->rank, .said = own};
    }
}

static int differ(struct rt_group *g, const struct claim given[2], bool notify) {
    struct claim claims[2] = {given[0], given[1]};
    unsigned char bytes[COLL_DIFFERENCE];
    char text[2][COLL_CALL_TEXT], who[40] = "this rank";
    claims_write(claims, bytes);
    take_part(g, claims);
    const struct coll_said *a = &claims[0].said, *b = &claims[1].said;
    if (claims[1].rank != g->rank) {
        (void)snprintf(who, sizeof(who), "rank %" PRIu64, claims[1].rank);
    }
    bool same = a->what == b->what && a->n == b->n;
    bool counts = (a->what & 0xff) == RT_ALL_GATHERV;
    struct coll_failure_report t = {
        .word = COLL_WORD_DIFFER, .notify = notify, .more = bytes, .bytes = sizeof(bytes)};
    return coll_group_fail_as(g, CO_INVALID, g->size, &t,
        "ranks make different calls: rank %" PRIu64 ": %s; %s: %s%s", claims[0].rank,
        coll_call_text(a, text[0]), who, coll_call_text(b, text[1]),
        !same    ? ""
        : counts ? ", with other counts"
                 : ", after other calls");
}

void coll_difference_receive(struct rt_group *g, const unsigned char bytes[COLL_DIFFERENCE]) {
    struct claim claims[2];
    for (uint32_t i = 0; i < 2; i++) {
        const unsigned char *p = bytes + i * (size_t)40;
        claims[i] = (struct claim){.rank = (uint32_t)co_get_u64(p),
            .said = {.number = co_get_u64(p + 8),
                .sign = co_get_u64(p + 16),
                .what = co_get_u64(p + 24),
                .n = co_get_u64(p + 32)}};
    }
    (void)differ(g, claims, false);
}

int coll_pair_differs(
    struct rt_group *g, const struct rt_coll *c, uint32_t rank, const struct coll_said *other) {
    struct claim claims[2] = {{rank, *other}, {g->rank, coll_call_said(c)}};
    return differ(g, claims, true);
}

int coll_call_differs_from(struct rt_group *g, uint32_t rank, const struct coll_said *other) {
    struct claim claims[2] = {{rank, *other}, {g->rank, g->calls.now}};
    claims[1].said.number = 0;
    return differ(g, claims, true);
}

int coll_calls_differ(struct rt_group *g, uint32_t rank) {
    char text[COLL_CALL_TEXT];
    coll_monitor_ask(g, NULL, rank);
    coll_wait_fd(g, -1, 0, co_now_ms() + TELL_MS);
    return coll_group_fail(g, CO_INVALID, g->size, true,
        "ranks make different calls: rank %u: unknown; rank %u: %s", rank, g->rank,
        coll_call_text(&g->calls.now, text));
}

/* ---- questions ----
 *
 *     0 u64 number of the last call   8 u64 bytes sent to   16 u64 received from the other rank
 *     24 u32 what it waits in         28 u32 how many calls follow, the last one first
 *     32 u64 what, 40 u64 n: the send or receive that it waits in
 *     48 ... u64 sign, u64 what, u64 n of each call */

/* What the asking rank waits in.  A send or receive blocks if it is all that the rank does. */
enum wait { IN_NOTHING, IN_CALL, IN_PAIR, IN_BLOCKING_PAIR };

uint32_t coll_question_write(
    const struct rt_group *g, const struct rt_coll *c, uint32_t rank, unsigned char *ret_bytes) {
    const struct coll_calls *a = &g->calls;
    const struct coll_peer *p = &g->peers[rank];
    struct coll_said pair = {0}, s;
    enum wait wait = c ? IN_CALL : IN_NOTHING;
    if (c && coll_kinds[c->kind].peer) {
        pair = coll_call_said(c);
        wait = atomic_load(&a->pair) == pair.what ? IN_BLOCKING_PAIR : IN_PAIR;
    }
    uint64_t last = atomic_load(&a->begun);
    uint32_t n = 0;
    while (n < COLL_CALLS_SENT && n < last && said_at(a, last - n, &s)) {
        unsigned char *to = ret_bytes + COLL_QUESTION_HEAD + n++ * (size_t)24;
        co_put_u64(to, s.sign);
        co_put_u64(to + 8, s.what);
        co_put_u64(to + 16, s.n);
    }
    co_put_u64(ret_bytes, last);
    co_put_u64(ret_bytes + 8, atomic_load(&p->sent));
    co_put_u64(ret_bytes + 16, atomic_load(&p->received));
    co_put_u32(ret_bytes + 24, (uint32_t)wait);
    co_put_u32(ret_bytes + 28, n);
    co_put_u64(ret_bytes + 32, pair.what);
    co_put_u64(ret_bytes + 40, pair.n);
    return COLL_QUESTION_HEAD + n * 24;
}

/* Looks for the first call that both know and that differs. */
static bool compare_calls(
    struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n) {
    uint64_t last = co_get_u64(bytes);
    for (uint32_t i = n; i-- > 0;) {
        const unsigned char *p = bytes + COLL_QUESTION_HEAD + i * (size_t)24;
        struct claim claims[2] = {{from, {.number = last - i,
                                             .sign = co_get_u64(p),
                                             .what = co_get_u64(p + 8),
                                             .n = co_get_u64(p + 16)}},
            {.rank = g->rank}};
        if (said_at(&g->calls, last - i, &claims[1].said) &&
            claims[1].said.sign != claims[0].said.sign) {
            (void)differ(g, claims, true);
            return true;
        }
    }
    return false;
}

/* `from` waits for this rank's part of a send or receive.  It waits in vain if this rank is in a
 * call that `from` has yet to make, or if both receive; unless more has been sent or received than
 * `from` knew when it asked, as then it need not wait any more. */
static void compare_pair(
    struct rt_group *g, uint32_t from, const unsigned char *bytes, enum wait wait) {
    struct claim claims[2] = {
        {from, {.what = co_get_u64(bytes + 32), .n = co_get_u64(bytes + 40)}}, {.rank = g->rank}};
    const struct coll_calls *a = &g->calls;
    const struct coll_peer *p = &g->peers[from];
    uint64_t ended = atomic_load(&a->ended), begun = atomic_load(&a->begun);
    uint64_t own = atomic_load(&a->pair), last = co_get_u64(bytes);
    bool receives = (claims[0].said.what & 0xff) == RT_RECV;
    uint64_t sent = atomic_load(&p->sent), received = atomic_load(&p->received);
    bool moved = receives ? sent != co_get_u64(bytes + 16) : received > co_get_u64(bytes + 8);
    bool all_came = received == co_get_u64(bytes + 8);
    if (claims[0].said.what >> 32 != g->rank || moved) {
        return;
    }
    if (begun > last && ended < begun && said_at(a, begun, &claims[1].said)) {
        claims[1].said.number = 0;
        (void)differ(g, claims, true);
    } else if (wait == IN_BLOCKING_PAIR && receives && all_came && (own & 0xff) == RT_RECV &&
               own >> 32 == from && begun == last) {
        claims[1].said = (struct coll_said){.what = own, .n = atomic_load(&a->pair_n)};
        (void)differ(g, claims, true);
    }
}

void coll_question_receive(
    struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n_bytes) {
    uint32_t n = n_bytes >= COLL_QUESTION_HEAD ? co_get_u32(bytes + 28) : COLL_CALLS_SENT + 1;
    if (n > COLL_CALLS_SENT || n_bytes != COLL_QUESTION_HEAD + n * 24) {
        return; /* a plain sign of life */
    }
    uint32_t wait = co_get_u32(bytes + 24);
    const unsigned char *last = bytes + COLL_QUESTION_HEAD;
    struct coll_said call = {
        .what = n > 0 ? co_get_u64(last + 8) : RT_KINDS, .n = n > 0 ? co_get_u64(last + 16) : 0};
    if (coll_list_compare(g, from, co_get_u64(bytes), &call)) {
        return;
    }
    if (!compare_calls(g, from, bytes, n) && (wait == IN_PAIR || wait == IN_BLOCKING_PAIR)) {
        compare_pair(g, from, bytes, (enum wait)wait);
    }
}

void coll_goodbye_receive(
    struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n_bytes) {
    struct coll_peer *p = &g->peers[from];
    pthread_mutex_lock(&g->m);
    if (!p->goodbye) {
        p->goodbye = co_xmalloc(n_bytes + 1);
        p->goodbye_bytes = n_bytes;
        memcpy(p->goodbye, bytes, n_bytes);
    }
    pthread_mutex_unlock(&g->m);
    coll_question_receive(g, from, bytes, n_bytes);
    atomic_store(&g->calls.goodbyes, true);
}

int coll_goodbyes_compare(struct rt_group *g) {
    for (uint32_t r = 0; r < g->size; r++) {
        pthread_mutex_lock(&g->m);
        const unsigned char *bytes = g->peers[r].goodbye; /* stays as it is */
        uint32_t n = g->peers[r].goodbye_bytes;
        pthread_mutex_unlock(&g->m);
        if (bytes) {
            coll_question_receive(g, r, bytes, n);
        }
    }
    return atomic_load(&g->failed);
}
