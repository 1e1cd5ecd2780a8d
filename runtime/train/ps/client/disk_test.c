/* Checkpoints, restores and saves on a file system that fails (tests/disk): at each call
 * below the directory, in each way, and when the power is cut there.  Afterwards either the call
 * has failed and what was there before is still there and is what a restart takes; or it has
 * succeeded, and a restart takes the new.  Never anything else, such as empty tables. */
#include "runtime/train/ckpt/disk_testing.h"
#include "runtime/train/ps/client/client_testing.h"

enum { VALUES = 300, IDS = 40 };

/* All values count the pushes, so that one number shows the state. */
static const struct rt_table_spec counters[] = {
    {.name = "w", .kind = RT_DENSE, .size = VALUES, .optimizer = "sgd:lr=1"},
    {.name = "rows", .kind = RT_SPARSE, .dim = 1, .optimizer = "sgd:lr=1", .init = "zero"},
};

/* ---- a job in one process ---- */

struct disk_job {
    struct pss_server *server;
    struct rt_client *client;
    char endpoint[32];
};

/* restore "": empty tables. */
static int job_open(struct disk_job *j, const char *restore, struct co_err *err) {
    const char *endpoints[] = {j->endpoint};
    struct pss_server_config c = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .job = "disk",
        .lease_ms = 60000,
        .start_timeout_ms = 30000,
        .shards = 2,
        .memory_max = 1 << 26,
        .restore_dir = restore,
        .quiet = true};
    CO_TRY(pss_server_start(&c, &j->server, err));
    (void)snprintf(j->endpoint, sizeof(j->endpoint), "127.0.0.1:%u", pss_server_port(j->server));
    struct psc_client_config k = {
        .trainers = 1, .servers = 1, .endpoints = endpoints, .job = "disk"};
    struct rt_client_options o = {
        .start_timeout_ms = 60000, .call_timeout_ms = 60000, .lease_ms = 60000};
    return psc_client_connect(&k, &o, counters, 2, &j->client, err);
}

static int job_push(struct disk_job *j, struct co_err *err) {
    float g[VALUES];
    uint64_t ids[IDS];
    for (size_t i = 0; i < VALUES; i++) {
        g[i] = -1;
        ids[i % IDS] = i % IDS;
    }
    CO_TRY(rt_push_dense(j->client, 0, g, err));
    CO_TRY(rt_push_sparse(j->client, 1, ids, IDS, g, err));
    return rt_flush(j->client, err);
}

static int value_of(const float *w, const float *rows) {
    for (size_t i = 0; i < VALUES; i++) {
        if (w[i] != w[0] || rows[i % IDS] != w[0]) {
            return -1;
        }
    }
    return (int)w[0];
}

