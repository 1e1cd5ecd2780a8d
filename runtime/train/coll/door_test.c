/* Strangers connect while a group forms: they say nothing or too little, speak another protocol or
 * version, are of another job, have a wrong token, or connect as a rank that is there already.  The
 * group forms all the same, and logs one line for each of them.  And two groups form at one door.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "common/parse.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/coll_testing.h"

enum { SILENT = 200, TRIES = 4000 };

static struct sockaddr_in loopback(uint32_t host, uint16_t port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK + host),
        .sin_port = htons(port)};
}

static uint16_t port_of(const char *endpoint) {
    struct co_hostport hp = {0};
    assert_int_equal(co_parse_hostport("endpoint", endpoint, &hp, NULL), 0);
    return hp.port;
}

/* From 127.0.0.1 + host.  -1: nobody listens. */
static int knock_once(uint32_t host, uint16_t port) {
    struct sockaddr_in own = loopback(host, 0), a = loopback(0, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0 &&
        syscall(SYS_connect, fd, &a, sizeof(a)) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

static int knock(const char *endpoint) {
    uint16_t port = port_of(endpoint);
    int fd = knock_once(0, port);
    for (int i = 1; i < TRIES && fd < 0; i++) {
        (void)poll(NULL, 0, 2);
        fd = knock_once(0, port);
    }
    return fd;
}

static const struct net_auth secret = {&coll_protocol, "secret", false};

static void write_hello(
    const struct coll_hello *who, const struct net_auth *auth, struct net_handshake *ret) {
    unsigned char caller[NET_CALLER_BYTES];
    coll_hello_write(who, caller);
    if (net_hello_write(auth, caller, ret, NULL) < 0) {
        abort();
    }
}

/* What the door says to n bytes of a hello; NET_REFUSAL_FORM: it hangs up. */
static enum net_refusal ask(const char *endpoint, const struct net_handshake *hello, size_t n) {
    struct net_handshake h = *hello;
    int fd = knock(endpoint);
    if (fd < 0 || send(fd, h.hello, n, MSG_NOSIGNAL) != (ssize_t)n) {
        abort();
    }
    ssize_t got = recv(fd, h.answer, sizeof(h.answer), MSG_WAITALL);
    close(fd);
    return got == sizeof(h.answer) ? net_answer_read(&secret, &h) : NET_REFUSAL_FORM;
}

static int just_form(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    (void)rank;
    return rt_group_barrier(g, err);
}

/* Only rank 0 is there; what the others would say is tried here first. */
static void strangers_do_not_keep_a_group_from_forming(void **state) {
    (void)state;
    struct coll_world w = {.n = 2};
    int log[2], silent[SILENT];
    assert_int_equal(pipe2(log, O_CLOEXEC | O_NONBLOCK), 0);
    world_ports(&w);
    w.shared =
        mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t r = 0; r < 1; r++) {
        w.pid[r] = fork();
        if (w.pid[r] == 0) {
            (void)dup2(log[1], STDERR_FILENO);
            co_test_clock_slow(true);
            leave(world_child(&w, r, just_form));
        }
    }
    for (int i = 0; i < SILENT; i++) {
        silent[i] = knock(w.endpoint[0]);
        assert_true(silent[i] >= 0);
    }
    enum { OLD_BYTES = 112 }; /* a hello of the release before */
    struct net_handshake hello = {0};
    struct coll_hello h = {.rank = 1, .size = 2, .job = 1, .group = 1};
    write_hello(&h, &secret, &hello);
    assert_int_equal(ask(w.endpoint[0], &hello, NET_HELLO_BYTES), COLL_REFUSAL_JOB);
    assert_int_equal(ask(w.endpoint[0], &hello, NET_HELLO_BYTES), COLL_REFUSAL_JOB);
    hello.hello[4] = 2;
    assert_int_equal(ask(w.endpoint[0], &hello, OLD_BYTES), NET_REFUSAL_VERSION);
    memset(hello.hello, 'x', sizeof(hello.hello));
    assert_int_equal(ask(w.endpoint[0], &hello, NET_HELLO_BYTES), NET_REFUSAL_FORM);
    w.pid[1] = fork();
    if (w.pid[1] == 0) {
        co_test_clock_slow(true);
        leave(world_child(&w, 1, just_form));
    }
    assert_int_equal(world_end(&w, 0), 0);
    world_done(&w);
    char text[20000] = "";
    assert_true(read(log[0], text, sizeof(text) - 1) > 0);
    const char *want[] = {"from=\"rank 1 of 2 from 127.0.0.1\" reason=\"another job",
        "version 2 of the protocol", "this library's protocol"};
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

static void a_rank_that_is_missing_is_named(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
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

/* It waits for the others until stop_rank, or WORLD_MS, and long for their handshakes. */
static pid_t start_rank(struct coll_world *w, uint32_t rank) {
    pid_t pid = fork();
    if (pid == 0) {
        co_test_clock_slow(true);
        struct co_err err = {0};
        struct rt_group *g = NULL;
        struct rt_group_options o = world_options(w, rank);
        o.form_timeout_ms = WORLD_MS;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(rt_group_open(NULL, &o, &g, &err) == CO_TIMEOUT ? 0 : 1);
    }
    return pid;
}

/* True: it was still waiting. */
static bool stop_rank(pid_t pid) {
    int status = 0;
    kill(pid, SIGKILL);
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

/* What rank 1 says to whoever is at rank 0's endpoint: the job, the group. */
static struct coll_hello overhear(struct coll_world *w) {
    struct co_hostport hp;
    unsigned char wire[NET_HELLO_BYTES];
    struct coll_hello h = {0};
    assert_int_equal(co_parse_hostport("endpoint", w->endpoint[0], &hp, NULL), 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons(hp.port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 1), 0);
    pid_t pid = start_rank(w, 1);
    int c = accept(fd, NULL, NULL);
    assert_int_equal(recv(c, wire, sizeof(wire), MSG_WAITALL), sizeof(wire));
    assert_int_equal(coll_hello_read(net_caller_bytes(wire), &h), NET_REFUSAL_NONE);
    assert_true(stop_rank(pid));
    close(c);
    close(fd);
    return h;
}

static void say_hello(int fd, const struct coll_hello *h, struct net_handshake *ret) {
    write_hello(h, &secret, ret);
    assert_int_equal(send(fd, ret->hello, sizeof(ret->hello), 0), sizeof(ret->hello));
    assert_int_equal(recv(fd, ret->answer, sizeof(ret->answer), MSG_WAITALL), sizeof(ret->answer));
}

static void prove(int fd, const struct net_handshake *h, const char *token) {
    unsigned char proof[NET_PROOF_BYTES];
    net_proof_write(&(struct net_auth){&coll_protocol, token, false}, h, proof);
    assert_int_equal(send(fd, proof, sizeof(proof), MSG_NOSIGNAL), sizeof(proof));
}

static enum net_refusal welcome(int fd) {
    unsigned char wire[NET_WELCOME_BYTES];
    assert_int_equal(recv(fd, wire, sizeof(wire), MSG_WAITALL), sizeof(wire));
    return net_welcome_read(&secret, wire);
}

/* The whole talk, with a proof by this token. */
static enum net_refusal talk(int fd, const struct coll_hello *h, const char *token) {
    struct net_handshake shake = {0};
    say_hello(fd, h, &shake);
    enum net_refusal why = net_answer_read(&secret, &shake);
    if (why == NET_REFUSAL_NONE) {
        prove(fd, &shake, token);
        why = welcome(fd);
    }
    return why;
}

/* *ret_fd stays open. */
static enum net_refusal enter(
    const char *endpoint, const struct coll_hello *h, const char *token, int *ret_fd) {
    *ret_fd = knock(endpoint);
    return talk(*ret_fd, h, token);
}

/* Who does not ask for the door's proof, and has none himself, is not let in. */
static void a_wrong_proof_is_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    int fd[2];
    world_ports(&w);
    struct coll_hello h = overhear(&w);
    h.rank = 2;
    pid_t pid = start_rank(&w, 0);
    assert_int_equal(enter(w.endpoint[0], &h, "other", &fd[0]), NET_REFUSAL_TOKEN);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[1]), NET_REFUSAL_NONE);
    close(fd[0]);
    close(fd[1]);
    assert_true(stop_rank(pid));
}

/* The first that proves to be rank 2 is; while it lives the second is not. */
static void a_second_connection_of_a_rank_is_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    int fd[3];
    world_ports(&w);
    struct coll_hello h = overhear(&w);
    h.rank = 2;
    pid_t pid = start_rank(&w, 0);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[0]), NET_REFUSAL_NONE);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[1]), COLL_REFUSAL_DOUBLE);
    close(fd[0]);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd[2]), NET_REFUSAL_NONE);
    close(fd[1]);
    close(fd[2]);
    assert_true(stop_rank(pid));
}

