/* The ABI that programs were compiled against (docs/library.md) must not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/rt.h"

/* Structs of PADDLERT_1 on 64-bit machines: bytes, and where the last field that a program may know
 * is.  A new field goes between that and `spare`, and spare gets shorter: sizes
 * stay.  While no release has PADDLERT_1, a row may still change. */
#define ROW(name, bytes, last, offset)                                                             \
    { #name, sizeof(struct name), bytes, #last, offsetof(struct name, last), offset }
static const struct {
    const char *name;
    size_t size, bytes;
    const char *last;
    size_t at, offset;
} rows[] = {
    ROW(co_err, 772, msg, 4),
    ROW(rt_server_options, 136, encrypt, 68),
    ROW(rt_table_spec, 168, evict, 96),
    ROW(rt_client_options, 200, encrypt, 128),
    ROW(rt_checkpoint_options, 48, mode, 12),
    ROW(rt_checkpoint, 64, deltas, 28),
    ROW(rt_table_stat, 128, bytes_cold, 56),
    ROW(rt_group_options, 152, lanes, 80),
    ROW(rt_reducer_options, 72, dgc, 32),
    ROW(rt_progress, 192, printed_ms, 152),
    ROW(rt_pull, 32, ret_rows, 24),
    ROW(rt_rate, 24, now, 16),
    ROW(rt_place, 24, bytes, 16),
    ROW(rt_coll, 56, out_counts, 48),
    ROW(rt_gradient, 32, parameter, 24),
    ROW(rt_dgc, 48, n_sparsity, 40),
    ROW(rt_values, 16, n, 8),
    ROW(rt_local_sgd, 56, lr0, 48),
    ROW(rt_bn, 32, channels_last, 24),
    ROW(rt_param, 24, init, 16),
    ROW(rt_share, 12, by, 8),
    ROW(rt_position, 40, seen, 32),
    ROW(rt_data_field, 32, n, 12),
    ROW(rt_data_options, 224, pipe_command, 144),
    ROW(rt_data_batch, 88, counts, 48),
    ROW(rt_data_position, 104, check, 80),
    ROW(rt_data_counts, 568, text, 24),
};

static void structs_keep_their_layout(void **state) {
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows) && sizeof(void *) == 8; i++) {
        if (rows[i].size != rows[i].bytes || rows[i].at != rows[i].offset) {
            print_error("%s: %zu bytes, %s at %zu; programs know %zu and %zu: see runtime/rt.h\n",
                rows[i].name, rows[i].size, rows[i].last, rows[i].at, rows[i].bytes,
                rows[i].offset);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static void refused(int rc, const char *whose, struct co_err *err) {
    assert_int_equal(rc, CO_UNSUPPORTED);
    assert_non_null(strstr(err->msg, whose));
    err->code = 0;
}

static void an_option_of_a_newer_header_is_refused(void **state) {
    (void)state;
    struct co_err err = {0};
    struct rt_job *worker = NULL, *server = NULL;
    static const char *const serves[] = {"TRAINING_ROLE=PSERVER", "PADDLE_TRAINERS_NUM=1",
        "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:1", "POD_IP=127.0.0.1", "PADDLE_PORT=1", NULL};
    static const char *const nothing[] = {NULL};
    assert_int_equal(rt_init_list(nothing, &worker, &err), 0);
    assert_int_equal(rt_init_list(serves, &server, &err), 0);

    struct rt_client *c = NULL;
    struct rt_table_spec table = {.name = "w", .kind = RT_DENSE, .size = 1, .optimizer = "sgd"};
    struct rt_client_options options = {.spare = {[7] = 1}};
    refused(rt_client_open(worker, &options, &table, 1, &c, &err), "rt_client_options", &err);
    table.spare[0] = 1;
    refused(rt_client_open(worker, NULL, &table, 1, &c, &err), "rt_table_spec", &err);
    table.spare[0] = 0;
    assert_int_equal(rt_client_open(worker, NULL, &table, 1, &c, &err), 0);
    struct rt_checkpoint_options full = {.spare = {1}};
    refused(rt_checkpoint(c, "/no/such", &full, NULL, &err), "rt_checkpoint_options", &err);
    struct rt_table_stat stat;
    memset(&stat, 0xff, sizeof(stat));
    assert_int_equal(rt_stat(c, 0, &stat, &err), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(stat.spare); i++) {
        assert_int_equal(stat.spare[i], 0);
    }
    assert_int_equal(rt_finish(c, &err), 0);

    struct rt_server_options serving = {.spare = {1}};
    refused(rt_server_run(server, &serving, &err), "rt_server_options", &err);
    struct rt_group *g = NULL;
    struct rt_group_options group = {.spare = {1}};
    refused(rt_group_open(worker, &group, &g, &err), "rt_group_options", &err);
    assert_int_equal(rt_group_open(worker, NULL, &g, &err), 0);
    struct rt_reducer *r = NULL;
    struct rt_reducer_options reducing = {.spare = {1}};
    const struct rt_gradient gradient = {.n = 1};
    refused(rt_reducer_open(g, &gradient, 1, &reducing, &r, &err), "rt_reducer_options", &err);
    rt_group_close(g);
    rt_done(worker);
    rt_done(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_keep_their_layout),
        cmocka_unit_test(an_option_of_a_newer_header_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
