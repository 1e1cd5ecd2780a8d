/* Measures what one process of a job of thousands costs: a trainer with many servers, or a server
 * with many trainers.
 *
 *     bench-many SERVERS TRAINERS [async|sync]
 *
 * Servers are threads of processes with up to 500 of them, all trainers are in one process; every
 * connection is real.  Prints what all processes of each kind need before and after the trainers
 * have joined, all at once: memory, descriptors, threads, CPU seconds; the time of that, and of
 * steps that pull and push rows of all servers. */
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/flag.h"
#include "runtime/rt.h"

enum {
    IDS = 4096,
    DIM = 8,
    STEPS = 20,
    MANY_MAX = 4000,
    TOGETHER = 500, /* a server has 10 descriptors, and a process often 20,000 */
    ENDPOINT = sizeof("127.0.0.1:65535,"),
    STACK = 256 << 10,
};

static const struct rt_table_spec spec = {
    .name = "rows", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=0.01"};

static unsigned n_servers, n_trainers;
static char endpoints[MANY_MAX * ENDPOINT];
static pid_t processes[MANY_MAX / TOGETHER + 1];
static unsigned n_processes;

struct cost {
    long kib, files, threads;
    double cpu_s;
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int rc, const char *what, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-many: %s: %s\n", what, co_err_text(err));
        _exit(1);
    }
}

/* Ports that were free a moment ago. */
static void find_endpoints(void) {
    static int fds[MANY_MAX];
    size_t len = 0;
    for (unsigned i = 0; i < n_servers; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(a);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&a, size) < 0 ||
            getsockname(fds[i], (struct sockaddr *)&a, &size) < 0) {
            must(-1, "no port", NULL);
        }
        len += (size_t)snprintf(endpoints + len, sizeof(endpoints) - len, "%s127.0.0.1:%u",
            i > 0 ? "," : "", ntohs(a.sin_port));
    }
    for (unsigned i = 0; i < n_servers; i++) {
        (void)close(fds[i]);
    }
}

static struct rt_job *new_job(bool server, unsigned index) {
    char text[32];
    struct co_err err = {0};
    struct rt_job *job = NULL;
    (void)setenv("TRAINING_ROLE", server ? "PSERVER" : "TRAINER", 1);
    (void)snprintf(text, sizeof(text), "%u", index);
    (void)setenv("PADDLE_TRAINER_ID", text, 1);
    if (server) {
        const char *at = endpoints;
        for (unsigned i = 0; i < index; i++) {
            at = strchr(at, ',') + 1;
        }
        (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, ","), at);
        (void)setenv("PADDLE_PORT", strchr(text, ':') + 1, 1);
    }
    must(rt_init(&job, &err), "init", &err);
    return job;
}

static void *serve(void *job) {
    struct co_err err = {0};
    const struct rt_server_options o = {.shards = 1, .memory_max = 64 << 20};
    must(rt_server_run(job, &o, &err), "server", &err);
    return NULL;
}

static void serve_some(unsigned from, unsigned to) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    static pthread_t threads[MANY_MAX];
    if (!freopen("/dev/null", "w", stdout)) {
        _exit(1);
    }
    for (unsigned i = from; i < to; i++) {
        must(-pthread_create(&threads[i], &attr, serve, new_job(true, i)), "thread", NULL);
    }
    for (unsigned i = from; i < to; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void start_servers(void) {
    for (unsigned i = 0; i < n_servers; i += TOGETHER) {
        pid_t pid = fork();
        if (pid == 0) {
            serve_some(i, i + TOGETHER < n_servers ? i + TOGETHER : n_servers);
            _exit(0);
        }
        processes[n_processes++] = pid;
    }
}

static long field_of(pid_t pid, const char *name) {
    char path[64], line[256];
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    long value = 0;
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtol(line + strlen(name), NULL, 10);
        }
    }
    if (f) {
        (void)fclose(f);
    }
    return value;
}

static struct cost cost_of(pid_t pid) {
    char path[64];
    clockid_t clock;
    struct timespec t = {0};
    struct cost c = {.kib = field_of(pid, "VmRSS:"), .threads = field_of(pid, "Threads:")};
    if (clock_getcpuclockid(pid, &clock) == 0) {
        clock_gettime(clock, &t);
    }
    c.cpu_s = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    while (d && readdir(d)) {
        c.files++;
    }
    if (d) {
        (void)closedir(d);
    }
    c.files -= 2; /* . and .. */
    return c;
}

static struct cost cost_of_servers(void) {
    struct cost all = {0};
    for (unsigned i = 0; i < n_processes; i++) {
        const struct cost c = cost_of(processes[i]);
        all.kib += c.kib;
        all.files += c.files;
        all.threads += c.threads;
        all.cpu_s += c.cpu_s;
    }
    return all;
}

/* Until each of them listens: has its threads. */
static void await_servers(void) {
    while (cost_of_servers().threads < (long)n_servers * 2 + (long)n_processes) {
        (void)poll(NULL, 0, 50); /* the kernel does not report that */
    }
}

static void print_cost(const char *who, const struct cost *was, const struct cost *is) {
    (void)printf("%s kib %ld +%ld files %ld +%ld threads %ld +%ld cpu_s +%.3f\n", who, was->kib,
        is->kib - was->kib, was->files, is->files - was->files, was->threads,
        is->threads - was->threads, is->cpu_s - was->cpu_s);
}

