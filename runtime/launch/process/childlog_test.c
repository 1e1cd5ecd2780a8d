#include "runtime/launch/process/childlog.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"

enum { MAX_SIZE = 4096 };

static char dir[] = "/tmp/rt-childlog-test-XXXXXX";

static char *path_of(const char *name) {
    return co_xasprintf("%s/%s", dir, name);
}

static void not_lost(void *arg, const struct co_err *err) {
    (void)arg;
    fail_msg("%s", err->msg);
}

/* One that this process writes, from a pipe. */
static struct proc_childlog *open_log(struct co_loop *loop, const char *path) {
    const struct proc_childlog_options o = {.path = path, .max_size = MAX_SIZE, .lost = not_lost};
    struct proc_childlog *c = NULL;
    assert_int_equal(proc_childlog_open(loop, &o, &c, NULL), 0);
    return c;
}

static bool file_is(const char *path, const char *text) {
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    assert_int_equal(co_file_read(path, 1 << 20, &b, NULL), 0);
    return strcmp(b.data, text) == 0;
}

static void output_left_in_the_pipe_of_an_ended_child_is_kept(void **state) {
    (void)state;
    static const bool finished[] = {true, false};
    for (size_t i = 0; i < CO_ARRAY_LEN(finished); i++) {
        CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
        CO_AUTOFREE char *path = path_of("left");
        assert_int_equal(co_loop_new(&loop, NULL), 0);
        struct proc_childlog *c = open_log(loop, path);
        assert_int_equal(write(proc_childlog_fd(c), "last words\n", 11), 11);
        proc_childlog_started(c);
        if (finished[i]) {
            assert_false(proc_childlog_finish(c));
        }
        proc_childlog_close(c);
        assert_true(file_is(path, "last words\n"));
        assert_int_equal(unlink(path), 0);
    }
}

/* Lines without their beginnings would say something else, and lines of before are another's. */
static void the_tail_of_a_log_has_whole_lines_of_this_process_only(void **state) {
    (void)state;
    static const struct {
        const char *before, *said, *tail;
        size_t size;
        int64_t max_size;
    } rows[] = {
        {"ERROR: old\n", "one\ntwo\n", "one\ntwo\n", 100, 0},
        {"ERROR: old\n", "LAUNCH INFO one\ntwo\n", "two\n", 10, 0},
        {"", "LAUNCH INFO one\ntwo\n", "two\n", 10, 0},
        {"x", "a line that is longer", "longer", 7, 0}, {"ERROR: old\n", "", "", 100, 0},
        {"", "one\ntwo\n", "one\ntwo", 100, 4}, /* rotated: the file is empty */
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
        CO_AUTOFREE char *path = path_of("tail"), *old = path_of("tail.1");
        struct proc_childlog *c = NULL;
        char text[128];
        assert_int_equal(co_loop_new(&loop, NULL), 0);
        assert_int_equal(
            co_file_write(path, rows[i].before, strlen(rows[i].before), 0600, NULL), 0);
        const struct proc_childlog_options o = {
            .path = path, .max_size = rows[i].max_size, .lost = not_lost};
        assert_int_equal(proc_childlog_open(loop, &o, &c, NULL), 0);
        ssize_t n = (ssize_t)strlen(rows[i].said);
        assert_int_equal(write(proc_childlog_fd(c), rows[i].said, (size_t)n), n);
        proc_childlog_started(c);
        assert_false(proc_childlog_finish(c));
        assert_int_equal(proc_childlog_tail(c, text, rows[i].size), strlen(rows[i].tail));
        assert_string_equal(text, rows[i].tail);
        proc_childlog_close(c);
        (void)unlink(old);
        assert_int_equal(unlink(path), 0);
    }
}

static void stop(void *arg) {
    co_loop_stop(arg);
}

