/* The public doors: who this process is by its environment, a job of one process, and what is
 * saved and loaded; above all what is refused. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/loop.h"
#include "common/mem.h"
#include "common/ports_testing.h"
#include "runtime/rt.h"

enum { SIZE = 40, DIM = 3, IDS = 10 };

static int setup(void **state) {
    static const char *const names[] = {"TRAINING_ROLE", "PADDLE_PSERVERS_IP_PORT_LIST",
        "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", "PADDLE_TRAINER_ENDPOINTS", "POD_IP",
        "PADDLE_PORT", "PADDLE_PS_LEASE", "PADDLE_PS_SHARDS"};
    for (size_t i = 0; i < CO_ARRAY_LEN(names); i++) {
        (void)unsetenv(names[i]);
    }
    char *dir = co_xstrdup("/tmp/job_test_XXXXXX");
    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", (char *)*state);
    int rc = system(cmd);
    free(*state);
    return rc;
}

static void says(const struct co_err *err, int code, const char *text) {
    if (err->code != code || !strstr(err->msg, text)) {
        fail_msg("%d '%s' is not %d '%s'", err->code, err->msg, code, text);
    }
}

static struct rt_job *job_of_environment(void) {
    struct rt_job *job = NULL;
    struct co_err err = {0};
    if (rt_init(&job, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return job;
}

/* ---- who am I ----------------------------------------------------------------------------- */

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "adagrad:lr=0.1"},
    {.name = "e",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "adagrad:lr=0.1",
        .init = "uniform:min=-1,max=1",
        .seed = 5},
};

static void alone_is_worker_0_of_1(void **state) {
    (void)state;
    struct rt_job *job = job_of_environment();
    assert_true(rt_is_worker(job) && rt_is_first_worker(job) && !rt_is_server(job));
    assert_int_equal(0, rt_worker_index(job));
    assert_int_equal(1, rt_worker_num(job));
    assert_int_equal(0, rt_server_num(job));
    assert_null(rt_server_endpoint(job, 0));
    struct co_err err = {0};
    assert_int_equal(CO_INVALID, rt_server_run(job, NULL, &err));
    rt_done(job);
    rt_done(NULL);
}

static void a_server_is_no_worker(void **state) {
    (void)state;
    (void)setenv("TRAINING_ROLE", "PSERVER", 1);
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1001,127.0.0.1:1002", 1);
    (void)setenv("PADDLE_TRAINERS_NUM", "3", 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)setenv("PADDLE_PORT", "1002", 1);
    struct rt_job *job = job_of_environment();
    struct rt_client *c = NULL;
    struct co_err err = {0};
    assert_true(rt_is_server(job) && !rt_is_worker(job) && !rt_is_first_worker(job));
    assert_int_equal(1, rt_server_index(job));
    assert_int_equal(2, rt_server_num(job));
    assert_int_equal(3, rt_worker_num(job));
    assert_string_equal("127.0.0.1:1002", rt_server_endpoint(job, 1));
    assert_null(rt_server_endpoint(job, 2));
    assert_int_equal(CO_INVALID, rt_client_open(job, NULL, specs, 2, &c, &err));
    says(&err, CO_INVALID, "no worker");
    (void)setenv("PADDLE_PS_LEASE", "soon", 1);
    struct rlimit files;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &files));
    files.rlim_cur = 256;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    assert_int_equal(CO_INVALID, rt_server_run(job, NULL, &err));
    says(&err, CO_INVALID, "PADDLE_PS_LEASE");
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &files));
    assert_int_equal(files.rlim_max, files.rlim_cur);
    rt_done(job);
}

static void a_server_can_be_stopped_even_before_it_runs(void **state) {
    (void)state;
    char list[32], port[8];
    (void)snprintf(port, sizeof(port), "%u", co_test_ports(1));
    (void)snprintf(list, sizeof(list), "127.0.0.1:%s", port);
    (void)setenv("TRAINING_ROLE", "PSERVER", 1);
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", list, 1);
    (void)setenv("PADDLE_TRAINERS_NUM", "1", 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)setenv("PADDLE_PORT", port, 1);
    struct rt_job *job = job_of_environment();
    struct co_err err = {0};
    rt_server_end(job);
    rt_server_end(job);
    assert_int_equal(CO_CANCELED, rt_server_run(job, NULL, &err));
    says(&err, CO_CANCELED, "the server was ended");
    rt_done(job);
}

/* A job of many servers: the first lines of its log do not name them all, and each takes two
 * descriptors, where a process has 1024 unless it asks for more. */
