/* What a forked child must leave alone says so there, and nowhere else. */
#include "common/fork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct co_fork early, late, gone;
static int notified;

static void notify(struct co_fork *f) {
    notified += f == &early;
}

/* The exit code of a child that runs fn. */
static int in_child(int (*fn)(void)) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(fn());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int grandchild(void) {
    return early.forked && late.forked && notified == 1 ? 0 : 1;
}

static int child(void) {
    bool is_notified = early.forked && !gone.forked && notified == 1;
    co_fork_watch(&late, NULL); /* its own */
    bool own = !late.forked;
    return is_notified && own && in_child(grandchild) == 0 ? 0 : 1;
}

static void only_children_are_notified(void **state) {
    (void)state;
    co_fork_watch(&early, notify);
    co_fork_watch(&gone, NULL);
    co_fork_unwatch(&gone);
    co_fork_unwatch(&gone);
    assert_int_equal(in_child(child), 0);
    assert_false(early.forked);
    assert_int_equal(notified, 0);
    co_fork_unwatch(&early);
    assert_int_equal(CO_INVALID, co_fork_refuse("the group", NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_children_are_notified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
