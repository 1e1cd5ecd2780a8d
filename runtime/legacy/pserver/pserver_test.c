#include "runtime/legacy/pserver/pserver.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/ports_testing.h"
#include "runtime/legacy/pserver/flags.h"
#include "runtime/legacy/pserver/nics.h"
#include "runtime/train/ps/client/client.h"

enum { WORDS_MAX = 6, TEXT_MAX = 1 << 16 };

/* ---- flags -------------------------------------------------------------------------------- */

/* gflags' --noX, and nothing that only looks like it. */
static void a_negated_flag_is_false(void **state) {
    (void)state;
    static const struct {
        const char *word, *becomes;
    } rows[] = {
        {"--nouse_gpu", "--use_gpu=false"},
        {"--nolog_barrier_abstract", "--log_barrier_abstract=false"},
        {"--nouse_gpu=true", "--nouse_gpu=true"},
        {"-nouse_gpu", "-nouse_gpu"},
        {"--noport", "--noport"}, /* not one of two values */
        {"--nosuch", "--nosuch"},
        {"--no", "--no"},
        {"nouse_gpu", "nouse_gpu"},
        {"--use_gpu", "--use_gpu"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *word = co_xstrdup(rows[i].word);
        char *argv[] = {word, word, NULL};
        pserver_argv(2, argv);
        assert_ptr_equal(argv[0], word); /* the program's name */
        assert_string_equal(argv[1], rows[i].becomes);
        assert_string_equal(word, rows[i].word);
        if (argv[1] != word) {
            free(argv[1]);
        }
    }
}

static int parse(const char *const *words, struct co_err *err) {
    char *argv[WORDS_MAX + 2] = {(char *)(uintptr_t) "paddle-pserver"};
    int argc = 1, rest = 0;
    for (; words[argc - 1]; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    return co_flags_parse(pserver_flags, pserver_n_flags, argc, argv, &rest, err);
}

static void flags_are_those_of_paddle(void **state) {
    (void)state;
    const struct pserver_options *o = &pserver_options;
    assert_int_equal(0, parse((const char *const[]){NULL}, NULL));
    assert_int_equal(7164, o->port);
    assert_int_equal(1, o->ports_num);
    assert_int_equal(0, o->ports_num_for_sparse);
    assert_int_equal(1, o->num_gradient_servers);
    assert_string_equal("tcp", o->rdma_tcp);
    assert_string_equal("", o->nics);
    assert_int_equal(0, parse((const char *const[]){"--port=7000", "--ports_num", "2",
                                  "--num_gradient_servers=4", "--nics=eth0", NULL},
                            NULL));
    assert_int_equal(7000, o->port);
    assert_int_equal(2, o->ports_num);
    assert_int_equal(4, o->num_gradient_servers);
    assert_string_equal("eth0", o->nics);
    /* One file of flags for servers and trainers. */
    assert_int_equal(0, parse((const char *const[]){"--trainer_id=3", "--use_gpu=1",
                                  "--async_lagged_ratio_min=1.5", "--pservers=a,b", NULL},
                            NULL));
    static const char *const wrong[] = {"--port=0", "--port=65536", "--ports_num=0",
        "--ports_num=1001", "--ports_num_for_sparse=-1", "--num_gradient_servers=0",
        "--pserver_num_threads=65", "--use_gpu=maybe", "--checkgrad_eps=x", "--nosuch"};
    for (size_t i = 0; i < CO_ARRAY_LEN(wrong); i++) {
        struct co_err err = {0};
        CO_AUTOFREE char *name = co_xstrndup(wrong[i] + 2, strcspn(wrong[i] + 2, "="));
        assert_int_equal(CO_INVALID, parse((const char *const[]){wrong[i], NULL}, &err));
        assert_non_null(strstr(err.msg, name));
    }
}

/* ---- interfaces --------------------------------------------------------------------------- */

static void interfaces_become_addresses(void **state) {
    (void)state;
    struct pserver_nics nics;
    assert_int_equal(0, pserver_nics_find("", &nics, NULL));
    assert_int_equal(1, nics.n);
    assert_string_equal("::", nics.address[0]);
    assert_int_equal(0, pserver_nics_find("lo", &nics, NULL));
    assert_int_equal(1, nics.n);
    assert_string_equal("127.0.0.1", nics.address[0]);
    assert_int_equal(0, pserver_nics_find("lo,lo,", &nics, NULL));
    assert_int_equal(2, nics.n);
    assert_string_equal("127.0.0.1", nics.address[1]);
}

static void an_interface_that_is_not_there_is_named_with_those_that_are(void **state) {
    (void)state;
    static const char *const lists[] = {"nosuch0", "lo,nosuch0", "nosuch0,lo"};
    struct pserver_nics nics;
    struct co_err err = {0};
    for (size_t i = 0; i < CO_ARRAY_LEN(lists); i++) {
        assert_int_equal(CO_NOTFOUND, pserver_nics_find(lists[i], &nics, &err));
        assert_non_null(strstr(err.msg, "\"nosuch0\" is not a network interface"));
        assert_non_null(strstr(err.msg, "expected one of: "));
        assert_non_null(strstr(strstr(err.msg, "one of: "), "lo"));
    }
    /* Neither the beginning of a name nor more than it. */
    assert_int_equal(CO_NOTFOUND, pserver_nics_find("l", &nics, NULL));
    assert_int_equal(CO_NOTFOUND, pserver_nics_find("lo0", &nics, NULL));
    assert_int_equal(CO_NOTFOUND, pserver_nics_find("lo,,lo", &nics, NULL));
    assert_int_equal(
        0, pserver_nics_find("lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo", &nics, NULL));
    assert_int_equal(PSERVER_NICS_MAX, nics.n);
    assert_int_equal(CO_INVALID,
        pserver_nics_find("lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo,lo", &nics, &err));
    assert_string_equal("--nics names more than 16 interfaces", err.msg);
}

/* ---- the program -------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int out;
    struct co_buf text;
};

/* In a process of its own, with these variables beside ours. */
static struct child start(const char *const *words, const char *const *env) {
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)fflush(NULL);
    struct child c = {.pid = fork(), .out = out[0], .text = CO_BUF(TEXT_MAX)};
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(out[1], STDERR_FILENO);
        for (; *env; env++) {
            (void)putenv((char *)(uintptr_t)*env);
        }
        char *argv[WORDS_MAX + 2] = {co_xstrdup("paddle-pserver")};
        int argc = 1;
        for (; words[argc - 1]; argc++) {
            argv[argc] = co_xstrdup(words[argc - 1]);
        }
        int code = pserver_run(argc, argv);
        (void)fflush(NULL);
        _exit(code);
    }
    (void)close(out[1]);
    return c;
}

