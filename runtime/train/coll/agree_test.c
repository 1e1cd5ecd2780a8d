/* One rank makes another call than the others, in random pairs of calls on all transports: every
 * rank must end with CO_INVALID, soon, and its message must say who called what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/cases_testing.h"
#include "common/network_testing.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/reference_testing.h"

enum { CASES = 250, CASES_SANITIZED = 60, SIZE_MAX_N = 70000, PARTS_MAX = 4, SOON_MS = 1000 };

static const size_t sizes[] = {0, 1, 6, 40, 1000, 3000, 20000, SIZE_MAX_N - 1};

/* The calls that are drawn; pairs only for the odd rank. */
static const enum rt_kind drawn[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
    RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_ALL_TO_ALLV,
    RT_BARRIER, RT_RECV, RT_SEND};
enum { OF_ALL = 11 };

struct drawn {
    struct rt_coll call;
    size_t counts[WORLD_MAX], out_counts[WORLD_MAX];
};

/* h: the same on all ranks. */
static struct drawn draw(uint32_t h, uint32_t ranks, uint32_t kinds) {
    struct drawn d = {.call = {.kind = drawn[mix(h, 1, 1) % kinds],
                          .dtype = mix(h, 2, 1) % RT_DTYPES,
                          .op = mix(h, 3, 1) % RT_AVG,
                          .root = mix(h, 4, 1) % ranks,
                          .n = sizes[mix(h, 5, 1) % CO_ARRAY_LEN(sizes)]}};
    for (uint32_t r = 0; r < ranks; r++) {
        d.counts[r] = d.out_counts[r] = mix(h, 6, 0) % 3 * 1000 + 1;
    }
    return d;
}

/* What the odd rank does instead: something in which it differs. */
static struct drawn twist(
    const struct drawn *of, uint32_t h, uint32_t ranks, uint32_t odd, const char **ret_what) {
    static const char *const whats[] = {"call", "n", "dtype", "op", "root", "counts"};
    struct drawn d = *of;
    const struct coll_needs *k = &coll_kinds[d.call.kind];
    for (uint32_t turn = 0;; turn++) {
        uint32_t what = mix(h, turn, 2) % CO_ARRAY_LEN(whats), by = mix(h, turn, 3);
        *ret_what = whats[what];
        if (what == 0) {
            d.call.kind = drawn[by % CO_ARRAY_LEN(drawn)];
            d.call.root = coll_kinds[d.call.kind].peer ? (odd + 1) % ranks : d.call.root;
        } else if (what == 1 && k->moves && !k->counts) {
            d.call.n = by % 2 ? d.call.n + 1 : sizes[(by >> 4) % CO_ARRAY_LEN(sizes)];
        } else if (what == 2 && k->moves) {
            d.call.dtype = by % RT_DTYPES;
        } else if (what == 3 && k->reduces) {
            d.call.op = by % RT_AVG;
        } else if (what == 4 && k->rooted) {
            d.call.root = by % ranks;
        } else if (what == 5 && k->counts) {
            d.counts[(odd + 1) % ranks] += 5; /* of all_to_allv, a part for another rank */
        }
        bool same = d.call.kind == of->call.kind && d.call.n == of->call.n &&
                    d.call.dtype == of->call.dtype && d.call.op == of->call.op &&
                    d.call.root == of->call.root &&
                    memcmp(d.counts, of->counts, sizeof(d.counts)) == 0;
        /* A send that nobody receives is none of the others' business. */
        bool sent = d.call.kind == RT_SEND && of->call.kind == RT_BARRIER;
        if (!same && !sent) {
            return d;
        }
        d = *of;
    }
}

static int make(struct rt_group *g, struct drawn *d, bool started, struct co_err *err) {
    static _Alignas(64) unsigned char in[PARTS_MAX * SIZE_MAX_N * 8], out[sizeof(in)];
    d->call.in = in;
    d->call.out = out;
    d->call.counts = d->counts;
    d->call.out_counts = d->out_counts;
    return started ? world_start_all(g, &d->call, 1, err) : rt_coll_run(g, &d->call, err);
}

