/* Who may write checkpoints into a directory.  Other machines are files written by hand. */
#include "runtime/train/ckpt/claim.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"

static char dir[40], file[60];

static int setup(void **state) {
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/claim_test_XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    (void)snprintf(file, sizeof(file), "%s/OWNER", dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", dir);
    ckpt_claim_looks = NULL;
    return system(cmd);
}

static int take(const char *job, const char *endpoint, int64_t seen_ms, struct ckpt_claim **ret,
    struct co_err *err) {
    const struct ckpt_claim_who who = {
        .job = job, .endpoint = endpoint, .listens = "[::]:1", .seen_ms = seen_ms};
    return ckpt_claim_take(dir, &who, ret, err);
}

static void put(const char *text, time_t ago) {
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    const struct timespec at[2] = {{time(NULL) - ago, 0}, {time(NULL) - ago, 0}};
    assert_int_equal(0, utimensat(AT_FDCWD, file, at, 0));
}

static const char other[] = "job theirs\nendpoint 10.0.0.9:8000\nhost far\nmachine m/pid:[1]\n"
                            "life 0000000000000001\nprocess 7 8\nsince 1000000000\n";

static void two_jobs_are_distinguished(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL, *b = NULL;
    struct co_err err = {0};
    assert_int_equal(0, take("a", "h:1", 0, &a, &err));
    assert_int_equal(CO_EXISTS, take("b", "h:2", 0, &b, &err));
    assert_non_null(
        strstr(err.msg, "is where job \"a\" writes its checkpoints (server h:1 on host"));
    /* the same job, started twice by hand */
    assert_int_equal(CO_EXISTS, take("a", "h:2", 0, &b, &err));
    assert_int_equal(0, ckpt_claim_check(a, &err));
    ckpt_claim_drop(a);
    a = NULL;
    assert_int_equal(-1, access(file, F_OK));
    assert_int_equal(0, take("b", "h:2", 0, &b, &err));
}

/* Names come from the environment. */
static void a_name_is_one_line_of_the_file(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL, *b = NULL;
    struct co_err err = {0};
    assert_int_equal(0, take("a\nlife 0\x7f", "h:1", 0, &a, &err));
    assert_int_equal(CO_EXISTS, take("b", "h:2", 0, &b, &err));
    assert_non_null(
        strstr(err.msg, "is where job \"a?life 0?\" writes its checkpoints (server h:1"));
    assert_int_equal(0, ckpt_claim_check(a, &err));
}

/* Its own other names of a directory are no other job. */
static void a_job_may_name_its_directory_in_two_ways(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL, *b = NULL;
    CO_AUTOFREE char *path = co_xasprintf("/tmp/../%s//", dir);
    const struct ckpt_claim_who who = {.job = "a", .endpoint = "h:1"};
    struct co_err err = {0};
    assert_int_equal(0, take("a", "h:1", 0, &a, &err));
    assert_int_equal(0, ckpt_claim_take(path, &who, &b, &err));
    assert_int_equal(0, ckpt_claim_check(a, &err));
    assert_int_equal(0, ckpt_claim_check(b, &err));
}

static void a_job_that_was_killed_is_not_waited_for(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *b = NULL;
    struct co_err err = {0};
    int ready[2];
    assert_int_equal(0, pipe(ready));
    pid_t child = fork();
    if (child == 0) {
        struct ckpt_claim *mine = NULL;
        char ok = take("a", "h:1", 0, &mine, NULL) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &ok, 1);
        for (;;) {
            (void)pause();
        }
    }
    char ok = 0;
    assert_int_equal(1, read(ready[0], &ok, 1));
    assert_int_equal('y', ok);
    assert_int_equal(CO_EXISTS, take("b", "h:2", INT64_C(3600) * 1000, &b, &err));
    assert_int_equal(0, kill(child, SIGKILL));
    assert_int_equal(child, waitpid(child, NULL, 0));
    assert_int_equal(0, access(file, F_OK));
    /* not an hour later */
    assert_int_equal(0, take("b", "h:2", INT64_C(3600) * 1000, &b, &err));
    close(ready[0]);
    close(ready[1]);
}

