/* Strangers connect while a group forms: they say nothing, speak another protocol or version, are
 * of another job, have a wrong token, or connect as a rank that is there already.  The group forms
 * all the same, and logs one line for each of them.  And two groups form at one door. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/eventfd.h>

#include "common/parse.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/testkit.h"

enum { SILENT = 200, TRIES = 4000 };

static int knock(const char *endpoint) {
    struct co_hostport hp;
    if (co_parse_hostport("endpoint", endpoint, &hp, NULL) < 0) {
        return -1;
    }
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons(hp.port)};
    for (int i = 0; i < TRIES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
            return fd;
        }
        close(fd);
        (void)poll(NULL, 0, 2);
    }
    return -1;
}

/* What the door says to a hello; RT_VERDICTS: it hangs up. */
static enum rt_verdict ask(const char *endpoint, const unsigned char *wire, size_t n) {
    unsigned char answer[RT_ANSWER_BYTES];
    struct rt_answer a;
    int fd = knock(endpoint);
    if (fd < 0 || send(fd, wire, n, MSG_NOSIGNAL) != (ssize_t)n) {
        abort();
    }
    ssize_t got = recv(fd, answer, sizeof(answer), MSG_WAITALL);
    close(fd);
    return got == sizeof(answer) ? rt_answer_read(answer, "secret", wire, &a) : RT_VERDICTS;
}

static int just_form(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    (void)rank;
    return rt_group_barrier(g, err);
}

/* Only rank 0 is there; what the others would say is tried here first. */
static void strangers_do_not_keep_a_group_from_forming(void **state) {
    (void)state;
    struct world w = {.n = 2};
    int log[2], silent[SILENT];
    assert_int_equal(pipe2(log, O_CLOEXEC | O_NONBLOCK), 0);
    world_ports(&w);
    w.shared =
        mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t r = 0; r < 1; r++) {
        w.pid[r] = fork();
        if (w.pid[r] == 0) {
            (void)dup2(log[1], STDERR_FILENO);
            leave(world_child(&w, r, just_form));
        }
    }
    for (int i = 0; i < SILENT; i++) {
        silent[i] = knock(w.endpoint[0]);
        assert_true(silent[i] >= 0);
    }
    unsigned char wire[RT_HELLO_BYTES];
    struct rt_hello h = {.rank = 1, .size = 2, .job = 1, .group = 1};
    assert_int_equal(rt_hello_write(&h, wire, NULL), 0);
    assert_int_equal(ask(w.endpoint[0], wire, sizeof(wire)), RT_VERDICT_JOB);
    assert_int_equal(ask(w.endpoint[0], wire, sizeof(wire)), RT_VERDICT_JOB);
    wire[4] = 9;
    assert_int_equal(ask(w.endpoint[0], wire, sizeof(wire)), RT_VERDICT_VERSION);
    memset(wire, 'x', sizeof(wire));
    assert_int_equal(ask(w.endpoint[0], wire, sizeof(wire)), RT_VERDICTS);
    w.pid[1] = fork();
    if (w.pid[1] == 0) {
        leave(world_child(&w, 1, just_form));
    }
    assert_int_equal(world_end(&w, 0), 0);
    world_done(&w);
    char text[20000] = "";
    assert_true(read(log[0], text, sizeof(text) - 1) > 0);
    const char *want[] = {"another job", "another version", "this library's protocol"};
    for (size_t i = 0; i < CO_ARRAY_LEN(want); i++) {
        const char *line = strstr(text, want[i]);
        assert_non_null(line);
        assert_null(strstr(line + 1, want[i])); /* once, though it came twice */
    }
    for (int i = 0; i < SILENT; i++) {
        close(silent[i]);
    }
    close(log[0]);
    close(log[1]);
}

/* Rank 1 with another token than rank 0. */
static void wrong_tokens_are_refused_and_said(void **state) {
    (void)state;
    struct world w = {.n = 2};
    world_ports(&w);
    pid_t pid = fork();
    struct rt_group *g = NULL;
    struct co_err err = {0};
    struct rt_group_options o = world_options(&w, pid == 0 ? 0 : 1);
    o.token = pid == 0 ? "one" : "other";
    o.form_timeout_ms = 1500;
    int rc = rt_group_open(NULL, &o, &g, &err);
    if (pid == 0) {
        _exit(rc == CO_TIMEOUT && strstr(err.msg, "rank 1 of 2 has not come") ? 0 : 1);
    }
    int status = 1;
    (void)waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(rc, CO_TIMEOUT);
    assert_non_null(strstr(err.msg, "PADDLE_JOB_TOKEN"));
}

/* A job that asks for encryption, which connections between ranks do not have yet, is told so by
 * its first rank, once, where there are such connections; and works. */