/* ": all_reduce of 1001 f32, sum" */
static const char *call_text(const struct drawn *d, uint32_t ranks, char ret_text[COLL_CALL_TEXT]) {
    struct coll_said s = coll_call_said(&d->call);
    for (uint32_t r = 0; d->call.kind == RT_ALL_GATHERV && r < ranks; r++) {
        s.n += d->counts[r];
    }
    return coll_call_text(&s, ret_text);
}

/* Whether the text has "who: call". */
static bool says(const char *text, const char *who, const char *call) {
    char want[COLL_CALL_TEXT + 40];
    (void)snprintf(want, sizeof(want), "%s: %s", who, call);
    return strstr(text, want) != NULL;
}

/* Whether the text names both calls, and the odd rank.  Not all do: a small send returns, and the
 * barrier after it differs; and all_to_allv has counts that only two ranks know. */
static bool says_who(const struct drawn *common, const struct drawn *odd, uint32_t ranks,
    uint32_t odd_rank, uint32_t me, const char *text) {
    char a[COLL_CALL_TEXT], b[COLL_CALL_TEXT], who[24];
    bool common_said = says(text, "this rank", call_text(common, ranks, a));
    (void)snprintf(who, sizeof(who), "rank %u", odd_rank);
    bool odd_said = says(text, me == odd_rank ? "this rank" : who, call_text(odd, ranks, b)) ||
                    says(text, who, b);
    for (uint32_t r = 0; r < ranks; r++) {
        (void)snprintf(who, sizeof(who), "rank %u", r);
        common_said |= r != odd_rank && says(text, who, a);
    }
    bool counts = common->call.kind == RT_ALL_TO_ALLV && odd->call.kind == RT_ALL_TO_ALLV;
    return coll_kinds[odd->call.kind].peer || counts || (common_said && odd_said);
}

/* Calls as usual, for as long as nobody differs. */
static int agree(
    struct coll_world *w, struct rt_group *g, uint32_t h, enum layout layout, struct co_err *err) {
    for (uint32_t k = 0; k < mix(h, 8, 8) % 4; k++) {
        struct drawn d = draw(mix(h, k, 9), w->n, OF_ALL);
        if (d.call.kind != RT_ALL_TO_ALLV && d.call.kind != RT_BARRIER) {
            d.call.counts = d.call.kind == RT_ALL_GATHERV ? d.counts : NULL;
            CO_TRY(one_call(w, g, d.call, k & 1, layout, err));
        }
    }
    return 0;
}

/* Calls that agree, then one of which one rank's is another; at the latest the barrier sees it.
 * *ret_since: when that began.  `same`: both are of one kind. */
static int make_odd(struct coll_world *w, struct rt_group *g, struct drawn *own, uint32_t h,
    bool same, int64_t *ret_since, struct co_err *why) {
    /* A rank that is slow is notified in an earlier call than the others. */
    int rc = agree(w, g, h, (h >> 3) % LAYOUTS, why);
    *ret_since = co_now_ms();
    CO_TRY(rc);
    CO_TRY(make(g, own, mix(h, 10, 10) & 1, why));
    bool counts = own->call.kind == RT_ALL_TO_ALLV && same;
    if (!coll_kinds[own->call.kind].rooted && !counts) { /* it waits for all others */
        return co_err_set(why, CO_INTERNAL, "no error");
    }
    return rt_group_barrier(g, why);
}