/* An address may be another rank's by now. */
static void a_hello_meant_for_another_rank_is_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    int fd;
    world_ports(&w);
    struct coll_hello h = overhear(&w);
    h.rank = 2;
    h.to = 1;
    pid_t pid = start_rank(&w, 0);
    assert_int_equal(enter(w.endpoint[0], &h, "secret", &fd), COLL_REFUSAL_RANK);
    close(fd);
    assert_true(stop_rank(pid));
}

/* Rank 0 stands still until the other's patience is over.  It does not wait for a rank that is
 * gone, but for the one that comes again. */
static void a_rank_that_left_before_its_welcome_is_not_counted(void **state) {
    (void)state;
    struct coll_world w = {.n = 2};
    struct net_handshake shake = {0};
    int status = 0;
    world_ports(&w);
    w.shared =
        mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct coll_hello h = overhear(&w);
    w.pid[0] = fork();
    if (w.pid[0] == 0) {
        co_test_clock_slow(true);
        leave(world_child(&w, 0, just_form));
    }
    int fd = knock(w.endpoint[0]);
    say_hello(fd, &h, &shake);
    kill(w.pid[0], SIGSTOP);
    assert_int_equal(waitpid(w.pid[0], &status, WUNTRACED), w.pid[0]);
    prove(fd, &shake, "secret");
    close(fd);
    kill(w.pid[0], SIGCONT);
    world_start_rank(&w, 1, just_form);
    assert_int_equal(world_end(&w, 0), 0);
    world_done(&w);
}

