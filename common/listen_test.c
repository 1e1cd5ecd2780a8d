#include "common/listen.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/port_holder.h"
#include "common/ports_testing.h"

static int open_at(const char *addr) {
    struct co_err err = {0};
    int fd = -1;
    if (co_listen(addr, &fd, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_not_equal(co_listen_port(fd), 0);
    return fd;
}

/* 0 or an errno. */
static int dial(const char *ip, uint16_t port) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, ip, &v4.sin_addr) == 1;
    CO_AUTOCLOSE int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!is_v4) {
        assert_int_equal(inet_pton(AF_INET6, ip, &v6.sin6_addr), 1);
    }
    const struct sockaddr *a = is_v4 ? (const void *)&v4 : (const void *)&v6;
    return connect(fd, a, is_v4 ? sizeof(v4) : sizeof(v6)) < 0 ? errno : 0;
}

static bool has_ipv6(void) {
    CO_AUTOCLOSE int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;
}

static void a_listener_has_the_families_of_its_address(void **state) {
    (void)state;
    static const struct {
        const char *addr;
        bool v4, v6;
    } rows[] = {
        {"127.0.0.1:0", true, false},
        {"localhost:0", true, false},
        {"[::1]:0", false, true},
        {":0", true, true},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        if (!rows[i].v4 && !has_ipv6()) {
            continue; /* nowhere to listen */
        }
        CO_AUTOCLOSE int fd = open_at(rows[i].addr);
        int v4 = dial("127.0.0.1", co_listen_port(fd));
        int v6 = dial("::1", co_listen_port(fd));
        if ((v4 == 0) != rows[i].v4 || (has_ipv6() && (v6 == 0) != rows[i].v6)) {
            fail_msg("%s: %s, %s", rows[i].addr, strerror(v4), strerror(v6));
        }
    }
}

static void errors_name_the_address_that_cannot_be_listened_on(void **state) {
    (void)state;
    CO_AUTOCLOSE int fd = open_at("127.0.0.1:0");
    char taken[64];
    (void)snprintf(taken, sizeof(taken), "127.0.0.1:%u", co_listen_port(fd));
    const struct {
        const char *addr;
        int code;
    } rows[] = {
        {taken, CO_UNAVAILABLE},
        {"8080", CO_INVALID},
        {"[::1:0", CO_INVALID},
        {"127.0.0.1:70000", CO_INVALID},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        int other = -1;
        int r = co_listen(rows[i].addr, &other, &err);
        if (r != rows[i].code || !strstr(err.msg, rows[i].addr) || other != -1) {
            fail_msg("%s: %d, %s", rows[i].addr, r, err.msg);
        }
    }
    struct co_err err = {0};
    int other = -1;
    assert_true(co_listen("192.0.2.1:0", &other, &err) < 0); /* nobody has it (RFC 5737) */
}

/* Holds a port as the near end of a connection, not with listen; *ret_peer listens at the far end.
 * The kernel gives the port to no connection of another process, as it does with those of its own
 * choice. */
static uint16_t hold_port(int *ret_fd, int *ret_peer) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    *ret_peer = open_at("127.0.0.1:0");
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_port = htons(co_listen_port(*ret_peer)),
        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    *ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    do { /* a connection of an earlier test may still be in TIME_WAIT there */
        own.sin_port = htons(co_test_ports(1));
    } while (bind(*ret_fd, (const struct sockaddr *)&own, sizeof(own)) < 0 && errno == EADDRINUSE);
    assert_int_equal(connect(*ret_fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    return co_listen_port(*ret_fd);
}

static bool no_port_left;

int bind(int fd, const struct sockaddr *addr, socklen_t len) {
    struct sockaddr_in a = {0};
    memcpy(&a, addr, len < sizeof(a) ? len : sizeof(a)); /* both families' port is in one place */
    int r = (int)syscall(SYS_bind, fd, addr, len);
    if (r == 0 && no_port_left && a.sin_port == 0) {
        errno = EADDRINUSE;
        return -1;
    }
    return r;
}

/* Thousands of connections of one address may have all ports. */
static void an_address_is_local_also_when_it_has_no_port_left(void **state) {
    (void)state;
    static const struct {
        const char *address;
        bool local;
    } rows[] = {{"127.0.0.1", true}, {"127.1.2.3", true}, {"192.0.2.1", false} /* RFC 5737 */};
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(rows); i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(80)};
        assert_int_equal(inet_pton(AF_INET, rows[i / 2].address, &a.sin_addr), 1);
        no_port_left = i % 2 == 1;
        bool local = co_listen_is_local((const struct sockaddr *)&a, sizeof(a));
        no_port_left = false;
        assert_int_equal(local, rows[i / 2].local);
    }
}

