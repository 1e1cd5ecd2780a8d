/* In every kind of call a rank is killed or stopped, or leaves: the other ranks must name it, in
 * time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/stage_testing.h"

static const enum rt_kind hit[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
    RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_ALL_TO_ALLV,
    RT_SEND, RT_BARRIER};

/* Those of a call by messages come last: in shared memory there are none. */
static const struct kill_stage stages[] = {
    {.name = "reads its first input"},
    {.name = "reads the middle", .eighth = 4},
    {.name = "writes its first result", .out = true},
    {.name = "writes the middle", .out = true, .eighth = 4},
    {.name = "first call on a socket", .call = 1},
    {.name = "third", .call = 3},
    {.name = "ninth", .call = 9},
};

/* In which ways a rank may be in a call. */
static const struct how {
    const char *name;
    bool small, shared, started, part;
} hows[] = {
    {"as usual"},
    {"of few bytes", .small = true},
    {"in the group's own buffers", .shared = true},
    {"started", .started = true},
    {"of a part of the group", .part = true},
};

/* Calls as usual; in one of them the victim is hit at its stage, or at its end. */
static int strikes_in(struct coll_world *w, struct rt_group *g, uint32_t rank, unsigned char *in,
    unsigned char *out, struct co_err *err) {
    enum { WARM = 3 };
    const struct kill_stage *s = &stages[w->stage];
    const struct how *how = &hows[w->how];
    int rc = 0;
    for (uint32_t i = 0; rc == 0; i++) {
        if (i == WARM && rank == w->victim) {
            stage_arm(w, s, w->signal, s->out ? out : in, (size_t)WORLD_N * 4);
        }
        size_t n = (i & 1) && !how->small ? WORLD_N : 100;
        rc = world_call_in(g, w->kind, n, in, out, how->started, err);
        if (i == WARM && rank == w->victim) {
            stage_end();
        }
    }
    return rc;
}

static int strikes(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    const struct how *how = &hows[w->how];
    CO_CLEANUP(rt_group_closep) struct rt_group *part = NULL;
    void *in = world_in, *out = world_out;
    if (how->part) {
        CO_TRY(rt_group_split(g, 0, (int32_t)rank, &part, err));
    }
    if (how->shared) { /* closing g frees both buffers: LeakSanitizer sees whether it does */
        CO_TRY(rt_group_alloc(g, sizeof(world_in), &in, err));
        CO_TRY(rt_group_alloc(g, sizeof(world_out), &out, err));
    }
    return strikes_in(w, part ? part : g, rank, in, out, err);
}

/* Of one error, on a machine whose cores are busy with others; what most take is looked at, too. */
enum { LATE_MS = 60000 };

/* All but the victim name it: killed, at once and not at the deadline; stopped, then. */
static void assert_named(struct coll_world *w) {
    char name[16];
    (void)snprintf(name, sizeof(name), "rank %u ", w->victim);
    assert_int_equal(world_end(w, UINT32_MAX), 0);
    int64_t since = atomic_load(&w->shared->struck_ms);
    for (uint32_t r = 0; r < w->n; r++) {
        int64_t took = w->shared->rank[r].ms - since - (w->signal == SIGSTOP ? w->call_ms : 0);
        if (r != w->victim) {
            world_took_add(took);
        }
        if (r != w->victim &&
            (w->shared->rank[r].code != CO_PEERLOST || !strstr(w->shared->rank[r].text, name) ||
                since == 0 || took > LATE_MS)) {
            fail_msg("%s %s, %s, signal %d: rank %u of %u: code %d after %lld ms: %s",
                rt_kind_name(w->kind), hows[w->how].name, stages[w->stage].name, w->signal, r, w->n,
                w->shared->rank[r].code, (long long)took, w->shared->rank[r].text);
        }
    }
}

/* The others end; then the victim continues, and learns that the group has failed. */
static void continue_victim(struct coll_world *w) {
    for (uint32_t r = 0; r < w->n; r++) {
        siginfo_t i;
        if (r != w->victim) {
            (void)waitid(P_PID, (id_t)w->pid[r], &i, WEXITED | WNOWAIT);
        }
    }
    kill(w->pid[w->victim], SIGCONT);
}

