/* What is counted is what readers get; event files have TensorBoard's bytes. */
#include "runtime/train/meter/meter.h"

#include <dirent.h>
#include <math.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/folder_testing.h"
#include "runtime/train/meter/events.h"

enum { TEXT = 1 << 20 };

static void assert_text(const char *want, bool there) {
    CO_AUTOBUF struct co_buf b = CO_BUF(TEXT);
    struct co_err err = {0};
    if (meter_render(&b, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    if (!strstr(b.data, want) == there) {
        fail_msg("'%s' is %sin\n%s", want, there ? "not " : "", b.data);
    }
}

static void counts_and_observations_add_up(void **state) {
    (void)state;
    meter_add(METER_M_REFUSED, meter_word(METER_M_REFUSED, "permission"), 2);
    meter_add(METER_M_REFUSED, meter_word(METER_M_REFUSED, "what is that"), 1);
    meter_set(METER_M_CHECKPOINT_NUMBER, 0, 12);
    meter_observe(METER_M_CALL_SECONDS, meter_word(METER_M_CALL_SECONDS, "push"), .0002);
    meter_bytes(METER_BYTES_SENT, 40);
    assert_text("\npaddlert_server_refused_total{kind=\"permission\"} 2\n", true);
    assert_text("\npaddlert_server_refused_total{kind=\"other\"} 1\n", true);
    assert_text("\npaddlert_trainer_checkpoint_number 12\n", true);
    assert_text("\npaddlert_trainer_call_seconds_bucket{call=\"push\",le=\"0.0001\"} 0\n", true);
    assert_text("\npaddlert_trainer_call_seconds_bucket{call=\"push\",le=\"0.00025\"} 1\n", true);
    assert_text("\npaddlert_trainer_bytes_total{direction=\"sent\"} 40\n", true);
    assert_text("\nprocess_resident_memory_bytes ", true);
}

/* A clock that stopped between two looks at it gives a negative time, which is none. */
static void times_that_cannot_be_are_not_counted(void **state) {
    (void)state;
    static struct meter_times t;
    static const int64_t times[] = {0, -1, -5000000000, INT64_MIN, 5000, 5001, INT64_MAX};
    for (size_t i = 0; i < CO_ARRAY_LEN(times); i++) {
        meter_took(&t, times[i]);
    }
    size_t n = 0;
    for (size_t i = 0; i <= CO_METRIC_BUCKETS; i++) {
        n += meter_read(&t.bucket[i]);
    }
    assert_int_equal(n, 4);
    assert_int_equal(meter_read(&t.bucket[0]), 2); /* a bound is in its bucket */
    assert_int_equal(meter_read(&t.ns), (uint64_t)INT64_MAX + 10001);
    const size_t pull = meter_word(METER_M_CALL_SECONDS, "pull");
    meter_observe(METER_M_CALL_SECONDS, pull, 0);
    meter_observe(METER_M_CALL_SECONDS, pull, -3);
    assert_text("\npaddlert_trainer_call_seconds_count{call=\"pull\"} 1\n", true);
    assert_text("\npaddlert_trainer_call_seconds_sum{call=\"pull\"} 0\n", true);
}

static void a_word_has_its_series_and_others_share_the_last(void **state) {
    (void)state;
    static const struct {
        enum meter row;
        const char *word;
        size_t series;
    } rows[] = {
        {METER_M_REQUEST_SECONDS, "pull", METER_OP_PULL},
        {METER_M_REQUEST_SECONDS, "exchange", METER_OP_EXCHANGE},
        {METER_M_REQUEST_SECONDS, "other", METER_OP_OTHER},
        {METER_M_REQUEST_SECONDS, "", METER_OP_OTHER},
        {METER_M_REQUEST_SECONDS, "Pull", METER_OP_OTHER},
        {METER_M_REQUEST_SECONDS, "pulls", METER_OP_OTHER},
        {METER_M_BYTES, "received", METER_BYTES_RECEIVED},
        {METER_M_BYTES, "sent", METER_BYTES_SENT},
        {METER_M_PARTS, "done", METER_DONE},
        {METER_M_PARTS, "failed", METER_FAILED},
        {METER_M_MISSED, "away", METER_MISSED_AWAY},
        {METER_M_MISSED, "lost", METER_MISSED_LOST},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_int_equal(meter_word(rows[i].row, rows[i].word), rows[i].series);
    }
}

static void reports_have_names(void **state) {
    (void)state;
    char name[METER_NAME + 1] = {0};
    assert_true(meter_report("loss", .5));
    assert_true(meter_report("loss", .25));
    assert_false(meter_report("", 1));
    assert_false(meter_report("a\"b", 1));
    memset(name, 'x', METER_NAME);
    assert_false(meter_report(name, 1));
    assert_text("\npaddlert_reported{name=\"loss\"} 0.25\n", true);
    for (int i = 1; i < METER_NAMES; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_true(meter_report(name, i));
    }
    assert_false(meter_report("one_too_many", 1));
    assert_text("\npaddlert_reported{name=\"n63\"} 63\n", true);
}

/* A shard with one table, or with many. */
struct shard {
    struct meter_source source;
    struct meter_times times;
    int tables, rows;
};

static void fill(void *arg) {
    const struct shard *s = arg;
    for (int i = 0; i < s->tables; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "t%d", i);
        meter_fill(METER_M_ROWS, meter_fill_table(name), s->rows);
    }
    meter_fill_times(METER_M_REQUEST_SECONDS, METER_OP_PULL, &s->times);
    meter_fill_most(METER_M_STEP, 0, s->rows);
}

static void sources_are_added_up(void **state) {
    (void)state;
    struct shard a = {.source = {fill, &a, NULL}, .tables = 1, .rows = 5};
    struct shard b = {.source = {fill, &b, NULL}, .tables = 100, .rows = 7};
    meter_attach(&a.source);
    assert_text("\npaddlert_server_rows{table=\"t0\"} 5\n", true);
    meter_attach(&b.source);
    meter_took(&a.times, 7000);
    meter_took(&b.times, 20000000000);
    for (int i = 0; i < 2; i++) { /* nothing is counted twice */
        assert_text("\npaddlert_server_rows{table=\"t0\"} 12\n", true);
        assert_text("\npaddlert_server_rows{table=\"t1\"} 7\n", true);
        assert_text("\npaddlert_server_rows{table=\"others\"} 259\n", true); /* 37 tables */
        assert_text("\npaddlert_server_step 7\n", true);
        assert_text("request_seconds_bucket{op=\"pull\",le=\"1e-05\"} 1\n", true);
        assert_text("request_seconds_bucket{op=\"pull\",le=\"10\"} 1\n", true);
        assert_text("request_seconds_bucket{op=\"pull\",le=\"+Inf\"} 2\n", true);
        assert_text("request_seconds_count{op=\"pull\"} 2\n", true);
    }
    meter_detach(&b.source);
    meter_detach(&a.source);
    assert_text("\npaddlert_server_rows{table=\"t0\"} 0\n", true);
}

static int get_metrics(uint16_t port, char *ret, size_t size) {
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CO_AUTOCLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        return -1;
    }
    assert_int_equal(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
    size_t len = 0;
    for (ssize_t n; len < size - 1 && (n = read(fd, ret + len, size - 1 - len)) > 0;) {
        len += (size_t)n;
    }
    ret[len] = '\0';
    return 0;
}

static void metrics_are_served_while_the_meter_is_open(void **state) {
    (void)state;
    static char text[TEXT];
    uint16_t port = 0, same = 0;
    struct co_err err = {0};
    assert_false(meter_on());
    assert_int_equal(meter_clock(), 0);
    if (meter_open("127.0.0.1:0", &port, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(meter_open("127.0.0.1:0", &same, NULL), 0);
    assert_int_equal(port, same);
    meter_close();
    assert_true(meter_on() && meter_clock() > 0);
    assert_int_equal(get_metrics(port, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "200 OK"));
    assert_non_null(strstr(text, "\npaddlert_trainer_steps_total 0\n"));
    assert_non_null(strstr(text, "\npaddlert_server_memory_limit_bytes 0\n"));
    meter_close();
    assert_false(meter_on());
    assert_int_equal(get_metrics(port, text, sizeof(text)), -1);
    assert_int_equal(meter_open("nonsense", NULL, &err), CO_INVALID);
}

/* As tensorflow's own writer makes them: EventFileWriter of tensorboard 2.20, and its check sums.
 */
static void records_have_tensorboards_bytes(void **state) {
    (void)state;
    static const unsigned char version[] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09,
        0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x1a, 0x0d, 'b', 'r', 'a', 'i', 'n', '.', 'E', 'v', 'e', 'n',
        't', ':', '2'};
    CO_AUTOBUF struct co_buf b = CO_BUF(1024);
    assert_int_equal(meter_events_record(1.5, 0, NULL, 0, &b, NULL), 0);
    assert_int_equal(b.len, sizeof(version) + 4);
    assert_memory_equal(b.data, version, sizeof(version));
    static const unsigned char event[] = {0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02,
        0x2a, 0x0d, 0x0a, 0x0b, 0x0a, 0x04, 'l', 'o', 's', 's', 0x15, 0, 0, 0, 0x3f};
    co_buf_clear(&b);
    assert_int_equal(meter_events_record(1.5, 300, "loss", .5, &b, NULL), 0);
    assert_int_equal(co_get_u64((unsigned char *)b.data), sizeof(event));
    assert_memory_equal(b.data + 12, event, sizeof(event));
}

static void a_record_holds_any_number_and_a_name_of_its_size(void **state) {
    (void)state;
    static const struct {
        double value;
        uint64_t step;
        size_t name; /* letters */
        unsigned char bits[4];
        bool fits;
    } rows[] = {
        {0, 0, 1, {0, 0, 0, 0}, true},
        {-0.0, 1, 1, {0, 0, 0, 0x80}, true},
        {1e300, 127, 1, {0, 0, 0x80, 0x7f}, true}, /* more than a float: infinity */
        {-INFINITY, 128, 1, {0, 0, 0x80, 0xff}, true},
        {1e-60, 16384, 1, {0, 0, 0, 0}, true},
        {NAN, UINT64_MAX, 1, {0, 0, 0xc0, 0x7f}, true},
        {1, 1, 127, {0, 0, 0x80, 0x3f}, true},
        {1, 1, 128, {0, 0, 0x80, 0x3f}, true},
        {1, 1, 900, {0, 0, 0x80, 0x3f}, true},
        {1, 1, 1100, {0}, false},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char name[1200] = "";
        memset(name, 'n', rows[i].name);
        CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
        int r = meter_events_record(2, rows[i].step, name, rows[i].value, &b, NULL);
        assert_int_equal(r == 0, rows[i].fits);
        if (!rows[i].fits) {
            assert_int_equal(b.len, 0);
            continue;
        }
        const size_t len = co_get_u64((unsigned char *)b.data);
        assert_int_equal(b.len, 12 + len + 4);
        assert_memory_equal(b.data + 12 + len - 4, rows[i].bits, 4); /* the value is the last */
    }
}

/* What is in the folder's only file, and its length. */
static size_t read_only_file(const char *dir, char *ret, size_t size) {
    DIR *d = opendir(dir);
    assert_non_null(d);
    size_t n = 0, files = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] != '.') {
            CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, e->d_name);
            FILE *f = fopen(path, "re");
            assert_non_null(f);
            assert_non_null(strstr(e->d_name, "tfevents"));
            n = fread(ret, 1, size, f);
            (void)fclose(f);
            files++;
        }
    }
    (void)closedir(d);
    assert_int_equal(files, 1);
    return n;
}