static int one_case(struct coll_world *w, struct rt_group *all, uint32_t rank, uint32_t i,
    int64_t *ret_ms, struct co_err *err) {
    uint32_t h = mix(w->seed, i, 17), odd = mix(h, 7, 7) % w->n;
    const char *what = "";
    char x[COLL_CALL_TEXT], y[COLL_CALL_TEXT];
    struct co_err why = {0};
    struct drawn a = draw(h, w->n, OF_ALL), b = twist(&a, h, w->n, odd, &what);
    CO_CLEANUP(rt_group_closep) struct rt_group *g = NULL;
    CO_TRY(rt_group_split(all, 0, 0, &g, err));
    int64_t since = 0;
    int rc = make_odd(w, g, rank == odd ? &b : &a, h, a.call.kind == b.call.kind, &since, &why);
    *ret_ms = co_now_ms() - since;
    /* A rank that does not say its call within half a second stays unknown; it counts as late. */
    bool unknown = *ret_ms >= SOON_MS / 2 && strstr(co_err_text(&why), ": unknown; rank ");
    *ret_ms += unknown ? SOON_MS : 0;
    if (rc != CO_INVALID || !(unknown || says_who(&a, &b, w->n, odd, rank, co_err_text(&why)))) {
        rc = co_err_set(err, CO_INTERNAL, "case %u, %s: %s; rank %u: %s: code %d after %lld ms: %s",
            i, what, call_text(&a, w->n, x), odd, call_text(&b, w->n, y), rc, (long long)*ret_ms,
            co_err_text(&why));
        printf("# rank %u of %u, seed %u: %s\n", rank, w->n, w->seed, co_err_text(err));
        return rc;
    }
    return rt_group_barrier(all, err);
}

static int disagree(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    uint32_t late = 0, cases = co_test_cases(CASES, CASES_SANITIZED);
    int rc = 0;
    for (uint32_t i = 0; i < cases && rc == 0; i++) {
        int64_t ms = 0;
        rc = one_case(w, g, rank, i, &ms, err);
        late += ms > SOON_MS;
    }
    if (rc == 0 && late > cases / 2) { /* a busy machine delays a few */
        rc = co_err_set(err, CO_INTERNAL, "half of the errors came later than %d ms", SOON_MS);
    }
    return rc;
}

static void all_ranks_that_disagree_are_notified(void **state) {
    (void)state;
    static struct coll_world worlds[3 * CO_ARRAY_LEN(world_places)];
    uint32_t bad = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        const struct world_place *p = &world_places[i / 3];
        worlds[i] = (struct coll_world){.n = 2 + (uint32_t)i % 3,
            .transport = p->transport,
            .nodes = p->nodes,
            .encrypt = p->encrypt,
            .call_ms = 60000,
            .form_ms = 60000,
            .seed = seed_now() + (uint32_t)i};
        world_start(&worlds[i], disagree);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        bad += world_end(&worlds[i], 0);
        world_done(&worlds[i]);
    }
    assert_int_equal(bad, 0);
}

/* ---- sends and receives ---- */

/* What ranks 0 and 1 do, where others make a barrier; and what must be said of rank 0 or 1. */
static const struct pair_row {
    enum rt_kind kind[2];
    size_t n[2];
    enum rt_dtype dtype[2];
    const char *says;
} pair_rows[] = {
    {{RT_SEND, RT_RECV}, {5, 6}, {RT_F32, RT_F32}, "rank 0: send of 5 f32 to rank 1"},
    {{RT_SEND, RT_RECV}, {60000, 5}, {RT_F32, RT_F32}, "rank 0: send of 60000 f32 to rank 1"},
    {{RT_SEND, RT_RECV}, {5, 5}, {RT_F32, RT_I32}, "rank 0: send of 5 f32 to rank 1"},
    {{RT_SEND, RT_RECV}, {5, 10}, {RT_F64, RT_F32}, "rank 0: send of 5 f64 to rank 1"},
    {{RT_RECV, RT_RECV}, {5, 5}, {RT_F32, RT_F32}, "recv of 5 f32 from rank"},
    {{RT_RECV, RT_ALL_REDUCE}, {5, 5}, {RT_F32, RT_F32}, "rank 1: all_reduce of 5 f32, sum"},
    {{RT_SEND, RT_BROADCAST}, {SIZE_MAX_N, 5}, {RT_F64, RT_F32}, "rank 1: broadcast of 5 f32 from"},
    {{RT_ALL_GATHER, RT_RECV}, {SIZE_MAX_N, 5}, {RT_F32, RT_F32}, "rank 1: recv of 5 f32 from"},
};

