#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/conn.h"

/* This program's resolver: every name has these addresses. */
enum { ADDRESSES = 2 };
static struct sockaddr_in address[ADDRESSES];
static struct addrinfo list[ADDRESSES];

int getaddrinfo(const char *restrict host, const char *restrict port,
    const struct addrinfo *restrict hints, struct addrinfo **restrict ret) {
    (void)host;
    (void)port;
    *ret = list;
    return hints->ai_flags & AI_NUMERICHOST ? EAI_NONAME : 0;
}

void freeaddrinfo(struct addrinfo *given) {
    (void)given;
}

/* A socket of an address of its own. */
static int bind_to(struct sockaddr_in *ret) {
    socklen_t len = sizeof(*ret);
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)ret, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &len), 0);
    return fd;
}

static void on_up(void *arg) {
    *(const char **)arg = "up";
}

static void on_data(void *arg, const char *data, size_t len) {
    (void)arg;
    (void)data;
    (void)len;
}

static void on_down(void *arg, const struct co_err *err) {
    (void)err;
    *(const char **)arg = "down";
}

static void on_time(void *arg) {
    *(const char **)arg = "it waits";
}

/* The first one refuses at once; the last one's queue is full, so that it does not answer yet. */
static void the_last_address_is_waited_for(void **state) {
    (void)state;
    static const struct co_conn_fns fns = {.up = on_up, .data = on_data, .down = on_down};
    const char *what = NULL;
    struct co_loop *loop;
    struct co_conn *conn;
    int refuses = bind_to(&address[0]);
    CO_AUTOCLOSE int full = bind_to(&address[1]);
    CO_AUTOCLOSE int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(listen(full, 0), 0);
    assert_int_equal(connect(first, (const struct sockaddr *)&address[1], sizeof(address[1])), 0);
    /* It is in the queue once the kernel has seen its last packet, which a busy machine delays. */
    struct pollfd queued = {.fd = full, .events = POLLIN};
    assert_int_equal(poll(&queued, 1, 60000), 1);
    for (size_t i = 0; i < ADDRESSES; i++) {
        list[i] = (struct addrinfo){.ai_family = AF_INET,
            .ai_addr = (struct sockaddr *)&address[i],
            .ai_addrlen = sizeof(address[i]),
            .ai_next = i + 1 < ADDRESSES ? &list[i + 1] : NULL};
    }
    assert_int_equal(co_loop_new(&loop, NULL), 0);
    struct co_timer *timer = co_timer_new(loop, on_time, &what);
    co_timer_start(timer, 2500);
    assert_int_equal(co_conn_open(loop, "test", 80, NULL, &fns, &what, &conn, NULL), 0);
    while (!what) {
        co_loop_turn(loop);
    }
    assert_string_equal(what, "it waits");
    co_conn_close(conn);
    co_timer_free(timer);
    co_loop_free(loop);
    co_close(refuses);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_address_is_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
