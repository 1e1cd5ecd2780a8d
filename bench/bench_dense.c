/* Times a dense table of a server of its own, on this machine.
 *
 *     bench-dense FLOATS MODE STEPS [TABLES]
 *     bench-dense serve                         a server; the program itself starts it
 *
 * MODE: async and sync push, end the step and pull; exchange (async) and geo exchange.  Prints CPU
 * time of server and trainer and wall time of a step, and megabytes that are resident, those in
 * huge pages apart.  The server's optimizer is Adagrad.  PADDLE_LOG_LEVEL=error leaves the log out.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "common/mem.h"
#include "runtime/rt.h"

enum { TABLES_MAX = 256, WARM = 5 };

static const struct {
    const char *name;
    enum rt_mode mode;
    bool exchange;
} ways[] = {{"async", RT_ASYNC, false}, {"sync", RT_SYNC, false}, {"exchange", RT_ASYNC, true},
    {"geo", RT_GEO, true}};

static double clock_us(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(int rc, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-dense: %s\n", co_err_text(err));
        exit(1);
    }
}

static struct rt_job *enter(const char *endpoint, const char *role) {
    struct co_err err = {0};
    struct rt_job *job = NULL;
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", endpoint, 1);
    (void)setenv("PADDLE_PORT", strrchr(endpoint, ':') + 1, 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)setenv("TRAINING_ROLE", role, 1);
    (void)setenv("PADDLE_TRAINER_ID", "0", 1);
    (void)setenv("PADDLE_TRAINERS_NUM", "1", 1);
    must(rt_init(&job, &err), &err);
    return job;
}

static int serve(const char *endpoint) {
    struct co_err err = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rt_server_options o = {.shards = 1, .memory_max = UINT64_C(8) << 30};
    return rt_server_run(enter(endpoint, "PSERVER"), &o, &err) < 0;
}

/* Megabytes, by their name in /proc/PID/smaps_rollup. */
static double megabytes(pid_t pid, const char *name) {
    char path[64], line[256];
    double kb = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        kb = strncmp(line, name, strlen(name)) == 0 ? strtod(line + strlen(name), NULL) : kb;
    }
    if (f) {
        (void)fclose(f);
    }
    return kb / 1024;
}

struct world {
    struct rt_client *c;
    size_t way;
    uint32_t tables;
    float *w, *g;
};

static void step(const struct world *o) {
    struct co_err err = {0};
    bool exchange = ways[o->way].exchange;
    for (uint32_t i = 0; i < o->tables; i++) {
        must(exchange ? rt_exchange_dense(o->c, i, o->g, o->w, &err)
                      : rt_push_dense(o->c, i, o->g, &err),
            &err);
    }
    bool ends = exchange || ways[o->way].mode == RT_SYNC;
    must(ends ? rt_step(o->c, &err) : rt_flush(o->c, &err), &err);
    for (uint32_t i = 0; !exchange && i < o->tables; i++) {
        must(rt_pull_dense(o->c, i, o->w, &err), &err);
    }
}

static void measure(const struct world *o, pid_t server, long steps) {
    clockid_t clock;
    (void)clock_getcpuclockid(server, &clock);
    for (int i = 0; i < WARM; i++) {
        step(o);
    }
    double wall = clock_us(CLOCK_MONOTONIC), own = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    double its = clock_us(clock), load = 0;
    for (long i = 0; i < steps; i++) {
        step(o);
    }
    (void)getloadavg(&load, 1);
    (void)printf("server_us %.0f trainer_us %.0f wall_us %.0f server_mb %.1f server_huge_mb %.0f "
                 "trainer_mb %.1f trainer_huge_mb %.0f load %.1f\n",
        (clock_us(clock) - its) / (double)steps,
        (clock_us(CLOCK_PROCESS_CPUTIME_ID) - own) / (double)steps,
        (clock_us(CLOCK_MONOTONIC) - wall) / (double)steps, megabytes(server, "Rss:"),
        megabytes(server, "AnonHugePages:"), megabytes(getpid(), "Rss:"),
        megabytes(getpid(), "AnonHugePages:"), load);
}

static void train(const char *endpoint, struct world *o, size_t n) {
    static char names[TABLES_MAX][16];
    static struct rt_table_spec specs[TABLES_MAX];
    struct co_err err = {0};
    struct rt_client_options options = {
        .mode = ways[o->way].mode, .k_steps = ways[o->way].mode == RT_GEO ? 4 : 0};
    for (uint32_t i = 0; i < o->tables; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%u", i);
        specs[i] = (struct rt_table_spec){
            .name = names[i], .kind = RT_DENSE, .size = n, .optimizer = "adagrad:lr=0.01"};
    }
    struct rt_job *job = enter(endpoint, "TRAINER");
    must(rt_client_open(job, &options, specs, o->tables, &o->c, &err), &err);
    o->w = co_xcalloc(n, sizeof(float));
    o->g = co_xcalloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++) {
        o->g[i] = 1e-3F * (float)(i % 7) - 2e-3F;
    }
    for (uint32_t i = 0; i < o->tables; i++) {
        must(rt_init_dense(o->c, i, o->w, &err), &err);
    }
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        return serve(argv[2]);
    }
    const int end = co_words_check("bench-dense FLOATS MODE STEPS [TABLES]", 3, 4, argc, argv);
    if (end >= 0) {
        return end;
    }
    struct world o = {.tables = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1};
    while (o.way < CO_ARRAY_LEN(ways) && strcmp(ways[o.way].name, argv[2]) != 0) {
        o.way++;
    }
    if (o.way == CO_ARRAY_LEN(ways) || o.tables < 1 || o.tables > TABLES_MAX) {
        (void)fprintf(stderr, "bench-dense: MODE is async, sync, exchange or geo\n");
        return 2;
    }
    char endpoint[1][32];
    find_ports(1, endpoint);
    pid_t server = fork();
    if (server == 0) {
        (void)execl("/proc/self/exe", "bench-dense", "serve", endpoint[0], NULL);
        _exit(1);
    }
    train(endpoint[0], &o, strtoul(argv[1], NULL, 10));
    measure(&o, server, strtol(argv[3], NULL, 10));
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    rt_client_close(o.c);
    free(o.w);
    free(o.g);
    return 0;
}
