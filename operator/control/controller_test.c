/* A look is the controller's own: its file is included. */
#include "operator/control/controller.c" /* NOLINT(bugprone-suspicious-include) */

#include "operator/control/testkit.h"

/* Nobody turns the loop, so that nothing is ever sent. */
struct world {
    struct co_loop *loop;
    struct op_kube_client *client;
    struct op_metrics *metrics;
    struct op_controller *controller;
};

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct op_kube_config *cfg = co_xcalloc(1, sizeof(*cfg));
    cfg->source = co_xstrdup("fake");
    cfg->server = co_xstrdup("http://127.0.0.1:1");
    cfg->ns = co_xstrdup("default");
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(op_kube_client_new(w->loop, cfg, NULL, &w->client, NULL), 0);
    w->metrics = op_metrics_new();
    w->controller = op_controller_new(w->loop, w->client,
        &(struct op_controller_opts){.instance = "test", .metrics = w->metrics});
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    op_controller_free(w->controller);
    op_kube_client_free(w->client);
    op_metrics_free(w->metrics);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

/* One without a uid cannot be planned. */
static struct op_entry *put_job(struct op_controller *c, const char *uid, const char *version) {
    CO_AUTOJSON json_t *job = tk_json(
        "{'metadata':{'name':'x','namespace':'ns'},'status':{'phase':'Running'},'spec':{'worker':{"
        "'replicas':2,'template':{'spec':{'containers':[{'name':'main','image':'i'}]}}}}}");
    json_t *meta = json_object_get(job, "metadata");
    co_json_set(meta, "uid", json_string(uid));
    co_json_set(meta, "resourceVersion", json_string(version));
    tk_put(&c->store, OP_STORE_JOBS, job, 0);
    struct op_entry *e = op_store_entry(&c->store, "ns", "x");
    assert_non_null(e);
    return e;
}

static void succeed_and_go(struct op_controller *c) {
    CO_AUTOJSON json_t *pod =
        tk_json("{'metadata':{'name':'x-worker-1','namespace':'ns','uid':'p','resourceVersion':'2',"
                "'labels':{'paddle-res-type':'worker','batch.paddlepaddle.org/index':'1'},"
                "'ownerReferences':[{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob',"
                "'name':'x','uid':'u','controller':true}]},'status':{'phase':'Succeeded'}}");
    tk_put(&c->store, OP_STORE_PODS, pod, 0);
    tk_remove(&c->store, OP_STORE_PODS, pod);
}

static void a_look_without_a_plan_has_seen_nothing(void **state) {
    const struct world *w = *state;
    struct op_controller *c = w->controller;
    struct op_entry *e = put_job(c, "", "1");
    succeed_and_go(c);
    assert_false(look_at_entry(c, e));
    assert_non_null(e->ended);
    e = put_job(c, "u", "3");
    assert_true(look_at_entry(c, e));
    assert_null(e->ended);
    struct op_seen seen = {0};
    op_round_recall(work_of(c, e)->round, "u", &seen);
    assert_string_equal(co_json_str(seen.draft, "worker", "completedIndexes"), "1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_look_without_a_plan_has_seen_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