/* ---- floods ---- */

/* Opens SILENT connections and keeps them until the next time.  hosts: from so many addresses, of
 * which the first is also the ranks'.  Every second stranger says something. */
static void flood(uint16_t port, uint32_t hosts) {
    static int strangers[SILENT];
    for (uint32_t i = 0; i < SILENT; i++) {
        if (strangers[i] > 0) { /* 0, -1: none */
            close(strangers[i]);
        }
        strangers[i] = knock_once(i % hosts, port);
        if (i & 1) {
            (void)!send(strangers[i], "G", 1, MSG_NOSIGNAL);
        }
    }
}

/* Between the bytes of a rank that is far away as many strangers come as want.  One whose hello was
 * right keeps its place, whether they come from its own address, another one, or one each. */
static void strangers_do_not_displace_a_rank(void **state) {
    (void)state;
    static const uint32_t hosts[] = {1, 2, SILENT};
    for (size_t i = 0; i < CO_ARRAY_LEN(hosts); i++) {
        struct coll_world w = {.n = 3};
        struct net_handshake shake = {0}, nonsense = {.hello = {1}};
        world_ports(&w);
        struct coll_hello h = overhear(&w);
        h.rank = 2;
        pid_t pid = start_rank(&w, 0);
        int fd = knock(w.endpoint[0]);
        say_hello(fd, &h, &shake);
        flood(port_of(w.endpoint[0]), hosts[i]);
        /* With this answer all of them have been accepted. */
        assert_int_equal(ask(w.endpoint[0], &nonsense, NET_HELLO_BYTES), NET_REFUSAL_FORM);
        prove(fd, &shake, "secret");
        assert_int_equal(welcome(fd), NET_REFUSAL_NONE);
        close(fd);
        assert_true(stop_rank(pid));
    }
}

/* A stranger that knows the job, but not its token, gets that answer before it gets a proof to test
 * guesses against. */
