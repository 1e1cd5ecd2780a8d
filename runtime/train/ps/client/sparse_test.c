/* Sparse tables by the calls of a trainer, in a job of one process. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/ckpt/disk.h"

enum { DIM = 4, IDS = 40, ALL = IDS * DIM };

struct alone {
    struct rt_job *job;
    struct rt_client *c;
};

static struct alone open_alone(const struct rt_table_spec *tables, size_t n) {
    struct alone a = {NULL, NULL};
    struct co_err err = {0};
    if (rt_init(&a.job, &err) < 0 || rt_client_open(a.job, NULL, tables, n, &a.c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return a;
}

static void close_alone(struct alone *a) {
    assert_int_equal(0, rt_finish(a->c, NULL));
    rt_done(a->job);
}

static void number(uint64_t ids[IDS]) {
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i * i;
    }
}

/* Largest difference of what is read from what a table in f32 would have, as parts of it. */
static double off_by(const float *rows, float each) {
    double most = 0;
    for (size_t i = 0; i < ALL; i++) {
        double want = each * (double)(1 + i % DIM), off = fabs((double)rows[i] - want) / fabs(want);
        most = off > most ? off : most;
    }
    return most;
}

static void rows_are_kept_and_travel_in_fewer_bits(void **state) {
    (void)state;
    static const char *const types[] = {NULL, "f32", "f16", "bf16"};
    static const double unit[] = {1e-6, 1e-6, 0x1p-10, 0x1p-7};
    for (size_t k = 0; k < 16; k++) {
        size_t s = k / 4, w = k % 4;
        struct rt_table_spec spec = {.name = "e",
            .kind = RT_SPARSE,
            .dim = DIM,
            .optimizer = "sgd:lr=1",
            .storage = types[s],
            .wire = types[w]};
        struct alone a = open_alone(&spec, 1);
        uint64_t ids[IDS];
        float g[ALL], rows[ALL];
        number(ids);
        for (size_t i = 0; i < ALL; i++) {
            g[i] = -0.3F * (float)(1 + i % DIM);
        }
        assert_int_equal(0, rt_push_sparse(a.c, 0, ids, IDS, g, NULL));
        assert_int_equal(0, rt_flush(a.c, NULL));
        assert_int_equal(0, rt_pull_sparse(a.c, 0, ids, IDS, rows, NULL));
        double off = off_by(rows, 0.3F);
        if (off > unit[s] + unit[w]) {
            fail_msg("storage %s, wire %s: off by %g", types[s], types[w], off);
        }
        /* In 16 bits 0.3 is another number. */
        assert_int_equal(s < 2 && w < 2, off < 1e-6);
        close_alone(&a);
    }
}