static int pairs_differ(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    const struct pair_row *row = &pair_rows[w->stage];
    struct drawn d = {.call = {.kind = RT_BARRIER}};
    struct co_err why = {0};
    /* The third rank makes the call of all ranks, if one of the two does. */
    uint32_t as = rank < 2 ? rank : coll_kinds[row->kind[0]].peer;
    if (rank < 2 || !coll_kinds[row->kind[as]].peer) {
        d.call.kind = row->kind[as];
        d.call.dtype = row->dtype[as];
        d.call.n = row->n[as];
        d.call.root = coll_kinds[d.call.kind].peer ? 1 - rank : 0;
    }
    /* Of two that receive, each could start to send later, unless both calls block. */
    bool started = w->how && row->kind[0] != row->kind[1];
    int rc = make(g, &d, started, &why);
    if (rc == 0) {
        rc = rt_group_barrier(g, &why);
    }
    char other[COLL_CALL_TEXT];
    (void)snprintf(
        other, sizeof(other), "%s", strncmp(row->says, "rank ", 5) ? row->says : row->says + 6);
    return rc == CO_INVALID && strstr(co_err_text(&why), other)
               ? 0
               : co_err_set(err, CO_INTERNAL, "row %zu, started %u: code %d: %s", w->stage, w->how,
                     rc, co_err_text(&why));
}

static void pairs_that_disagree_are_reported(void **state) {
    (void)state;
    static struct coll_world worlds[2 * CO_ARRAY_LEN(pair_rows) * CO_ARRAY_LEN(world_places)];
    uint32_t bad = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        const struct world_place *p = &world_places[i / 2 % CO_ARRAY_LEN(world_places)];
        worlds[i] = (struct coll_world){.n = 3,
            .transport = p->transport,
            .nodes = p->nodes,
            .encrypt = p->encrypt,
            .how = i % 2,
            .stage = i / 2 / CO_ARRAY_LEN(world_places)};
        bad += world_run(&worlds[i], pairs_differ);
    }
    assert_int_equal(bad, 0);
}

/* Rank 0 splits the group.  The others make the all_gather that a split is made of, or a barrier.
 */
static int splits(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *part = NULL;
    struct co_err why = {0};
    int32_t own[2] = {0}, all[4];
    int rc = rank == 0  ? rt_group_split(g, 0, 0, &part, &why)
             : w->stage ? rt_group_barrier(g, &why)
                        : rt_all_gather(g, own, all, 2, RT_I32, &why);
    const char *of_0 = rank == 0 ? "split: " : "rank 0: split";
    const char *of_1 = w->stage ? ": barrier" : ": all_gather of 2 i32";
    return rc == CO_INVALID && strstr(co_err_text(&why), of_0) && strstr(co_err_text(&why), of_1)
               ? 0
               : co_err_set(
                     err, CO_INTERNAL, "stage %zu: code %d: %s", w->stage, rc, co_err_text(&why));
}

static void a_split_is_a_call_of_its_own(void **state) {
    (void)state;
    uint32_t bad = 0;
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(world_places) && bad == 0; i++) {
        const struct world_place *p = &world_places[i / 2];
        struct coll_world w = {.n = 2,
            .transport = p->transport,
            .nodes = p->nodes,
            .encrypt = p->encrypt,
            .stage = i % 2};
        bad += world_run(&w, splits);
    }
    assert_int_equal(bad, 0);
}

