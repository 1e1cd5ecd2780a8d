#include "runtime/net/net.h"

#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/clock_testing.h"
#include "common/interrupt.h"
#include "common/listen.h"
#include "common/mem.h"
#include "runtime/net/dial.h"

enum { LONG_MS = 3600 * 1000 };

/* This program's resolver does not answer for slow.test. */
int getaddrinfo(const char *restrict host, const char *restrict port,
    const struct addrinfo *restrict hints, struct addrinfo **restrict ret) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (host && strcmp(host, "slow.test") == 0) {
        (void)poll(NULL, 0, hints->ai_flags & AI_NUMERICHOST ? 0 : 600000);
        return EAI_NONAME;
    }
    return real(host, port, hints, ret);
}

static int listener(char *ret_endpoint, size_t size) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&a, len));
    assert_int_equal(0, listen(fd, 8));
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&a, &len));
    (void)snprintf(ret_endpoint, size, "127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

static void only_listening_endpoints_are_reachable(void **state) {
    (void)state;
    char up[32];
    CO_AUTOCLOSE int fd = listener(up, sizeof(up));
    assert_true(fd >= 0);
    const char *endpoints[] = {"127.0.0.1:1", up, "no port", "nohost.invalid:80", "[::1]:1"};
    struct net_reached ok[5];
    assert_int_equal(1, net_connect(endpoints, 5, 60000, ok));
    assert_string_equal(up, ok[1].address);
    CO_AUTOCLOSE int there = ok[1].fd;
    assert_true(there >= 0);
    assert_true(ok[0].fd < 0 && ok[2].fd < 0 && ok[3].fd < 0 && ok[4].fd < 0);
    assert_string_equal("cannot connect: Connection refused", ok[0].err.msg);
    assert_non_null(strstr(ok[3].err.msg, "nohost.invalid"));
}

static void a_silent_endpoint_costs_no_more_than_the_timeout(void **state) {
    (void)state;
    const char *endpoints[] = {"192.0.2.1:9"}; /* reserved for documentation: nobody answers */
    struct net_reached ok[1];
    int64_t begin = co_now_ms();
    assert_int_equal(0, net_connect(endpoints, 1, 200, ok));
    assert_true(co_now_ms() - begin < 60000); /* the kernel waits for two minutes */
    assert_true(ok[0].fd < 0);
    /* A machine may know at once that there is no way. */
    assert_int_equal(0, strncmp(ok[0].err.msg, "cannot connect: ", 16));
}

/* Ten seconds for all of them. */
static void a_resolver_that_is_silent_is_waited_for_once(void **state) {
    (void)state;
    char up[32];
    CO_AUTOCLOSE int fd = listener(up, sizeof(up));
    assert_true(fd >= 0);
    const char *endpoints[] = {"slow.test:80", up, "slow.test:81"};
    struct net_reached ok[3];
    int64_t begin = co_now_ms();
    assert_int_equal(1, net_connect(endpoints, 3, 300, ok));
    assert_true(co_now_ms() - begin < 60000);
    assert_string_equal(up, ok[1].address);
    assert_string_equal("its name is not known within 10 s", ok[0].err.msg);
    co_close(ok[1].fd);
}

static const struct net_protocol cats = {.magic = 0x53544143, .purpose = "cats"};

static bool yes(void) {
    return true;
}

static struct co_err dial_mute(const char *endpoint) {
    const struct net_auth auth = {&cats, "secret", false};
    struct net_reached there[1];
    assert_int_equal(1, net_connect(&endpoint, 1, 60000, there));
    struct net_dial d = {.fd = there[0].fd};
    co_interrupt_set(yes);
    net_dial_all(&auth, &d, 1, co_now_ms() + LONG_MS, -1);
    return d.err;
}

/* Ctrl-C in Python.  Each of these waits would take longer than this program may. */
static void the_program_ends_each_wait(void **state) {
    (void)state;
    char up[32];
    CO_AUTOCLOSE int fd = listener(up, sizeof(up));
    assert_int_equal(CO_CANCELED, dial_mute(up).code);
    const char *endpoints[] = {"slow.test:80", "192.0.2.1:9"}; /* nobody answers */
    struct net_reached ok[1];
    for (size_t i = 0; i < CO_ARRAY_LEN(endpoints); i++) {
        co_interrupt_set(yes);
        assert_int_equal(0, net_connect(&endpoints[i], 1, LONG_MS, ok));
        assert_true(ok[0].fd < 0);
    }
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&a, &len));
    co_interrupt_set(yes);
    int other = -1;
    struct co_err err = {0};
    assert_int_equal(CO_CANCELED, co_listen_within(up, LONG_MS, &other, &err)); /* it is taken */
    co_interrupt_set(NULL);
}

