#include "runtime/launch/process/childlog.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
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
static struct rl_childlog *open_log(struct co_loop *loop, const char *path) {
    const struct rl_childlog_options o = {.path = path, .max_size = MAX_SIZE, .lost = not_lost};
    struct rl_childlog *c = NULL;
    assert_int_equal(rl_childlog_open(loop, &o, &c, NULL), 0);
    return c;
}

static bool file_is(const char *path, const char *text) {
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    assert_int_equal(co_file_read(path, 1 << 20, &b, NULL), 0);
    return strcmp(b.data, text) == 0;
}

static void what_a_child_left_in_the_pipe_is_kept(void **state) {
    (void)state;
    static const bool finished[] = {true, false};
    for (size_t i = 0; i < CO_ARRAY_LEN(finished); i++) {
        CO_CLEANUP(co_loop_freep) struct co_loop *loop = NULL;
        CO_AUTOFREE char *path = path_of("left");
        assert_int_equal(co_loop_new(&loop, NULL), 0);
        struct rl_childlog *c = open_log(loop, path);
        assert_int_equal(write(rl_childlog_fd(c), "last words\n", 11), 11);
        rl_childlog_started(c);
        if (finished[i]) {
            assert_false(rl_childlog_finish(c));
        }
        rl_childlog_close(c);
        assert_true(file_is(path, "last words\n"));
        assert_int_equal(unlink(path), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_child_left_in_the_pipe_is_kept),
    };
    if (!mkdtemp(dir)) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(dir) ? 1 : failed;
}