static void a_worker_waits_for_many_servers(void **state) {
    enum { MANY = 70 };
    unsigned port = co_test_ports(MANY);
    CO_AUTOBUF struct co_buf list = CO_BUF(4096), said = CO_BUF(65536);
    for (unsigned i = 0; i < MANY; i++) {
        (void)!co_buf_addf(&list, NULL, "%s127.0.0.1:%u", i > 0 ? "," : "", port + i);
    }
    (void)setenv("TRAINING_ROLE", "TRAINER", 1);
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", list.data, 1);
    (void)setenv("PADDLE_TRAINERS_NUM", "1", 1);
    (void)setenv("PADDLE_TRAINER_ID", "0", 1);
    struct rlimit files;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &files));
    files.rlim_cur = 256;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    struct rt_job *job = job_of_environment();
    struct rt_client *c = NULL;
    struct co_err err = {0};
    const struct rt_client_options o = {.start_timeout_ms = 1};
    CO_AUTOFREE char *path = co_xasprintf("%s/log", (char *)*state);
    int log = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600), terminal = dup(2);
    assert_true(log >= 0 && terminal >= 0 && dup2(log, 2) == 2);
    int rc = rt_client_open(job, &o, specs, 2, &c, &err);
    assert_int_equal(2, dup2(terminal, 2));
    (void)close(terminal);
    (void)close(log);
    assert_int_equal(CO_TIMEOUT, rc);
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &files));
    assert_int_equal(files.rlim_max, files.rlim_cur);
    assert_int_equal(0, co_file_read(path, 65536, &said, NULL));
    CO_AUTOFREE char *last = co_xasprintf("'127.0.0.1:%u', and 6 more]\n", port + 63);
    assert_non_null(strstr(said.data, last));
    rt_done(job);
}

static void *run_until_ended(void *job) {
    assert_int_equal(CO_CANCELED, rt_server_run(job, NULL, NULL));
    return NULL;
}

static void the_caller_sees_when_a_server_accepts(void **state) {
    (void)state;
    char list[64], port[24];
    unsigned number = co_test_ports(1);
    (void)snprintf(list, sizeof(list), "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:%u", number);
    (void)snprintf(port, sizeof(port), "PADDLE_PORT=%u", number);
    const char *const variables[] = {
        "TRAINING_ROLE=PSERVER", "POD_IP=127.0.0.1", "PADDLE_TRAINERS_NUM=1", list, port, NULL};
    struct rt_job *job = NULL;
    pthread_t thread;
    assert_int_equal(0, rt_init_list(variables, &job, NULL));
    assert_false(rt_server_accepts(job));
    assert_int_equal(0, pthread_create(&thread, NULL, run_until_ended, job));
    for (int64_t end = co_now_ms() + 90000; !rt_server_accepts(job);) {
        assert_true(co_now_ms() < end);
        (void)poll(NULL, 0, 1);
    }
    rt_server_end(job);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_false(rt_server_accepts(job));
    rt_done(job);
}

/* A child's handler of signals may be its parent's.  The parent's server ends by a signal that is
 * pending. */