static void a_hello_needs_the_token(void **state) {
    (void)state;
    struct coll_world w = {.n = 2};
    struct net_handshake hello = {0};
    world_ports(&w);
    struct coll_hello h = overhear(&w);
    write_hello(&h, &(struct net_auth){&coll_protocol, "guess", false}, &hello);
    pid_t pid = start_rank(&w, 0);
    assert_int_equal(ask(w.endpoint[0], &hello, NET_HELLO_BYTES), NET_REFUSAL_TOKEN);
    assert_true(stop_rank(pid));
}

/* The way from rank 1 to rank 0 leads through a network that carries nothing of a handshake before
 * a flood of strangers has come, from the ranks' own address and others. */
static struct {
    int fd;
    uint16_t port, door; /* 0: this process connects directly */
    uint32_t hosts;
    uint32_t last_try; /* with this one to the door the time for all of them is over; 0: none */
} network;

int connect(int fd, const struct sockaddr *to, socklen_t len) {
    struct sockaddr_in a;
    memcpy(&a, to, len < sizeof(a) ? len : sizeof(a));
    if (a.sin_family != AF_INET || ntohs(a.sin_port) != network.door) {
        return (int)syscall(SYS_connect, fd, to, len);
    }
    if (network.last_try > 0 && --network.last_try == 0) {
        co_test_clock_forward(WORLD_MS);
    }
    a.sin_port = network.port ? htons(network.port) : a.sin_port;
    return (int)syscall(SYS_connect, fd, &a, sizeof(a));
}