/* What this process writes for [::]:1. */
static void own_socket(char *ret, size_t size) {
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
    CO_AUTOBUF struct co_buf text = CO_BUF(4096);
    assert_int_equal(0, take("a", "h:1", 0, &a, NULL));
    assert_int_equal(0, co_file_read(file, 4096, &text, NULL));
    const char *at = strstr(text.data, "\nsocket ");
    assert_non_null(at);
    at += strlen("\nsocket ");
    (void)snprintf(ret, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static void touch(void) {
    const struct timespec at[2] = {{5, 0}, {5, 0}};
    (void)utimensat(AT_FDCWD, file, at, 0);
    ckpt_claim_looks = NULL;
}

static void touch_later(void) {
    ckpt_claim_looks = touch; /* not at the first look, but at the second */
}

/* A pod's container that was restarted has another process namespace in the same network. */
static void a_server_at_the_address_of_the_owner_takes_the_claim_at_once(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
    struct co_err err = {0};
    char socket[600];
    own_socket(socket, sizeof(socket));
    CO_AUTOFREE char *text =
        co_xasprintf("job b\nendpoint h:2\nhost far\nmachine m\nsocket %s\nlife 1\n", socket);
    put(text, 0);
    ckpt_claim_looks = touch_later; /* who watches it sees it live */
    assert_int_equal(0, take("a", "h:1", INT64_C(3600) * 1000, &a, &err));
}

/* Containers of two machines may well have the same names, and their servers the same endpoint. */
static void an_owner_of_the_same_names_on_another_machine_keeps_the_claim(void **state) {
    (void)state;
    char host[256] = "", socket[600];
    assert_int_equal(0, gethostname(host, sizeof(host) - 1));
    own_socket(socket, sizeof(socket));
    *strchr(socket, '/') = '|'; /* another boot */
    const char *const sockets[] = {socket, "", "x"};
    for (size_t i = 0; i < CO_ARRAY_LEN(sockets); i++) {
        CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
        CO_AUTOFREE char *text = co_xasprintf(
            "job a\nendpoint h:1\nhost %s\nmachine m\nsocket %s\nlife 1\n", host, sockets[i]);
        struct co_err err = {0};
        put(text, 0);
        ckpt_claim_looks = touch_later;
        assert_int_equal(CO_EXISTS, take("a", "h:1", INT64_C(3600) * 1000, &a, &err));
    }
}

static void an_owner_elsewhere_is_alive_if_its_file_changes(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
    struct co_err err = {0};
    put(other, 0);
    ckpt_claim_looks = touch_later;
    assert_int_equal(CO_EXISTS, take("a", "h:1", INT64_C(3600) * 1000, &a, &err));
    assert_non_null(strstr(err.msg, "job \"theirs\""));
    assert_non_null(strstr(err.msg, "server 10.0.0.9:8000 on host far"));
    assert_non_null(strstr(err.msg, "since 2001-09-09 01:46:40 UTC"));
    assert_int_equal(0, access(file, F_OK));
}

static void an_owner_elsewhere_is_dead_if_its_file_stands_still(void **state) {
    (void)state;
    static const struct {
        const char *text;
        time_t ago;
        int64_t seen_ms;
    } rows[] = {
        {other, 7200, INT64_C(3600) * 1000}, /* old already: no wait */
        {other, 0, 1},                       /* was watched */
        {other, -7200, 1},                   /* in the future: watched as well */
        {"", 7200, INT64_C(3600) * 1000},
        {"no words", 0, 1},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
        struct co_err err = {0};
        put(rows[i].text, rows[i].ago);
        assert_int_equal(0, take("a", "h:1", rows[i].seen_ms, &a, &err));
        assert_int_equal(0, ckpt_claim_check(a, &err));
    }
}

static atomic_bool stop;

static void stop_now(void) {
    atomic_store(&stop, true);
}

/* A server that ends does not wait for what becomes of somebody else. */
static void a_wait_ends_with_the_server(void **state) {
    (void)state;
    const struct ckpt_claim_who who = {
        .job = "a", .endpoint = "h:1", .seen_ms = INT64_C(3600) * 1000, .stop = &stop};
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
    struct co_err err = {0};
    put(other, 0);
    ckpt_claim_looks = stop_now;
    assert_int_equal(CO_CANCELED, ckpt_claim_take(dir, &who, &a, &err));
    assert_int_equal(0, access(file, F_OK)); /* theirs stays */
    atomic_store(&stop, false);
}

/* As after SIGSTOP, or a file system that was away. */
static void an_owner_that_lost_its_claim_stops_writing(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
    struct co_err err = {0};
    assert_int_equal(0, take("a", "h:1", 0, &a, &err));
    put(other, 0);
    assert_int_equal(CO_EXISTS, ckpt_claim_check(a, &err));
    assert_non_null(strstr(err.msg, "job \"theirs\""));
    ckpt_claim_drop(a);
    a = NULL;
    assert_int_equal(0, access(file, F_OK)); /* theirs stays */
    assert_int_equal(0, take("a", "h:1", 1, &a, &err));
    assert_int_equal(0, unlink(file)); /* somebody tidied up */
    assert_int_equal(0, ckpt_claim_check(a, &err));
    assert_int_equal(0, access(file, F_OK));
}

static void a_directory_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    CO_CLEANUP(ckpt_claim_dropp) struct ckpt_claim *a = NULL;
    const struct ckpt_claim_who who = {.job = "a", .endpoint = "h:1"};
    struct co_err err = {0};
    assert_true(ckpt_claim_take("/proc/no/such", &who, &a, &err) < 0);
    assert_int_not_equal(CO_EXISTS, err.code);
    assert_non_null(strstr(err.msg, "/proc/no"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_jobs_are_distinguished, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_is_one_line_of_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_may_name_its_directory_in_two_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_that_was_killed_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_server_at_the_address_of_the_owner_takes_the_claim_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_owner_of_the_same_names_on_another_machine_keeps_the_claim, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_owner_elsewhere_is_alive_if_its_file_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_owner_elsewhere_is_dead_if_its_file_stands_still, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_ends_with_the_server, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_owner_that_lost_its_claim_stops_writing, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_directory_that_cannot_be_written_is_an_error, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