static void clear_connections_of_an_encrypted_job_are_said(void **state) {
    (void)state;
    static const enum rt_transport transports[] = {RT_TRANSPORT_TCP, RT_TRANSPORT_AUTO};
    (void)setenv("PADDLE_JOB_ENCRYPT", "1", 1);
    for (size_t i = 0; i < CO_ARRAY_LEN(transports); i++) {
        struct world w = {.n = 2};
        int log[2];
        assert_int_equal(pipe2(log, O_CLOEXEC | O_NONBLOCK), 0);
        world_ports(&w);
        pid_t pid = fork();
        struct rt_group *g = NULL;
        struct rt_group_options o = world_options(&w, pid == 0 ? 0 : 1);
        o.transport = transports[i];
        if (pid == 0) {
            (void)dup2(log[1], STDERR_FILENO);
        }
        int rc = rt_group_open(NULL, &o, &g, NULL);
        rt_group_close(g);
        if (pid == 0) {
            _exit(rc == 0 ? 0 : 1);
        }
        int status = 1;
        (void)waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
        assert_int_equal(rc, 0);
        char text[2000] = "";
        (void)!read(log[0], text, sizeof(text) - 1);
        const char *line = strstr(text, "authenticated but not encrypted");
        assert_int_equal(i == 0, line != NULL);
        assert_true(!line || !strstr(line + 1, "authenticated but"));
        close(log[0]);
        close(log[1]);
    }
    (void)unsetenv("PADDLE_JOB_ENCRYPT");
}

static void a_rank_that_is_missing_is_named(void **state) {
    (void)state;
    struct world w = {.n = 3};
    world_ports(&w);
    struct rt_group *g = NULL;
    struct co_err err = {0};
    struct rt_group_options o = world_options(&w, 0);
    o.form_timeout_ms = 100;
    assert_int_equal(rt_group_open(NULL, &o, &g, &err), CO_TIMEOUT);
    assert_non_null(strstr(err.msg, "rank 1, 2 of 3"));
    o = world_options(&w, 2);
    o.form_timeout_ms = 100;
    assert_int_equal(rt_group_open(NULL, &o, &g, &err), CO_TIMEOUT);
    assert_non_null(strstr(err.msg, "rank 0 at"));
}

/* ---- doubles ---- */

static pid_t start_rank(struct world *w, uint32_t rank, int64_t ms) {
    pid_t pid = fork();
    if (pid == 0) {
        struct co_err err = {0};
        struct rt_group *g = NULL;
        struct rt_group_options o = world_options(w, rank);
        o.form_timeout_ms = ms;
        _exit(rt_group_open(NULL, &o, &g, &err) == CO_TIMEOUT ? 0 : 1);
    }
    return pid;
}

/* What rank 1 says to whoever is at rank 0's endpoint: the job, the group. */
static struct rt_hello overhear(struct world *w) {
    struct co_hostport hp;
    unsigned char wire[RT_HELLO_BYTES];
    struct rt_hello h = {0};
    assert_int_equal(co_parse_hostport("endpoint", w->endpoint[0], &hp, NULL), 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons(hp.port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 1), 0);
    pid_t pid = start_rank(w, 1, 5000);
    int c = accept(fd, NULL, NULL);
    assert_int_equal(recv(c, wire, sizeof(wire), MSG_WAITALL), sizeof(wire));
    assert_int_equal(rt_hello_read(wire, &h), RT_VERDICT_OK);
    kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    close(c);
    close(fd);
    return h;
}

/* The whole talk, with a proof by this token. */
static enum rt_verdict talk(int fd, const struct rt_hello *h, const char *token) {
    unsigned char hello[RT_HELLO_BYTES], answer[RT_ANSWER_BYTES], proof[RT_PROOF_BYTES],
        welcome[RT_WELCOME_BYTES];
    struct rt_answer a;
    assert_int_equal(rt_hello_write(h, hello, NULL), 0);
    assert_int_equal(send(fd, hello, sizeof(hello), 0), sizeof(hello));
    assert_int_equal(recv(fd, answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
    enum rt_verdict v = rt_answer_read(answer, "secret", hello, &a);
    if (v != RT_VERDICT_OK) {
        return v;
    }
    rt_proof_write(token, hello, answer, proof);
    assert_int_equal(send(fd, proof, sizeof(proof), 0), sizeof(proof));
    assert_int_equal(recv(fd, welcome, sizeof(welcome), MSG_WAITALL), sizeof(welcome));
    return rt_welcome_read(welcome);
}

/* *ret_fd stays open. */
static enum rt_verdict enter(
    const char *endpoint, const struct rt_hello *h, const char *token, int *ret_fd) {
    *ret_fd = knock(endpoint);
    return talk(*ret_fd, h, token);
}

/* Who does not ask for the door's proof, and has none himself, is not let in. */
static void a_wrong_proof_is_refused(void **state) {
    (void)state;
    struct world w = {.n = 3};
    int fd[2], status = 1;
    world_ports(&w);
    struct rt_hello h = overhear(&w);
    h.rank = 2;
    pid_t pid = start_rank(&w, 0, 2000);
    assert_int_equal(enter(w.endpoint[0], &h, "other", &fd[0]), RT_VERDICT_TOKEN);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[1]), RT_VERDICT_OK);
    close(fd[0]);
    close(fd[1]);
    (void)waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* The first that proves to be rank 2 is; while it lives the second is not. */
static void doubles_are_refused(void **state) {
    (void)state;
    struct world w = {.n = 3};
    int fd[3], status = 1;
    world_ports(&w);
    struct rt_hello h = overhear(&w);
    h.rank = 2;
    pid_t pid = start_rank(&w, 0, 2000);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[0]), RT_VERDICT_OK);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[1]), RT_VERDICT_DOUBLE);
    close(fd[0]);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[2]), RT_VERDICT_OK);
    close(fd[1]);
    close(fd[2]);
    (void)waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* ---- two groups ---- */

