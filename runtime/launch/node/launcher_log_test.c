/* Which lines are written, in which form, and how long a reader may delay them. */
#include "runtime/launch/node/launcher_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "common/mem.h"

static int ends[2];

static int open_pipe(void **state) {
    (void)state;
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
}

static int close_pipe(void **state) {
    (void)state;
    return close(ends[0]) | close(ends[1]);
}

/* All that was written since the last call. */
static const char *written(void) {
    static char text[1 << 16];
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static const char *no_variable(void *arg, const char *name) {
    (void)arg;
    (void)name;
    return NULL;
}

static struct node_log of_level(const char *word) {
    CO_AUTOFREE char *option = co_xasprintf("--log_level=%s", word);
    char *const argv[] = {(char *)"launch", option, (char *)"t.py", NULL};
    struct options o;
    struct node_log s;
    assert_int_equal(options_parse(3, argv, no_variable, NULL, &o, NULL), 0);
    node_log_open(&o, &s);
    node_log_close(&s);
    options_done(&o);
    s.out = s.err = ends[1];
    return s;
}

static void lines_below_the_level_are_not_written(void **state) {
    (void)state;
    static const struct {
        const char *level;
        size_t lines; /* of one each, from ERROR down */
    } rows[] = {{"DEBUG", 4}, {"debug", 4}, {"INFO", 3}, {"Info", 3}, {"WARNING", 2}, {"warn", 2},
        {"ERROR", 1}, {"CRITICAL", 1}, {"fatal", 1}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct node_log s = of_level(rows[i].level);
        for (int level = NODE_LOG_DEBUG; level <= NODE_LOG_ERROR; level++) {
            node_log(&s, (enum node_log_level)level, "%s", "line");
        }
        size_t n = 0;
        for (const char *p = strstr(written(), "line\n"); p; p = strstr(p + 1, "line\n")) {
            n++;
        }
        if (n != rows[i].lines) {
            fail_msg("%s: %zu lines", rows[i].level, n);
        }
    }
}

/* Digits are "0", so that a date is one text. */
static void a_line_has_its_launchers_form(void **state) {
    (void)state;
    static const struct {
        enum options_format format;
        enum node_log_level level;
        const char *where; /* NULL: node_log */
        const char *text;
    } rows[] = {
        {OPTIONS_FORMAT_3, NODE_LOG_INFO, NULL, "LAUNCH INFO 0000-00-00 00:00:00,000 a %s b\n"},
        {OPTIONS_FORMAT_2_3, NODE_LOG_ERROR, NULL, "LAUNCH ERROR 0000-00-00 00:00:00,000 a %s b\n"},
        {OPTIONS_FORMAT_3, NODE_LOG_WARNING, "x.py:1",
            "LAUNCH WARNING 0000-00-00 00:00:00,000 a %s b\n"},
        {OPTIONS_FORMAT_2_0, NODE_LOG_INFO, "launch_utils.py:472",
            "INFO 0000-00-00 00:00:00,000 launch_utils.py:000] a %s b\n"},
        {OPTIONS_FORMAT_2_0, NODE_LOG_DEBUG, NULL,
            "DEBUG 0000-00-00 00:00:00,000 launch.py:0] a %s b\n"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct node_log s = {
            .format = rows[i].format, .level = NODE_LOG_DEBUG, .out = -1, .err = ends[1]};
        if (rows[i].where) {
            node_log_at(&s, rows[i].level, rows[i].where, "a %s b", "%s");
        } else {
            node_log(&s, rows[i].level, "a %s b", "%s");
        }
        CO_AUTOFREE char *line = co_xstrdup(written());
        for (char *p = line; *p; p++) {
            *p = *p >= '0' && *p <= '9' ? '0' : *p;
        }
        assert_string_equal(line, rows[i].text);
    }
}

static void stdout_is_unchanged_at_any_level(void **state) {
    (void)state;
    const struct node_log s = {.level = NODE_LOG_ERROR, .out = ends[1], .err = -1};
    node_log_out(&s, "a\0b\n%s", 6);
    node_log_out(&s, "", 0);
    assert_memory_equal(written(), "a\0b\n%s", 6);
    (void)node_log_out(&(struct node_log){.out = -1, .err = -1}, "lost", 4); /* no error */
}

/* ---- a reader that is slow ----------------------------------------------------------------- */

enum { PIPE = 4096, LINE = 16 * PIPE };

static struct {
    atomic_bool over;
    atomic_size_t got;
} reader;

/* Takes a little whenever the pipe is full; that lasts two seconds each time. */
static void *read_slowly(void *arg) {
    (void)arg;
    static char some[PIPE];
    while (!atomic_load(&reader.over)) {
        int waiting = 0;
        if (ioctl(ends[0], FIONREAD, &waiting) == 0 && waiting == PIPE) {
            co_test_clock_forward(2000);
            ssize_t n = read(ends[0], some, sizeof(some));
            atomic_fetch_add(&reader.got, n > 0 ? (size_t)n : 0);
        }
    }
    return NULL;
}

static void a_slow_reader_gets_a_part_and_delays_nobody(void **state) {
    (void)state;
    CO_AUTOFREE char *line = co_xcalloc(LINE, 1);
    memset(line, 'x', LINE);
    assert_int_equal(fcntl(ends[0], F_SETPIPE_SZ, PIPE), PIPE);
    const struct node_log s = {.out = ends[1], .err = -1};
    pthread_t t;
    atomic_store(&reader.over, false);
    atomic_store(&reader.got, 0);
    co_test_clock_hold(true);
    assert_int_equal(pthread_create(&t, NULL, read_slowly, NULL), 0);
    node_log_out(&s, line, LINE);
    atomic_store(&reader.over, true);
    assert_int_equal(pthread_join(t, NULL), 0);
    co_test_clock_hold(false);
    assert_in_range(atomic_load(&reader.got) + strlen(written()), PIPE, LINE / 2);
}

static bool drained; /* before each write a reader has just taken what was there */

ssize_t write(int fd, const void *data, size_t len) {
    char some[PIPE];
    int waiting = 0;
    if (drained) {
        co_test_clock_forward(600);
        if (ioctl(ends[0], FIONREAD, &waiting) == 0 && waiting > 0) {
            ssize_t n = read(ends[0], some, sizeof(some));
            atomic_fetch_add(&reader.got, n > 0 ? (size_t)n : 0);
        }
    }
    return syscall(SYS_write, fd, data, len);
}

/* Time passes also where the pipe is never found full. */
static void a_slow_reader_that_is_quick_for_each_write_delays_nobody(void **state) {
    (void)state;
    CO_AUTOFREE char *line = co_xcalloc(LINE, 1);
    memset(line, 'x', LINE);
    assert_int_equal(fcntl(ends[0], F_SETPIPE_SZ, PIPE), PIPE);
    const struct node_log s = {.out = ends[1], .err = -1};
    atomic_store(&reader.got, 0);
    co_test_clock_hold(true);
    drained = true;
    node_log_out(&s, line, LINE);
    drained = false;
    co_test_clock_hold(false);
    assert_int_equal(atomic_load(&reader.got) + strlen(written()), 2 * PIPE);
}

#define T(test) cmocka_unit_test_setup_teardown(test, open_pipe, close_pipe)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(lines_below_the_level_are_not_written),
        T(a_line_has_its_launchers_form),
        T(stdout_is_unchanged_at_any_level),
        T(a_slow_reader_gets_a_part_and_delays_nobody),
        T(a_slow_reader_that_is_quick_for_each_write_delays_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
