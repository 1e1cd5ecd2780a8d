/* Kills a parameter server, starts it again at once, and measures how long its trainer makes no
 * steps.
 *
 *     bench-return DIR MODE ROWS KILLS      DIR: of checkpoints; MODE: async or sync
 *
 * The table has ROWS rows of 10 floats with Adagrad, all of them in a checkpoint; a step pulls and
 * pushes 26 rows.  The delay with which the kubelet or a launcher would start the server is not
 * included.  Prints a line for each kill: milliseconds from the signal to the end of the second
 * step after it; this includes loading the checkpoint. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/rt.h"

enum { DIM = 10, IDS = 26, FILL = 10000, WAIT_MS = 120000, CALM_MS = 300 };

static const struct rt_table_spec spec = {
    .name = "rows", .kind = RT_SPARSE, .dim = DIM, .optimizer = "adagrad:lr=0.05"};

static atomic_ullong
    *steps; /* made by the trainer, in memory shared by all processes; 0: it is not ready */
static uint64_t rows;
static enum rt_mode mode;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void must(int rc, const char *what, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-return: %s: %s\n", what, co_err_text(err));
        _exit(1);
    }
}

static void serve(void) {
    struct rt_job *job = NULL;
    struct co_err err = {0};
    (void)setenv("TRAINING_ROLE", "PSERVER", 1);
    must(rt_init(&job, &err), "init", &err);
    must(rt_server_run(job, NULL, &err), "server", &err);
    _exit(0);
}

static void fill(struct rt_client *c, const char *dir) {
    static uint64_t ids[FILL];
    static float g[FILL * DIM];
    struct co_err err = {0};
    for (uint64_t from = 0; from < rows; from += FILL) {
        for (uint64_t i = 0; i < FILL; i++) {
            ids[i] = from + i;
        }
        must(rt_push_sparse(c, 0, ids, FILL, g, &err), "push", &err);
    }
    must(rt_step(c, &err), "step", &err);
    must(rt_checkpoint(c, dir, NULL, NULL, &err), "checkpoint", &err);
}

static int make_step(struct rt_client *c, uint64_t *seed, struct co_err *err) {
    uint64_t ids[IDS];
    float w[IDS * DIM];
    for (size_t i = 0; i < IDS; i++) {
        *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
        ids[i] = (*seed >> 20) % rows;
    }
    int rc = rt_pull_sparse(c, 0, ids, IDS, w, err);
    rc = rc < 0 ? rc : rt_push_sparse(c, 0, ids, IDS, w, err);
    return rc < 0 ? rc : rt_step(c, err);
}

static void train(const char *dir) {
    struct rt_job *job = NULL;
    struct rt_client *c = NULL;
    struct co_err err = {0};
    const struct rt_client_options o = {.mode = mode};
    (void)setenv("TRAINING_ROLE", "TRAINER", 1);
    must(rt_init(&job, &err), "init", &err);
    must(rt_client_open(job, &o, &spec, 1, &c, &err), "open", &err);
    fill(c, dir);
    for (uint64_t seed = 1;;) {
        int rc = make_step(c, &seed, &err);
        if (rc == CO_GONE) {
            struct rt_place place;
            err = (struct co_err){0};
            rc = rt_resume(c, NULL, 0, &place, &err);
        } else {
            atomic_fetch_add(steps, rc == 0);
        }
        must(rc, "step", &err);
    }
}

static pid_t start(void (*what)(const char *dir), const char *dir) {
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) {
            _exit(1);
        }
        if (what) {
            what(dir);
        }
        serve();
    }
    return pid;
}

static void await(unsigned long long n) {
    double begin = now_ms();
    while (atomic_load(steps) < n) {
        if (now_ms() - begin > WAIT_MS) {
            (void)fprintf(stderr, "bench-return: no step within %d s\n", WAIT_MS / 1000);
            (void)kill(0, SIGKILL);
        }
        (void)poll(NULL, 0, 1);
    }
}

static void stop(pid_t pid) {
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    const int end = co_words_check("bench-return DIR MODE ROWS KILLS", 4, 4, argc, argv);
    if (end >= 0) {
        return end;
    }
    int64_t n = 0, kills = 0;
    struct co_err err = {0};
    if (co_parse_i64("ROWS", argv[3], FILL, 1LL << 32, &n, &err) < 0 ||
        co_parse_i64("KILLS", argv[4], 1, 1000, &kills, &err) < 0) {
        (void)fprintf(stderr, "bench-return: %s\n", co_err_text(&err));
        return 2;
    }
    rows = (uint64_t)n;
    mode = strcmp(argv[2], "sync") == 0 ? RT_SYNC : RT_ASYNC;
    steps = mmap(NULL, sizeof(*steps), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char endpoint[1][32];
    find_ports(1, endpoint);
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", endpoint[0], 1);
    (void)setenv("PADDLE_PORT", strchr(endpoint[0], ':') + 1, 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)setenv("PADDLE_TRAINERS_NUM", "1", 1);
    (void)setenv("PADDLE_TRAINER_ID", "0", 1);
    (void)setenv("PADDLE_PS_CHECKPOINT_DIR", argv[1], 1);
    pid_t server = start(NULL, NULL), trainer = start(train, argv[1]);
    await(1);
    for (int64_t i = 0; i < kills; i++) {
        (void)poll(NULL, 0, CALM_MS);
        double begin = now_ms();
        stop(server);
        unsigned long long made = atomic_load(steps);
        server = start(NULL, NULL);
        await(made + 2); /* the first may have got its answers before the kill */
        (void)printf("return %s rows %lld ms %.0f\n", argv[2], (long long)n, now_ms() - begin);
        (void)fflush(stdout);
    }
    stop(trainer);
    stop(server);
    return 0;
}
