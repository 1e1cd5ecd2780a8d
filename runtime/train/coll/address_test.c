/* Groups whose endpoints are names, while DNS does not answer. */
#include <dlfcn.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/coll_testing.h"

enum { DOWN_MS = 600000, LATE_MS = 60000, FORM_MS = 300 };

static _Atomic bool *dns_down; /* in memory that all ranks share */

/* This program's resolver: *.test is this machine; while DNS is down it takes half a minute. */
int getaddrinfo(const char *restrict host, const char *restrict port,
    const struct addrinfo *restrict hints, struct addrinfo **restrict ret) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    const char *end = host ? strstr(host, ".test") : NULL;
    if (end && (hints->ai_flags & AI_NUMERICHOST)) {
        return EAI_NONAME;
    }
    if (end && atomic_load(dns_down)) {
        (void)poll(NULL, 0, DOWN_MS);
        return EAI_AGAIN;
    }
    return real(end ? "127.0.0.1" : host, port, hints, ret);
}

static char names[WORLD_MAX][48];

static void name_ranks(const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    static const char *list[WORLD_MAX];
    (void)rank;
    for (uint32_t r = 0; r < w->n; r++) {
        (void)snprintf(
            names[r], sizeof(names[r]), "rank-%u.test%s", r, strrchr(w->endpoint[r], ':'));
        list[r] = names[r];
    }
    ret->endpoints = list;
}

static int count(struct rt_group *g, uint32_t want, struct co_err *err) {
    uint32_t one = 1, sum = 0;
    int rc = rt_all_reduce(g, &one, &sum, 1, RT_I32, RT_SUM, err);
    return rc < 0 || sum == want ? rc : co_err_set(err, CO_INTERNAL, "%u, not %u", sum, want);
}

/* The second of the larger group is a new rank, to which the third one connects; it does not come.
 */
static int grow_in_vain(struct rt_group *g, struct co_err *err) {
    struct rt_group *grown = NULL;
    int64_t since = co_now_ms();
    struct rt_group_options o = {.endpoints = (const char *[]){names[0], "new.test:1", names[2]},
        .size = 3,
        .rank = 2 * rt_group_rank(g),
        .name = "test",
        .transport = RT_TRANSPORT_TCP,
        .form_timeout_ms = FORM_MS};
    int rc = rt_group_grow(g, &o, &grown, err);
    bool reported = o.rank == 0 || strstr(co_err_text(err), "DNS does not answer for new.test");
    if (rc != CO_TIMEOUT || !reported || co_now_ms() - since > LATE_MS) {
        return co_err_set(
            err, CO_INTERNAL, "code %d after %lld ms", rc, (long long)(co_now_ms() - since));
    }
    return 0;
}

/* In the part, ranks have another order: those that were connected to now connect. */
static int shrinks(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    CO_CLEANUP(rt_group_closep) struct rt_group *part = NULL;
    int rc = world_endless(w, g, rank, err);
    if (rc != CO_PEERLOST) {
        return rc;
    }
    CO_TRY(rt_group_shrink(g, NULL, &left, err));
    CO_TRY(count(left, 2, err));
    CO_TRY(rt_group_split(left, 0, -(int32_t)rank, &part, err));
    CO_TRY(count(part, 2, err));
    w->shared->rank[rank].hash = (uint64_t)(co_now_ms() - atomic_load(&w->shared->struck_ms));
    CO_TRY(grow_in_vain(left, err));
    return count(left, 2, err);
}

static void groups_of_a_group_need_no_dns(void **state) {
    (void)state;
    for (size_t p = 0; p < CO_ARRAY_LEN(world_places); p++) {
        struct coll_world w = {.n = 3,
            .transport = world_places[p].transport,
            .nodes = world_places[p].nodes,
            .encrypt = world_places[p].encrypt,
            .set = name_ranks};
        atomic_store(dns_down, false);
        world_start(&w, shrinks);
        assert_true(world_ready(&w));
        atomic_store(dns_down, true);
        atomic_store(&w.shared->struck_ms, co_now_ms());
        kill(w.pid[1], SIGKILL);
        assert_int_equal(world_end(&w, 1U << 1), 0);
        for (uint32_t r = 0; r < w.n; r += 2) {
            assert_in_range(w.shared->rank[r].hash, 0, LATE_MS);
        }
        world_done(&w);
    }
}

/* All names are unknown, and it is the deadline that says so. */
static void a_lookup_ends_at_the_deadline(void **state) {
    (void)state;
    struct coll_world w = {.n = 2, .form_ms = FORM_MS, .set = name_ranks};
    atomic_store(dns_down, true);
    int64_t since = co_now_ms();
    world_start(&w, world_endless);
    assert_int_equal(world_end(&w, UINT32_MAX), 0);
    assert_int_equal(w.shared->rank[1].code, CO_TIMEOUT);
    assert_non_null(strstr(w.shared->rank[1].text, "DNS does not answer for rank-0.test"));
    assert_in_range(w.shared->rank[1].ms - since, FORM_MS, LATE_MS);
    world_done(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_a_group_need_no_dns),
        cmocka_unit_test(a_lookup_ends_at_the_deadline),
    };
    dns_down =
        mmap(NULL, sizeof(*dns_down), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
