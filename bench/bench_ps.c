/* Times pulls and pushes against a parameter server of this library, over data lanes and over gRPC,
 * and for comparison plain TCP that carries the same bytes.  "encrypted" is a lane with TLS.  The
 * kinds take turns in each round, so that changes of the machine's load hit all of them.
 *
 *     bench-ps MS ROUNDS [small|flight|large]      measures a kind for MS in each round
 *     bench-ps serve SHARDS [encrypt]              a server; the program itself starts it
 *
 * Prints a line for each round and kind: what, kind, then named numbers.  us: wall time; cpu_us:
 * CPU time of the server for one pull; load: of the machine.  Servers are started with exec, not
 * only forked: a forked child shares its parent's memory, so its own could not be measured. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "runtime/rt.h"

enum {
    IDS = 26, /* ids of a small pull */
    DIM = 10,
    WIDE = 64, /* floats in a row of the large table */
    ROWS = 400000,
    MANY = 100000, /* rows in a large pull or push */
    HEAD = 40,
    THREADS = 4,
    FLIGHT = 8,
    SAMPLES = 1 << 18,
    SMALL_KEYS = 50000,
};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double cpu_us(pid_t pid) {
    clockid_t clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(pid, &clock) == 0) {
        clock_gettime(clock, &t);
    }
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q) {
    qsort(v, n, sizeof(*v), ascending);
    return n ? v[(size_t)(q * (double)(n - 1))] : 0;
}

static void die(const char *what, const struct co_err *err) {
    (void)fprintf(stderr, "bench-ps: %s: %s\n", what, err ? co_err_text(err) : "");
    exit(1);
}

/* ---- plain TCP: a client first sends the sizes of a request and of an answer ---- */

static void read_all(int fd, void *to, size_t n) {
    for (char *p = to; n > 0;) {
        ssize_t got = recv(fd, p, n, 0);
        if (got <= 0) {
            _exit(0);
        }
        p += got;
        n -= (size_t)got;
    }
}

static void write_all(int fd, const void *from, size_t n) {
    for (const char *p = from; n > 0;) {
        ssize_t put = send(fd, p, n, MSG_NOSIGNAL);
        if (put <= 0) {
            _exit(0);
        }
        p += put;
        n -= (size_t)put;
    }
}

struct echo {
    int fd;
    uint32_t sizes[2]; /* request, answer */
    size_t have;       /* bytes of a request */
};

static char room[1 << 18], answer[32 << 20];

/* Reads all available bytes and answers all complete requests with one write. */
static void serve_echo(struct echo *e) {
    ssize_t n = recv(e->fd, room, sizeof(room), 0);
    if (n <= 0) {
        _exit(0);
    }
    e->have += (size_t)n;
    size_t whole = e->have / e->sizes[0];
    e->have -= whole * e->sizes[0];
    if (whole > 0) {
        write_all(e->fd, answer, whole * e->sizes[1]);
    }
}

