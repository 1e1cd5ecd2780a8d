/* Groups of groups, where a rank fails by itself or asks for another group: all ranks learn of it
 * at once, and the group that they are in stays. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "runtime/train/coll/coll_testing.h"

/* A rank that waits for NEVER_MS is ended by the world's own limit. */
enum { RANKS = 3, ENOUGH = 200, LAST = RANKS - 1, NEVER_MS = 10 * WORLD_MS };

static const uint32_t all[RANKS] = {0, 1, 2};

static int splits(struct rt_group *g, struct rt_group **ret, struct co_err *err) {
    return rt_group_split(g, 0, 0, ret, err);
}

static int makes_sub(struct rt_group *g, struct rt_group **ret, struct co_err *err) {
    return rt_group_sub(g, all, RANKS, 7, ret, err);
}

static struct rt_group_options same_options(const struct rt_group *g) {
    static uint64_t generation = 100;
    return (struct rt_group_options){.endpoints = (const char *const *)g->endpoints,
        .size = g->size,
        .rank = g->rank,
        .generation = ++generation};
}

static int grows(struct rt_group *g, struct rt_group **ret, struct co_err *err) {
    struct rt_group_options o = same_options(g);
    return rt_group_grow(g, &o, ret, err);
}

static int (*const makes[])(struct rt_group *g, struct rt_group **ret, struct co_err *err) = {
    splits, makes_sub, grows};

/* How many descriptors the last rank has left. */
static void leave_files(rlim_t left, struct rlimit *ret_was) {
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0 && getrlimit(RLIMIT_NOFILE, ret_was) == 0);
    close(next);
    struct rlimit few = {.rlim_cur = (rlim_t)next + left, .rlim_max = ret_was->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* All ranks have the group, or none. */
static int check_all(struct rt_group *g, bool made, struct co_err *err) {
    uint32_t own = made, sum = 0;
    CO_TRY(rt_all_reduce(g, &own, &sum, 1, RT_I32, RT_SUM, err));
    return sum == 0 || sum == RANKS ? 0
                                    : co_err_set(err, CO_INTERNAL, "%u of %u ranks", sum, RANKS);
}

static int once(struct coll_world *w, struct rt_group *g, rlim_t left, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *made = NULL;
    struct rlimit was;
    struct co_err why = {0};
    bool last = rt_group_rank(g) == LAST;
    if (last) {
        leave_files(left, &was);
    }
    int rc = makes[w->how](g, &made, &why);
    if (last) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    }
    const char *text = co_err_text(&why);
    if (rc < 0 && (rc != CO_NORESOURCE || !strstr(text, "ulimit -n is ") ||
                      (!last && !strstr(text, "rank 2 (127.0.0.1:")))) {
        return co_err_set(err, CO_INTERNAL, "%d descriptors: %d: %.150s", (int)left, rc, text);
    }
    if (rc < 0 && left == ENOUGH) {
        return co_err_set(err, CO_INTERNAL, "with enough descriptors: %.150s", text);
    }
    return check_all(g, rc == 0, err);
}

static int lacks_files(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    for (rlim_t left = 0; left < 16; left++) {
        CO_TRY(once(w, g, left, err));
    }
    return once(w, g, ENOUGH, err);
}

static void all_learn_why_a_rank_cannot_form_a_group(void **state) {
    (void)state;
    for (uint32_t how = 0; how < CO_ARRAY_LEN(makes); how++) {
        for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
            struct coll_world w = {.n = RANKS,
                .how = how,
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .encrypt = world_places[p].encrypt,
                .form_ms = NEVER_MS,
                .call_ms = NEVER_MS};
            assert_int_equal(world_run(&w, lacks_files), 0);
        }
    }
}

/* ---- a rank that cannot form the smaller group ---- */

/* Rank 1 has been killed; the last one lacks descriptors, and is left out. */
static int shrinks(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    struct rlimit was;
    struct co_err why = {0};
    atomic_fetch_add(&w->shared->ready, 1);
    if (rank == 1) {
        return pause(); /* until it is killed */
    }
    while (rt_group_check(g, NULL) == 0) {
        (void)sched_yield();
    }
    bool last = rank == w->n - 1;
    if (last) {
        leave_files((rlim_t)w->how, &was);
    }
    int rc = rt_group_shrink(g, NULL, &left, &why);
    if (last) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        while (rc == CO_NORESOURCE && atomic_load(&w->shared->ready) < w->n + 2) {
            (void)sched_yield(); /* it lives while the others continue */
        }
        return rc == CO_NORESOURCE
                   ? 0
                   : co_err_set(err, CO_INTERNAL, "code %d: %.150s", rc, co_err_text(&why));
    }
    if (rc < 0 || rt_group_size(left) != 2) {
        return co_err_set(err, CO_INTERNAL, "code %d: %.150s", rc, co_err_text(&why));
    }
    CO_TRY(rt_group_barrier(left, err));
    atomic_fetch_add(&w->shared->ready, 1);
    return 0;
}

static void survivors_leave_out_a_rank_that_cannot_join_them(void **state) {
    (void)state;
    for (uint32_t files = 0; files < 4; files++) {
        for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
            struct coll_world w = {.n = 4,
                .how = files,
                .transport = world_places[p].transport,
                .nodes = world_places[p].nodes,
                .encrypt = world_places[p].encrypt,
                .call_ms = NEVER_MS};
            world_start(&w, shrinks);
            assert_true(world_ready(&w));
            kill(w.pid[1], SIGKILL);
            assert_int_equal(world_end(&w, 1U << 1), 0);
            world_done(&w);
        }
    }
}

