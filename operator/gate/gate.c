/* paddle-gate: the init container that lets a pod's containers start when its job's addresses
 * are complete.  It asks the operator, who answers the moment that they are; kubelet's own hold
 * on the missing ConfigMap would be noticed 10 to 15 s later.
 *
 *     GET /gate/v1/<namespace>/<pod>/<uid>?wait=10&ips=10.0.0.1
 *     200 go · 202 or 204 not yet, the body says why · 404 pod not known yet · 410 the job is over
 *
 * Its request reports the pod's addresses: kubelet does so up to a second later.
 *
 * It must not make things worse: without an operator to talk to it lets the pod go after
 * SILENCE_MAX_MS, and kubelet's hold decides as it would without a gate.  An operator that takes
 * connections and says nothing (stopped, or behind a broken network) is noticed ANSWER_MS after it
 * was asked: an answer, if only that there is no news, is due every WAIT_S.  Where all who answer
 * say for UNKNOWN_MAX_MS that they do not know the pod, the operator's address is another program's
 * by now (another shard's, any web server's), and it continues as well.  It runs in other people's
 * pods, so: static, no library but libc, no name resolution, a few pages of memory.
 * Exit code 0: go; 1: the operator said that this pod shall not start; 143: SIGTERM. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    ADDRS_MAX = 8,
    ANSWER_MAX = 2048,
    TRIES_MAX = 16,
    WAIT_S = 10,                      /* the operator holds a request that long */
    CONNECT_MS = 3000,                /* for all tries of one question */
    STAGGER_MS = 250,                 /* then one more try joins the running ones, as in RFC 8305 */
    ANSWER_MS = WAIT_S * 1000 + 5000, /* then it is no use to wait on */
    SILENCE_MAX_MS = 20000,
    UNKNOWN_MAX_MS = 60000, /* a new leader knows all pods long before */
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 1000,
    SAY_EVERY_MS = 30000,
};

_Static_assert(ANSWER_MS < SILENCE_MAX_MS, "there is time to ask another address");

/* Rows of the env contract (common/contract_rows.c). */
static const char var_addr[] = "PADDLE_GATE_ADDR";
static const char var_namespace[] = "POD_NAMESPACE";
static const char var_name[] = "POD_NAME";
static const char var_uid[] = "POD_UID";
static const char var_ips[] = "POD_IPS";

struct addr {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t len;
    char text[64];
};

struct gate {
    struct addr addr[ADDRS_MAX];
    size_t n_addrs, at;
    char request[1024];
    char why[200]; /* what went wrong, or what the operator said last */
    int64_t answer_ms, silence_max_ms, unknown_max_ms;
};

enum gate_answer { GO, WAIT, UNKNOWN, GIVE_UP, NO_ANSWER };

static int64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...) {
    char line[512] = "paddle-gate: ";
    const size_t head = strlen(line);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line + head, sizeof(line) - head - 1, fmt, ap);
    va_end(ap);
    size_t n = strlen(line);
    line[n] = '\n';
    (void)!write(STDOUT_FILENO, line, n + 1);
}

/* SIGTERM does nothing to a container's first process unless it is caught. */
static void on_terminated(int signo) {
    _exit(128 + signo);
}