static void narrow_rows_are_saved_as_they_are(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-narrow-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    struct rt_table_spec spec = {.name = "e",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "adagrad:lr=0.1",
        .init = "uniform:min=-1,max=1",
        .storage = "bf16"};
    uint64_t ids[IDS];
    float g[ALL], before[ALL], after[ALL];
    number(ids);
    for (size_t i = 0; i < ALL; i++) {
        g[i] = (float)i;
    }
    struct alone a = open_alone(&spec, 1);
    assert_int_equal(0, rt_push_sparse(a.c, 0, ids, IDS, g, NULL));
    assert_int_equal(0, rt_save(a.c, dir, NULL));
    assert_int_equal(0, rt_pull_sparse(a.c, 0, ids, IDS, before, NULL));
    close_alone(&a);
    a = open_alone(&spec, 1);
    assert_int_equal(0, rt_load(a.c, dir, NULL));
    assert_int_equal(0, rt_pull_sparse(a.c, 0, ids, IDS, after, NULL));
    assert_memory_equal(before, after, sizeof(before));
    close_alone(&a);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

/* What is not finite is no value to begin with; but servers take what they had saved. */
static void first_values_are_finite_and_saved_ones_are_taken(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-nan-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    const struct rt_table_spec specs[] = {{.name = "w", .kind = RT_DENSE, .size = 10},
        {.name = "e", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=1"}};
    float w[10] = {0}, g[DIM] = {1, 1, INFINITY, 1}, row[DIM], got[10];
    struct co_err err = {0};
    w[7] = NAN;
    for (int begun = 0; begun < 2; begun++) {
        (void)setenv("PADDLE_PS_NONFINITE", "allow", 1);
        struct alone a = open_alone(specs, 2);
        if (begun) {
            assert_int_equal(0, rt_init_dense(a.c, 0, w, NULL));
        }
        assert_int_equal(0, rt_push_sparse(a.c, 1, (uint64_t[]){5}, 1, g, NULL));
        assert_int_equal(0, rt_save(a.c, dir, NULL));
        close_alone(&a);

        (void)setenv("PADDLE_PS_NONFINITE", "refuse", 1);
        a = open_alone(specs, 2);
        assert_int_equal(0, rt_load(a.c, dir, &err));
        assert_int_equal(0, rt_pull_sparse(a.c, 1, (uint64_t[]){5}, 1, row, NULL));
        assert_true(isinf(row[2]));
        assert_int_equal(0, rt_pull_dense(a.c, 0, got, NULL));
        assert_int_equal(begun, isnan(got[7]));
        close_alone(&a);
    }
    struct alone a = open_alone(specs, 2);
    assert_int_equal(CO_INVALID, rt_init_dense(a.c, 0, w, &err));
    assert_non_null(strstr(err.msg, "gave NaN or Inf as first values to table \"w\", index 7"));
    rt_client_close(a.c);
    rt_done(a.job);

    (void)setenv("PADDLE_PS_NONFINITE", "skip", 1);
    a = open_alone(specs, 2);
    assert_int_equal(0, rt_load(a.c, dir, &err));
    assert_int_equal(0, rt_pull_sparse(a.c, 1, (uint64_t[]){5}, 1, row, NULL));
    assert_true(row[0] == 0 && row[2] == 0);
    assert_int_equal(0, rt_pull_dense(a.c, 0, w, NULL));
    assert_true(w[7] == 0);
    close_alone(&a);
    (void)unsetenv("PADDLE_PS_NONFINITE");
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

/* A large finite gradient is applied: what a save then holds is the model that is there. */
static void a_save_with_what_has_overflowed_is_loaded(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-inf-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    const struct rt_table_spec specs[] = {
        {.name = "w", .kind = RT_DENSE, .size = 1, .optimizer = "adam"},
        {.name = "e", .kind = RT_SPARSE, .dim = 1, .optimizer = "adagrad"},
        {.name = "v", .kind = RT_DENSE, .size = 1, .optimizer = "sgd:lr=10"}};
    float g[] = {1e21F, 1e21F, 3e38F}, zero = 0, was[3], is[3];
    for (int again = 0; again < 2; again++) { /* state that is infinite is saved again */
        struct alone a = open_alone(specs, 3);
        if (again) {
            assert_int_equal(0, rt_load(a.c, dir, NULL));
        } else {
            assert_int_equal(0, rt_init_dense(a.c, 0, &zero, NULL));
            assert_int_equal(0, rt_init_dense(a.c, 2, &zero, NULL));
        }
        assert_int_equal(0, rt_push_dense(a.c, 0, &g[0], NULL));
        assert_int_equal(0, rt_push_sparse(a.c, 1, (uint64_t[]){5}, 1, &g[1], NULL));
        assert_int_equal(0, rt_push_dense(a.c, 2, &g[2], NULL));
        assert_int_equal(0, rt_flush(a.c, NULL));
        assert_int_equal(0, rt_pull_dense(a.c, 0, &was[0], NULL));
        assert_int_equal(0, rt_pull_sparse(a.c, 1, (uint64_t[]){5}, 1, &was[1], NULL));
        assert_int_equal(0, rt_pull_dense(a.c, 2, &was[2], NULL));
        assert_true(isinf(was[2]));
        assert_int_equal(0, rt_save(a.c, dir, NULL));
        close_alone(&a);
    }
    struct alone a = open_alone(specs, 3);
    assert_int_equal(0, rt_load(a.c, dir, NULL));
    assert_int_equal(0, rt_pull_dense(a.c, 0, &is[0], NULL));
    assert_int_equal(0, rt_pull_sparse(a.c, 1, (uint64_t[]){5}, 1, &is[1], NULL));
    assert_int_equal(0, rt_pull_dense(a.c, 2, &is[2], NULL));
    assert_memory_equal(was, is, sizeof(was));
    close_alone(&a);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

/* ---- which rows there are ---- */

static uint64_t rows_of(struct alone *a) {
    struct rt_table_stat stat;
    assert_int_equal(0, rt_flush(a->c, NULL));
    assert_int_equal(0, rt_stat(a->c, 0, &stat, NULL));
    return stat.rows;
}

/* Rows first .. first + n get a gradient of 1 each. */
static void push_range(struct alone *a, uint64_t first, size_t n) {
    CO_AUTOFREE uint64_t *ids = co_xmalloc(n * sizeof(*ids));
    CO_AUTOFREE float *g = co_xmalloc(n * DIM * sizeof(*g));
    for (size_t i = 0; i < n; i++) {
        ids[i] = first + i;
    }
    for (size_t i = 0; i < n * DIM; i++) {
        g[i] = 1;
    }
    assert_int_equal(0, rt_push_sparse(a->c, 0, ids, n, g, NULL));
    assert_int_equal(0, rt_flush(a->c, NULL));
}

static float first_of(struct alone *a, uint64_t id) {
    float row[DIM];
    assert_int_equal(0, rt_pull_sparse(a->c, 0, &id, 1, row, NULL));
    return row[0];
}

static struct alone open_rows(const char *admit, const char *evict) {
    const struct rt_table_spec spec = {.name = "e",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "sgd:lr=1",
        .init = "constant:value=10",
        .admit = admit,
        .evict = evict};
    return open_alone(&spec, 1);
}

static void an_id_gets_a_row_when_it_is_admitted(void **state) {
    (void)state;
    struct alone a = open_rows("count:n=4", NULL);
    for (int push = 1; push <= 5; push++) {
        push_range(&a, 0, 1000);
        assert_true(first_of(&a, 7) == (push < 4 ? 0 : (float)(10 - (push - 3))));
        assert_in_range(rows_of(&a), push < 4 ? 0 : 1000, push < 4 ? 10 : 1000);
    }
    assert_true(first_of(&a, 2000) == 0);
    /* A flood of ids that come once makes no rows worth mentioning. */
    for (uint64_t k = 0; k < 50; k++) {
        push_range(&a, 10000 + k * 10000, 10000);
    }
    assert_in_range(rows_of(&a), 1000, 1500);
    close_alone(&a);

    a = open_rows("show_click:threshold=1,nonclk_coeff=0.1", NULL);
    const uint64_t ids[] = {1, 2, 1};
    const float g[3 * DIM] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, shows[] = {1, 5, 1},
                      clicks[] = {0.5F, 0, 0.5F}; /* id 1: 2 shows, 1 click: 0.1 + 1; id 2: 0.5 */
    assert_int_equal(0, rt_push_sparse_clicks(a.c, 0, ids, 3, g, shows, clicks, NULL));
    assert_int_equal(1, rows_of(&a));
    assert_true(first_of(&a, 1) == 8 && first_of(&a, 2) == 0);
    assert_int_equal(0, rt_push_sparse_clicks(a.c, 0, ids, 3, g, shows, clicks, NULL));
    assert_int_equal(2, rows_of(&a));
    assert_true(first_of(&a, 1) == 6 && first_of(&a, 2) == 9);
    struct co_err err = {0};
    int rc = rt_push_sparse_clicks(a.c, 0, ids, 3, g, (const float[]){1, -2, 1}, clicks, &err);
    assert_int_equal(CO_INVALID, rc == 0 ? rt_flush(a.c, &err) : rc);
    assert_non_null(strstr(err.msg, "table \"e\", row 2: show -2 is not 0 to 1e9"));
    rt_client_close(a.c);
    rt_done(a.job);
}

static void rows_that_nobody_pushes_to_expire(void **state) {
    (void)state;
    struct alone a = open_rows(NULL, "ttl:steps=10");
    push_range(&a, 0, 1000);
    push_range(&a, 5000, 100);
    for (int s = 0; s < 20; s++) {
        assert_int_equal(0, rt_step(a.c, NULL));
        push_range(&a, 5000, 100); /* two slots are looked at for each */
    }
    assert_in_range(rows_of(&a), 100, 1100 - 500);
    uint64_t erased = 0, before = rows_of(&a);
    assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
    assert_int_equal(before - 100, erased);
    assert_int_equal(100, rows_of(&a));
    assert_true(first_of(&a, 3) == 10 && first_of(&a, 5003) == 10 - 21);
    close_alone(&a);
}

/* What the clocks of this program are ahead, in seconds. */
static atomic_int wall_ahead, boot_ahead;

int clock_gettime(clockid_t clock, struct timespec *ret) {
    int (*real)(clockid_t, struct timespec *);
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(clock, ret);
    ret->tv_sec += clock == CLOCK_REALTIME   ? atomic_load(&wall_ahead)
                   : clock == CLOCK_BOOTTIME ? atomic_load(&boot_ahead)
                                             : 0;
    return rc;
}

/* A machine that starts with a wrong date gets the right one a minute later. */
static void a_clock_that_is_set_makes_no_row_old(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-ages-XXXXXX", command[64];
    enum { YEAR = 365 * 86400, LIMIT = 1000000000 };
    assert_non_null(mkdtemp(dir));
    uint64_t erased = 0;
    struct alone a = open_rows(NULL, "ttl:seconds=1000000000");
    push_range(&a, 0, 100);
    for (int years = -1; years <= 50; years += 51) {
        atomic_store(&wall_ahead, years * YEAR);
        assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
        assert_int_equal(0, erased);
    }
    atomic_store(&boot_ahead, LIMIT / 2);
    assert_int_equal(0, rt_save(a.c, dir, NULL));
    close_alone(&a);
    atomic_store(&boot_ahead, 0); /* the machine starts again */
    a = open_rows(NULL, "ttl:seconds=1000000000");
    assert_int_equal(0, rt_load(a.c, dir, NULL));
    atomic_store(&boot_ahead, LIMIT / 2 - 1000);
    assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
    assert_int_equal(0, erased);
    atomic_store(&boot_ahead, LIMIT / 2 + 1000);
    assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
    assert_int_equal(100, erased);
    close_alone(&a);
    atomic_store(&boot_ahead, 0);
    atomic_store(&wall_ahead, 0);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

/* Rows 5000 to 5099 are 5 steps old when a checkpoint is made, the others are young. */
static void check_ages_continue(bool servers) {
    char dir[] = "/tmp/rt-ages-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    struct alone a = open_rows(NULL, "ttl:steps=10");
    for (int s = 0; s < 50; s++) {
        push_range(&a, 0, 100);
        push_range(&a, 5000, s < 45 ? 100 : 0);
        assert_int_equal(0, rt_step(a.c, NULL));
    }
    assert_int_equal(
        0, servers ? rt_checkpoint(a.c, dir, NULL, NULL, NULL) : rt_save(a.c, dir, NULL));
    close_alone(&a);
    a = open_rows(NULL, "ttl:steps=10");
    assert_int_equal(0, servers ? rt_restore(a.c, dir, NULL, NULL) : rt_load(a.c, dir, NULL));
    uint64_t erased = 0;
    assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
    assert_int_equal(0, erased);
    for (int s = 0; s < 8; s++) {
        push_range(&a, 0, 1);
        assert_int_equal(0, rt_step(a.c, NULL));
    }
    assert_int_equal(0, rt_shrink(a.c, 0, NULL, NULL));
    assert_int_equal(100, rows_of(&a));
    close_alone(&a);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

static void ages_in_steps_resume_from_a_checkpoint(void **state) {
    (void)state;
    check_ages_continue(false);
    check_ages_continue(true);
}

static void the_rows_that_are_used_least_make_room(void **state) {
    (void)state;
    struct alone a = open_rows(NULL, "lfu:capacity=1000");
    for (int push = 0; push < 20; push++) {
        push_range(&a, 0, 100);
    }
    for (uint64_t k = 0; k < 100; k++) {
        push_range(&a, 1000 + k * 300, 300);
        push_range(&a, 0, 100);
        assert_in_range(rows_of(&a), 0, 1300);
    }
    for (uint64_t id = 0; id < 100; id++) {
        assert_true(first_of(&a, id) == 10 - 120);
    }
    uint64_t erased;
    assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
    assert_in_range(rows_of(&a), 900, 1000);
    close_alone(&a);
}

/* A load in the middle of training: what it leaves, a delta checkpoint knows as well. */
static void rows_that_were_made_since_a_save_go_with_its_load(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-load-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE char *saved = co_xasprintf("%s/saved", dir);
    CO_AUTOFREE char *points = co_xasprintf("%s/points", dir);
    struct rt_checkpoint made = {0};
    struct alone a = open_rows(NULL, NULL);
    push_range(&a, 1, 1);
    assert_int_equal(0, rt_save(a.c, saved, NULL));
    push_range(&a, 1, 1);
    push_range(&a, 2, 1);
    assert_int_equal(0, rt_checkpoint(a.c, points, NULL, NULL, NULL));
    assert_int_equal(0, rt_load(a.c, saved, NULL));
    assert_int_equal(0, rt_checkpoint(a.c, points, NULL, &made, NULL));
    assert_false(made.full);
    for (int restored = 0; restored < 2; restored++) {
        assert_true(first_of(&a, 1) == 9 && first_of(&a, 2) == 10);
        assert_int_equal(1, rows_of(&a));
        push_range(&a, 3, 1);
        assert_int_equal(0, rt_restore(a.c, points, NULL, NULL));
    }
    close_alone(&a);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

/* ---- a save that another one replaces while it is read ---- */

static struct alone *saves_again;
static const char *saves_to;
static int opens_left;

static void save_again(void) {
    if (--opens_left == 0) {
        push_range(saves_again, 1, 1);
        assert_int_equal(0, rt_save(saves_again->c, saves_to, NULL));
    }
}

/* Returns whether it opened fewer files than `open`. */
static bool read_meanwhile(struct alone *b, bool loads, int open) {
    struct rt_model *m = NULL;
    const uint64_t id = 1;
    float row[DIM];
    opens_left = open;
    ckpt_disk_opens = save_again;
    assert_int_equal(0, loads ? rt_load(b->c, saves_to, NULL) : rt_model_open(saves_to, &m, NULL));
    ckpt_disk_opens = NULL;
    bool fewer = opens_left > 0;
    if (m) {
        rt_model_sparse(m, 0, &id, 1, row);
        rt_model_close(m);
    }
    float read = m ? row[0] : first_of(b, 1), now = first_of(saves_again, 1);
    /* After the last file is open, another save changes nothing that is read. */
    assert_true(read == now || read == now + 1);
    return fewer;
}

static void a_load_takes_the_save_that_replaced_what_it_reads(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-again-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    struct alone a = open_rows(NULL, NULL), b = open_rows(NULL, NULL);
    saves_again = &a;
    saves_to = dir;
    push_range(&a, 1, 1);
    assert_int_equal(0, rt_save(a.c, dir, NULL));
    for (int loads = 0; loads < 2; loads++) {
        for (int open = 1; !read_meanwhile(&b, loads, open);) {
            open++;
        }
    }
    close_alone(&a);
    close_alone(&b);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

/* Rows that have changed are no whole table: they are for the one that was saved before. */
static void a_save_of_what_has_changed_adds_its_rows(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-adds-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE char *base = co_xasprintf("%s/base", dir);
    CO_AUTOFREE char *delta = co_xasprintf("%s/delta", dir);
    const uint64_t ids[] = {1, 2};
    const float g[2 * DIM] = {-1}, shows[] = {12, 12}, clicks[] = {2, 2};
    struct alone a = open_rows(NULL, "ctr:delete_threshold=0.2");
    assert_int_equal(0, rt_push_sparse_clicks(a.c, 0, ids, 2, g, shows, clicks, NULL));
    assert_int_equal(0, rt_save_as(a.c, base, RT_SAVE_BASE, NULL));
    assert_int_equal(0, rt_push_sparse_clicks(a.c, 0, ids, 1, g, shows, clicks, NULL));
    assert_int_equal(0, rt_save_as(a.c, delta, RT_SAVE_DELTA, NULL));
    close_alone(&a);
    a = open_rows(NULL, "ctr:delete_threshold=0.2");
    push_range(&a, 3, 1);
    assert_int_equal(0, rt_load(a.c, base, NULL));
    assert_int_equal(2, rows_of(&a));
    assert_int_equal(0, rt_load(a.c, delta, NULL));
    assert_int_equal(2, rows_of(&a));
    assert_true(first_of(&a, 1) == 12);
    close_alone(&a);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

/* Scores 3 and 0.2; then saved by mode, loaded, and shrunk again. */
static void shrink_and_saves_go_by_shows_and_clicks(void **state) {
    (void)state;
    char dir[] = "/tmp/rt-ctr-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    static const char evict[] = "ctr:show_click_decay_rate=0.5,delete_threshold=0.2,"
                                "delete_after_unseen_days=1";
    const uint64_t ids[] = {1, 2};
    const float g[2 * DIM] = {0}, shows[] = {12, 2}, clicks[] = {2, 0};
    struct alone a = open_rows(NULL, evict);
    uint64_t erased = 9;
    assert_int_equal(0, rt_push_sparse_clicks(a.c, 0, ids, 2, g, shows, clicks, NULL));
    static const struct {
        enum rt_save_mode mode;
        uint64_t rows;
    } saves[] = {{RT_SAVE_ALL, 2}, {RT_SAVE_DELTA, 1}, {RT_SAVE_DELTA, 0}, {RT_SAVE_BASE, 1},
        {RT_SAVE_DAY, 2}};
    for (size_t i = 0; i < CO_ARRAY_LEN(saves); i++) {
        assert_int_equal(0, rt_save_as(a.c, dir, saves[i].mode, NULL));
        struct alone b = open_rows(NULL, evict);
        assert_int_equal(0, rt_load(b.c, dir, NULL));
        assert_int_equal(saves[i].rows, rows_of(&b));
        close_alone(&b);
    }
    assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
    assert_int_equal(1, erased); /* 0.1 */
    close_alone(&a);

    a = open_rows(NULL, evict); /* counts and days came with the rows */
    assert_int_equal(0, rt_load(a.c, dir, NULL));
    assert_int_equal(0, rt_save_as(a.c, dir, RT_SAVE_DAY, NULL));
    assert_int_equal(0, rt_shrink(a.c, 0, &erased, NULL));
    assert_int_equal(2, erased); /* two days */
    close_alone(&a);
    struct co_err err = {0};
    a = open_rows(NULL, NULL); /* what a policy kept is of no use without it */
    assert_int_equal(0, rt_load(a.c, dir, NULL));
    assert_int_equal(2, rows_of(&a));
    assert_int_equal(CO_INVALID, rt_shrink(a.c, 0, &erased, &err));
    assert_non_null(strstr(err.msg, "table \"e\" has no evict policy"));
    rt_client_close(a.c);
    rt_done(a.job);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(0, system(command));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_kept_and_travel_in_fewer_bits),
        cmocka_unit_test(narrow_rows_are_saved_as_they_are),
        cmocka_unit_test(first_values_are_finite_and_saved_ones_are_taken),
        cmocka_unit_test(a_save_with_what_has_overflowed_is_loaded),
        cmocka_unit_test(an_id_gets_a_row_when_it_is_admitted),
        cmocka_unit_test(rows_that_nobody_pushes_to_expire),
        cmocka_unit_test(a_clock_that_is_set_makes_no_row_old),
        cmocka_unit_test(ages_in_steps_resume_from_a_checkpoint),
        cmocka_unit_test(the_rows_that_are_used_least_make_room),
        cmocka_unit_test(rows_that_were_made_since_a_save_go_with_its_load),
        cmocka_unit_test(a_load_takes_the_save_that_replaced_what_it_reads),
        cmocka_unit_test(a_save_of_what_has_changed_adds_its_rows),
        cmocka_unit_test(shrink_and_saves_go_by_shows_and_clicks),
    };
    return cmocka_run_group_tests_name("sparse", tests, NULL, NULL);
}
