/* `paddlerun info`: prints the role that this process's environment describes, and tries to connect
 * to all peers. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/contract.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/net/net.h"
#include "runtime/tools/tools.h"
#include "runtime/train/cost/cost.h"
#include "runtime/train/role/role.h"

/* A peer that is being connected to. */
struct peer_check {
    const char *role, *endpoint;
    uint32_t index;
    bool self;
    int fd;
    char state[128]; /* "": still unknown */
};

static void begin(struct peer_check *p) {
    struct co_hostport hp;
    p->fd = -1;
    if (co_parse_hostport("endpoint", p->endpoint, &hp, NULL)) {
        (void)snprintf(p->state, sizeof(p->state), "no endpoint");
        return;
    }
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", hp.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *a = NULL;
    /* no deadline: the resolver has one of its own */
    int r = getaddrinfo(hp.host, port, &hints, &a);
    if (r) {
        (void)snprintf(p->state, sizeof(p->state), "not reachable: %s", gai_strerror(r));
        return;
    }
    p->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* no wait: the descriptor is non-blocking */
    if (p->fd < 0 || (connect(p->fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)) {
        (void)snprintf(p->state, sizeof(p->state), "not reachable: %s", strerror(errno));
    }
    freeaddrinfo(a);
}

static void settle(struct peer_check *p) {
    int e = 0;
    socklen_t len = sizeof(e);
    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0) {
        e = errno;
    }
    if (e == 0) {
        (void)snprintf(p->state, sizeof(p->state), "reachable");
    } else {
        (void)snprintf(p->state, sizeof(p->state), "not reachable: %s%s", strerror(e),
            e == ECONNREFUSED ? ", nothing listens there" : "");
    }
}

static bool waiting(const struct pollfd *fds, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (fds[i].fd >= 0) {
            return true;
        }
    }
    return false;
}

/* Connects to all peers at once.  A peer that has not answered after timeout_ms is "no answer". */
static void probe(struct peer_check *peer, size_t n, int64_t timeout_ms) {
    CO_AUTOFREE struct pollfd *fds = co_xcalloc(n, sizeof(*fds));
    for (size_t i = 0; i < n; i++) {
        if (peer[i].self) {
            peer[i].fd = -1;
            (void)snprintf(peer[i].state, sizeof(peer[i].state), "this process");
        } else {
            begin(&peer[i]);
        }
        fds[i] = (struct pollfd){.fd = peer[i].state[0] ? -1 : peer[i].fd, .events = POLLOUT};
    }
    const int64_t deadline = co_now_ms() + timeout_ms;
    int64_t left = timeout_ms;
    while (left > 0 && waiting(fds, n) && poll(fds, n, co_poll_ms(left)) != 0) {
        for (size_t i = 0; i < n; i++) {
            if (fds[i].fd >= 0 && fds[i].revents) {
                settle(&peer[i]);
                fds[i].fd = -1;
            }
        }
        left = deadline - co_now_ms();
    }
    for (size_t i = 0; i < n; i++) {
        if (!peer[i].state[0]) {
            (void)snprintf(peer[i].state, sizeof(peer[i].state),
                "not reachable: no answer in %.1f s", (double)timeout_ms / 1000);
        }
        if (peer[i].fd >= 0) {
            co_close(peer[i].fd);
        }
    }
}

static size_t add_peers(const struct role_topology *t, enum role role,
    const struct role_endpoints *l, struct peer_check *ret) {
    for (uint32_t i = 0; i < l->n; i++) {
        ret[i] = (struct peer_check){.role = role_name(role),
            .endpoint = l->item[i],
            .index = i,
            .self = role == t->role && i == t->index};
    }
    return l->n;
}

static void print_peers(const struct role_topology *t, int64_t timeout_ms) {
    size_t n = (size_t)t->servers.n + t->trainers.n + t->heters.n;
    CO_AUTOFREE struct peer_check *peer = co_xcalloc(n + 1, sizeof(*peer));
    size_t at = add_peers(t, ROLE_SERVER, &t->servers, peer);
    at += add_peers(t, ROLE_WORKER, &t->trainers, peer + at);
    (void)add_peers(t, ROLE_HETER, &t->heters, peer + at);
    if (timeout_ms > 0) {
        probe(peer, n, timeout_ms);
    }
    for (size_t i = 0; i < n; i++) {
        char who[48];
        (void)snprintf(who, sizeof(who), "%s %u", peer[i].role, peer[i].index);
        (void)printf("%-12s%-28s %s\n", who, peer[i].endpoint, peer[i].state);
    }
}

static void print_place(const struct role_topology *t) {
    uint32_t n = role_topology_count(t, t->role);
    (void)printf("%-12s%s\n", "training", role_training_name(t->training));
    (void)printf("%-12s%s %u", "role", role_name(t->role), t->index);
    (void)printf(n ? " of %u\n" : "\n", n);
    if (t->endpoint) {
        (void)printf("%-12s%s\n", "endpoint", t->endpoint);
    }
    if (t->job[0]) {
        (void)printf("%-12s%s\n", "job", t->job);
    }
    if (t->training == ROLE_TRAINING_PS) {
        (void)printf("%-12s%u\n", "workers", t->n_workers);
    }
    if (t->gloo.workers) {
        (void)printf("%-12s%s, at %s\n", "gloo",
            t->gloo.servers ? "workers and servers" : "workers",
            t->gloo.http_endpoint ? t->gloo.http_endpoint : "?");
    }
}

static void print_variables(void) {
    size_t n = 0;
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        const char *value = co_contract_getenv((enum co_var)i);
        if (value) {
            (void)printf("%-12s%s=%s\n", n++ ? "" : "variables", co_contract[i].name,
                co_contract[i].secret ? "(set)" : value);
        }
    }
    if (n == 0) {
        (void)printf("%-12snone set: this process is on its own\n", "variables");
    }
}

static void print_collectives(void) {
    size_t size = (size_t)cost_algorithm_table(NULL, 0) + 1;
    CO_AUTOFREE char *text = co_xmalloc(size);
    (void)cost_algorithm_table(text, size);
    (void)fputs(text, stdout);
}

int tool_info(int argc, char **argv) {
    int64_t timeout_ms = 0;
    bool collectives = false;
    const struct co_flag flags[] = {
        {"timeout", CO_FLAG_DURATION, &timeout_ms, "2s",
            .help = "how long to wait for peers, or for HOST:PORT, to answer; 0: do not try"},
        {"collectives", CO_FLAG_BOOL, &collectives,
            .help = "print instead which algorithms collective communication takes, and what they "
                    "cost"},
    };
    int rest = 0, code = 0;
    if (!options_command_words("paddlerun info [flags] [HOST:PORT...]", flags, CO_ARRAY_LEN(flags),
            argc, argv, &rest, &code)) {
        return code;
    }
    if (collectives) {
        print_collectives();
        return 0;
    }
    if (rest < argc) {
        return tool_look(argv + rest, argc - rest, timeout_ms);
    }
    CO_CLEANUP(role_topology_freep) struct role_topology *t = NULL;
    struct co_err err = {0};
    if (role_topology_load(NULL, NULL, &t, &err)) {
        (void)fprintf(stderr, "paddlerun info: %s\n", co_err_text(&err));
        return OPTIONS_USAGE;
    }
    print_place(t);
    print_peers(t, timeout_ms);
    print_variables();
    return 0;
}
