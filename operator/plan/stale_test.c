/* Golden rows: pods that run with the address of a peer of before. */
#include "common/parse.h"
#include "operator/plan/expect_testing.h"

#define PODS TK_ROLE("ps", 1) "," TK_ROLE("worker", 2)

static void born(struct tk_cluster *c, const char *name) {
    char text[32];
    co_time_format(c->now, text);
    json_t *pod = json_object_get(c->objects[TK_PODS], name);
    co_json_set(json_object_get(pod, "metadata"), "creationTimestamp", json_string(text));
}

static struct tk_cluster running_cluster(const char *spec) {
    struct tk_cluster c;
    CO_AUTOFREE char *job = co_xasprintf(TK_JOB("%s"), spec);
    tk_init(&c, job);
    rest(&c);
    const char *name;
    json_t *pod;
    json_object_foreach(c.objects[TK_PODS], name, pod) {
        born(&c, name);
    }
    run_all(&c);
    return c;
}

/* A minute later it is there again, with this status. */
static void recreate(struct tk_cluster *c, const char *name, const char *status) {
    json_object_del(c->objects[TK_PODS], name);
    c->now += 60;
    rest(c);
    born(c, name);
    tk_pod_status(c, name, status);
    rest(c);
}

#define ADDRESSED(ip) "{'phase':'Pending','podIP':'" ip "'}"

static const char said[] =
    "pod x-ps-0 has another address since 1970-01-12T13:47:40Z, and those that began before, as "
    "pod "
    "x-worker-0, have the old one: suspend the job and resume it, so that all begin with the same";

static void pods_that_run_with_a_stale_address_are_named(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS);
    expect_condition(&c, "StaleAddress", "absent");
    json_object_del(c.objects[TK_PODS], "x-ps-0");
    c.now += 60;
    rest(&c);
    born(&c, "x-ps-0");
    tk_pod_status(&c, "x-ps-0", ADDRESSED("10.0.9.9"));
    (void)tk_pass(&c);
    CO_AUTOFREE char *condition = co_xasprintf("True AddressChanged %s", said);
    CO_AUTOFREE char *event = co_xasprintf("!StaleAddress: %s", said);
    expect_condition(&c, "StaleAddress", condition);
    expect_events(&c, event);
    rest(&c);
    tk_pod_status(&c, "x-ps-0", TK_RUNNING("10.0.9.9"));
    expect_condition(&c, "StaleAddress", condition);
    rest(&c);
    /* Those of before go, one by one. */
    recreate(&c, "x-worker-0", TK_RUNNING("10.0.0.2"));
    recreate(&c, "x-worker-1", TK_RUNNING("10.0.0.3"));
    expect_condition(&c, "StaleAddress", "False AddressesKnown ");
    tk_done(&c);
}

static void no_address_is_stale_when_nobody_uses_the_old_one(void **state) {
    (void)state;
    static const struct {
        const char *spec, *name, *status;
    } rows[] = {
        {PODS, "x-ps-0", ADDRESSED("10.0.0.1")},                         /* the same address */
        {PODS ",'intranet':'Service'", "x-ps-0", ADDRESSED("10.0.9.9")}, /* a name */
        {PODS ",'elastic':1", "x-worker-0", ADDRESSED("10.0.9.9")},      /* no list */
        {PODS ",'backoffLimit':1", "x-ps-0", TK_RUNNING("10.0.9.9")},    /* all restart */
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct tk_cluster c = running_cluster(rows[i].spec);
        json_object_del(c.objects[TK_PODS], rows[i].name);
        c.now += 60;
        rest(&c);
        if (json_object_get(c.objects[TK_PODS], rows[i].name)) {
            born(&c, rows[i].name);
            tk_pod_status(&c, rows[i].name, rows[i].status);
        }
        rest(&c);
        expect_condition(&c, "StaleAddress", "absent");
        tk_done(&c);
    }
}

/* Those that run do not know of the new one, and reach all whom they know. */
static void added_pods_make_no_address_stale(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS);
    set_replicas(&c, "worker", 3);
    c.now += 60;
    rest(&c);
    born(&c, "x-worker-2");
    tk_pod_status(&c, "x-worker-2", TK_RUNNING("10.0.9.9"));
    rest(&c);
    expect_condition(&c, "StaleAddress", "absent");
    tk_done(&c);
}

static void a_restarted_job_has_no_old_addresses(void **state) {
    (void)state;
    struct tk_cluster c = running_cluster(PODS);
    recreate(&c, "x-ps-0", ADDRESSED("10.0.9.9"));
    set_spec(&c, "suspend", json_true());
    rest(&c);
    bury(&c);
    expect_condition(&c, "StaleAddress", "False AddressesKnown ");
    set_spec(&c, "suspend", json_false());
    rest(&c);
    run_all(&c);
    expect_condition(&c, "StaleAddress", "False AddressesKnown ");
    tk_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_that_run_with_a_stale_address_are_named),
        cmocka_unit_test(no_address_is_stale_when_nobody_uses_the_old_one),
        cmocka_unit_test(added_pods_make_no_address_stale),
        cmocka_unit_test(a_restarted_job_has_no_old_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
