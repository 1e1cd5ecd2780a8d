/* Named parameters, initial or saved values, kept positions, the progress lines. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/clock_testing.h"
#include "common/mem.h"
#include "common/ports_testing.h"
#include "runtime/rt.h"

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        fail_msg("%s", co_err_text(err));
    }
}

static const struct rt_param parts[] = {
    {"w", 3, "uniform:min=1,max=2"}, {"b", 1}, {"v", 3, "uniform:min=1,max=2"}};

static void parameters_are_parts_of_one_vector(void **state) {
    struct rt_params *p = NULL, *again = NULL, *other = NULL;
    struct co_err err = {0};
    size_t at = 0, n = 0;

    (void)state;
    must(rt_params_new(parts, 3, 1, &p, &err), &err);
    must(rt_params_new(parts, 3, 1, &again, &err), &err);
    must(rt_params_new(parts, 3, 2, &other, &err), &err);
    assert_int_equal(rt_params_size(p), 7);
    assert_ptr_equal(rt_params_value(p, 1), rt_params_values(p) + 3);
    assert_ptr_equal(rt_params_gradient(p, 2), rt_params_gradients(p) + 4);
    for (size_t i = 0; i < 7; i++) {
        float v = rt_params_values(p)[i];

        assert_true(i == 3 ? v == 0.0F : v >= 1.0F && v < 2.0F);
        assert_true(rt_params_gradients(p)[i] == 0.0F);
        assert_true(v == rt_params_values(again)[i]);
        assert_true(i == 3 || v != rt_params_values(other)[i]);
    }
    assert_true(rt_params_value(p, 0)[0] != rt_params_value(p, 2)[0]);
    must(rt_params_find(p, "v", &at, &n, &err), &err);
    assert_int_equal(at, 4);
    assert_int_equal(n, 3);
    assert_int_equal(rt_params_find(p, "u", &at, &n, &err), CO_NOTFOUND);
    rt_params_free(p);
    rt_params_free(again);
    rt_params_free(other);
}

static void invalid_parameter_lists_are_refused(void **state) {
    static const struct {
        struct rt_param list[2];
        size_t n;
        int code;
        const char *error;
    } rows[] = {
        {{{"w", 1}}, 0, CO_INVALID, "no parameters"},
        {{{"w", 1}, {"w", 2}}, 2, CO_INVALID, "both called \"w\""},
        {{{"w", 1}, {"v", 0}}, 2, CO_INVALID, "\"v\" has no floats"},
        {{{"w", 1}, {NULL, 1}}, 2, CO_INVALID, "parameter 1 is called \"\""},
        {{{"w/v", 1}}, 1, CO_INVALID, "called \"w/v\""},
        {{{"w", 1, "unifrom"}}, 1, CO_INVALID, "parameter \"w\": "},
        {{{"w", 1}, {"v", SIZE_MAX}}, 2, CO_NORESOURCE, "up to \"v\""},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rt_params *p = NULL;
        struct co_err err = {0};

        assert_int_equal(rt_params_new(rows[i].list, rows[i].n, 1, &p, &err), rows[i].code);
        if (!strstr(co_err_text(&err), rows[i].error)) {
            fail_msg("\"%s\" lacks \"%s\"", co_err_text(&err), rows[i].error);
        }
    }
}

/* One life of a training program, alone in its process: one step from the values it began with. */
static float life(const char *dir, bool *ret_loaded) {
    const struct rt_table_spec spec = {
        .name = "w", .kind = RT_DENSE, .size = 1, .optimizer = "adagrad:lr=1"};
    struct rt_client *c = NULL;
    struct rt_job *job = NULL;
    struct co_err err = {0};
    float w = 5.0F, gradient = 1.0F, before;

    must(rt_init(&job, &err), &err);
    must(rt_client_open(job, &(struct rt_client_options){.mode = RT_SYNC}, &spec, 1, &c, &err),
        &err);
    must(rt_load_or_init(job, c, dir, 0, &w, ret_loaded, &err), &err);
    before = w;
    must(rt_exchange_dense(c, 0, &gradient, &w, &err), &err);
    must(rt_step(c, &err), &err);
    must(rt_save(c, dir, &err), &err);
    must(rt_finish(c, &err), &err);
    rt_done(job);
    return before - w;
}

