#include "common/buf.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void adding_terminates_and_grows(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(100000);
    struct co_err err;
    char want[5001] = "";
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(co_buf_addf(&b, &err, "%04d,", i), 0);
        char number[16];
        (void)snprintf(number, sizeof(number), "%04d,", i);
        memcpy(want + 5 * i, number, 6);
        assert_int_equal(b.len, 5 * (size_t)(i + 1));
        assert_int_equal(b.data[b.len], 0);
    }
    assert_string_equal(b.data, want);
    assert_int_equal(co_buf_add(&b, "a\0b", 3, &err), 0);
    assert_memory_equal(b.data + 5000, "a\0b", 4);
}

static void the_maximum_holds_and_leaves_the_buffer_unchanged(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(10);
    struct co_err err;
    assert_int_equal(co_buf_adds(&b, "12345678", &err), 0);
    assert_int_equal(co_buf_adds(&b, "abc", &err), CO_NORESOURCE);
    assert_non_null(strstr(err.msg, "10"));
    assert_int_equal(co_buf_addf(&b, &err, "%d", 123), CO_NORESOURCE);
    assert_int_equal(co_buf_reserve(&b, 3, &err), CO_NORESOURCE);
    assert_int_equal(co_buf_reserve(&b, SIZE_MAX, &err), CO_NORESOURCE);
    assert_string_equal(b.data, "12345678");
    assert_int_equal(co_buf_adds(&b, "90", &err), 0);
    assert_string_equal(b.data, "1234567890");
    assert_true(b.cap <= 11);
    assert_int_equal(co_buf_add(&b, "", 0, &err), 0);
}

static void reserved_room_may_be_filled_by_the_caller(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(1000);
    struct co_err err;
    assert_int_equal(co_buf_reserve(&b, 500, &err), 0);
    memset(b.data, 'x', 500);
    b.len = 500;
    assert_int_equal(co_buf_adds(&b, "y", &err), 0);
    assert_string_equal(b.data + 498, "xxy");
}

static void consuming_drops_from_the_front(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf b = CO_BUF(100);
    struct co_err err;
    assert_int_equal(co_buf_adds(&b, "abcdef", &err), 0);
    co_buf_consume(&b, 0);
    assert_string_equal(b.data, "abcdef");
    co_buf_consume(&b, 2);
    assert_string_equal(b.data, "cdef");
    assert_int_equal(b.len, 4);
    co_buf_consume(&b, 4);
    assert_string_equal(b.data, "");
    co_buf_consume(&b, 5);
    assert_int_equal(b.len, 0);
    struct co_buf none = CO_BUF(5);
    co_buf_consume(&none, 1);
    co_buf_clear(&none);
    co_buf_done(&none);
}

static void taking_hands_the_memory_over(void **state) {
    (void)state;
    struct co_buf b = CO_BUF(100);
    struct co_err err;
    CO_AUTOFREE char *empty = co_buf_take(&b);
    assert_string_equal(empty, "");
    assert_int_equal(co_buf_adds(&b, "abc", &err), 0);
    CO_AUTOFREE char *text = co_buf_take(&b);
    assert_string_equal(text, "abc");
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.max, 100);
}

static char dir[] = "/tmp/co_buf_test.XXXXXX";

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    return rmdir(dir);
}

static int count_files(void) {
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n - 2;
}

static void files_are_written_whole_and_read_back(void **state) {
    (void)state;
    CO_AUTOFREE char *path = co_xasprintf("%s/f", dir);
    struct co_err err;
    struct stat st;
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 200000};
    for (size_t i = 0; i < CO_ARRAY_LEN(sizes); i++) {
        CO_AUTOFREE char *data = co_xmalloc(sizes[i] + 1);
        memset(data, (int)('a' + i), sizes[i]);
        assert_int_equal(co_file_write(path, data, sizes[i], 0600, &err), 0);
        assert_int_equal(count_files(), 1);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        CO_AUTOBUF struct co_buf b = CO_BUF(0);
        assert_int_equal(co_file_read(path, sizes[i], &b, &err), 0);
        assert_int_equal(b.len, sizes[i]);
        assert_int_equal(b.data[b.len], 0);
        assert_memory_equal(b.data, data, sizes[i]);
        CO_AUTOBUF struct co_buf small = CO_BUF(7);
        if (sizes[i]) {
            assert_int_equal(co_file_read(path, sizes[i] - 1, &small, &err), CO_NORESOURCE);
            assert_non_null(strstr(err.msg, path));
            assert_null(small.data);
        }
    }
    assert_int_equal(unlink(path), 0);
}

/* Who lists the directory while it is written sees only a hidden file. */
static void unfinished_files_are_hidden(void **state) {
    (void)state;
    CO_AUTOFREE char *path = co_xasprintf("%s/g", dir);
    CO_AUTOFREE char *aside = NULL;
    struct co_err err;
    int fd;
    assert_int_equal(co_file_aside(path, 0600, &fd, &aside, &err), 0);
    assert_true(strncmp(aside + strlen(dir), "/.g.", 4) == 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(aside), 0);
}