/* A group of two that waits for rank 1 in a thread of its own. */
struct host {
    struct rt_group g;
    pthread_t thread;
    struct co_err err;
    int rc;
};

static enum rt_verdict look_any(struct rt_group *g, const struct rt_hello *h) {
    (void)g;
    (void)h;
    return RT_VERDICT_OK;
}

static enum rt_verdict take_any(struct rt_group *g, const struct rt_hello *h, int fd) {
    (void)h;
    co_close(fd);
    g->missing--;
    return RT_VERDICT_OK;
}

static void *accept_there(void *arg) {
    struct host *h = arg;
    struct rt_accept a = {.g = &h->g,
        .fd = h->g.door->fd,
        .missing = &h->g.missing,
        .look = look_any,
        .take = take_any};
    h->rc = rt_accept_run(&a, rt_now_ms() + 20000, &h->err);
    return NULL;
}

static void host_start(struct host *h, struct rt_door *d, uint64_t job, uint64_t id) {
    static char token[] = "secret";
    *h = (struct host){.g = {.size = 2, .missing = 1, .job = job, .id = id, .token = token}};
    h->g.alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->g.door = d;
    assert_int_equal(pthread_create(&h->thread, NULL, accept_there, h), 0);
}

static void host_end(struct host *h) {
    assert_int_equal(pthread_join(h->thread, NULL), 0);
    if (h->rc < 0) {
        fail_msg("%s", co_err_text(&h->err));
    }
    co_close(h->g.alarm);
}

/* A thread that has accepted a rank of another group hands it to that group, whether this is one of
 * the same job or a grown one, which counts as another job. */
static void a_door_serves_all_groups_that_form(void **state) {
    (void)state;
    for (uint64_t job = 1; job <= 2; job++) {
        struct world w = {.n = 1};
        struct rt_door *d = NULL;
        struct host first, second;
        unsigned char nobody[RT_HELLO_BYTES], other[RT_HELLO_BYTES];
        world_ports(&w);
        assert_int_equal(rt_door_open(w.endpoint[0], &d, NULL), 0);
        struct rt_hello h = {.rank = 1, .size = 2, .job = 1, .group = 9};
        assert_int_equal(rt_hello_write(&h, nobody, NULL), 0);
        host_start(&first, d, 1, 1);
        int early = knock(w.endpoint[0]), late;
        /* When this one has its answer, the first thread has accepted the early one, too. */
        assert_int_equal(ask(w.endpoint[0], nobody, sizeof(nobody)), RT_VERDICT_LATER);
        h.job = job;
        h.group = 2;
        assert_int_equal(rt_hello_write(&h, other, NULL), 0);
        host_start(&second, d, job, 2);
        for (int i = 0; ask(w.endpoint[0], other, sizeof(other)) != RT_VERDICT_OK; i++) {
            assert_true(i < TRIES); /* it begins to accept */
        }
        assert_int_equal(talk(early, &h, "secret"), RT_VERDICT_OK);
        host_end(&second);
        h.job = h.group = 1;
        assert_int_equal(enter(w.endpoint[0], &h, "secret", &late), RT_VERDICT_OK);
        host_end(&first);
        assert_null(d->halls);
        close(early);
        close(late);
        rt_door_unref(d);
    }
}

/* As a Service's name: which family of addresses it has is not known. */
static void a_door_by_name_is_open_for_ipv4(void **state) {
    (void)state;
    CO_AUTOFREE char *endpoint = co_xasprintf("service.test:%u", co_test_ports(1));
    struct rt_door *d = NULL;
    assert_int_equal(rt_door_open(endpoint, &d, NULL), 0);
    int fd = knock(endpoint);
    assert_true(fd >= 0);
    close(fd);
    rt_door_unref(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_do_not_keep_a_group_from_forming),
        cmocka_unit_test(wrong_tokens_are_refused_and_said),
        cmocka_unit_test(clear_connections_of_an_encrypted_job_are_said),
        cmocka_unit_test(a_rank_that_is_missing_is_named),
        cmocka_unit_test(a_wrong_proof_is_refused),
        cmocka_unit_test(doubles_are_refused),
        cmocka_unit_test(a_door_serves_all_groups_that_form),
        cmocka_unit_test(a_door_by_name_is_open_for_ipv4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
