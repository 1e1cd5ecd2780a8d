/* A look is the controller's own: its file is included. */
#include "operator/control/controller.c" /* NOLINT(bugprone-suspicious-include) */

#include "operator/control/control_testing.h"

/* Nobody turns the loop, so that nothing is ever sent. */
struct world {
    struct co_loop *loop;
    struct kube_client *client;
    struct ctl_metrics *metrics;
    struct ctl_controller *controller;
};

/* A test reconciles in place of the queue, so changes enqueue nothing. */
static void ignore_change(void *arg, struct ctl_entry *e) {
    (void)work_of(arg, e);
}

static int setup(void **state) {
    struct world *w = co_xcalloc(1, sizeof(*w));
    struct kube_config *cfg = co_xcalloc(1, sizeof(*cfg));
    cfg->source = co_xstrdup("fake");
    cfg->server = co_xstrdup("http://127.0.0.1:1");
    cfg->ns = co_xstrdup("default");
    assert_int_equal(co_loop_new(&w->loop, NULL), 0);
    assert_int_equal(kube_client_new(w->loop, cfg, NULL, &w->client, NULL), 0);
    w->metrics = ctl_metrics_new();
    w->controller = ctl_controller_new(w->loop, w->client,
        &(struct ctl_controller_opts){.instance = "test", .metrics = w->metrics});
    w->controller->store.changed = ignore_change;
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    ctl_controller_free(w->controller);
    kube_client_free(w->client);
    ctl_metrics_free(w->metrics);
    co_loop_free(w->loop);
    free(w);
    return 0;
}

/* One without a uid cannot be planned. */
static struct ctl_entry *put_job(struct ctl_controller *c, const char *uid, const char *version) {
    CO_AUTOJSON json_t *job = tk_json(
        "{'metadata':{'name':'x','namespace':'ns'},'status':{'phase':'Running'},'spec':{'worker':{"
        "'replicas':2,'template':{'spec':{'containers':[{'name':'main','image':'i'}]}}}}}");
    json_t *meta = json_object_get(job, "metadata");
    co_json_set(meta, "uid", json_string(uid));
    co_json_set(meta, "resourceVersion", json_string(version));
    tk_put(&c->store, CTL_STORE_JOBS, job, 0);
    struct ctl_entry *e = ctl_store_entry(&c->store, "ns", "x");
    assert_non_null(e);
    return e;
}

#define OWNED                                                                                      \
    "'ownerReferences':[{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob','name':'x',"  \
    "'uid':'u','controller':true}]"

static void succeed_and_go(struct ctl_controller *c) {
    CO_AUTOJSON json_t *pod =
        tk_json("{'metadata':{'name':'x-worker-1','namespace':'ns','uid':'p','resourceVersion':'2',"
                "'labels':{'paddle-res-type':'worker','batch.paddlepaddle.org/index':'1'},"
                "'ownerReferences':[{'apiVersion':'batch.paddlepaddle.org/v1','kind':'PaddleJob',"
                "'name':'x','uid':'u','controller':true}]},'status':{'phase':'Succeeded'}}");
    tk_put(&c->store, CTL_STORE_PODS, pod, 0);
    tk_remove(&c->store, CTL_STORE_PODS, pod);
}

static void succeeded_pods_are_kept_until_a_plan_has_counted_them(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    struct ctl_entry *e = put_job(c, "", "1");
    succeed_and_go(c);
    assert_false(reconcile_entry(c, e));
    assert_non_null(e->ended);
    e = put_job(c, "u", "3");
    assert_true(reconcile_entry(c, e));
    assert_null(e->ended);
    struct plan_seen seen = {0};
    ctl_execution_recall(work_of(c, e)->execution, "u", &seen);
    assert_string_equal(co_json_str(seen.draft, "worker", "completedIndexes"), "1");
}

/* The lease holder dies before it has written what it saw. */
static void a_new_leader_counts_pods_that_the_old_one_did_not(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    struct ctl_entry *e = put_job(c, "u", "1");
    assert_false(c->leading);
    succeed_and_go(c);
    assert_false(serve_entry(c, e));
    assert_non_null(e->ended);
    c->leading = true;
    assert_true(reconcile_entry(c, e));
    struct plan_seen seen = {0};
    ctl_execution_recall(work_of(c, e)->execution, "u", &seen);
    assert_string_equal(co_json_str(seen.draft, "worker", "completedIndexes"), "1");
}