/* Until it has said that; NULL: until it says no more.  All that it has said. */
static const char *read_until(struct child *c, const char *text) {
    char buf[4096];
    ssize_t n;
    while ((!text || !c->text.data || !strstr(c->text.data, text)) &&
           (n = read(c->out, buf, sizeof(buf))) > 0) {
        assert_int_equal(co_buf_add(&c->text, buf, (size_t)n, NULL), 0);
    }
    return c->text.data ? c->text.data : "";
}

static void ends(struct child *c, int code, const char *text) {
    int status = 0;
    const char *said = read_until(c, NULL);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    int have = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (have != code || !strstr(said, text)) {
        fail_msg("%d \"%s\" is not %d \"%s\"", have, said, code, text);
    }
    (void)close(c->out);
    co_buf_done(&c->text);
}

static void wrong_usage_exits_with_2(void **state) {
    (void)state;
    static const struct {
        const char *words[WORDS_MAX], *env[2];
        int code;
        const char *text;
    } rows[] = {
        {{"--help"}, {NULL}, 0, "--num_gradient_servers"},
        {{"start"}, {NULL}, 2, "unexpected \"start\""},
        {{"--ports_num=0"}, {NULL}, 2, "ports_num"},
        {{"--rdma_tcp=rdma"}, {NULL}, 2, "--rdma_tcp is \"rdma\", expected tcp"},
        {{"--nics=nosuch0"}, {NULL}, 2, "\"nosuch0\" is not a network interface"},
        {{"--port=65535", "--ports_num=1", "--ports_num_for_sparse=1", "--nics=lo"}, {NULL}, 2,
            "--port is 65535, expected room for 2 ports above it"},
        {{"--nics=lo"}, {"PADDLE_PS_LEASE=soon"}, 2, "PADDLE_PS_LEASE"},
        {{"--nics=lo", "--nouse_gpu", "--rdma_tcp=rdma"}, {NULL}, 2, "expected tcp"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct child c = start(rows[i].words, rows[i].env);
        ends(&c, rows[i].code, rows[i].text);
    }
}

/* Listens on a port of loopback that the next one is free beside; the caller closes. */
static int take_port(unsigned *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *ret_port = co_test_ports(2);
    /* connections of the block's former user may be in TIME_WAIT */
    assert_int_equal(0, setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
    a.sin_port = htons((uint16_t)*ret_port);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&a, sizeof(a)));
    assert_int_equal(0, listen(fd, 1));
    return fd;
}

static void a_taken_port_exits_with_1(void **state) {
    (void)state;
    unsigned port = 0;
    int fd = take_port(&port);
    CO_AUTOFREE char *flag = co_xasprintf("--port=%u", port);
    CO_AUTOFREE char *address = co_xasprintf("127.0.0.1:%u", port);
    struct child c =
        start((const char *const[]){"--nics=lo", flag, NULL}, (const char *const[]){NULL});
    ends(&c, 1, address);
    (void)close(fd);
}

