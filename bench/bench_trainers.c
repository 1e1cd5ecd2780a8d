/* Measures how a parameter server scales with the number of trainers.  Each trainer makes a step
 * every TICK_MS, so the load depends only on their number.
 *
 *     bench-trainers MS TRAINERS MODE      measures for MS; MODE: async or sync
 *
 * A step is a pull and a push of 26 rows of 10 floats, and rt_step.  Trainers are threads of this
 * process; the server is another process.  Prints one line: steps per second of all trainers, the
 * number that was intended, and CPU time of the server for a step. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "runtime/rt.h"

enum { IDS = 26, DIM = 10, KEYS = 50000, TICK_MS = 20, TRAINERS_MAX = 1024, STACK = 256 << 10 };

static const struct rt_table_spec spec = {
    .name = "rows", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=0.01"};

struct trainer {
    unsigned id;
    struct rt_client *c;
    uint64_t seed;
    pthread_t thread;
};

static unsigned n_trainers;
static enum rt_mode mode;
static const char *endpoint;
static pthread_barrier_t all_here;
static atomic_ullong steps;
static atomic_bool
    over; /* set by trainer 0 before a step, so that all make the same number of steps */
static double begin, measure_us;

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

static void must(int rc, const char *what, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-trainers: %s: %s\n", what, co_err_text(err));
        exit(1);
    }
}

static void say_place(const char *role, unsigned trainer) {
    char text[16];
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", endpoint, 1);
    (void)setenv("PADDLE_PORT", strchr(endpoint, ':') + 1, 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)setenv("TRAINING_ROLE", role, 1);
    (void)snprintf(text, sizeof(text), "%u", trainer);
    (void)setenv("PADDLE_TRAINER_ID", text, 1);
    (void)snprintf(text, sizeof(text), "%u", n_trainers);
    (void)setenv("PADDLE_TRAINERS_NUM", text, 1);
}

static pid_t start_server(void) {
    pid_t pid = fork();
    if (pid == 0) {
        struct co_err err = {0};
        struct rt_job *job = NULL;
        struct rt_server_options o = {.shards = 1};
        if (!freopen("/dev/null", "w", stderr)) {
            _exit(1);
        }
        say_place("PSERVER", 0);
        must(rt_init(&job, &err), "init", &err);
        _exit(rt_server_run(job, &o, &err) < 0 ? 1 : 0);
    }
    return pid;
}

static struct rt_client *open_client(unsigned id) {
    struct co_err err = {0};
    struct rt_job *job = NULL;
    struct rt_client *c = NULL;
    const struct rt_client_options o = {.mode = mode};
    say_place("TRAINER", id);
    must(rt_init(&job, &err), "init", &err);
    must(rt_client_open(job, &o, &spec, 1, &c, &err), "open", &err);
    return c;
}

static uint64_t draw(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void make_step(struct trainer *t) {
    struct co_err err = {0};
    uint64_t ids[IDS];
    float rows[IDS * DIM];
    for (size_t i = 0; i < IDS; i++) {
        ids[i] = draw(&t->seed) % KEYS;
    }
    must(rt_pull_sparse(t->c, 0, ids, IDS, rows, &err), "pull", &err);
    must(rt_push_sparse(t->c, 0, ids, IDS, rows, &err), "push", &err);
    must(rt_step(t->c, &err), "step", &err);
}

static void fill(struct rt_client *c) {
    static uint64_t ids[KEYS];
    static float rows[KEYS * DIM];
    struct co_err err = {0};
    for (uint64_t i = 0; i < KEYS; i++) {
        ids[i] = i;
    }
    must(rt_push_sparse(c, 0, ids, KEYS, rows, &err), "push", &err);
    must(rt_flush(c, &err), "push", &err);
}

static void await(double us) {
    double left = us - now_us();
    struct timespec t = {.tv_sec = (time_t)(left / 1e6), .tv_nsec = (long)left % 1000000 * 1000};
    if (left > 0) {
        (void)ppoll(NULL, 0, &t, NULL);
    }
}

/* A trainer's thread.  The trainers' ticks are spread over TICK_MS; a late trainer catches up. */
static void *train(void *arg) {
    struct trainer *t = arg;
    struct co_err err = {0};
    pthread_barrier_wait(&all_here);
    double tick = TICK_MS * 1000.0, next = begin + tick * t->id / n_trainers;
    while (!atomic_load(&over)) {
        await(next);
        next += tick;
        make_step(t);
        atomic_fetch_add(&steps, 1);
        if (t->id == 0 && now_us() - begin > measure_us) {
            atomic_store(&over, true);
        }
    }
    must(rt_no_more(t->c, &err), "end", &err);
    return NULL;
}

static void measure(struct trainer *all, pid_t server) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (unsigned i = 0; i < n_trainers; i++) {
        all[i] = (struct trainer){.id = i, .c = open_client(i), .seed = i * 7919 + 1};
    }
    fill(all[0].c);
    pthread_barrier_init(&all_here, NULL, n_trainers + 1);
    for (unsigned i = 0; i < n_trainers; i++) {
        if (pthread_create(&all[i].thread, &attr, train, &all[i]) != 0) {
            must(-1, "thread", NULL);
        }
    }
    double cpu = cpu_us(server);
    begin = now_us();
    pthread_barrier_wait(&all_here);
    for (unsigned i = 0; i < n_trainers; i++) {
        pthread_join(all[i].thread, NULL);
    }
    double us = now_us() - begin, load = 0;
    (void)getloadavg(&load, 1);
    (void)printf("trainers %s %u per_s %.0f wanted %.0f server_cpu_us %.2f load %.1f\n",
        mode == RT_SYNC ? "sync" : "async", n_trainers, (double)steps / us * 1e6,
        n_trainers * 1000.0 / TICK_MS, (cpu_us(server) - cpu) / (double)steps, load);
}

int main(int argc, char **argv) {
    const int end = co_words_check("bench-trainers [MS [TRAINERS [async|sync]]]", 0, 3, argc, argv);
    if (end >= 0) {
        return end;
    }
    measure_us = (argc > 1 ? strtod(argv[1], NULL) : 1000) * 1000;
    n_trainers = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    mode = argc > 3 && strcmp(argv[3], "sync") == 0 ? RT_SYNC : RT_ASYNC;
    if (n_trainers < 1 || n_trainers > TRAINERS_MAX) {
        (void)fprintf(
            stderr, "bench-trainers: %u trainers, expected 1 to %d\n", n_trainers, TRAINERS_MAX);
        return 2;
    }
    static struct trainer all[TRAINERS_MAX];
    static char ends[1][32];
    find_ports(1, ends);
    endpoint = ends[0];
    pid_t server = start_server();
    measure(all, server);
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)fflush(stdout);
    _exit(0);
}