/* *carried: how often it was called for this connection. */
static bool carry(int from, int to, uint32_t *carried) {
    enum { HANDSHAKE = 4 }; /* hello, answer, proof, welcome */
    char bytes[4096];
    ssize_t n = recv(from, bytes, sizeof(bytes), 0);
    if ((*carried)++ < HANDSHAKE) {
        flood(network.door, network.hosts);
    }
    return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

/* Until the rank, which has the other end of `rank`, has ended, and all that it sent is carried. */
static void run_network(int rank) {
    enum { MOST = 16 };
    struct pollfd fds[2 + 2 * MOST] = {
        {.fd = network.fd, .events = POLLIN}, {.fd = rank, .events = POLLIN}};
    uint32_t carried[1 + MOST] = {0};
    nfds_t n = 2, open = 0;
    bool ended = false;
    while (!ended || open > 0) {
        (void)poll(fds, n, -1);
        for (nfds_t i = 2; i < n; i++) {
            int *other = &fds[i ^ 1].fd;
            if (fds[i].fd >= 0 && fds[i].revents && !carry(fds[i].fd, *other, &carried[i / 2])) {
                close(fds[i].fd);
                close(*other);
                fds[i].fd = *other = -1;
                open--;
            }
        }
        if (fds[0].revents && n < CO_ARRAY_LEN(fds)) {
            fds[n++] = (struct pollfd){.fd = accept(network.fd, NULL, NULL), .events = POLLIN};
            fds[n++] = (struct pollfd){.fd = knock_once(0, network.door), .events = POLLIN};
            open++;
        }
        ended |= fds[1].revents != 0;
        fds[1].fd = ended ? -1 : rank;
    }
}

/* A flood takes as long as the machine pleases. */
static void go_through_the_network(struct coll_world *w, uint32_t rank) {
    struct sockaddr_in a = loopback(0, 0);
    socklen_t len = sizeof(a);
    int ends[2];
    co_test_clock_slow(true);
    if (rank != 1) {
        return;
    }
    network.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    network.door = port_of(w->endpoint[0]);
    if (bind(network.fd, (struct sockaddr *)&a, len) < 0 || listen(network.fd, 8) < 0 ||
        getsockname(network.fd, (struct sockaddr *)&a, &len) < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        abort();
    }
    (void)fflush(NULL);
    if (fork() == 0) {
        close(ends[1]);
        run_network(ends[0]);
        _exit(0);
    }
    close(ends[0]);
    network.port = ntohs(a.sin_port);
}

static void a_group_forms_in_a_flood(void **state) {
    (void)state;
    static const struct {
        enum rt_transport transport;
        uint32_t hosts;
    } rows[] = {{RT_TRANSPORT_TCP, 1}, {RT_TRANSPORT_TCP, SILENT}, {RT_TRANSPORT_SHM, 1}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct coll_world w = {
            .n = 2, .transport = rows[i].transport, .enter = go_through_the_network};
        network.hosts = rows[i].hosts;
        assert_int_equal(world_run(&w, just_form), 0);
    }
}

/* Rank 1 with another token than rank 0.  It has tried twice before its time is over. */
static void wrong_tokens_are_refused_and_named(void **state) {
    (void)state;
    struct coll_world w = {.n = 2};
    world_ports(&w);
    pid_t pid = start_rank(&w, 0);
    close(knock(w.endpoint[0])); /* it listens */
    struct rt_group *g = NULL;
    struct co_err err = {0};
    struct rt_group_options o = world_options(&w, 1);
    o.token = "other";
    o.form_timeout_ms = WORLD_MS;
    network.door = port_of(w.endpoint[0]);
    network.last_try = 3;
    assert_int_equal(rt_group_open(NULL, &o, &g, &err), CO_TIMEOUT);
    network.door = 0;
    assert_non_null(strstr(err.msg, "PADDLE_JOB_TOKEN"));
    assert_true(stop_rank(pid));
}

static void ranks_that_disagree_about_encryption_say_so(void **state) {
    (void)state;
    static const char *const said[] = {
        "the rank does not encrypt, this rank does: PADDLE_JOB_ENCRYPT",
        "the rank encrypts, this rank does not: PADDLE_JOB_ENCRYPT"};
    for (int there = 0; there < 2; there++) {
        struct coll_world w = {.n = 2, .encrypt = there};
        world_ports(&w);
        pid_t pid = start_rank(&w, 0);
        close(knock(w.endpoint[0])); /* it listens */
        struct rt_group *g = NULL;
        struct co_err err = {0};
        struct rt_group_options o = world_options(&w, 1);
        o.encrypt = there ? RT_ENCRYPT_NO : RT_ENCRYPT_YES;
        o.form_timeout_ms = WORLD_MS;
        network.door = port_of(w.endpoint[0]);
        network.last_try = 3;
        assert_int_equal(rt_group_open(NULL, &o, &g, &err), CO_TIMEOUT);
        network.door = 0;
        assert_non_null(strstr(err.msg, said[there]));
        assert_true(stop_rank(pid));
    }
}

/* ---- two groups ---- */

enum { FORM_MS = 60000 };

/* A group of two that waits for rank 1 in a thread of its own. */
struct host {
    struct rt_group g;
    pthread_t thread;
    struct co_err err;
    int rc;
};

static enum net_refusal look_any(struct rt_group *g, const struct coll_hello *h) {
    (void)g;
    (void)h;
    return NET_REFUSAL_NONE;
}

static bool take_any(struct rt_group *g, const struct coll_hello *h, struct net_stream *s) {
    (void)h;
    net_stream_close(s);
    g->missing--;
    return true;
}

static bool lacks_any(const struct rt_group *g, const struct coll_peer *p) {
    (void)p;
    return g->missing > 0;
}

static void *accept_there(void *arg) {
    struct host *h = arg;
    struct coll_accept a = {.g = &h->g,
        .fd = h->g.door->fd,
        .missing = &h->g.missing,
        .look = look_any,
        .take = take_any,
        .lacks = lacks_any};
    h->rc = coll_accept_run(&a, co_now_ms() + FORM_MS, &h->err);
    return NULL;
}

static void host_start(struct host *h, struct coll_door *d, uint64_t job, uint64_t id) {
    static char token[] = "secret", endpoint[] = "127.0.0.1:1";
    static char *endpoints[] = {endpoint, endpoint};
    static struct coll_peer peers[2];
    *h = (struct host){.g = {.size = 2,
                           .missing = 1,
                           .job = job,
                           .id = id,
                           .token = token,
                           .endpoints = endpoints,
                           .peers = peers}};
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
    co_test_clock_slow(true);
    for (uint64_t job = 1; job <= 2; job++) {
        struct coll_world w = {.n = 1};
        struct coll_door *d = NULL;
        struct host first, second;
        struct net_handshake nobody = {0}, other = {0};
        world_ports(&w);
        assert_int_equal(coll_door_open(w.endpoint[0], &d, NULL), 0);
        struct coll_hello h = {.rank = 1, .size = 2, .job = 1, .group = 9};
        write_hello(&h, &secret, &nobody);
        host_start(&first, d, 1, 1);
        int early = knock(w.endpoint[0]), late;
        /* When this one has its answer, the first thread has accepted the early one, too. */
        assert_int_equal(ask(w.endpoint[0], &nobody, NET_HELLO_BYTES), COLL_REFUSAL_LATER);
        h.job = job;
        h.group = 2;
        write_hello(&h, &secret, &other);
        host_start(&second, d, job, 2);
        for (int i = 0; ask(w.endpoint[0], &other, NET_HELLO_BYTES) != NET_REFUSAL_NONE; i++) {
            assert_true(i < TRIES); /* it begins to accept */
        }
        assert_int_equal(talk(early, &h, "secret"), NET_REFUSAL_NONE);
        host_end(&second);
        h.job = h.group = 1;
        assert_int_equal(enter(w.endpoint[0], &h, "secret", &late), NET_REFUSAL_NONE);
        host_end(&first);
        assert_null(d->halls);
        close(early);
        close(late);
        coll_door_unref(d);
    }
    co_test_clock_slow(false);
}

/* The one that does not come may be the one that was refused, of a group of another size. */
static void who_waits_says_which_rank_was_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = 1};
    struct coll_door *d = NULL;
    struct host host;
    struct net_handshake hello = {0};
    struct coll_hello h = {.rank = 2, .size = 3, .job = 2, .group = 2};
    world_ports(&w);
    assert_int_equal(coll_door_open(w.endpoint[0], &d, NULL), 0);
    co_test_clock_slow(true);
    host_start(&host, d, 1, 1);
    write_hello(&h, &secret, &hello);
    assert_int_equal(ask(w.endpoint[0], &hello, NET_HELLO_BYTES), COLL_REFUSAL_JOB);
    co_test_clock_forward(FORM_MS);
    assert_int_equal(pthread_join(host.thread, NULL), 0);
    co_test_clock_slow(false);
    assert_int_equal(host.rc, CO_TIMEOUT);
    assert_string_equal(host.err.msg, "rank 1 of 2 has not come within 60000 ms; refused rank 2 of "
                                      "3 from 127.0.0.1: another job, "
                                      "generation or list of endpoints");
    co_close(host.g.alarm);
    coll_door_unref(d);
}