/* The file may not become longer than a part of the second record; then it may. */
static void a_record_cut_by_a_full_disk_is_removed(void **state) {
    static char text[2][1 << 16];
    CO_AUTOFREE char *dir = co_xasprintf("%s/a/b/", (char *)*state);
    struct meter_events *e = NULL;
    struct co_err err = {0};
    assert_int_equal(meter_events_open(dir, &e, &err), 0);
    assert_int_equal(meter_events_add(e, 1, "loss", 1, &err), 0);
    const size_t whole = read_only_file(dir, text[0], sizeof(text[0]));
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = whole + 20, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int r = meter_events_add(e, 2, "loss", 2, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_not_equal(r, 0);
    assert_int_equal(err.code, r);
    assert_non_null(strstr(err.msg, "cannot write \""));
    assert_int_equal(read_only_file(dir, text[1], sizeof(text[1])), whole);
    assert_memory_equal(text[0], text[1], whole);
    assert_int_equal(meter_events_add(e, 3, "loss", 3, &err), 0);
    const size_t after = read_only_file(dir, text[1], sizeof(text[1]));
    CO_AUTOBUF struct co_buf third = CO_BUF(1024);
    assert_int_equal(meter_events_record(0, 3, "loss", 3, &third, NULL), 0);
    assert_int_equal(after, whole + third.len);
    assert_memory_equal(text[1] + whole, third.data, 8); /* its length is where a record begins */
    meter_events_close(e);
}

static void a_directory_that_cannot_be_is_an_error(void **state) {
    (void)state;
    static const char *const dirs[] = {"/proc/no/such", "/dev/null", "/dev/null/x", "/proc"};
    for (size_t i = 0; i < CO_ARRAY_LEN(dirs); i++) {
        struct meter_events *e = NULL;
        struct co_err err = {0};
        assert_true(meter_events_open(dirs[i], &e, &err) < 0);
        assert_null(e);
        if (strncmp(err.msg, "cannot make \"/", 14) != 0) {
            fail_msg("%s: \"%s\"", dirs[i], err.msg);
        }
    }
    meter_events_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_observations_add_up),
        cmocka_unit_test(times_that_cannot_be_are_not_counted),
        cmocka_unit_test(a_word_has_its_series_and_others_share_the_last),
        cmocka_unit_test(reports_have_names),
        cmocka_unit_test(sources_are_added_up),
        cmocka_unit_test(metrics_are_served_while_the_meter_is_open),
        cmocka_unit_test(records_have_tensorboards_bytes),
        cmocka_unit_test(a_record_holds_any_number_and_a_name_of_its_size),
        CO_TEST_IN_FOLDER(a_record_cut_by_a_full_disk_is_removed),
        cmocka_unit_test(a_directory_that_cannot_be_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