static int opened; /* folders, since the test has set it to 0 */

DIR *opendir(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    opened++;
    return fd >= 0 ? fdopendir(fd) : NULL;
}

/* The walk over all files of all processes takes a second where there are many. */
static void the_process_that_holds_a_port_is_searched_only_on_request(void **state) {
    (void)state;
    CO_AUTOCLOSE int peer = -1;
    CO_AUTOCLOSE int fd = -1;
    char addr[64];
    struct co_err err = {0};
    int other = -1;
    (void)snprintf(addr, sizeof(addr), "127.0.0.1:%u", hold_port(&fd, &peer));
    opened = 0;
    assert_int_equal(co_listen(addr, &other, NULL), CO_UNAVAILABLE);
    assert_int_equal(opened, 0);
    assert_int_equal(co_listen(addr, &other, &err), CO_UNAVAILABLE);
    assert_true(opened > 0);
}

static void the_process_that_has_a_port_is_named(void **state) {
    (void)state;
    char self[80], want[160], addr[64];
    FILE *f = fopen("/proc/self/comm", "re");
    char name[32] = "";
    assert_non_null(f);
    assert_non_null(fgets(name, sizeof(name), f));
    (void)fclose(f);
    name[strcspn(name, "\n")] = '\0';
    (void)snprintf(self, sizeof(self), "process %d (%s)", (int)getpid(), name);

    CO_AUTOCLOSE int peer = -1;
    CO_AUTOCLOSE int fd = -1;
    uint16_t port = hold_port(&fd, &peer), listens = co_listen_port(peer);
    char elsewhere[64]; /* a server there blocks nobody here */
    (void)snprintf(elsewhere, sizeof(elsewhere), "127.0.0.2:%u", port);
    CO_AUTOCLOSE int aside = open_at(elsewhere);
    assert_true(aside >= 0);
    const struct {
        uint16_t port;
        char *said;
    } rows[] = {
        {port, co_xasprintf("127.0.0.1:%u within 0.05 s: Address already in use: %s has a "
                            "connection from there to 127.0.0.1:%u",
                   port, self, listens)},
        {listens, co_xasprintf("127.0.0.1:%u within 0.05 s: Address already in use: %s listens "
                               "there",
                      listens, self)},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        int other = -1;
        (void)snprintf(addr, sizeof(addr), "127.0.0.1:%u", rows[i].port);
        (void)snprintf(want, sizeof(want), "cannot listen on %s", rows[i].said);
        assert_int_equal(co_listen_within(addr, 50, &other, &err), CO_UNAVAILABLE);
        assert_string_equal(err.msg, want);
        free(rows[i].said);
    }
    co_close(fd);
    fd = -1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(1) /* tcpmux: nobody */};
    co_port_holder((const struct sockaddr *)&at, want, sizeof(want));
    assert_string_equal(want, "");
    /* Any address is blocked by all of them: the one that listens is named. */
    at.sin_port = htons(port);
    co_port_holder((const struct sockaddr *)&at, want, sizeof(want));
    assert_true(strncmp(want, self, strlen(self)) == 0 && strstr(want, " listens there"));
}

static void *release(void *arg) {
    (void)poll(NULL, 0, 20); /* most times the first try has failed by then; sooner is no matter */
    co_close(*(const int *)arg);
    return NULL;
}

static void a_port_that_is_free_again_is_taken(void **state) {
    (void)state;
    CO_AUTOCLOSE int peer = -1;
    int fd = -1;
    char addr[64];
    uint16_t port = hold_port(&fd, &peer);
    struct linger none = {.l_onoff = 1}; /* no TIME_WAIT behind it */
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), 0);
    (void)snprintf(addr, sizeof(addr), "127.0.0.1:%u", port);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release, &fd), 0);
    struct co_err err = {0};
    CO_AUTOCLOSE int got = -1;
    if (co_listen_within(addr, 60000, &got, &err)) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(co_listen_port(got), port);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void the_listening_socket_is_nonblocking_and_cloexec(void **state) {
    (void)state;
    CO_AUTOCLOSE int fd = open_at(":0");
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(accept(fd, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_has_the_families_of_its_address),
        cmocka_unit_test(errors_name_the_address_that_cannot_be_listened_on),
        cmocka_unit_test(the_process_that_holds_a_port_is_searched_only_on_request),
        cmocka_unit_test(an_address_is_local_also_when_it_has_no_port_left),
        cmocka_unit_test(the_process_that_has_a_port_is_named),
        cmocka_unit_test(a_port_that_is_free_again_is_taken),
        cmocka_unit_test(the_listening_socket_is_nonblocking_and_cloexec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