/* ---- ranks that ask for different groups ---- */

static const char *other_endpoints[RANKS + 1];

static void asks_endpoints(struct rt_group_options *o) {
    memcpy(other_endpoints, o->endpoints, o->size * sizeof(*other_endpoints));
    other_endpoints[o->size++] = "127.0.0.1:1";
    o->endpoints = other_endpoints;
}

static void asks_generation(struct rt_group_options *o) {
    o->generation += 1000;
}

static void asks_name(struct rt_group_options *o) {
    o->name = "other";
}

static void asks_token(struct rt_group_options *o) {
    o->token = "other";
}

static void asks_transport(struct rt_group_options *o) {
    o->transport = RT_TRANSPORT_TCP;
}

static void asks_lanes(struct rt_group_options *o) {
    o->lanes = 1;
}

static void asks_encrypt(struct rt_group_options *o) {
    o->encrypt = RT_ENCRYPT_YES;
}

static void asks_place_of_another(struct rt_group_options *o) {
    o->rank = 0;
}

static void asks_too_much(struct rt_group_options *o) {
    o->rank = o->size;
}

/* What rank 1 asks for, and what it and the others learn. */
static const struct ask {
    void (*change)(struct rt_group_options *o);
    const char *own, *others;
} asks[] = {
    {asks_endpoints, "rank 1 has another list of endpoints than rank 0", NULL},
    {asks_generation, "rank 1 has another generation than rank 0", NULL},
    {asks_name, "rank 1 has another name than rank 0", NULL},
    {asks_token, "rank 1 has another token than rank 0", NULL},
    {asks_transport, "rank 1 has another transport than rank 0", NULL},
    {asks_lanes, "rank 1 has another number of lanes than rank 0", NULL},
    {asks_encrypt, "rank 1 has another encrypt setting than rank 0", NULL},
    {asks_place_of_another, "where rank 0 of the group listens", "rank 1 could not begin to form"},
    {asks_too_much, "rank 3 of 3 ranks", "rank 1 could not begin to form"},
};

static int asks_for_others(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    for (size_t i = 0; i < CO_ARRAY_LEN(asks); i++) {
        struct rt_group *grown = NULL;
        struct rt_group_options o = same_options(g);
        struct co_err why = {0};
        const char *says = rank == 1 || !asks[i].others ? asks[i].own : asks[i].others;
        if (rank == 1) {
            asks[i].change(&o);
        }
        int rc = rt_group_grow(g, &o, &grown, &why);
        if (rc != CO_INVALID || !strstr(co_err_text(&why), says)) {
            return co_err_set(err, CO_INTERNAL, "%s: code %d: %.150s", says, rc, co_err_text(&why));
        }
        CO_TRY(check_all(g, false, err));
    }
    return 0;
}

/* At once, and they continue with what they have. */
static void ranks_that_ask_for_different_groups_learn_it(void **state) {
    (void)state;
    struct coll_world w = {.n = RANKS, .form_ms = NEVER_MS, .call_ms = NEVER_MS};
    assert_int_equal(world_run(&w, asks_for_others), 0);
}

/* ---- a rank that is asked to end, or late ---- */

static bool at_once(void) {
    return true;
}

/* The last rank comes when rank 0 has given up. */
static int is_interrupted(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *made = NULL;
    struct co_err why = {0};
    while (rank == LAST && atomic_load(&w->shared->ready) < 1) {
        (void)sched_yield();
    }
    rt_interrupt(rank == 0 ? at_once : NULL);
    int rc = makes_sub(g, &made, &why);
    rt_interrupt(NULL);
    atomic_fetch_add(&w->shared->ready, rank == 0);
    return rc == (rank == 0 ? CO_CANCELED : CO_PEERLOST)
               ? 0
               : co_err_set(err, CO_INTERNAL, "code %d: %.150s", rc, co_err_text(&why));
}

static void only_who_is_asked_to_end_is_canceled(void **state) {
    (void)state;
    struct coll_world w = {.n = RANKS, .form_ms = NEVER_MS, .call_ms = NEVER_MS};
    assert_int_equal(world_run(&w, is_interrupted), 0);
}

enum { LATE_CALL_MS = 100 };

static int grows_late(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *grown = NULL;
    (void)w;
    if (rank == LAST) {
        (void)poll(NULL, 0, 10 * LATE_CALL_MS);
    }
    struct rt_group_options o = same_options(g);
    o.form_timeout_ms = NEVER_MS;
    return rt_group_grow(g, &o, &grown, err);
}

static void a_larger_group_waits_for_its_ranks_as_long_as_it_may_form(void **state) {
    (void)state;
    struct coll_world w = {.n = RANKS, .form_ms = NEVER_MS, .call_ms = LATE_CALL_MS};
    assert_int_equal(world_run(&w, grows_late), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_learn_why_a_rank_cannot_form_a_group),
        cmocka_unit_test(survivors_leave_out_a_rank_that_cannot_join_them),
        cmocka_unit_test(ranks_that_ask_for_different_groups_learn_it),
        cmocka_unit_test(only_who_is_asked_to_end_is_canceled),
        cmocka_unit_test(a_larger_group_waits_for_its_ranks_as_long_as_it_may_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