/* As a Service's name: which family of addresses it has is not known. */
static void a_door_by_name_is_open_for_ipv4(void **state) {
    (void)state;
    CO_AUTOFREE char *endpoint = co_xasprintf("service.test:%u", co_test_ports(1));
    struct coll_door *d = NULL;
    assert_int_equal(coll_door_open(endpoint, &d, NULL), 0);
    int fd = knock(endpoint);
    assert_true(fd >= 0);
    close(fd);
    coll_door_unref(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_do_not_keep_a_group_from_forming),
        cmocka_unit_test(ranks_that_disagree_about_encryption_say_so),
        cmocka_unit_test(a_rank_that_is_missing_is_named),
        cmocka_unit_test(a_wrong_proof_is_refused),
        cmocka_unit_test(a_second_connection_of_a_rank_is_refused),
        cmocka_unit_test(a_hello_meant_for_another_rank_is_refused),
        cmocka_unit_test(a_rank_that_left_before_its_welcome_is_not_counted),
        cmocka_unit_test(strangers_do_not_displace_a_rank),
        cmocka_unit_test(a_hello_needs_the_token),
        cmocka_unit_test(a_group_forms_in_a_flood),
        cmocka_unit_test(wrong_tokens_are_refused_and_named),
        cmocka_unit_test(a_door_serves_all_groups_that_form),
        cmocka_unit_test(who_waits_says_which_rank_was_refused),
        cmocka_unit_test(a_door_by_name_is_open_for_ipv4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