static void a_forked_child_ends_a_server_of_its_own(void **state) {
    (void)state;
    char list[64], port[24], number[8];
    (void)snprintf(number, sizeof(number), "%u", co_test_ports(1));
    (void)snprintf(list, sizeof(list), "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:%s", number);
    (void)snprintf(port, sizeof(port), "PADDLE_PORT=%s", number);
    const char *const variables[] = {
        "TRAINING_ROLE=PSERVER", "POD_IP=127.0.0.1", "PADDLE_TRAINERS_NUM=1", list, port, NULL};
    struct rt_job *job = NULL;
    struct co_err err = {0};
    int status = 1;
    assert_int_equal(0, rt_init_list(variables, &job, &err));
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        rt_server_end(job);
        _exit(rt_server_run(job, NULL, &err) == CO_CANCELED ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    sigset_t term, old;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    assert_int_equal(0, pthread_sigmask(SIG_BLOCK, &term, &old));
    assert_int_equal(0, kill(getpid(), SIGTERM));
    struct rt_server_options o = {.handle_signals = true};
    assert_int_equal(CO_CANCELED, rt_server_run(job, &o, &err));
    says(&err, CO_CANCELED, "ended by signal 15");
    assert_int_equal(0, pthread_sigmask(SIG_SETMASK, &old, NULL));
    rt_done(job);
}

static void workers_without_servers_have_nowhere_to_push(void **state) {
    (void)state;
    (void)setenv("PADDLE_TRAINERS_NUM", "2", 1);
    (void)setenv("PADDLE_TRAINER_ID", "1", 1);
    (void)setenv("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:1001,127.0.0.1:1002", 1);
    struct rt_job *job = job_of_environment();
    struct rt_client *c = NULL;
    struct co_err err = {0};
    assert_true(rt_is_worker(job) && !rt_is_first_worker(job));
    assert_int_equal(CO_INVALID, rt_client_open(job, NULL, specs, 2, &c, &err));
    says(&err, CO_INVALID, "2 workers but no parameter servers");
    rt_done(job);
    (void)setenv("PADDLE_TRAINER_ID", "two", 1);
    job = NULL;
    assert_int_equal(CO_INVALID, rt_init(&job, &err));
    says(&err, CO_INVALID, "PADDLE_TRAINER_ID");
    assert_null(job);
}

/* ---- saved and loaded --------------------------------------------------------------------- */

/* A job of one process with these tables. */
struct alone {
    struct rt_job *job;
    struct rt_client *c;
};

static struct alone open_alone(const struct rt_table_spec *tables, size_t n) {
    struct alone a = {.job = job_of_environment()};
    struct co_err err = {0};
    if (rt_client_open(a.job, NULL, tables, n, &a.c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return a;
}

static void close_alone(struct alone *a) {
    assert_int_equal(0, rt_finish(a->c, NULL));
    rt_done(a->job);
}

struct values {
    float w[SIZE], rows[IDS * DIM];
};

static const uint64_t ids[IDS] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89};

static struct values pull(struct rt_client *c) {
    struct values v;
    assert_int_equal(0, rt_pull_dense(c, 0, v.w, NULL));
    assert_int_equal(0, rt_pull_sparse(c, 1, ids, IDS, v.rows, NULL));
    return v;
}

static void push(struct rt_client *c) {
    struct values g;
    for (size_t i = 0; i < SIZE; i++) {
        g.w[i] = (float)i + 1;
    }
    for (size_t i = 0; i < IDS * DIM; i++) {
        size_t row = i / DIM;
        g.rows[i] = (float)row + 1;
    }
    assert_int_equal(0, rt_push_dense(c, 0, g.w, NULL));
    assert_int_equal(0, rt_push_sparse(c, 1, ids, IDS, g.rows, NULL));
    assert_int_equal(0, rt_flush(c, NULL));
}

/* Two pushes, saved after the first; what the second one made of it. */
static struct values save_in(const char *dir) {
    struct alone a = open_alone(specs, 2);
    push(a.c);
    struct co_err err = {0};
    if (rt_save(a.c, dir, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    push(a.c);
    struct values v = pull(a.c);
    close_alone(&a);
    return v;
}

static void a_save_that_cannot_be_written_names_the_folder(void **state) {
    CO_AUTOFREE char *file = co_xasprintf("%s/file", (char *)*state);
    CO_AUTOFREE char *below = co_xasprintf("%s/below", file);
    struct alone a = open_alone(specs, 2);
    (void)close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    struct co_err err = {0};
    assert_true(rt_save(a.c, below, &err) < 0);
    assert_non_null(strstr(err.msg, "save to \""));
    assert_non_null(strstr(err.msg, below));
    push(a.c); /* the job continues */
    close_alone(&a);
}

/* The optimizer's state included: the second push does the same as it did without the load. */
static void a_load_resumes_where_the_save_was(void **state) {
    struct values want = save_in(*state);
    struct alone a = open_alone(specs, 2);
    assert_int_equal(0, rt_load(a.c, *state, NULL));
    push(a.c);
    struct values have = pull(a.c);
    assert_memory_equal(&want, &have, sizeof(want));
    close_alone(&a);
}

/* The first step of a state that is new. */
static float first_step(const char *optimizer, float g) {
    return strcmp(optimizer, "sgd:lr=0.1") == 0 ? 0.1F * g : 0.1F * g / sqrtf(99 + g * g);
}

/* State of another rule means nothing to this one: values stay, the state begins from zero. */
static void another_rule_begins_with_the_saved_values(void **state) {
    static const char *const rules[][2] = {{"adagrad:lr=0.1", "sgd:lr=0.1"},
        {"sgd:lr=0.1", "adagrad:lr=0.1,initial=99"}, {"adam", "adagrad:lr=0.1,initial=99"}};
    for (size_t r = 0; r < CO_ARRAY_LEN(rules); r++) {
        struct rt_table_spec tables[] = {specs[0], specs[1]};
        tables[0].optimizer = tables[1].optimizer = rules[r][0];
        struct alone a = open_alone(tables, 2);
        push(a.c);
        assert_int_equal(0, rt_save(a.c, *state, NULL));
        struct values saved = pull(a.c);
        close_alone(&a);

        tables[0].optimizer = tables[1].optimizer = rules[r][1];
        a = open_alone(tables, 2);
        assert_int_equal(0, rt_load(a.c, *state, NULL));
        struct values have = pull(a.c);
        assert_memory_equal(&saved, &have, sizeof(saved));
        push(a.c);
        have = pull(a.c);
        for (size_t i = 0; i < SIZE; i++) {
            float want = saved.w[i] - first_step(rules[r][1], (float)i + 1);
            assert_true(fabsf(want - have.w[i]) < 1e-5F);
        }
        for (size_t i = 0; i < IDS * DIM; i++) {
            size_t row = i / DIM;
            float want = saved.rows[i] - first_step(rules[r][1], (float)row + 1);
            assert_true(fabsf(want - have.rows[i]) < 1e-5F);
        }
        close_alone(&a);
    }
}

static void tables_that_differ_are_refused_before_a_load_begins(void **state) {
    (void)save_in(*state);
    struct rt_table_spec rows[][2] = {
        {specs[0], specs[1]}, {specs[0], specs[1]}, {specs[0], specs[1]}, {specs[0], specs[1]}};
    rows[0][1].dim = DIM + 1;
    rows[1][0].size = SIZE + 1;
    rows[2][1].name = "f";
    rows[3][1] = (struct rt_table_spec){.name = "e", .kind = RT_DENSE, .size = SIZE};
    static const char *const texts[] = {
        "table \"e\" is sparse there, size 0, dim 3; here it is sparse, size 0, dim 4",
        "table \"w\" is dense there, size 40, dim 0; here it is dense, size 41, dim 0",
        "has no table \"f\"",
        "table \"e\" is sparse there, size 0, dim 3; here it is dense, size 40, dim 0"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct alone a = open_alone(rows[i], 2);
        struct co_err err = {0};
        float w[SIZE + 1];
        assert_int_equal(CO_INVALID, rt_load(a.c, *state, &err));
        says(&err, CO_INVALID, texts[i]);
        assert_int_equal(0, rt_pull_dense(a.c, 0, w, NULL));
        assert_true(w[0] == 0); /* as it was, though its own table may fit */
        close_alone(&a);
    }
}

/* The first file of the folder whose name begins so. */
static char *file_of(const char *dir, const char *begin) {
    DIR *d = opendir(dir);
    assert_non_null(d);
    char *path = NULL;
    for (struct dirent *e; !path && (e = readdir(d));) {
        path = strncmp(e->d_name, begin, strlen(begin)) == 0 ? co_xasprintf("%s/%s", dir, e->d_name)
                                                             : NULL;
    }
    (void)closedir(d);
    assert_non_null(path);
    return path;
}

static void a_torn_or_missing_checkpoint_is_not_loaded(void **state) {
    struct alone a = open_alone(specs, 2);
    struct rt_model *m = NULL;
    struct co_err err = {0};
    assert_int_equal(CO_NOTFOUND, rt_load(a.c, *state, &err));
    assert_int_equal(CO_NOTFOUND, rt_model_open(*state, &m, &err));
    push(a.c);
    assert_int_equal(0, rt_save(a.c, *state, NULL));
    push(a.c);
    struct values before = pull(a.c);
    CO_AUTOFREE char *file = file_of(*state, "e.");
    struct stat st;
    assert_int_equal(0, stat(file, &st));
    assert_int_equal(0, truncate(file, st.st_size - 1));
    assert_int_equal(CO_DAMAGED, rt_load(a.c, *state, &err));
    assert_non_null(strstr(err.msg, strrchr(file, '/') + 1));
    struct values after = pull(a.c);
    assert_memory_equal(&before, &after, sizeof(before)); /* of the table that is whole, too */
    assert_int_equal(CO_DAMAGED, rt_model_open(*state, &m, &err));
    assert_null(m);
    close_alone(&a);
}

static void a_model_reads_what_was_saved(void **state) {
    (void)save_in(*state);
    struct alone a = open_alone(specs, 2);
    assert_int_equal(0, rt_load(a.c, *state, NULL));
    struct values want = pull(a.c), have;
    close_alone(&a);
    struct rt_model *m = NULL;
    struct co_err err = {0};
    uint32_t w = 9, e = 9;
    assert_int_equal(0, rt_model_open(*state, &m, &err));
    assert_int_equal(0, rt_model_table(m, "w", &w, &err));
    assert_int_equal(0, rt_model_table(m, "e", &e, &err));
    assert_int_equal(CO_NOTFOUND, rt_model_table(m, "f", &e, &err));
    says(&err, CO_NOTFOUND, "the model has no table \"f\"");
    assert_int_equal(SIZE, rt_model_spec(m, w)->size);
    assert_int_equal(DIM, rt_model_spec(m, e)->dim);
    assert_string_equal("uniform:min=-1,max=1", rt_model_spec(m, e)->init);
    assert_null(rt_model_spec(m, 2));
    assert_null(rt_model_dense(m, e));
    assert_null(rt_model_dense(m, 2));
    assert_memory_equal(want.w, rt_model_dense(m, w), sizeof(want.w));
    rt_model_sparse(m, e, ids, IDS, have.rows);
    assert_memory_equal(want.rows, have.rows, sizeof(want.rows));
    /* A row that nobody pushed to is its initial value. */
    uint64_t fresh = 4711;
    float row[DIM], first[DIM];
    rt_model_sparse(m, e, &fresh, 1, row);
    assert_int_equal(0, rt_table_init_row(&specs[1], fresh, first, NULL));
    assert_memory_equal(first, row, sizeof(row));
    rt_model_close(m);
    rt_model_close(NULL);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* A trainer reads zeros where a row was not admitted: no prediction may have first values there. */
static void a_model_reads_ids_without_a_row_as_trainers_do(void **state) {
    static const char *const admits[] = {NULL, "all", "count:n=3"};
    CO_AUTOFREE char *saved = co_xasprintf("%s/saved", (const char *)*state);
    const uint64_t asked[3] = {1, 2, 3};
    const float g[2 * DIM] = {1};
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(admits); i++) {
        CO_AUTOFREE char *points = co_xasprintf("%s/points-%zu", (const char *)*state, i);
        const char *dirs[2] = {saved, points};
        const bool zeros = i / 2 == 2;
        struct rt_table_spec spec = {.name = "e",
            .kind = RT_SPARSE,
            .dim = DIM,
            .init = "uniform:min=1,max=2",
            .admit = admits[i / 2],
            .mode = i % 2 ? RT_GEO : RT_ASYNC};
        struct alone a = open_alone(&spec, 1);
        float want[3 * DIM], have[3 * DIM];
        for (int k = 0; k < 3; k++) {
            assert_int_equal(0, rt_push_sparse(a.c, 0, asked, k < 2 ? 2 : 1, g, NULL));
            assert_int_equal(0, rt_flush(a.c, NULL));
        }
        assert_int_equal(0, rt_no_more(a.c, NULL));
        assert_int_equal(0, rt_pull_sparse(a.c, 0, asked, 3, want, NULL));
        assert_true((want[2 * DIM] == 0.0F) == zeros);
        assert_int_equal(0, rt_save(a.c, saved, NULL));
        assert_int_equal(0, rt_checkpoint(a.c, points, NULL, NULL, NULL));
        for (size_t k = 0; k < 2; k++) {
            struct rt_model *m = NULL;
            assert_int_equal(0, rt_model_open(dirs[k], &m, NULL));
            rt_model_sparse(m, 0, asked, 3, have);
            assert_memory_equal(want, have, sizeof(want));
            rt_model_close(m);
        }
        close_alone(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ONE(alone_is_worker_0_of_1),
        ONE(a_server_is_no_worker),
        ONE(a_worker_waits_for_many_servers),
        ONE(a_server_can_be_stopped_even_before_it_runs),
        ONE(the_caller_sees_when_a_server_accepts),
        ONE(a_forked_child_ends_a_server_of_its_own),
        ONE(workers_without_servers_have_nowhere_to_push),
        ONE(a_save_that_cannot_be_written_names_the_folder),
        ONE(a_load_resumes_where_the_save_was),
        ONE(another_rule_begins_with_the_saved_values),
        ONE(tables_that_differ_are_refused_before_a_load_begins),
        ONE(a_torn_or_missing_checkpoint_is_not_loaded),
        ONE(a_model_reads_what_was_saved),
        ONE(a_model_reads_ids_without_a_row_as_trainers_do),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