/* Two that write one file at a time do not share one, and what a killed one has left stays. */
static void unfinished_files_are_nobody_elses(void **state) {
    (void)state;
    CO_AUTOFREE char *path = co_xasprintf("%s/g", dir);
    CO_AUTOFREE char *first = NULL, *second = NULL;
    CO_AUTOBUF struct co_buf b = CO_BUF(10);
    struct co_err err;
    int fds[2];
    assert_int_equal(co_file_aside(path, 0600, &fds[0], &first, &err), 0);
    assert_int_equal(write(fds[0], "old", 3), 3);
    assert_int_equal(co_file_aside(path, 0600, &fds[1], &second, &err), 0);
    assert_string_not_equal(first, second);
    assert_int_equal(co_file_write(path, "x", 1, 0600, &err), 0);
    assert_int_equal(co_file_read(first, 10, &b, &err), 0);
    assert_string_equal(b.data, "old");
    assert_int_equal(close(fds[0]) + close(fds[1]) + unlink(first) + unlink(second), 0);
    assert_int_equal(unlink(path), 0);
}

/* A rename would replace the link, and the device of all programs. */
static void links_are_followed_and_only_files_replaced(void **state) {
    (void)state;
    CO_AUTOFREE char *file = co_xasprintf("%s/file", dir), *link = co_xasprintf("%s/link", dir);
    CO_AUTOFREE char *fifo = co_xasprintf("%s/fifo", dir), *other = co_xasprintf("%s/other", dir);
    CO_AUTOBUF struct co_buf b = CO_BUF(10);
    struct co_err err;
    struct stat st;
    assert_int_equal(co_file_write(file, "old", 3, 0600, &err), 0);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(co_file_write(link, "new", 3, 0600, &err), 0);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(co_file_read(file, 10, &b, &err), 0);
    assert_string_equal(b.data, "new");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("fifo", other), 0);
    const struct {
        const char *path, *said;
    } rows[] = {{link, "it is a link that leads to no file"},
        {fifo, "it is a FIFO, expected a file"}, {other, "it is a FIFO, expected a file"},
        {dir, "it is a directory, expected a file"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *want =
            co_xasprintf("cannot write \"%s\": %s", rows[i].path, rows[i].said);
        assert_int_equal(co_file_write(rows[i].path, "x", 1, 0600, &err), CO_INVALID);
        assert_string_equal(err.msg, want);
    }
    assert_int_equal(lstat(fifo, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(count_files(), 3);
    assert_int_equal(unlink(link) + unlink(fifo) + unlink(other), 0);
    CO_AUTOFREE char *target = NULL; /* /dev/null is asked for only: a bug would remove it */
    assert_int_equal(co_file_target("/dev/null", &target, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "it is a device, expected a file"));
}

static void file_errors_name_the_file(void **state) {
    (void)state;
    struct co_err err;
    struct co_buf b = CO_BUF(10);
    CO_AUTOFREE char *missing = co_xasprintf("%s/none/f", dir);
    assert_int_equal(co_file_read(missing, 10, &b, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, missing));
    assert_int_equal(co_file_write(missing, "x", 1, 0600, &err), CO_NOTFOUND);
    assert_non_null(strstr(err.msg, missing));
    assert_true(co_file_read(dir, 10, &b, &err) < 0);
    assert_non_null(strstr(err.msg, dir));
    assert_null(b.data);
    /* a rename that fails leaves no temporary file */
    CO_AUTOFREE char *sub = co_xasprintf("%s/sub", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_true(co_file_write(sub, "x", 1, 0600, &err) < 0);
    assert_int_equal(count_files(), 1);
    assert_int_equal(rmdir(sub), 0);
}

static void programs_are_found_in_the_path(void **state) {
    (void)state;
    CO_AUTOFREE char *was = co_xstrdup(getenv("PATH"));
    CO_AUTOFREE char *first = co_xasprintf("%s/first", dir),
                     *second = co_xasprintf("%s/second", dir);
    CO_AUTOFREE char *folder = co_xasprintf("%s/p", first), *program = co_xasprintf("%s/p", second);
    CO_AUTOFREE char *path = co_xasprintf("%s::%s", first, second);
    struct co_err err;
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(mkdir(first, 0700), 0);
    assert_int_equal(mkdir(second, 0700), 0);
    assert_int_equal(mkdir(folder, 0700), 0); /* which is no program */
    assert_null(co_path_find("p"));
    assert_int_equal(co_file_write(program, "", 0, 0600, &err), 0);
    assert_null(co_path_find("p"));
    assert_int_equal(chmod(program, 0700), 0);
    CO_AUTOFREE char *found = co_path_find("p");
    assert_string_equal(found, program);
    assert_int_equal(unlink(program), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(first), 0);
    assert_int_equal(rmdir(second), 0);
    assert_int_equal(setenv("PATH", was, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adding_terminates_and_grows),
        cmocka_unit_test(the_maximum_holds_and_leaves_the_buffer_unchanged),
        cmocka_unit_test(reserved_room_may_be_filled_by_the_caller),
        cmocka_unit_test(consuming_drops_from_the_front),
        cmocka_unit_test(taking_hands_the_memory_over),
        cmocka_unit_test(files_are_written_whole_and_read_back),
        cmocka_unit_test(unfinished_files_are_hidden),
        cmocka_unit_test(unfinished_files_are_nobody_elses),
        cmocka_unit_test(links_are_followed_and_only_files_replaced),
        cmocka_unit_test(file_errors_name_the_file),
        cmocka_unit_test(programs_are_found_in_the_path),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