/* Worlds end side by side: those with a stopped rank only wait. */
static void end_worlds(struct coll_world *worlds, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (worlds[i].signal == SIGSTOP) {
            continue_victim(&worlds[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_named(&worlds[i]);
        world_done(&worlds[i]);
    }
}

enum { AT_ONCE_MAX = 96 };

/* Calls as usual at every stage; those of the other ways at one of them, each at another one. */
static bool is_chosen(size_t place, size_t kind, size_t how, size_t stage) {
    bool in_memory = world_places[place].transport == RT_TRANSPORT_SHM;
    size_t first = 0, n = 0;
    for (size_t s = 0; s < CO_ARRAY_LEN(stages); s++) {
        bool fits = in_memory == (stages[s].call == 0);
        first = fits && n == 0 ? s : first;
        n += fits;
    }
    bool fits = stage >= first && stage < first + n;
    return fits && (how == 0 || stage - first == (kind + how) % n);
}

static void strike_everywhere(int signal, int64_t call_ms, uint32_t at_once) {
    static struct coll_world worlds[AT_ONCE_MAX];
    uint32_t n = 0, all = 0;
    size_t cells = CO_ARRAY_LEN(world_places) * CO_ARRAY_LEN(hit) * CO_ARRAY_LEN(hows);
    for (size_t i = 0; i < cells * CO_ARRAY_LEN(stages); i++) {
        size_t s = i % CO_ARRAY_LEN(stages), cell = i / CO_ARRAY_LEN(stages);
        size_t how = cell % CO_ARRAY_LEN(hows), k = cell / CO_ARRAY_LEN(hows) % CO_ARRAY_LEN(hit);
        size_t p = cell / CO_ARRAY_LEN(hows) / CO_ARRAY_LEN(hit);
        if (!is_chosen(p, k, how, s)) {
            continue;
        }
        worlds[n] = (struct coll_world){.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .call_ms = call_ms,
            .kind = hit[k],
            .stage = s,
            .how = (uint32_t)how,
            .signal = signal,
            .victim = all++ % 3};
        world_start(&worlds[n++], strikes);
        if (n == at_once) {
            end_worlds(worlds, n);
            n = 0;
        }
    }
    end_worlds(worlds, n);
    assert_in_range(world_took_median() + call_ms, 0, WORLD_SOON_MS + call_ms);
}

static void killed_ranks_are_named(void **state) {
    (void)state;
    strike_everywhere(SIGKILL, 4 * LATE_MS, AT_ONCE_MAX / 3);
}

static void stopped_ranks_are_named(void **state) {
    (void)state;
    strike_everywhere(SIGSTOP, WORLD_STOP_MS, AT_ONCE_MAX);
}

/* ---- while the group opens ---- */

/* Calls on sockets of a rank that opens a group of three: some 20. */
static const struct kill_stage openings[] = {{"1", .call = 1}, {"2", .call = 2}, {"3", .call = 3},
    {"4", .call = 4}, {"5", .call = 5}, {"6", .call = 6}, {"8", .call = 8}, {"10", .call = 10},
    {"12", .call = 12}, {"15", .call = 15}, {"18", .call = 18}, {"22", .call = 22}};

static void arm_opening(struct coll_world *w, uint32_t rank) {
    if (rank == w->victim) {
        stage_arm(w, &openings[w->stage], w->signal, NULL, 0);
    }
}

static int meets(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    if (rank == w->victim) {
        stage_end();
    }
    int rc = 0;
    while (rc == 0) {
        rc = rt_group_barrier(g, err);
    }
    return rc;
}

/* The others get an error, and nobody waits for longer than was said; who it was they need not
 * know, as those that wait for the victim are waited for, too. */
static void end_openings(struct coll_world *worlds, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        struct coll_world *w = &worlds[i];
        if (w->signal == SIGSTOP) {
            continue_victim(w);
        }
        assert_int_equal(world_end(w, UINT32_MAX), 0);
        for (uint32_t r = 0; r < w->n; r++) {
            int code = w->shared->rank[r].code;
            int64_t took = w->shared->rank[r].ms - w->shared->struck_ms;
            if (r != w->victim && ((code != CO_PEERLOST && code != CO_TIMEOUT) ||
                                      took > w->form_ms + w->call_ms + LATE_MS)) {
                fail_msg("signal %d at call %s: rank %u: code %d after %lld ms: %s", w->signal,
                    openings[w->stage].name, r, code, (long long)took, w->shared->rank[r].text);
            }
        }
        world_done(w);
    }
}

static void ranks_hit_while_the_group_opens_end_it(void **state) {
    (void)state;
    enum { EACH = 2 * CO_ARRAY_LEN(openings) };
    static struct coll_world worlds[EACH * CO_ARRAY_LEN(world_places)];
    for (uint32_t k = 0; k < CO_ARRAY_LEN(worlds); k++) {
        const struct world_place *p = &world_places[k / EACH];
        uint32_t i = k % EACH;
        worlds[k] = (struct coll_world){.n = 3,
            .transport = p->transport,
            .nodes = p->nodes,
            .encrypt = p->encrypt,
            .form_ms = WORLD_STOP_MS,
            .call_ms = WORLD_STOP_MS,
            .enter = arm_opening,
            .stage = i / 2,
            .signal = i % 2 ? SIGSTOP : SIGKILL,
            .victim = i / 2 % 3};
        world_start(&worlds[k], meets);
    }
    end_openings(worlds, CO_ARRAY_LEN(worlds));
}

static int leaves(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    for (int i = 0; i < 20; i++) {
        CO_TRY(rt_group_barrier(g, err));
    }
    return rank == 2 ? 0 : rt_group_barrier(g, err);
}

static void a_rank_that_leaves_is_named(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt};
        world_start(&w, leaves);
        assert_int_equal(world_end(&w, 3), 0);
        bool said = false;
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(w.shared->rank[r].code, CO_PEERLOST);
            assert_non_null(strstr(w.shared->rank[r].text, "rank 2 "));
            said |= strstr(w.shared->rank[r].text, "has left the group") != NULL;
        }
        assert_true(said); /* by the first that notices; it reports to the other one who is lost */
        world_done(&w);
    }
}