/* The name may have an address at which nobody listens. */
static void a_name_is_reached_at_the_address_that_answers(void **state) {
    (void)state;
    char up[32], name[32];
    CO_AUTOCLOSE int fd = listener(up, sizeof(up));
    assert_true(fd >= 0);
    (void)snprintf(name, sizeof(name), "localhost%s", strchr(up, ':'));
    const char *endpoints[] = {name};
    struct net_reached ok[1];
    assert_int_equal(1, net_connect(endpoints, 1, 2000, ok));
    assert_string_equal(up, ok[0].address);
    co_close(ok[0].fd);
}

static void own_addresses_are_listened_on_and_others_replaced(void **state) {
    (void)state;
    static const struct {
        const char *endpoint, *want, *or_want;
    } rows[] = {
        {"127.0.0.1:36000", "127.0.0.1:36000", NULL},
        {"127.0.0.7:36000", "127.0.0.7:36000", NULL},
        {"192.0.2.1:36000", "[::]:36000", "0.0.0.0:36000"},
        {"wide-ps-0:36000", "[::]:36000", "0.0.0.0:36000"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char text[300];
        assert_int_equal(0, net_listen_address(rows[i].endpoint, text, sizeof(text), NULL));
        assert_true(strcmp(text, rows[i].want) == 0 ||
                    (rows[i].or_want && strcmp(text, rows[i].or_want) == 0));
    }
    char text[300];
    assert_int_equal(CO_INVALID, net_listen_address("nonsense", text, sizeof(text), NULL));
}

/* Who connects and is silent is kept back, who speaks comes in. */
static void silent_peers_wait_in_the_kernel(void **state) {
    (void)state;
    char endpoint[32];
    int seconds = 0, fd = -1;
    socklen_t len = sizeof(seconds);
    assert_int_equal(0, net_listen("127.0.0.1:0", &fd, NULL));
    CO_AUTOCLOSE int door = fd;
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", co_listen_port(door));
    assert_int_equal(0, getsockopt(door, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, &len));
    assert_true(seconds > 0);
    struct net_reached r;
    assert_int_equal(1, net_connect(&(const char *){endpoint}, 1, 5000, &r));
    assert_int_equal(1, send(r.fd, "x", 1, 0));
    assert_int_equal(1, poll(&(struct pollfd){.fd = door, .events = POLLIN}, 1, 60000));
    CO_AUTOCLOSE int in = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    assert_true(in >= 0);
    co_close(r.fd);
}

/* The first is logged; of those within a minute the next line says how many there were. */
static void a_log_has_one_line_a_minute(void **state) {
    (void)state;
    struct net_log_limit l = {0};
    uint64_t n = 0;
    assert_false(net_log_due(&l, 0, &n)); /* nothing has happened */
    assert_true(net_log_due(&l, 1, &n));
    assert_int_equal(1, n);
    assert_false(net_log_due(&l, 1, &n));
    assert_false(net_log_due(&l, 2, &n));
    co_test_clock_forward(NET_LOG_MS);
    assert_true(net_log_due(&l, 0, &n));
    assert_int_equal(3, n);
    assert_false(net_log_due(&l, 0, &n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_listening_endpoints_are_reachable),
        cmocka_unit_test(a_silent_endpoint_costs_no_more_than_the_timeout),
        cmocka_unit_test(a_resolver_that_is_silent_is_waited_for_once),
        cmocka_unit_test(a_name_is_reached_at_the_address_that_answers),
        cmocka_unit_test(the_program_ends_each_wait),
        cmocka_unit_test(silent_peers_wait_in_the_kernel),
        cmocka_unit_test(a_log_has_one_line_a_minute),
        cmocka_unit_test(own_addresses_are_listened_on_and_others_replaced),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