/* "10.0.0.1:8082" or "[fd00::1]:8082". */
static bool parse_addr(const char *s, size_t n, struct addr *ret) {
    struct addr a = {.len = 0};
    if (n >= sizeof(a.text)) {
        return false;
    }
    memcpy(a.text, s, n);
    char host[sizeof(a.text)];
    memcpy(host, a.text, sizeof(host));
    char *colon = strrchr(host, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    if (port < 1 || port > 65535 || *end) {
        return false;
    }
    *colon = '\0';
    bool v6 = host[0] == '[' && colon > host && colon[-1] == ']';
    if (v6) {
        colon[-1] = '\0';
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = htons((uint16_t)port);
        a.len = sizeof(a.v6);
    } else {
        a.v4.sin_family = AF_INET;
        a.v4.sin_port = htons((uint16_t)port);
        a.len = sizeof(a.v4);
    }
    void *to = v6 ? (void *)&a.v6.sin6_addr : (void *)&a.v4.sin_addr;
    if (inet_pton(v6 ? AF_INET6 : AF_INET, v6 ? host + 1 : host, to) != 1) {
        return false;
    }
    *ret = a;
    return true;
}

static void parse_addrs(struct gate *g, const char *list) {
    for (const char *p = list; *p;) {
        const char *end = strchrnul(p, ',');
        if (g->n_addrs < ADDRS_MAX && parse_addr(p, (size_t)(end - p), &g->addr[g->n_addrs])) {
            g->n_addrs++;
        } else {
            say("%s: \"%.*s\" is left out, expected at most %d numeric ip:port", var_addr,
                (int)(end - p > 60 ? 60 : end - p), p, ADDRS_MAX);
        }
        p = *end ? end + 1 : end;
    }
}

static bool is_readable(int fd, int64_t deadline) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (;;) {
        int64_t left = deadline - now_ms();
        int r = poll(&p, 1, left > 0 ? (int)left : 0);
        if (r >= 0 || errno != EINTR) {
            errno = r == 0 ? ETIMEDOUT : errno;
            return r > 0;
        }
    }
}

static void no_answer(struct gate *g, const struct addr *from, int e) {
    (void)snprintf(g->why, sizeof(g->why), "%s: %s", from->text, strerror(e));
}

/* A socket on its way, or -1 with errno. */
static int set_out(const struct addr *to) {
    int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* no wait: the descriptor is non-blocking */
    if (fd < 0 || connect(fd, &to->any, to->len) == 0 || errno == EINPROGRESS) {
        return fd;
    }
    int e = errno;
    (void)close(fd);
    errno = e;
    return -1;
}

struct race {
    struct pollfd try[TRIES_MAX]; /* fd -1: it has failed */
    size_t n, running;
};

/* Index of the address that a try of the race goes to. */
static size_t goes_to(const struct gate *g, size_t i) {
    return (g->at + i) % g->n_addrs;
}

static void try_failed(struct gate *g, struct race *r, size_t i, int e) {
    no_answer(g, &g->addr[goes_to(g, i)], e);
    (void)close(r->try[i].fd);
    r->try[i].fd = -1;
    r->running--;
}

static void one_more(struct gate *g, struct race *r) {
    const struct addr *to = &g->addr[goes_to(g, r->n)];
    int fd = set_out(to);
    if (fd < 0) {
        no_answer(g, to, errno);
    } else {
        r->running++;
    }
    r->try[r->n++] = (struct pollfd){.fd = fd, .events = POLLOUT};
}