static void signs_of_first_calls_and_of_messages_differ(void **state) {
    (void)state;
    for (uint32_t i = 0; i < RT_KINDS * RT_DTYPES * RT_DTYPES; i++) {
        struct rt_group g = {.size = 2};
        struct rt_coll pair = {.kind = RT_SEND, .dtype = i % RT_DTYPES};
        struct rt_coll first = {
            .kind = i / RT_DTYPES / RT_DTYPES, .dtype = i / RT_DTYPES % RT_DTYPES};
        size_t counts[2] = {0, 0};
        first.counts = counts;
        coll_call_begin(&g, &first);
        assert_int_not_equal(g.calls.now.sign, coll_pair_sign(&pair));
    }
}

/* Rank 1 of two, connected to nobody, as far as questions go. */
static void rank_init(struct rt_group *g, struct coll_peer peers[2], uint32_t rank) {
    *g = (struct rt_group){.size = 2, .rank = rank, .failed_rank = 2, .peers = peers, .alarm = -1};
    pthread_mutex_init(&g->m, NULL);
    pthread_cond_init(&g->changed, NULL);
    peers[0].control.fd = peers[1].control.fd = -1;
}

/* Rank 0 asked while its message was on its way.  When the question is received, rank 1 is in a
 * call of all ranks; it may have done its part of the message before. */
static void messages_in_flight_are_not_reported_as_disagreement(void **state) {
    (void)state;
    static const struct {
        enum rt_kind kind;
        uint64_t sent, received;         /* as rank 0 asks */
        uint64_t its_sent, its_received; /* as rank 1 receives it */
        int code;
    } rows[] = {
        {RT_SEND, 100, 0, 0, 100, CO_INVALID}, /* it has read all that came, and goes elsewhere */
        {RT_SEND, 100, 0, 0, 40, CO_INVALID},
        {RT_SEND, 100, 0, 0, 140, 0}, /* it has got the rest */
        {RT_RECV, 0, 50, 50, 0, CO_INVALID},
        {RT_RECV, 0, 50, 90, 0, 0}, /* it has sent the message */
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct coll_peer of0[2] = {0}, of1[2] = {0};
        unsigned char question[COLL_QUESTION_MAX];
        struct rt_group g0, g1;
        struct rt_coll pair = {.kind = rows[i].kind, .n = 5, .root = 1}, all = {.kind = RT_BARRIER};
        rank_init(&g0, of0, 0);
        rank_init(&g1, of1, 1);
        of0[1].sent = rows[i].sent;
        of0[1].received = rows[i].received;
        of1[0].sent = rows[i].its_sent;
        of1[0].received = rows[i].its_received;
        coll_call_begin(&g1, &all);
        coll_question_receive(&g1, 0, question, coll_question_write(&g0, &pair, 1, question));
        assert_int_equal(coll_group_why(&g1, NULL), rows[i].code);
        pthread_mutex_destroy(&g0.m);
        pthread_mutex_destroy(&g1.m);
        pthread_cond_destroy(&g0.changed);
        pthread_cond_destroy(&g1.changed);
    }
}

/* ---- ranks that wait for nobody ---- */

/* Each takes itself for the root: none of these calls waits for another rank. */
static int many_roots(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    float v = 1;
    int rc = 0;
    uint32_t made = 0;
    struct co_err why = {0};
    (void)w;
    for (; made < 3 * COLL_ROOTED_MAX && rc == 0; made++) {
        rc = rt_broadcast(g, &v, 1, RT_F32, rank, &why);
    }
    return rc == CO_INVALID && made <= COLL_ROOTED_MAX + 1
               ? 0
               : co_err_set(
                     err, CO_INTERNAL, "code %d in call %u: %s", rc, made, co_err_text(&why));
}

static void roots_that_nobody_else_names_are_reported(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        assert_int_equal(world_run(&w, many_roots), 0);
    }
}