static void run_echo(int listener) {
    struct echo all[THREADS * 2];
    struct pollfd fds[THREADS * 2 + 1] = {{.fd = listener, .events = POLLIN}};
    size_t n = 0;
    memset(answer, 1, sizeof(answer));
    for (;;) {
        (void)poll(fds, n + 1, -1);
        for (size_t i = 0; i < n; i++) {
            if (fds[i + 1].revents) {
                serve_echo(&all[i]);
            }
        }
        if (fds[0].revents && n < THREADS * 2) {
            int one = 1;
            all[n] = (struct echo){.fd = accept(listener, NULL, NULL)};
            (void)setsockopt(all[n].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            read_all(all[n].fd, all[n].sizes, sizeof(all[n].sizes));
            fds[n + 1] = (struct pollfd){.fd = all[n].fd, .events = POLLIN};
            n++;
        }
    }
}

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int echo_port;

static int dial_echo(uint32_t request, uint32_t back) {
    struct sockaddr_in a = loopback(echo_port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint32_t sizes[2] = {request, back};
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        die("connect", NULL);
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    write_all(fd, sizes, sizeof(sizes));
    return fd;
}

/* ---- servers and trainers ---- */

enum { TRAINERS = 2 + 2 * THREADS };

static const struct rt_table_spec specs[] = {
    {.name = "small", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=0.01"},
    {.name = "large", .kind = RT_SPARSE, .dim = WIDE, .optimizer = "sgd:lr=0.01"},
};

struct server {
    pid_t pid;
    const char *endpoint;
    enum rt_encrypt encrypt;
};

static void say_place(const char *endpoint, const char *role, unsigned trainer) {
    char text[16];
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", endpoint, 1);
    (void)setenv("PADDLE_PORT", strchr(endpoint, ':') + 1, 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)setenv("TRAINING_ROLE", role, 1);
    (void)snprintf(text, sizeof(text), "%u", trainer);
    (void)setenv("PADDLE_TRAINER_ID", text, 1);
    (void)snprintf(text, sizeof(text), "%d", TRAINERS);
    (void)setenv("PADDLE_TRAINERS_NUM", text, 1);
}

/* Runs as a server: this program was started with "serve". */
static int serve(int argc, char **argv) {
    struct co_err err = {0};
    struct rt_job *job = NULL;
    struct rt_server_options o = {.shards = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1,
        .memory_max = UINT64_C(4) << 30,
        .encrypt = argc > 3 ? RT_ENCRYPT_YES : RT_ENCRYPT_NO};
    if (rt_init(&job, &err) < 0) {
        die("init", &err);
    }
    return rt_server_run(job, &o, &err) < 0;
}

static struct server start_server(const char *endpoint, uint32_t shards, enum rt_encrypt encrypt) {
    pid_t pid = fork();
    if (pid == 0) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%u", shards);
        say_place(endpoint, "PSERVER", 0);
        if (freopen("/dev/null", "w", stderr)) {
            (void)execl("/proc/self/exe", "bench-ps", "serve", text,
                encrypt == RT_ENCRYPT_YES ? "encrypt" : NULL, NULL);
        }
        _exit(1);
    }
    return (struct server){pid, endpoint, encrypt};
}

static struct rt_client *open_client(const struct server *s, unsigned id, enum rt_ps_transport by) {
    struct co_err err = {0};
    struct rt_job *job = NULL;
    struct rt_client *c = NULL;
    struct rt_client_options o = {.mode = RT_ASYNC, .transport = by, .encrypt = s->encrypt};
    say_place(s->endpoint, "TRAINER", id);
    if (rt_init(&job, &err) < 0 || rt_client_open(job, &o, specs, 2, &c, &err) < 0) {
        die("open", &err);
    }
    return c;
}

/* ---- small pulls: one kind is one way to get IDS rows ---- */

enum { ASK = HEAD + IDS * 8, GET = HEAD + IDS * DIM * 4 };

struct way {
    struct rt_client *c; /* NULL: plain TCP, by fd */
    int fd;
    uint64_t seed;
    /* Not thread-local: each thread of the server, which is this program, would have them. */
    uint64_t ids[FLIGHT][IDS];
    float rows[FLIGHT][IDS * DIM];
    char bytes[FLIGHT * GET];
};

static uint64_t draw(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void pull_small(struct way *w, size_t flight) {
    struct co_err err = {0};
    if (!w->c) {
        write_all(w->fd, w->bytes, flight * ASK);
        read_all(w->fd, w->bytes, flight * GET);
        return;
    }
    struct rt_pull pulls[FLIGHT];
    for (size_t i = 0; i < flight; i++) {
        for (size_t k = 0; k < IDS; k++) {
            w->ids[i][k] = draw(&w->seed) % SMALL_KEYS;
        }
        pulls[i] = (struct rt_pull){0, w->ids[i], IDS, w->rows[i]};
    }
    if (rt_pull_sparse_many(w->c, pulls, flight, &err) < 0) {
        die("pull", &err);
    }
}

static double samples[SAMPLES];

/* Returns p50 and p99 of the wall time, and the server's CPU time for a pull. */
static void time_small(struct way *w, pid_t server, double ms, double ret[3]) {
    double begin = now_us(), cpu = cpu_us(server), at = begin;
    size_t n = 0;
    while (n < SAMPLES && at - begin < ms * 1000) {
        pull_small(w, 1);
        double then = now_us();
        samples[n++] = then - at;
        at = then;
    }
    ret[2] = (cpu_us(server) - cpu) / (double)n;
    ret[1] = quantile(samples, n, 0.99);
    ret[0] = quantile(samples, n, 0.5);
}

struct puller {
    struct way way;
    double until;
    size_t n;
    pthread_t thread;
};

static void *run_puller(void *arg) {
    struct puller *p = arg;
    for (p->n = 0; now_us() < p->until; p->n += FLIGHT) {
        pull_small(&p->way, FLIGHT);
    }
    return NULL;
}

/* Returns the server's CPU time for a pull, and pulls per second of wall time, with THREADS
 * connections that have FLIGHT pulls pending each. */
static void time_flight(struct puller *all, pid_t server, double ms, double ret[2]) {
    double begin = now_us(), cpu = cpu_us(server);
    size_t n = 0;
    for (size_t i = 0; i < THREADS; i++) {
        all[i].until = begin + ms * 1000;
        (void)pthread_create(&all[i].thread, NULL, run_puller, &all[i]);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(all[i].thread, NULL);
        n += all[i].n;
    }
    ret[0] = (cpu_us(server) - cpu) / (double)n;
    ret[1] = (double)n / (now_us() - begin) * 1e6;
}

/* ---- large ones ---- */

static uint64_t many[MANY];
static float wide[MANY * WIDE];

static void pull_large(struct rt_client *c) {
    struct co_err err = {0};
    if (rt_pull_sparse(c, 1, many, MANY, wide, &err) < 0) {
        die("pull", &err);
    }
}

static void push_large(struct rt_client *c) {
    struct co_err err = {0};
    if (rt_push_sparse(c, 1, many, MANY, wide, &err) < 0 || rt_flush(c, &err) < 0) {
        die("push", &err);
    }
}

static void fill_large(struct rt_client *c) {
    memset(wide, 0, sizeof(wide));
    for (uint64_t at = 0; at < ROWS; at += MANY) {
        for (uint64_t i = 0; i < MANY; i++) {
            many[i] = at + i;
        }
        push_large(c);
    }
}

static void fill_small(struct rt_client *c) {
    struct co_err err = {0};
    static uint64_t ids[SMALL_KEYS];
    static float rows[SMALL_KEYS * DIM];
    for (uint64_t i = 0; i < SMALL_KEYS; i++) {
        ids[i] = i;
    }
    if (rt_push_sparse(c, 0, ids, SMALL_KEYS, rows, &err) < 0 || rt_flush(c, &err) < 0) {
        die("push", &err);
    }
}

/* Draws distinct rows from the whole table. */
static void draw_many(uint64_t *seed) {
    uint64_t step = ROWS / MANY, at = draw(seed) % step;
    for (uint64_t i = 0; i < MANY; i++) {
        many[i] = i * step + (at + draw(seed)) % step;
    }
    for (uint64_t i = MANY - 1; i > 0; i--) {
        uint64_t k = draw(seed) % (i + 1), t = many[i];
        many[i] = many[k];
        many[k] = t;
    }
}

/* Returns the rate of the rows' bytes, in GB/s. */
static double time_large(struct rt_client *c, int fd, bool push) {
    static char ids[MANY * 8];
    double begin = now_us();
    if (c && push) {
        push_large(c);
    } else if (c) {
        pull_large(c);
    } else if (push) {
        write_all(fd, ids, sizeof(ids));
        write_all(fd, wide, sizeof(wide));
        read_all(fd, ids, HEAD);
    } else {
        write_all(fd, ids, sizeof(ids));
        read_all(fd, wide, sizeof(wide));
    }
    return (double)sizeof(wide) / (now_us() - begin) / 1e3;
}

/* ---- all of it ---- */

enum { KINDS = 5 };

static double load_now(void) {
    double l = 0;
    (void)getloadavg(&l, 1);
    return l;
}

static const char *const kinds[] = {"tcp", "lanes", "grpc", "encrypted"};

static void bench_small(struct way ways[4], const pid_t pids[4], double ms, size_t rounds) {
    for (size_t r = 0; r < rounds; r++) {
        for (size_t k = 0; k < 4; k++) {
            double got[3];
            time_small(&ways[k], pids[k], ms, got);
            (void)printf("pull %s p50_us %.1f p99_us %.1f cpu_us %.2f load %.1f\n", kinds[k],
                got[0], got[1], got[2], load_now());
        }
    }
}

static void bench_flight(
    struct puller all[3][THREADS], const pid_t pids[3], double ms, size_t rounds) {
    for (size_t r = 0; r < rounds; r++) {
        for (size_t k = 0; k < 3; k++) {
            double got[2];
            time_flight(all[k], pids[k], ms, got);
            (void)printf("flight %s cpu_us %.2f per_s %.0f load %.1f\n", kinds[k], got[0], got[1],
                load_now());
        }
    }
}

/* For comparison, the rate of copying as many bytes in memory, in GB/s. */
static double time_copy(void) {
    static float to[MANY * WIDE];
    double begin = now_us();
    memcpy(to, wide, sizeof(to));
    __asm__ volatile("" : : "r"(to) : "memory");
    return (double)sizeof(to) / (now_us() - begin) / 1e3;
}

/* cpu: CPU time of each side for a transfer. */
static void bench_large(
    struct rt_client *const clients[KINDS], const pid_t servers[KINDS], bool push, size_t rounds) {
    static const char *const names[] = {"tcp", "lanes", "two-lanes", "grpc", "encrypted"};
    const char *what = push ? "push" : "pull-large";
    uint64_t seed = 88172645463325252;
    int fd = push ? dial_echo(MANY * 8 + sizeof(wide), HEAD) : dial_echo(MANY * 8, sizeof(wide));
    (void)time_copy(); /* once before, to fault its pages in */
    for (size_t r = 0; r < rounds; r++) {
        (void)printf("%s memcpy gb_s %.2f\n", what, time_copy());
        for (size_t k = 0; k < KINDS; k++) {
            draw_many(&seed);
            double server = cpu_us(servers[k]), client = cpu_us(getpid());
            double rate = time_large(clients[k], fd, push);
            (void)printf("%s %s gb_s %.2f server_cpu_ms %.1f trainer_cpu_ms %.1f load %.1f\n", what,
                names[k], rate, (cpu_us(servers[k]) - server) / 1000,
                (cpu_us(getpid()) - client) / 1000, load_now());
        }
    }
    /* Not closed: the echo server exits when its connection ends. */
}

static void say_memory(const struct server *s) {
    char path[64], line[256];
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)s->pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            (void)printf("memory empty mb %.1f\n", strtod(line + 6, NULL) / 1024);
        }
    }
    if (f) {
        (void)fclose(f);
    }
}