/* By logrotate, with copytruncate: all that is in it then is new. */
static void a_truncated_log_is_read_from_its_beginning(void **state) {
    (void)state;
    static const char before[] = "what is longer than all that follows\n", after[] = "new\n";
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    CO_AUTOFREE char *path = path_of("cut");
    const struct proc_childlog_options o = {.path = path, .lost = not_lost};
    struct proc_childlog *c = NULL;
    char text[128];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    assert_int_equal(co_file_write(path, before, strlen(before), 0600, NULL), 0);
    assert_int_equal(proc_childlog_open(loop, &o, &c, NULL), 0);
    assert_int_equal(proc_childlog_echo(c, ends[1], stop, loop, NULL), 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(write(proc_childlog_fd(c), after, strlen(after)), strlen(after));
    assert_true(proc_childlog_finish(c));
    co_loop_run(loop);
    assert_int_equal(proc_childlog_tail(c, text, sizeof(text)), strlen(after));
    assert_string_equal(text, after);
    proc_childlog_close(c);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(read(ends[0], text, sizeof(text)), strlen(after));
    assert_memory_equal(text, after, strlen(after));
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(unlink(path), 0);
}

/* With its folder, or by another file of its name: the cause must not be lost with it. */
static void the_tail_of_a_removed_log_is_kept(void **state) {
    (void)state;
    static const int64_t max_sizes[] = {0, 4096};
    for (size_t i = 0; i < CO_ARRAY_LEN(max_sizes); i++) {
        CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
        CO_AUTOFREE char *path = path_of("removed");
        const struct proc_childlog_options o = {
            .path = path, .max_size = max_sizes[i], .lost = not_lost};
        struct proc_childlog *c = NULL;
        char text[128];
        assert_int_equal(co_loop_new(&loop, NULL), 0);
        assert_int_equal(proc_childlog_open(loop, &o, &c, NULL), 0);
        assert_int_equal(write(proc_childlog_fd(c), "the cause\n", 10), 10);
        assert_false(proc_childlog_removed(c));
        assert_int_equal(unlink(path), 0);
        proc_childlog_started(c);
        assert_false(proc_childlog_finish(c));
        proc_childlog_started(c); /* again, as for a child that ended before it had started */
        assert_true(proc_childlog_removed(c));
        assert_true(proc_childlog_tail(c, text, sizeof(text)) > 0);
        assert_int_equal(strncmp(text, "the cause", 9), 0);
        assert_int_equal(co_file_write(path, "another's\n", 10, 0600, NULL), 0);
        assert_true(proc_childlog_removed(c));
        assert_true(proc_childlog_tail(c, text, sizeof(text)) > 0);
        assert_int_equal(strncmp(text, "the cause", 9), 0);
        proc_childlog_close(c);
        assert_int_equal(unlink(path), 0);
    }
}

/* Else it grows where nobody sees it, until the disk is full. */
static void a_log_whose_folder_was_removed_is_rotated(void **state) {
    (void)state;
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    CO_AUTOFREE char *folder = path_of("folder"), *path = path_of("folder/log");
    static const char line[MAX_SIZE] = "full";
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    struct proc_childlog *c = open_log(loop, path);
    assert_int_equal(unlink(path) || rmdir(folder), 0);
    assert_int_equal(write(proc_childlog_fd(c), line, sizeof(line)), sizeof(line));
    assert_false(proc_childlog_finish(c));
    assert_int_equal(write(proc_childlog_fd(c), "next\n", 5), 5);
    proc_childlog_started(c);
    assert_false(proc_childlog_finish(c));
    assert_false(proc_childlog_removed(c));
    proc_childlog_close(c);
    assert_true(file_is(path, "next\n"));
    assert_int_equal(unlink(path) || rmdir(folder), 0);
}

/* A rename to the name of another file is slow on ext4: it writes the data to its disk first. */
static void a_rotation_replaces_no_file_by_rename(void **state) {
    (void)state;
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    CO_AUTOFREE char *path = path_of("turned"), *old = path_of("turned.1");
    static const char line[MAX_SIZE] = "full";
    char events[1024];
    bool deleted = false;
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    assert_int_equal(co_file_write(old, "", 0, 0600, NULL), 0);
    struct proc_childlog *c = open_log(loop, path);
    CO_AUTOCLOSE int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    assert_true(inotify_add_watch(watch, dir, IN_DELETE) >= 0);
    assert_int_equal(write(proc_childlog_fd(c), line, sizeof(line)), sizeof(line));
    assert_false(proc_childlog_finish(c));
    ssize_t n = read(watch, events, sizeof(events));
    for (ssize_t at = 0; at < n;) {
        struct inotify_event e;
        memcpy(&e, events + at, sizeof(e));
        deleted = deleted || strcmp(events + at + sizeof(e), "turned.1") == 0;
        at += (ssize_t)(sizeof(e) + e.len);
    }
    assert_true(deleted);
    proc_childlog_close(c);
    assert_int_equal(unlink(path) || unlink(old), 0);
}

/* Of what this process watches by inotify: the number of a watch, from 1 in each descriptor. */
static int newest_watch(void) {
    int newest = 0;
    for (int fd = 0; fd < 64; fd++) {
        CO_AUTOBUF struct co_buf b = CO_BUF(4096);
        CO_AUTOFREE char *info = co_xasprintf("/proc/self/fdinfo/%d", fd);
        const char *at = co_file_read(info, 4096, &b, NULL) ? NULL : strstr(b.data, "inotify wd:");
        const int number = at ? (int)strtol(at + strlen("inotify wd:"), NULL, 16) : 0;
        newest = number > newest ? number : newest;
    }
    return newest;
}

/* To close a descriptor of inotify takes the kernel as long as a writer needs for megabytes. */
static void the_echo_watches_all_files_by_one_descriptor(void **state) {
    (void)state;
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    CO_AUTOFREE char *path = path_of("echoed"), *old = path_of("echoed.1");
    static const char line[MAX_SIZE] = "full";
    CO_AUTOCLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    struct proc_childlog *c = open_log(loop, path);
    assert_int_equal(proc_childlog_echo(c, null, stop, loop, NULL), 0);
    assert_int_equal(newest_watch(), 1);
    assert_int_equal(write(proc_childlog_fd(c), line, sizeof(line)), sizeof(line));
    proc_childlog_started(c);
    assert_true(proc_childlog_finish(c));
    co_loop_run(loop);
    assert_int_equal(newest_watch(), 2);
    proc_childlog_close(c);
    assert_int_equal(unlink(path) || unlink(old), 0);
}

static void set(void *arg, const struct co_err *err) {
    (void)err;
    *(bool *)arg = true;
}

/* Neither when it is opened nor when its reader stops: this process has other children. */
static void a_fifo_is_never_waited_for(void **state) {
    (void)state;
    enum { MORE = 1 << 17 }; /* than a pipe holds */
    CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
    CO_AUTOFREE char *path = path_of("fifo"), *data = co_xcalloc(MORE, 1);
    bool lost = false;
    struct proc_childlog_options o = {.path = path, .lost = set, .arg = &lost};
    struct proc_childlog *c = NULL;
    struct co_err err = {0};
    char text[8];
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(proc_childlog_open(loop, &o, &c, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "/fifo\": it is a FIFO that nobody reads"));
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(proc_childlog_open(loop, &o, &c, &err), 0); /* the child waits for a reader */
    assert_int_equal(fcntl(proc_childlog_fd(c), F_GETFL) & (O_APPEND | O_NONBLOCK), O_APPEND);
    proc_childlog_started(c);
    assert_int_equal(proc_childlog_tail(c, text, sizeof(text)), 0);
    proc_childlog_close(c);
    o.max_size = INT64_MAX;
    assert_int_equal(proc_childlog_open(loop, &o, &c, &err), 0);
    for (int i = 0; i < MORE / 4096; i++) {
        assert_int_equal(write(proc_childlog_fd(c), data, 4096), 4096);
        if (i % 8 == 7) {
            assert_false(proc_childlog_finish(c)); /* which reads what is in the pipe */
        }
    }
    proc_childlog_close(c);
    assert_true(lost);
    assert_int_equal(close(reader), 0);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tail_of_a_log_has_whole_lines_of_this_process_only),
        cmocka_unit_test(the_tail_of_a_removed_log_is_kept),
        cmocka_unit_test(a_log_whose_folder_was_removed_is_rotated),
        cmocka_unit_test(a_rotation_replaces_no_file_by_rename),
        cmocka_unit_test(the_echo_watches_all_files_by_one_descriptor),
        cmocka_unit_test(a_fifo_is_never_waited_for),
        cmocka_unit_test(a_truncated_log_is_read_from_its_beginning),
        cmocka_unit_test(output_left_in_the_pipe_of_an_ended_child_is_kept),
    };
    if (!mkdtemp(dir)) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(dir) ? 1 : failed;
}