/* ---- a rank that is slow, but never still ---- */

/* All pages take three times WORLD_STOP_MS and more; between two of them others never wait so long.
 */
enum { SLOW_MS = 300 };

static int dawdles(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    bool in_memory = w->transport == RT_TRANSPORT_SHM;
    size_t n = sizeof(world_in) / sizeof(float) / (w->kind == RT_ALL_REDUCE ? 1 : w->n);
    struct rt_coll c = {.kind = w->kind, .in = world_in, .out = world_out, .n = n};
    CO_TRY(rt_group_barrier(g, err));
    if (rank == 1) {
        stage_slow(SLOW_MS, in_memory ? world_in : NULL, sizeof(world_in));
    }
    if (w->kind != RT_SEND) {
        return rt_coll_run(g, &c, err);
    }
    c.n = sizeof(world_in) / sizeof(float);
    c.kind = rank == 1 ? RT_SEND : RT_RECV;
    c.root = 1 - rank;
    struct rt_work *work = NULL;
    CO_TRY(rt_coll_start(g, &c, &work, err));
    return rt_work_wait(work, err);
}

/* The slow one's own deadline is far: to it the others might be the slow ones. */
static void has_time(const struct coll_world *w, uint32_t rank, struct rt_group_options *o) {
    o->call_timeout_ms = rank == 1 ? 4 * LATE_MS : w->call_ms;
}

static void a_rank_that_is_slow_is_named_at_the_deadline(void **state) {
    (void)state;
    static const enum rt_kind kinds[] = {
        RT_ALL_REDUCE, RT_REDUCE_SCATTER, RT_ALL_GATHER, RT_ALL_TO_ALL, RT_SEND};
    static struct coll_world
        worlds[2 * CO_ARRAY_LEN(kinds)]; /* which end side by side: they wait */
    int64_t since = co_now_ms();
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        worlds[i] = (struct coll_world){.n = 2,
            .transport = world_places[i % 2].transport,
            .call_ms = WORLD_STOP_MS,
            .set = has_time,
            .kind = kinds[i / 2]};
        world_start(&worlds[i], dawdles);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
        struct coll_world *w = &worlds[i];
        assert_int_equal(world_end(w, UINT32_MAX), 0);
        int64_t took = w->shared->rank[0].ms - since;
        if (w->shared->rank[0].code != CO_TIMEOUT || !strstr(w->shared->rank[0].text, "rank 1 ") ||
            took < w->call_ms) {
            world_print(w);
            fail_msg("%s over %s: %lld ms", rt_kind_name(w->kind),
                i % 2 == 0 ? "shared memory" : "TCP", (long long)took);
        }
        world_done(w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_slow_is_named_at_the_deadline),
        cmocka_unit_test(killed_ranks_are_named),
        cmocka_unit_test(stopped_ranks_are_named),
        cmocka_unit_test(ranks_hit_while_the_group_opens_end_it),
        cmocka_unit_test(a_rank_that_leaves_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