/* The last call of a group; its ranks then close it. */
static int parts_in_dispute(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_group *part = NULL;
    struct co_err why = {0};
    float v = 1;
    int rc = rt_group_split(g, 0, 0, &part, err);
    if (rc < 0) {
        return rc;
    }
    rc = rt_broadcast(part, &v, 1, RT_F32, rank, &why);
    if (rank > 0) {
        rt_group_close(part);
        return rt_group_barrier(g, err);
    }
    int64_t end = co_now_ms() + w->call_ms;
    /* The other one may have left before this rank began; or it leaves now. */
    while (rc == 0 && (rc = rt_group_check(part, &why)) == 0 && co_now_ms() < end) {
        (void)sched_yield();
    }
    bool said =
        rc == CO_INVALID && strstr(co_err_text(&why), "rank 1: broadcast of 1 f32 from rank 1; "
                                                      "this rank: broadcast of 1 f32 from rank 0");
    if (!said) {
        rc = co_err_set(err, CO_INTERNAL, "code %d: %s", rc, co_err_text(&why));
    }
    rt_group_close(part);
    return said ? rt_group_barrier(g, err) : rc;
}

static void a_goodbye_carries_the_last_calls(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 2,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .call_ms = 60000};
        assert_int_equal(world_run(&w, parts_in_dispute), 0);
    }
}

/* ---- a rank that does not come ---- */

enum { LATE = 2 };

static int is_late(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const enum rt_kind kinds[] = {
        RT_ALL_REDUCE, RT_BARRIER, RT_ALL_GATHER, RT_REDUCE_SCATTER, RT_ALL_TO_ALL};
    struct drawn d = {
        .call = {.kind = kinds[w->stage], .n = w->how ? SIZE_MAX_N - 1 : 3, .dtype = RT_F32}};
    struct co_err why = {0};
    char text[COLL_CALL_TEXT];
    atomic_fetch_add(&w->shared->ready, 1);
    while (atomic_load(&w->shared->ready) < w->n) { /* not all come from opening the group yet */
        (void)poll(NULL, 0, 1);
    }
    if (rank == LATE) {
        coll_wait_fd(g, -1, 0, co_now_ms() + WORLD_MS); /* until the others give up */
    }
    int late = make(g, &d, w->how, &why);
    struct coll_said said = coll_call_said(&d.call);
    bool right = strstr(co_err_text(&why), "rank 2 (127.0.0.1:") &&
                 strstr(co_err_text(&why), coll_call_text(&said, text));
    right |= rank == LATE && strstr(co_err_text(&why), "rank 2, this one");
    return late == CO_TIMEOUT && right
               ? 0
               : co_err_set(err, CO_INTERNAL, "%s: code %d: %s", text, late, co_err_text(&why));
}

static void all_ranks_name_the_late_one(void **state) {
    (void)state;
    static struct coll_world worlds[10 * CO_ARRAY_LEN(world_places)];
    uint32_t bad = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        const struct world_place *p = &world_places[i % CO_ARRAY_LEN(world_places)];
        worlds[i] = (struct coll_world){.n = 4,
            .transport = p->transport,
            .nodes = p->nodes,
            .encrypt = p->encrypt,
            .call_ms = WORLD_STOP_MS,
            .how = i / CO_ARRAY_LEN(world_places) % 2,
            .stage = i / CO_ARRAY_LEN(world_places) / 2};
        world_start(&worlds[i], is_late);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        bad += world_end(&worlds[i], 0);
        world_done(&worlds[i]);
    }
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_that_disagree_are_notified),
        cmocka_unit_test(pairs_that_disagree_are_reported),
        cmocka_unit_test(a_split_is_a_call_of_its_own),
        cmocka_unit_test(signs_of_first_calls_and_of_messages_differ),
        cmocka_unit_test(messages_in_flight_are_not_reported_as_disagreement),
        cmocka_unit_test(roots_that_nobody_else_names_are_reported),
        cmocka_unit_test(a_goodbye_carries_the_last_calls),
        cmocka_unit_test(all_ranks_name_the_late_one),
    };
    if (!co_test_network_own()) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
