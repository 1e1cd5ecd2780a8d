/* Ranks that are killed or stopped in every kind of call, or leave, or call something else: the
 * others name them, in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/stagekit.h"

enum { N = 40000, CALL_MS = 2000 };

static const enum rt_kind hit[] = {RT_ALL_REDUCE, RT_REDUCE, RT_BROADCAST, RT_ALL_GATHER,
    RT_ALL_GATHERV, RT_REDUCE_SCATTER, RT_SCATTER, RT_GATHER, RT_ALL_TO_ALL, RT_ALL_TO_ALLV,
    RT_SEND, RT_BARRIER};

/* Those of a call by messages come last: in shared memory there are none. */
static const struct stage stages[] = {
    {.name = "reads its first input"},
    {.name = "reads the middle", .eighth = 4},
    {.name = "writes its first result", .out = true},
    {.name = "writes the middle", .out = true, .eighth = 4},
    {.name = "first call on a socket", .call = 1},
    {.name = "third", .call = 3},
    {.name = "ninth", .call = 9},
};

/* Calls as usual; in one of them the victim is hit at its stage, or at its end. */
static int strikes(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { WARM = 3 };
    const struct stage *s = &stages[w->stage];
    int rc = 0;
    for (uint32_t i = 0; rc == 0; i++) {
        if (i == WARM && rank == w->victim) {
            stage_arm(w, s, w->signal, s->out ? world_out : world_in, (size_t)WORLD_N * 4);
        }
        rc = world_call(g, w->kind, i & 1 ? WORLD_N : 100, err);
        if (i == WARM && rank == w->victim) {
            stage_end();
        }
    }
    return rc;
}

/* How soon, 50 ms, is measured by `make bench-coll`: a machine whose cores are busy with others
 * tells late. */
enum { LATE_MS = 10000 };

/* All but the victim name it: killed, at once and not at the deadline; stopped, then. */
static void assert_named(struct world *w) {
    char name[16];
    (void)snprintf(name, sizeof(name), "rank %u ", w->victim);
    assert_int_equal(world_end(w, UINT32_MAX), 0);
    int64_t since = atomic_load(&w->shared->struck_ms);
    for (uint32_t r = 0; r < w->n; r++) {
        int64_t took = w->shared->rank[r].ms - since;
        if (r != w->victim &&
            (w->shared->rank[r].code != CO_PEERLOST || !strstr(w->shared->rank[r].text, name) ||
                since == 0 || took > LATE_MS)) {
            fail_msg("%s, %s, signal %d: rank %u of %u: code %d after %lld ms: %s",
                rt_kind_name(w->kind), stages[w->stage].name, w->signal, r, w->n,
                w->shared->rank[r].code, (long long)took, w->shared->rank[r].text);
        }
    }
}

/* The others end; then the victim may go on, and learns what has become of it. */
static void let_go_on(struct world *w) {
    for (uint32_t r = 0; r < w->n; r++) {
        siginfo_t i;
        if (r != w->victim) {
            (void)waitid(P_PID, (id_t)w->pid[r], &i, WEXITED | WNOWAIT);
        }
    }
    kill(w->pid[w->victim], SIGCONT);
}

/* Worlds end side by side: those with a stopped rank only wait. */
static void end_worlds(struct world *worlds, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (worlds[i].signal == SIGSTOP) {
            let_go_on(&worlds[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_named(&worlds[i]);
        world_done(&worlds[i]);
    }
}

static void strike_everywhere(int signal, int64_t call_ms) {
    enum { AT_ONCE = 24 };
    static struct world worlds[AT_ONCE];
    uint32_t n = 0, all = 0;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        for (size_t k = 0; k < CO_ARRAY_LEN(hit); k++) {
            for (size_t s = 0; s < CO_ARRAY_LEN(stages); s++) {
                bool in_memory = world_places[p].transport == RT_TRANSPORT_SHM;
                if (in_memory != (stages[s].call == 0)) {
                    continue;
                }
                worlds[n] = (struct world){.n = 3,
                    .transport = world_places[p].transport,
                    .nodes = world_places[p].nodes,
                    .call_ms = call_ms,
                    .kind = hit[k],
                    .stage = s,
                    .signal = signal,
                    .victim = all++ % 3};
                world_start(&worlds[n++], strikes);
                if (n == AT_ONCE) {
                    end_worlds(worlds, n);
                    n = 0;
                }
            }
        }
    }
    end_worlds(worlds, n);
}

static void killed_ranks_are_named(void **state) {
    (void)state;
    strike_everywhere(SIGKILL, 2 * LATE_MS);
}

static void stopped_ranks_are_named(void **state) {
    (void)state;
    strike_everywhere(SIGSTOP, CALL_MS);
}

/* ---- while the group opens ---- */

/* Calls on sockets of a rank that opens a group of three: some 20. */
static const struct stage openings[] = {{"1", .call = 1}, {"2", .call = 2}, {"3", .call = 3},
    {"4", .call = 4}, {"5", .call = 5}, {"6", .call = 6}, {"8", .call = 8}, {"10", .call = 10},
    {"12", .call = 12}, {"15", .call = 15}, {"18", .call = 18}, {"22", .call = 22}};

static void arm_opening(struct world *w, uint32_t rank) {
    if (rank == w->victim) {
        stage_arm(w, &openings[w->stage], w->signal, NULL, 0);
    }
}

static int meets(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
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
static void end_openings(struct world *worlds, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        struct world *w = &worlds[i];
        if (w->signal == SIGSTOP) {
            let_go_on(w);
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
    static struct world worlds[2 * CO_ARRAY_LEN(openings)];
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        for (uint32_t i = 0; i < CO_ARRAY_LEN(worlds); i++) {
            worlds[i] = (struct world){.n = 3,
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .form_ms = CALL_MS,
                .call_ms = CALL_MS,
                .enter = arm_opening,
                .stage = i / 2,
                .signal = i % 2 ? SIGSTOP : SIGKILL,
                .victim = (i / 2) % 3};
            world_start(&worlds[i], meets);
        }
        end_openings(worlds, CO_ARRAY_LEN(worlds));
    }
}

static int leaves(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    for (int i = 0; i < 20; i++) {
        int rc = rt_group_barrier(g, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rank == 2 ? 0 : rt_group_barrier(g, err);
}

static void leaving_is_named_too(void **state) {
    (void)state;
    struct world w = {.n = 3};
    world_start(&w, leaves);
    assert_int_equal(world_end(&w, 3), 0);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(w.shared->rank[r].code, CO_PEERLOST);
        assert_non_null(strstr(w.shared->rank[r].text, "rank 2 "));
    }
    world_done(&w);
}

static int differs(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    static float v[N];
    int rc = rt_all_reduce(g, v, v, rank == 1 ? N : N - 1, RT_F32, RT_SUM, err);
    return rc == CO_INVALID ? 0 : co_err_set(err, CO_INTERNAL, "code %d", rc);
}

static void different_calls_are_noticed(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places) - 1; p++) {
        struct world w = {.n = 2, .transport = world_places[p].transport};
        assert_int_equal(world_run(&w, differs), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_ranks_are_named),
        cmocka_unit_test(stopped_ranks_are_named),
        cmocka_unit_test(ranks_hit_while_the_group_opens_end_it),
        cmocka_unit_test(leaving_is_named_too),
        cmocka_unit_test(different_calls_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