static void a_restart_resumes_with_values_and_optimizer(void **state) {
    char dir[] = "/tmp/rt_params_test.XXXXXX";
    CO_AUTOFREE char *command = NULL;
    bool loaded = true;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_true(life(dir, &loaded) > 0.99F);
    assert_false(loaded);
    float second = life(dir, &loaded); /* AdaGrad remembers: 1 / sqrt(2) */
    assert_true(loaded && second > 0.70F && second < 0.71F);
    command = co_xasprintf("rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* ---- resuming -------------------------------------------------------------------------------- */

struct server {
    struct rt_job *job;
    struct co_err err;
    int rc;
};

static void *server_main(void *arg) {
    struct server *s = arg;

    s->rc = rt_server_run(s->job, NULL, &s->err);
    return NULL;
}

static struct rt_job *job_of(const char *role, unsigned port) {
    CO_AUTOFREE char *list = co_xasprintf("PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:%u", port);
    CO_AUTOFREE char *own = co_xasprintf("PADDLE_PORT=%u", port);
    const char *const variables[] = {
        role, list, own, "POD_IP=127.0.0.1", "PADDLE_TRAINERS_NUM=1", "PADDLE_TRAINER_ID=0", NULL};
    struct rt_job *job = NULL;
    struct co_err err = {0};

    must(rt_init_list(variables, &job, &err), &err);
    return job;
}

static struct rt_client *client_open(const struct rt_job *job) {
    const struct rt_table_spec spec = {
        .name = "w", .kind = RT_DENSE, .size = 1, .optimizer = "sgd:lr=1"};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    float w = 0.0F;

    must(rt_client_open(job, &(struct rt_client_options){.mode = RT_ASYNC}, &spec, 1, &c, &err),
        &err);
    must(rt_load_or_init(job, c, NULL, 0, &w, NULL, &err), &err);
    return c;
}

/* A trainer that leaves behind the third line; one that comes in its place has the fourth next. */
static void a_trainer_resumes_behind_its_last_step(void **state) {
    char path[] = "/tmp/rt_help_test.XXXXXX";
    unsigned port = co_test_ports(1);
    struct server s = {.job = job_of("TRAINING_ROLE=PSERVER", port)};
    struct rt_job *job = job_of("TRAINING_ROLE=TRAINER", port);
    struct rt_input *in = NULL;
    const char *line = NULL;
    struct co_err err = {0};
    size_t len;
    pthread_t thread;
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(write(fd, "1\n2\n3\n4\n", 8), 8);
    (void)close(fd);
    assert_int_equal(pthread_create(&thread, NULL, server_main, &s), 0);
    for (int life_number = 0; life_number < 2; life_number++) {
        struct rt_client *c = client_open(job);

        must(rt_input_open(path, NULL, &in, &err), &err);
        must(rt_resume_input(c, in, &err), &err);
        for (int i = 1; i <= 3; i++) {
            must(rt_input_next(in, &line, &len, &err), &err);
            assert_int_equal(line ? line[0] : '-', life_number == 0 ? '0' + i : i == 1 ? '4' : '-');
            must(rt_keep_input(c, in, &err), &err);
            must(rt_step(c, &err), &err);
        }
        if (life_number == 0) {
            must(rt_flush(c, &err), &err);
            rt_client_close(c);
        } else {
            must(rt_finish(c, &err), &err);
        }
        rt_input_close(in);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    must(s.rc, &s.err);
    rt_done(s.job);
    rt_done(job);
    (void)unlink(path);
}

/* What f prints on stdout. */
static void printed(void (*f)(void), char *ret, size_t size) {
    FILE *file = tmpfile();
    int saved = dup(1);

    assert_non_null(file);
    (void)fflush(stdout);
    assert_true(dup2(fileno(file), 1) >= 0);
    f();
    (void)fflush(stdout);
    assert_true(dup2(saved, 1) >= 0);
    (void)close(saved);
    rewind(file);
    ret[fread(ret, 1, size - 1, file)] = '\0';
    (void)fclose(file);
}

static void progress_plain(void) {
    struct rt_progress p = {.every_ms = 1 << 30};

    rt_progress_begin(&p, 2);
    rt_progress_add(&p, 3, 1.0);
    rt_progress_add(&p, 1, 2.0);
    assert_false(rt_progress_due(&p));
    rt_progress_end(&p);
    rt_progress_end(&p); /* nothing more to say */
}

static void progress_more(void) {
    struct rt_progress p = {.every_ms = 1 << 30, .more = true, .fields = "auc: 0.5"};

    rt_progress_begin(&p, 0);
    rt_progress_add(&p, 1, 0.25);
    rt_progress_end(&p);
}

/* The clock may pass the deadline between a program's question and its step. */
static void progress_asked(void) {
    struct rt_progress p = {.every_ms = 60 * 1000};

    rt_progress_begin(&p, 0);
    assert_false(rt_progress_due(&p));
    co_test_clock_forward(60 * 1000);
    rt_progress_add(&p, 1, 1.0);
    assert_int_equal(p.samples, 1); /* not printed */
    rt_progress_add(&p, 1, 2.0);
    assert_int_equal(p.samples, 0);
    co_test_clock_forward(60 * 1000);
    assert_true(rt_progress_due(&p));
    rt_progress_add(&p, 1, 3.0);
    assert_int_equal(p.samples, 0);
}

static void a_line_is_printed_where_it_was_due(void **state) {
    char text[256];

    (void)state;
    printed(progress_asked, text, sizeof(text));
    assert_string_equal(
        text, "TRAIN ---> pass: 0 loss: 1.500000\n\nTRAIN ---> pass: 0 loss: 3.000000\n\n");
}

static void the_classic_lines(void **state) {
    char text[256];
    const char *want = "TRAIN ---> pass: 0 loss: 0.250000 auc: 0.5 examples/s: ";

    (void)state;
    printed(progress_plain, text, sizeof(text));
    assert_string_equal(text, "TRAIN ---> pass: 2 loss: 1.250000\n\n");
    printed(progress_more, text, sizeof(text));
    assert_memory_equal(text, want, strlen(want));
    assert_true(strlen(text) > strlen(want) && strchr(text, '\n') == text + strlen(text) - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_parts_of_one_vector),
        cmocka_unit_test(invalid_parameter_lists_are_refused),
        cmocka_unit_test(a_restart_resumes_with_values_and_optimizer),
        cmocka_unit_test(a_trainer_resumes_behind_its_last_step),
        cmocka_unit_test(the_classic_lines),
        cmocka_unit_test(a_line_is_printed_where_it_was_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