static bool wants(const char *only, const char *part) {
    return !only || strcmp(only, part) == 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "serve") == 0) {
        return serve(argc, argv);
    }
    const int end = co_words_check("bench-ps [MS [ROUNDS [CASE]]]", 0, 3, argc, argv);
    if (end >= 0) {
        return end;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    double ms = argc > 1 ? strtod(argv[1], NULL) : 200;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 9;
    struct sockaddr_in a = loopback(0);
    socklen_t len = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&a, len) < 0 || listen(listener, 16) < 0) {
        die("listen", NULL);
    }
    (void)getsockname(listener, (struct sockaddr *)&a, &len);
    echo_port = ntohs(a.sin_port);
    pid_t echo = fork();
    if (echo == 0) {
        run_echo(listener);
    }
    static char ends[3][32];
    find_ports(3, ends);
    (void)setenv("PADDLE_JOB_TOKEN", "bench", 1);
    struct server one = start_server(ends[0], 1, RT_ENCRYPT_NO),
                  two = start_server(ends[1], 2, RT_ENCRYPT_NO),
                  sealed = start_server(ends[2], 1, RT_ENCRYPT_YES);
    struct rt_client *lanes = open_client(&one, 0, RT_PS_LANES);
    say_memory(&one);
    struct rt_client *grpc = open_client(&one, 1, RT_PS_GRPC);
    struct rt_client *both = open_client(&two, 0, RT_PS_LANES);
    struct rt_client *encrypted = open_client(&sealed, 0, RT_PS_LANES);
    fill_small(lanes);
    fill_small(encrypted);

    const pid_t pids[4] = {echo, one.pid, one.pid, sealed.pid};
    struct way ways[4] = {{.fd = dial_echo(ASK, GET)}, {.c = lanes, .seed = 1},
        {.c = grpc, .seed = 2}, {.c = encrypted, .seed = 3}};
    const char *only = argc > 3 ? argv[3] : NULL;
    if (wants(only, "small")) {
        bench_small(ways, pids, ms, rounds);
    }
    static struct puller pullers[3][THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        pullers[0][i].way = (struct way){.fd = dial_echo(ASK, GET)};
        pullers[1][i].way = (struct way){.c = open_client(&one, 2 + i, RT_PS_LANES), .seed = i + 3};
        pullers[2][i].way =
            (struct way){.c = open_client(&one, 2 + THREADS + i, RT_PS_GRPC), .seed = i + 9};
    }
    if (wants(only, "flight")) {
        bench_flight(pullers, pids, ms, rounds);
    }
    if (wants(only, "large")) {
        fill_large(lanes);
        fill_large(both);
        fill_large(encrypted);
        struct rt_client *const clients[KINDS] = {NULL, lanes, both, grpc, encrypted};
        const pid_t servers[KINDS] = {echo, one.pid, two.pid, one.pid, sealed.pid};
        bench_large(clients, servers, false, rounds);
        bench_large(clients, servers, true, rounds);
    }
    (void)kill(echo, SIGKILL);
    (void)kill(one.pid, SIGKILL);
    (void)kill(two.pid, SIGKILL);
    (void)kill(sealed.pid, SIGKILL);
    while (wait(NULL) > 0) {
    }
    (void)fflush(stdout);
    _exit(0);
}