/* The try that has come through, waited for until then; r->n: none has. */
static size_t find_winner(struct gate *g, struct race *r, int64_t until) {
    int64_t left = until - now_ms();
    int some = r->running ? poll(r->try, r->n, left > 0 ? (int)left : 0) : 0;
    for (size_t i = 0; some > 0 && i < r->n; i++) {
        int e = 0;
        socklen_t len = sizeof(e);
        if (r->try[i].fd < 0 || !r->try[i].revents) {
            continue;
        }
        e = getsockopt(r->try[i].fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0 ? errno : e;
        if (!e) {
            return i;
        }
        try_failed(g, r, i, e);
    }
    return r->n;
}

/* A connected socket, and g->at is its address; or -1, and g->why says why.
 *
 * It is a race: until one has come through, a try sets out every STAGGER_MS, each to the next
 * address and from a port of its own.  The first packet decides where a node's rules for Services
 * lead a connection, as long as it lasts.  For a moment after the operator's pod was replaced that
 * is the one which has gone; later connections go to the new one. */
static int dial_operator(struct gate *g) {
    struct race r = {.n = 0};
    const int64_t start = now_ms(), end = start + CONNECT_MS;
    int64_t next = start;
    size_t won = 0;
    for (int64_t now = start; won == r.n && now < end; now = now_ms()) {
        if (!r.running && r.n >= g->n_addrs) {
            break; /* all addresses say no */
        }
        if (r.n < TRIES_MAX && (!r.running || now >= next)) {
            one_more(g, &r);
            next = now + STAGGER_MS;
        }
        won = find_winner(g, &r, r.n < TRIES_MAX ? next : end);
    }
    int fd = won < r.n ? r.try[won].fd : -1;
    if (fd >= 0 && won > 0) {
        say("connected to %s, %.1f s after the first of %zu tries, to %s",
            g->addr[goes_to(g, won)].text, (double)(now_ms() - start) / 1000, r.n,
            g->addr[g->at].text);
    }
    for (size_t i = 0; i < r.n; i++) {
        if (i != won && r.try[i].fd >= 0) {
            try_failed(g, &r, i, ETIMEDOUT);
        }
    }
    g->at = fd >= 0 ? goes_to(g, won) : g->at;
    return fd;
}

/* Bytes of the whole answer once head and Content-Length are there; SIZE_MAX before. */
static size_t answer_size(const char *buf) {
    const char *body = strstr(buf, "\r\n\r\n");
    const char *field = strcasestr(buf, "\r\nContent-Length:");
    if (!body || !field || field > body) {
        return SIZE_MAX;
    }
    unsigned long n = strtoul(field + strlen("\r\nContent-Length:"), NULL, 10);
    return (size_t)(body + 4 - buf) + (n < ANSWER_MAX ? n : ANSWER_MAX);
}

/* Bytes read; 0 with errno when no answer came. */
static size_t exchange_words(const struct gate *g, int fd, char buf[ANSWER_MAX + 1]) {
    size_t len = strlen(g->request), n = 0;
    if (send(fd, g->request, len, MSG_NOSIGNAL) != (ssize_t)len) { /* fits any socket's buffer */
        return 0;
    }
    int64_t deadline = now_ms() + g->answer_ms;
    while (n < ANSWER_MAX && n < answer_size(buf)) {
        if (!is_readable(fd, deadline)) {
            return 0;
        }
        /* no wait: the descriptor is non-blocking */
        ssize_t r = recv(fd, buf + n, ANSWER_MAX - n, 0);
        if (r < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (r < 0 || (r == 0 && n == 0)) {
            errno = r < 0 ? errno : ECONNRESET;
            return 0;
        }
        if (r == 0) {
            break;
        }
        n += (size_t)r;
        buf[n] = '\0';
    }
    return n;
}

static enum gate_answer judge_answer(struct gate *g, const char *buf, const char *from) {
    int status = 0;
    if (sscanf(buf, "HTTP/1.%*1[01] %3d", &status) != 1) {
        (void)snprintf(g->why, sizeof(g->why), "%s gives no HTTP answer", from);
        return NO_ANSWER;
    }
    const char *body = strstr(buf, "\r\n\r\n");
    body = body ? body + 4 : "";
    int n = 0;
    for (const char *c = body; n < (int)sizeof(g->why) && (unsigned char)*c >= ' '; c++) {
        n++;
    }
    (void)snprintf(g->why, sizeof(g->why), "%.*s", n, body);
    switch (status) {
    case 200:
        return GO;
    case 202:
    case 204:
        return WAIT;
    case 404:
        return UNKNOWN;
    case 410:
        return GIVE_UP;
    default:
        (void)snprintf(
            g->why, sizeof(g->why), "%s answers %d: %.*s", from, status, n < 100 ? n : 100, body);
        return NO_ANSWER;
    }
}

static enum gate_answer ask_operator(struct gate *g) {
    char buf[ANSWER_MAX + 1] = "";
    int fd = dial_operator(g);
    if (fd < 0) {
        return NO_ANSWER;
    }
    const struct addr *from = &g->addr[g->at];
    size_t n = exchange_words(g, fd, buf);
    int e = errno;
    (void)close(fd);
    if (n == 0) {
        no_answer(g, from, e);
        return NO_ANSWER;
    }
    return judge_answer(g, buf, from->text);
}

static bool pause_ms(int64_t ms) {
    return poll(NULL, 0, (int)ms) == 0;
}

/* Asks until there is something final; returns the exit code. */
static int wait_for_go(struct gate *g) {
    const int64_t start = now_ms();
    int64_t answered = start, known = start, said = start, retry = RETRY_MIN_MS;
    for (;;) {
        const int64_t asked = now_ms();
        enum gate_answer v = ask_operator(g);
        const int64_t now = now_ms();
        if (v == GO) {
            say("go, after %.1f s", (double)(now - start) / 1000);
            return 0;
        }
        if (v == GIVE_UP) {
            say("this pod shall not start: %s", g->why[0] ? g->why : "the operator gave no reason");
            return 1;
        }
        if (v == NO_ANSWER && now - answered >= g->silence_max_ms) {
            say("no answer from the operator for %.0f s (%s), continuing without",
                (double)(now - answered) / 1000, g->why);
            return 0;
        }
        if (v == UNKNOWN && now - known >= g->unknown_max_ms) {
            say("no operator has known this pod for %.0f s (%s), continuing without",
                (double)(now - known) / 1000, g->why);
            return 0;
        }
        answered = v != NO_ANSWER ? now : answered;
        known = v == WAIT ? now : known;
        if (now - said >= SAY_EVERY_MS) {
            said = now;
            say("%s, %.0f s so far",
                g->why[0]      ? g->why
                : v == UNKNOWN ? "not known to the operator"
                               : "waiting",
                (double)(now - start) / 1000);
        }
        if (v == WAIT && now - asked >= RETRY_MAX_MS) {
            retry = RETRY_MIN_MS;
            continue; /* the operator held the request */
        }
        g->at = v == WAIT ? g->at : (g->at + 1) % g->n_addrs;
        (void)pause_ms(retry);
        retry = retry * 2 < RETRY_MAX_MS ? retry * 2 : RETRY_MAX_MS;
    }
}

/* --help for people; the operator gives it no words. */
static int check_words(int argc, char **argv) {
    const bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
    if (help) {
        say("waits until the operator lets this pod start; %s says where it is", var_addr);
    } else if (argc > 1) {
        (void)fprintf(stderr, "paddle-gate: unexpected \"%.100s\", expected no words\n", argv[1]);
    }
    return argc < 2 ? -1 : help ? 0 : 2;
}

int main(int argc, char **argv) {
    const int end = check_words(argc, argv);
    if (end >= 0) {
        return end;
    }
    struct sigaction sa = {.sa_handler = on_terminated};
    (void)sigaction(SIGTERM, &sa, NULL);
    (void)sigaction(SIGINT, &sa, NULL);

    static struct gate g = {
        .answer_ms = ANSWER_MS, .silence_max_ms = SILENCE_MAX_MS, .unknown_max_ms = UNKNOWN_MAX_MS};
    const char *vars[] = {var_addr, var_namespace, var_name, var_uid};
    const char *value[4];
    for (size_t i = 0; i < 4; i++) {
        value[i] = getenv(vars[i]);
        if (!value[i] || !*value[i] || strpbrk(value[i], " \r\n")) {
            say("%s is \"%.60s\", expected a value: continuing without the operator", vars[i],
                value[i] ? value[i] : "");
            return 0;
        }
    }
    parse_addrs(&g, value[0]);
    const char *ips = getenv(var_ips);
    if (!ips || ips[strspn(ips, "0123456789abcdefABCDEF.:,")]) {
        ips = ""; /* kubelet will report them */
    }
    int n = snprintf(g.request, sizeof(g.request),
        "GET /gate/v1/%s/%s/%s?wait=%d&ips=%s HTTP/1.1\r\nHost: gate\r\nConnection: "
        "close\r\n\r\n",
        value[1], value[2], value[3], WAIT_S, ips);
    if (g.n_addrs == 0 || n < 0 || (size_t)n >= sizeof(g.request)) {
        say("no address to ask, or names too long: continuing without the operator");
        return 0;
    }
    return wait_for_go(&g);
}