/* One of 30,000 empty variables, as the API server has it. */
static struct tk_text large_job(const char *version) {
    CO_AUTOJSON json_t *job = tk_json(
        "{'metadata':{'name':'x','namespace':'ns','uid':'u'},'spec':{'suspend':true,'worker':{"
        "'replicas':2,'template':{'spec':{'containers':[{'name':'main','image':'i'}]}}}}}");
    json_t *list = json_array();
    for (int i = 0; i < 30000; i++) {
        co_json_append(list, json_object());
    }
    co_json_set(json_object_get(job, "spec"), "list", list);
    co_json_set(json_object_get(job, "metadata"), "resourceVersion", json_string(version));
    return tk_text(job);
}

static struct work *asked_for(struct ctl_controller *c, const struct tk_text *job) {
    assert_int_equal(ctl_store_put(&c->store, CTL_STORE_JOBS, &job->object, 0, NULL), 0);
    struct ctl_entry *e = ctl_store_entry(&c->store, "ns", "x");
    struct work *w = work_of(c, e);
    assert_true(reconcile_entry(c, e));
    assert_true(ctl_reader_asks(&w->reader));
    assert_int_equal(ctl_queue_busy(c->queue), 1);
    w->reader.op = NULL; /* answered; the request itself ends with the client */
    return w;
}

static void a_job_that_is_not_cached_is_fetched(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    CO_CLEANUP(tk_text_done) struct tk_text job = large_job("5");
    struct co_err err = {0};
    struct work *x = asked_for(c, &job);
    struct ctl_entry *e = x->reader.entry;
    assert_false(x->gate_state.known);
    assert_true(c->readers.budget.used > 0);
    assert_int_equal(reconcile_with(c, e, job.object.nodes, &err), 0);
    assert_true(ctl_execution_busy(x->execution));
    assert_true(x->gate_state.known);
    assert_true(c->readers.budget.used > 0);
    ctl_execution_abort(x->execution);
    assert_int_equal(ctl_queue_busy(c->queue), 0);
    assert_int_equal(c->readers.budget.used, 0);
}

/* An operator that lost its lease, or has seen the job's end meanwhile, ignores the answer. */
static void a_stale_answer_ends_the_reconcile(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    CO_CLEANUP(tk_text_done) struct tk_text job = large_job("5");
    struct work *x = asked_for(c, &job);
    job_came(c, x->reader.entry, 0, job.object.nodes, NULL);
    assert_int_equal(ctl_queue_busy(c->queue), 0);
    assert_int_equal(c->readers.budget.used, 0);
    assert_false(ctl_execution_busy(x->execution));
}

static void an_answer_of_an_older_version_is_no_plan(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    CO_CLEANUP(tk_text_done) struct tk_text job = large_job("5");
    CO_CLEANUP(tk_text_done) struct tk_text older = large_job("4");
    struct work *x = asked_for(c, &job);
    assert_true(is_older(x->reader.entry, older.object.nodes));
    assert_false(is_older(x->reader.entry, job.object.nodes));
}

/* The first one's look is not over. */
static void large_jobs_wait_for_their_turn(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    CO_CLEANUP(tk_text_done) struct tk_text job = large_job("5");
    c->readers.budget.max = 16 << 20;
    struct work *x = asked_for(c, &job);
    CO_AUTOJSON json_t *obj = NULL;
    assert_int_equal(co_json_parse(job.text, strlen(job.text), &obj, NULL), 0);
    co_json_set(json_object_get(obj, "metadata"), "name", json_string("y"));
    tk_put(&c->store, CTL_STORE_JOBS, obj, 0);
    struct ctl_entry *y = ctl_store_entry(&c->store, "ns", "y");
    struct work *v = work_of(c, y);
    assert_false(reconcile_entry(c, y));
    assert_false(ctl_reader_asks(&v->reader));
    struct co_err err = {0};
    assert_int_equal(reconcile_with(c, x->reader.entry, job.object.nodes, &err), 0);
    ctl_execution_abort(x->execution);
    assert_true(v->reader.claim.has);
    assert_int_equal(v->place.state, CTL_QUEUED_WAITING);
    v->place.state = CTL_QUEUED_IDLE; /* its turn has come */
    assert_true(reconcile_entry(c, y));
    assert_true(ctl_reader_asks(&v->reader));
}

