#include "operator/control/host_ports.h"

#include "common/contract.h"
#include "operator/control/control_testing.h"

static const struct ctl_shard_id alone = {.index = 0, .count = 1};

static void ignore(void *arg, struct ctl_entry *e) {
    (void)arg;
    (void)e;
}

static int setup(void **state) {
    static struct ctl_store s;
    ctl_store_init(&s, ignore, ignore, NULL);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    ctl_store_done(*state);
    return 0;
}

static struct ctl_entry *put_job(struct ctl_store *s, const char *name) {
    CO_AUTOJSON json_t *j = json_pack("{s:{s:s,s:s,s:s,s:s}}", "metadata", "name", name,
        "namespace", "ns", "uid", name, "resourceVersion", "1");
    tk_put(s, CTL_STORE_JOBS, j, 0);
    return ctl_store_entry(s, "ns", name);
}

static void put_configmap(struct ctl_store *s, const char *name, const char *port) {
    CO_AUTOJSON json_t *j = json_pack("{s:{s:s,s:s,s:s,s:s,s:[{s:s,s:s,s:s,s:s,s:b}]},s:{s:s}}",
        "metadata", "name", name, "namespace", "ns", "uid", "c", "resourceVersion", "1",
        "ownerReferences", "apiVersion", API_VERSION, "kind", API_KIND, "name", name, "uid", name,
        "controller", 1, "data", co_contract[CO_VAR_PORT].name, port);
    tk_put(s, CTL_STORE_CONFIGMAPS, j, 0);
}

static uint16_t settle(const struct ctl_store *s, struct ctl_entry *e,
    const struct ctl_shard_id *shard, const struct api_job *job) {
    struct plan_seen seen = {0};
    free(ctl_ports_settle(s, e, shard, job, &seen));
    return e->port.number;
}

/* All jobs have the same uid, so that each would choose the same port. */
static const struct api_job host = {.uid = "u", .intranet = API_HOST};

static void only_live_jobs_in_host_mode_hold_ports(void **state) {
    struct ctl_store *s = *state;
    static const struct {
        const char *what;
        struct api_job job;
        bool holds;
    } rows[] = {
        {"in Host mode", {.uid = "u", .intranet = API_HOST}, true},
        {"another mode", {.uid = "u", .intranet = API_POD_IP}, false},
        {"has ended", {.uid = "u", .intranet = API_HOST, .phase = API_PHASE_COMPLETED}, false},
        {"another controller's", {.uid = "u", .intranet = API_HOST, .elsewhere = true}, false},
    };
    struct ctl_entry *e = put_job(s, "x");
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        bool holds = settle(s, e, &alone, &rows[i].job) != 0;
        if (holds != rows[i].holds || !e->port.known) {
            fail_msg("%s: port %d, known %d", rows[i].what, e->port.number, e->port.known);
        }
    }
}

static void no_two_jobs_hold_the_same_port(void **state) {
    struct ctl_store *s = *state;
    struct ctl_entry *a = put_job(s, "a"), *b = put_job(s, "b");
    uint16_t first = settle(s, a, &alone, &host);
    assert_int_not_equal(settle(s, b, &alone, &host), first);
    assert_int_equal(settle(s, a, &alone, &host), first);
}

static void a_job_that_ends_gives_its_port_back(void **state) {
    struct ctl_store *s = *state;
    struct ctl_entry *a = put_job(s, "a"), *b = put_job(s, "b");
    uint16_t first = settle(s, a, &alone, &host);
    const struct api_job over = {.uid = "u", .intranet = API_HOST, .phase = API_PHASE_FAILED};
    (void)settle(s, a, &alone, &over);
    assert_int_equal(settle(s, b, &alone, &host), first);
}

static void the_port_published_in_the_configmap_is_kept(void **state) {
    struct ctl_store *s = *state;
    struct ctl_entry *e = put_job(s, "x");
    const struct api_configmap published = {.port = 37020};
    struct plan_seen seen = {.configmap = &published};
    assert_null(ctl_ports_settle(s, e, &alone, &host, &seen));
    assert_int_equal(e->port.number, 37020);
    assert_int_equal(seen.n_ports_taken, 0);
}

static void a_job_nobody_looked_at_yet_holds_what_its_configmap_says(void **state) {
    struct ctl_store *s = *state;
    struct ctl_entry *e = put_job(s, "x");
    uint16_t first = settle(s, e, &alone, &host);
    char text[8];
    (void)snprintf(text, sizeof(text), "%d", first);
    e->port.known = false;
    e->port.number = 0;
    put_configmap(s, "x", text);
    assert_int_not_equal(settle(s, put_job(s, "y"), &alone, &host), first);
}

static void shards_choose_from_parts_of_their_own(void **state) {
    struct ctl_store *s = *state;
    struct ctl_entry *e = put_job(s, "x");
    for (unsigned i = 0; i < 3; i++) {
        const struct ctl_shard_id shard = {.index = i, .count = 3};
        e->port.known = false;
        uint16_t port = settle(s, e, &shard, &host);
        assert_int_equal((unsigned)(port - CO_PORT_BASE) / CO_PORT_SPAN % 3, i);
    }
}

static void the_planner_sees_the_ports_of_others_in_order(void **state) {
    struct ctl_store *s = *state;
    for (int i = 0; i < 5; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "j%d", i);
        (void)settle(s, put_job(s, name), &alone, &host);
    }
    struct plan_seen seen = {0};
    CO_AUTOFREE uint16_t *taken = ctl_ports_settle(s, put_job(s, "x"), &alone, &host, &seen);
    assert_ptr_equal(seen.ports_taken, taken);
    assert_int_equal(seen.n_ports_taken, 5);
    for (size_t i = 1; i < seen.n_ports_taken; i++) {
        assert_true(taken[i - 1] < taken[i]);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(only_live_jobs_in_host_mode_hold_ports),
        T(no_two_jobs_hold_the_same_port),
        T(a_job_that_ends_gives_its_port_back),
        T(the_port_published_in_the_configmap_is_kept),
        T(a_job_nobody_looked_at_yet_holds_what_its_configmap_says),
        T(shards_choose_from_parts_of_their_own),
        T(the_planner_sees_the_ports_of_others_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