static int job_look(struct disk_job *j, int *ret, struct co_err *err) {
    float w[VALUES], rows[IDS];
    uint64_t ids[IDS];
    for (size_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    CO_TRY(rt_pull_dense(j->client, 0, w, err));
    CO_TRY(rt_pull_sparse(j->client, 1, ids, IDS, rows, err));
    *ret = value_of(w, rows);
    return 0;
}

static int checkpoint(struct disk_job *j, const char *dir, bool full, struct co_err *err) {
    const struct rt_checkpoint_options o = {.full = full, .deltas = 5, .keep = 2};
    return rt_checkpoint(j->client, dir, &o, NULL, err);
}

/* ---- two calls, of which the second shows what the first one has done ---- */

static int push_and_checkpoint(struct disk_job *j, const char *dir, bool full, struct co_err *err) {
    CO_TRY(job_push(j, err));
    return checkpoint(j, dir, full, err);
}

static int push_and_save(struct disk_job *j, const char *dir, struct co_err *err) {
    CO_TRY(job_push(j, err));
    return rt_save(j->client, dir, err);
}

static int open_and_look(struct disk_job *j, const char *dir, struct co_err *err) {
    CO_TRY(job_open(j, dir, err));
    return job_look(j, &disk_report->value, err);
}

static int restore_and_look(struct disk_job *j, const char *dir, struct co_err *err) {
    CO_TRY(rt_restore(j->client, dir, NULL, err));
    return job_look(j, &disk_report->value, err);
}

static int load_and_look(struct disk_job *j, const char *dir, struct co_err *err) {
    CO_TRY(rt_load(j->client, dir, err));
    return job_look(j, &disk_report->value, err);
}

/* ---- what is tried ---- */

static int prepare_points(const char *dir, struct co_err *err) {
    struct disk_job j = {0};
    CO_TRY(job_open(&j, "", err));
    for (int i = 0; i < 3; i++) { /* 1 and its delta go with the next one */
        CO_TRY(job_push(&j, err));
        CO_TRY(checkpoint(&j, dir, i != 1, err));
    }
    return 0;
}

static int prepare_save(const char *dir, struct co_err *err) {
    struct disk_job j = {0};
    CO_AUTOFREE char *to = co_xasprintf("%s/model", dir);
    CO_TRY(job_open(&j, "", err));
    for (int i = 0; i < 3; i++) {
        CO_TRY(job_push(&j, err));
    }
    return rt_save(j.client, to, err);
}

static int try_checkpoint(const struct disk_trial *t, bool full, struct co_err *err) {
    struct disk_job j = {0};
    CO_TRY(job_open(&j, t->dir, err));
    CO_TRY(job_push(&j, err));
    if (!full) {
        CO_TRY(checkpoint(&j, t->dir, true, err));
        CO_TRY(job_push(&j, err));
    }
    disk_begin(t);
    disk_note(checkpoint(&j, t->dir, full, err), err);
    disk_end(t);
    disk_report->again = push_and_checkpoint(&j, t->dir, full, err);
    return disk_report->again;
}

static int try_full(const struct disk_trial *t, struct co_err *err) {
    return try_checkpoint(t, true, err);
}

static int try_delta(const struct disk_trial *t, struct co_err *err) {
    return try_checkpoint(t, false, err);
}

/* A restart on the file system that fails, then one on a sound one. */
static int try_start(const struct disk_trial *t, struct co_err *err) {
    struct disk_job j = {0}, next = {0};
    struct co_err why = {0};
    disk_begin(t);
    disk_note(open_and_look(&j, t->dir, &why), &why);
    int had = disk_report->value;
    disk_report->again = open_and_look(&next, t->dir, err);
    disk_report->value = disk_report->rc == 0 && had != 3 ? had : disk_report->value;
    return disk_report->again;
}

static int try_restore(const struct disk_trial *t, struct co_err *err) {
    struct disk_job j = {0};
    struct co_err why = {0};
    CO_TRY(job_open(&j, "", err));
    CO_TRY(job_push(&j, err));
    disk_begin(t);
    disk_note(restore_and_look(&j, t->dir, &why), &why);
    int had = disk_report->value;
    disk_report->again = restore_and_look(&j, t->dir, err);
    disk_report->value = disk_report->rc == 0 && had != 3 ? had : disk_report->value;
    return disk_report->again;
}

static int try_save(const struct disk_trial *t, struct co_err *err) {
    struct disk_job j = {0};
    CO_AUTOFREE char *dir = co_xasprintf("%s/model", t->dir);
    CO_TRY(job_open(&j, "", err));
    CO_TRY(rt_load(j.client, dir, err));
    CO_TRY(job_push(&j, err));
    disk_begin(t);
    disk_note(rt_save(j.client, dir, err), err);
    disk_end(t);
    disk_report->again = push_and_save(&j, dir, err);
    return disk_report->again;
}

static int try_load(const struct disk_trial *t, struct co_err *err) {
    struct disk_job j = {0};
    struct co_err why = {0};
    CO_AUTOFREE char *dir = co_xasprintf("%s/model", t->dir);
    CO_TRY(job_open(&j, "", err));
    disk_begin(t);
    disk_note(load_and_look(&j, dir, &why), &why);
    int had = disk_report->value;
    disk_report->again = load_and_look(&j, dir, err);
    disk_report->value = disk_report->rc == 0 && had != 3 ? had : disk_report->value;
    return disk_report->again;
}

CO_DEFINE_CLEANUP(struct rt_model *, rt_model_close)

static int model_value(const char *dir, int *ret, struct co_err *err) {
    CO_CLEANUP(rt_model_closep) struct rt_model *m = NULL;
    uint32_t w = 0, rows = 0;
    uint64_t ids[IDS];
    float got[IDS];
    CO_TRY(rt_model_open(dir, &m, err));
    CO_TRY(rt_model_table(m, "w", &w, err));
    CO_TRY(rt_model_table(m, "rows", &rows, err));
    for (size_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    rt_model_sparse(m, rows, ids, IDS, got);
    *ret = value_of(rt_model_dense(m, w), got);
    return 0;
}

static int try_model(const struct disk_trial *t, struct co_err *err) {
    struct co_err why = {0};
    disk_begin(t);
    disk_note(model_value(t->dir, &disk_report->value, &why), &why);
    int had = disk_report->value;
    disk_report->again = model_value(t->dir, &disk_report->value, err);
    disk_report->value = disk_report->rc == 0 && had != 3 ? had : disk_report->value;
    return disk_report->again;
}

/* A restart on a sound file system; returns the value. */
static int look_points(const char *dir, int *ret, struct co_err *err) {
    struct disk_job j = {0};
    CO_TRY(job_open(&j, dir, err));
    return job_look(&j, ret, err);
}

static int look_save(const char *dir, int *ret, struct co_err *err) {
    struct disk_job j = {0};
    CO_AUTOFREE char *from = co_xasprintf("%s/model", dir);
    CO_TRY(job_open(&j, "", err));
    CO_TRY(rt_load(j.client, from, err));
    return job_look(&j, ret, err);
}

static const struct disk_way ways[] = {
    {"full", prepare_points, try_full, look_points, 3, true},
    {"delta", prepare_points, try_delta, look_points, 4, true},
    {"start", prepare_points, try_start, look_points, 3, false},
    {"restore", prepare_points, try_restore, look_points, 3, false},
    {"model", prepare_points, try_model, look_points, 3, false},
    {"save", prepare_save, try_save, look_save, 3, true},
    {"load", prepare_save, try_load, look_save, 3, false},
};

#define WAY(i, what)                                                                               \
    static void what(void **state) {                                                               \
        (void)state;                                                                               \
        disk_way_try(&ways[i]);                                                                    \
    }
WAY(0, a_full_checkpoint)
WAY(1, a_delta)
WAY(2, a_start)
WAY(3, a_restore)
WAY(4, a_model)
WAY(5, a_save)
WAY(6, a_load)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_checkpoint),
        cmocka_unit_test(a_delta),
        cmocka_unit_test(a_start),
        cmocka_unit_test(a_restore),
        cmocka_unit_test(a_model),
        cmocka_unit_test(a_save),
        cmocka_unit_test(a_load),
    };
    (void)argc;
    disk_layer_load(argv);
    int failed = cmocka_run_group_tests_name("disk", tests, NULL, NULL);
    print_message("%u cases\n", disk_tried);
    return failed;
}