/* Ids that are spread over all servers. */
static void make_step(struct rt_client *c, uint64_t seed) {
    struct co_err err = {0};
    static uint64_t ids[IDS];
    static float rows[IDS * DIM];
    for (size_t i = 0; i < IDS; i++) {
        ids[i] = (seed * IDS + i) * 2654435761U;
    }
    must(rt_pull_sparse(c, 0, ids, IDS, rows, &err), "pull", &err);
    must(rt_push_sparse(c, 0, ids, IDS, rows, &err), "push", &err);
    must(rt_step(c, &err), "step", &err);
}

struct trainer {
    struct rt_job *job;
    struct rt_client *client;
    pthread_t thread;
    enum rt_mode mode;
};

static void *join(void *arg) {
    struct trainer *t = arg;
    struct co_err err = {0};
    const struct rt_client_options o = {.mode = t->mode, .start_timeout_ms = 600000};
    must(rt_client_open(t->job, &o, &spec, 1, &t->client, &err), "open", &err);
    return NULL;
}

static void join_all(struct trainer *all) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (unsigned i = 0; i < n_trainers; i++) {
        must(-pthread_create(&all[i].thread, &attr, join, &all[i]), "thread", NULL);
    }
    for (unsigned i = 0; i < n_trainers; i++) {
        pthread_join(all[i].thread, NULL);
    }
}

/* Servers end when all trainers have finished, one after another. */
static void measure_end(struct trainer *all, double trainers_s, double servers_s) {
    double began = now_s(), cpu_s = 0;
    for (unsigned i = 0; i < n_trainers; i++) {
        struct co_err err = {0};
        must(rt_finish(all[i].client, &err), "finish", &err);
    }
    for (unsigned i = 0; i < n_processes; i++) {
        struct rusage used = {0};
        int status = 0;
        (void)wait4(processes[i], &status, 0, &used);
        cpu_s += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
        must(status == 0 ? 0 : -1, "a server's process failed", NULL);
    }
    (void)printf("end_s %.3f cpu_s trainers %.3f servers %.3f\n", now_s() - began,
        cost_of(getpid()).cpu_s - trainers_s, cpu_s - servers_s);
}

static void measure(enum rt_mode mode) {
    static struct trainer all[MANY_MAX];
    for (unsigned i = 0; i < n_trainers; i++) {
        all[i] = (struct trainer){.job = new_job(false, i), .mode = mode};
    }
    await_servers();
    const struct cost servers = cost_of_servers(), trainers = cost_of(getpid());
    double began = now_s();
    join_all(all);
    double joined = now_s();
    struct cost servers_now = cost_of_servers(), trainers_now = cost_of(getpid());
    (void)printf("join_s %.3f\n", joined - began);
    print_cost("servers", &servers, &servers_now);
    print_cost("trainers", &trainers, &trainers_now);
    double cpu = trainers_now.cpu_s, cpus = servers_now.cpu_s;
    for (unsigned i = 0; i < STEPS && mode != RT_SYNC; i++) {
        make_step(all[i % n_trainers].client, i);
    }
    double stepped = now_s();
    servers_now = cost_of_servers(), trainers_now = cost_of(getpid());
    (void)printf("step_ms %.2f trainer_cpu_ms %.2f server_cpu_ms %.2f\n",
        (stepped - joined) * 1000 / STEPS, (trainers_now.cpu_s - cpu) * 1000 / STEPS,
        (servers_now.cpu_s - cpus) * 1000 / STEPS);
    /* With nothing to do: heartbeats and leases. */
    (void)poll(NULL, 0, 5000);
    const struct cost servers_then = cost_of_servers(), trainers_then = cost_of(getpid());
    (void)printf("idle_cores trainers %.4f servers %.4f\n",
        (trainers_then.cpu_s - trainers_now.cpu_s) / 5,
        (servers_then.cpu_s - servers_now.cpu_s) / 5);
    measure_end(all, trainers_then.cpu_s, servers_then.cpu_s);
}

int main(int argc, char **argv) {
    const int end = co_words_check("bench-many SERVERS TRAINERS [async|sync]", 2, 3, argc, argv);
    if (end >= 0) {
        return end;
    }
    n_servers = (unsigned)strtoul(argv[1], NULL, 10);
    n_trainers = (unsigned)strtoul(argv[2], NULL, 10);
    enum rt_mode mode = argc > 3 && strcmp(argv[3], "sync") == 0 ? RT_SYNC : RT_ASYNC;
    if (n_servers < 1 || n_servers > MANY_MAX || n_trainers < 1 || n_trainers > MANY_MAX) {
        (void)fprintf(stderr, "bench-many: %u servers and %u trainers, expected 1 to %d\n",
            n_servers, n_trainers, MANY_MAX);
        return 2;
    }
    struct rlimit given, files;
    (void)getrlimit(RLIMIT_NOFILE, &given);
    files = given;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    char text[32];
    find_endpoints();
    (void)setrlimit(RLIMIT_NOFILE, &given); /* the library raises it itself */
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", endpoints, 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)snprintf(text, sizeof(text), "%u", n_trainers);
    (void)setenv("PADDLE_TRAINERS_NUM", text, 1);
    start_servers();
    measure(mode);
    (void)fflush(stdout);
    _exit(0);
}