/* A pod of a job whose spec was edited is missing. */
static struct work *lacks_templates(struct ctl_controller *c) {
    static const char *const objects[] = {
        "{'metadata':{'name':'x','namespace':'ns','uid':'cm','resourceVersion':'2','labels':{"
        "'batch.paddlepaddle.org/job-name':'x'},'annotations':{"
        "'batch.paddlepaddle.org/worker-template':"
        "'{\\\"spec\\\":{\\\"containers\\\":[{\\\"name\\\":\\\"a\\\"}]}}'}," OWNED "},'data':{}}",
        "{'metadata':{'name':'x-worker-0','namespace':'ns','uid':'p','resourceVersion':'3',"
        "'labels':{'paddle-res-type':'worker','batch.paddlepaddle.org/index':'0'}," OWNED
        "},'status':{'phase':'Running'}}"};
    struct ctl_entry *e = put_job(c, "u", "1");
    CO_AUTOJSON json_t *job = tk_json(
        "{'metadata':{'name':'x','namespace':'ns','uid':'u','resourceVersion':'4','generation':2},"
        "'status':{'phase':'Running','began':'spec generation 1, intranet PodIP, worker template "
        "6552ad68'},'spec':{'worker':{"
        "'replicas':2,'template':{'spec':{'containers':[{'name':'main','image':'i'}]}}}}}");
    tk_put(&c->store, CTL_STORE_JOBS, job, 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(objects); i++) {
        CO_AUTOJSON json_t *obj = tk_json(objects[i]);
        tk_put(&c->store, i ? CTL_STORE_PODS : CTL_STORE_CONFIGMAPS, obj, 0);
    }
    assert_true(reconcile_entry(c, e));
    struct work *w = work_of(c, e);
    assert_true(w->templates.wanted);
    return w;
}

/* The API server's answer, and the end of an execution, without a request to one. */
static void templates_are_read_for_the_next_reconcile(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    c->leading = true;
    struct work *x = lacks_templates(c);
    struct ctl_entry *e = x->reader.entry;
    ctl_execution_abort(x->execution); /* its end */
    assert_non_null(x->templates.op);
    assert_int_equal(ctl_queue_busy(c->queue), 1);
    x->templates.op = NULL; /* answered; the request itself ends with the client */
    x->templates.by_role = tk_json("{'worker':{'spec':{'containers':[{'name':'a'}]}}}");
    templates_came(c, &x->templates, 0, NULL);
    assert_int_equal(ctl_queue_busy(c->queue), 0);
    assert_true(reconcile_entry(c, e));
    assert_false(x->templates.wanted);
    /* Those of another attempt: they are read again, later. */
    json_decref(x->templates.by_role);
    x->templates.by_role = tk_json("{'worker':{'spec':{}}}");
    ctl_execution_abort(x->execution);
    assert_true(reconcile_entry(c, e));
    assert_true(x->templates.wanted);
    ctl_execution_abort(x->execution);
    assert_null(x->templates.by_role);
    assert_null(x->templates.op);
    assert_int_equal(ctl_queue_busy(c->queue), 0);
}

static void losing_the_lease_cancels_the_read_of_templates(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    c->leading = true;
    const struct work *x = lacks_templates(c);
    ctl_execution_abort(x->execution);
    assert_non_null(x->templates.op);
    ctl_controller_lead(c, false);
    assert_null(x->templates.op);
    assert_int_equal(ctl_queue_busy(c->queue), 0);
}

/* Its children are known, those of all others are not. */
static void a_new_job_is_reconciled_before_everything_is_listed(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    struct ctl_entry *e = put_job(c, "u", "1");
    ctl_controller_lead(c, true);
    assert_false(may_reconcile(c, e));
    c->ahead.state = CTL_AHEAD_KNOWS;
    assert_false(may_reconcile(c, e));
    e->ahead = true;
    assert_true(may_reconcile(c, e));
    ctl_controller_lead(c, false);
    ctl_controller_lead(c, true);
    assert_false(may_reconcile(c, e)); /* another holder may have created pods meanwhile */
}

static void a_job_in_host_mode_waits_until_all_ports_are_known(void **state) {
    const struct world *w = *state;
    struct ctl_controller *c = w->controller;
    CO_AUTOJSON json_t *job = tk_json(
        "{'metadata':{'name':'x','namespace':'ns','uid':'u','resourceVersion':'1'},"
        "'spec':{'intranet':'Host','worker':{'replicas':2,'template':{'spec':{'containers':["
        "{'name':'main','image':'i'}]}}}}}");
    tk_put(&c->store, CTL_STORE_JOBS, job, 0);
    struct ctl_entry *e = ctl_store_entry(&c->store, "ns", "x");
    assert_false(reconcile_entry(c, e));
    assert_false(e->port.known);
    assert_int_equal(ctl_queue_busy(c->queue), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_that_is_not_cached_is_fetched, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stale_answer_ends_the_reconcile, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_of_an_older_version_is_no_plan, setup, teardown),
        cmocka_unit_test_setup_teardown(large_jobs_wait_for_their_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(
            succeeded_pods_are_kept_until_a_plan_has_counted_them, setup, teardown),
        cmocka_unit_test_setup_teardown(templates_are_read_for_the_next_reconcile, setup, teardown),
        cmocka_unit_test_setup_teardown(
            losing_the_lease_cancels_the_read_of_templates, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_new_leader_counts_pods_that_the_old_one_did_not, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_new_job_is_reconciled_before_everything_is_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_job_in_host_mode_waits_until_all_ports_are_known, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