/* As glog: lines go to a file; what a human must see stays on stderr. */
static void lines_go_where_glog_would_write_them(void **state) {
    (void)state;
    char dir[] = "/tmp/pserver-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    CO_AUTOFREE char *flag = co_xasprintf("--log_dir=%s/a", dir);
    CO_AUTOFREE char *env = co_xasprintf("GLOG_log_dir=%s/b", dir);
    CO_AUTOFREE char *file = co_xasprintf("%s/c", dir);
    const struct {
        const char *words[WORDS_MAX], *env[3], *made;
        const char *text;
    } rows[] = {
        {{"--nics=nosuch0", flag}, {NULL}, "a", "paddle-pserver: --nics"},
        {{"--nics=nosuch0"}, {env}, "b", "paddle-pserver: --nics"},
        {{"--nics=nosuch0", flag}, {env, "GLOG_logtostderr=1"}, "a", "paddle-pserver: --nics"},
        {{"--nics=nosuch0"}, {env, "GLOG_logtostderr=1"}, NULL, "--nics"},
        {{"--nics=nosuch0"}, {env, "GLOG_logtostderr=0"}, "b", "paddle-pserver: --nics"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct child c = start(rows[i].words, rows[i].env);
        ends(&c, 2, rows[i].text);
        for (const char *sub = "ab"; *sub; sub++) {
            CO_AUTOFREE char *path = co_xasprintf("%s/%c/paddle_pserver2.INFO", dir, *sub);
            CO_AUTOFREE char *folder = co_xasprintf("%s/%c", dir, *sub);
            CO_AUTOBUF struct co_buf said = CO_BUF(TEXT_MAX);
            bool made = co_file_read(path, TEXT_MAX, &said, NULL) == 0;
            assert_int_equal(rows[i].made && *rows[i].made == *sub, made);
            assert_true(!made || strstr(said.data, "\"nosuch0\" is not a network interface"));
            (void)unlink(path);
            (void)rmdir(folder);
        }
    }
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)close(fd);
    CO_AUTOFREE char *below = co_xasprintf("--log_dir=%s/x", file);
    struct child c = start((const char *const[]){below, NULL}, (const char *const[]){NULL});
    int status = 0;
    assert_non_null(strstr(read_until(&c, NULL), "/x/paddle_pserver2.INFO"));
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    (void)close(c.out);
    co_buf_done(&c.text);
    assert_int_equal(0, unlink(file));
    assert_int_equal(0, rmdir(dir));
}

static struct child start_two(unsigned *ret_port) {
    (void)close(take_port(ret_port));
    CO_AUTOFREE char *flag = co_xasprintf("--port=%u", *ret_port);
    struct child c = start((const char *const[]){"--nics=lo", flag, "--ports_num=1",
                               "--ports_num_for_sparse=1", "--nouse_gpu", NULL},
        (const char *const[]){"PADDLE_PS_LEASE=1s", NULL});
    if (!strstr(read_until(&c, "Waiting parameterServer[1]"), "parameterServer instances: 2\n")) {
        fail_msg("%s", c.text.data);
    }
    return c;
}

static void a_signal_ends_all_servers(void **state) {
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < CO_ARRAY_LEN(signals); i++) {
        unsigned port = 0;
        struct child c = start_two(&port);
        assert_int_equal(0, kill(c.pid, signals[i]));
        CO_AUTOFREE char *text = co_xasprintf("ended by signal %d", signals[i]);
        ends(&c, 128 + signals[i], text);
    }
}

/* A trainer that has been given the list; gRPC's threads are here from now on, so no test that
 * forks comes after these. */
static struct rt_client *train(unsigned port) {
    static const struct rt_table_spec specs[] = {
        {.name = "w", .kind = RT_DENSE, .size = 10, .optimizer = "sgd"}};
    char endpoint[2][32];
    const char *endpoints[] = {endpoint[0], endpoint[1]};
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(endpoint[i], sizeof(endpoint[i]), "127.0.0.1:%u", port + i);
    }
    struct psc_client_config config = {
        .trainers = 1, .servers = 2, .endpoints = endpoints, .job = "j", .token = ""};
    struct rt_client *client = NULL;
    struct co_err err = {0};
    if (psc_client_connect(&config, NULL, specs, 1, &client, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return client;
}

static void the_server_ends_after_its_trainers_and_names_lost_ones(void **state) {
    (void)state;
    unsigned ports[2] = {0};
    struct child done = start_two(&ports[0]), lost = start_two(&ports[1]);
    assert_int_equal(0, rt_finish(train(ports[0]), NULL));
    ends(&done, 0, "all 1 trainers have finished");
    rt_client_close(train(ports[1]));
    ends(&lost, 1, "trainer 0 (127.0.0.1:");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_negated_flag_is_false),
        cmocka_unit_test(flags_are_those_of_paddle),
        cmocka_unit_test(interfaces_become_addresses),
        cmocka_unit_test(an_interface_that_is_not_there_is_named_with_those_that_are),
        cmocka_unit_test(wrong_usage_exits_with_2),
        cmocka_unit_test(a_taken_port_exits_with_1),
        cmocka_unit_test(lines_go_where_glog_would_write_them),
        cmocka_unit_test(a_signal_ends_all_servers),
        cmocka_unit_test(the_server_ends_after_its_trainers_and_names_lost_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
