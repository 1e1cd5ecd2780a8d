/* Measures how checkpoints slow training down, with one server and one trainer on loopback.
 *
 *     bench-checkpoint DIR [ROWS [SECONDS [ROUNDS [ZIPF]]]]
 *
 * The table has ROWS (1,000,000) rows of 10 floats with Adagrad.  A step pulls and pushes 512 x 26
 * rows.  Three quarters of these are among the most frequent 5 %, so half of all rows change within
 * a second.  With ZIPF, row k has the frequency k^-(ZIPF / 100), for ZIPF above 100; with ZIPF 110
 * and 10,000,000 rows, 1 to 2 % of the rows change in a second.
 *
 * There are four kinds of windows of SECONDS (3), which take turns ROUNDS (3) times: no
 * checkpoints, full ones without a pause, deltas without a pause, and a delta every second.  Prints
 * for each window: steps per second of wall time, CPU of the server (with its writing threads) and
 * of the trainer for a step, the longest step, the number of checkpoints, their size, and the part
 * of all rows that one has.  On a busy machine only the CPU times can be compared. */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/endpoints.h"
#include "common/flag.h"
#include "common/mem.h"
#include "common/parse.h"
#include "runtime/rt.h"

enum {
    DIM = 10,
    BATCH = 512 * 26,
    FILL = 10000,
    ROW = 8 + 2 * DIM * 4, /* bytes of a row in a checkpoint */
    DRAWN = 600 * BATCH,   /* ids by Zipf's law: drawn once, then used in turn */
};

static const struct rt_table_spec specs[] = {{.name = "rows",
    .kind = RT_SPARSE,
    .dim = DIM,
    .optimizer = "adagrad:lr=0.05",
    .init = "uniform:min=-0.1,max=0.1"}};

enum kind { NONE, FULL, DELTA, DELTA_A_SECOND, KINDS };
static const char *const names[KINDS] = {
    "without", "full, no break", "deltas, no break", "a delta a second"};

struct window {
    double steps, seconds, server, trainer, longest;
    unsigned made;
    uint64_t bytes;
};

struct bench {
    struct rt_client *c;
    const char *dir;
    uint64_t rows, seed;
    uint64_t *drawn; /* [DRAWN], or NULL; the index of the next one: */
    size_t at;
    double seconds;
    clockid_t server;
    _Atomic int kind; /* the kind of checkpoints that the saver makes now */
    atomic_bool busy; /* it is making one */
    atomic_bool over;
    atomic_uint made;
    _Atomic uint64_t bytes;
    struct window windows[KINDS];
};

static float gradients[BATCH * DIM];

static double now(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int rc, const struct co_err *err) {
    if (rc < 0) {
        (void)fprintf(stderr, "bench-checkpoint: %s\n", co_err_text(err));
        exit(1);
    }
}

static void save(struct bench *b, bool full, struct rt_checkpoint *ret) {
    const struct rt_checkpoint_options o = {.full = full, .deltas = 1000, .keep = 1};
    struct co_err err = {0};
    check(rt_checkpoint(b->c, b->dir, &o, ret, &err), &err);
}

/* A thread that makes checkpoints of the current kind, one after the other. */
static void *save_on(void *arg) {
    struct bench *b = arg;
    while (!atomic_load(&b->over)) {
        enum kind kind = (enum kind)atomic_load(&b->kind);
        struct rt_checkpoint made = {0};
        if (kind == DELTA_A_SECOND) {
            (void)poll(NULL, 0, 1000);
        }
        atomic_store(&b->busy, true);
        if (kind != NONE && atomic_load(&b->kind) != NONE) {
            save(b, kind == FULL, &made);
            atomic_fetch_add(&b->made, 1);
            atomic_fetch_add(&b->bytes, made.bytes);
        }
        atomic_store(&b->busy, false);
        (void)poll(NULL, 0, kind == NONE ? 10 : 0);
    }
    return NULL;
}

static uint64_t random_next(struct bench *b) {
    b->seed = b->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return b->seed >> 20;
}

/* Draws from the continuous law that approximates Zipf's; spreads the frequent rows over all ids.
 */
static void draw(struct bench *b, double exponent) {
    double e = 1 - exponent, least = pow((double)b->rows, e);
    b->drawn = co_xmalloc(DRAWN * sizeof(*b->drawn));
    for (size_t i = 0; i < DRAWN; i++) {
        double u = (double)random_next(b) / (double)(1ULL << 44);
        b->drawn[i] = (uint64_t)pow(1 - u * (1 - least), 1 / e) * 2654435761U % b->rows;
    }
}

static uint64_t random_id(struct bench *b) {
    if (b->drawn) {
        return b->drawn[b->at++ % DRAWN];
    }
    uint64_t x = random_next(b);
    return x % 4 > 0 ? (x >> 2) % (b->rows / 20) : (x >> 2) % b->rows;
}

/* Gradients are drawn once.  If they were the rows, frequent rows would shrink to denormal numbers,
 * which processors are slow with, and each window would be slower than the one before. */
static void draw_gradients(struct bench *b) {
    for (size_t i = 0; i < (size_t)BATCH * DIM; i++) {
        gradients[i] = (float)(random_next(b) % 2001) / 1000 - 1;
    }
}

static void step(struct bench *b) {
    static uint64_t ids[BATCH];
    static float rows[BATCH * DIM];
    struct co_err err = {0};
    for (size_t i = 0; i < BATCH; i++) {
        ids[i] = random_id(b);
    }
    check(rt_pull_sparse(b->c, 0, ids, BATCH, rows, &err), &err);
    check(rt_push_sparse(b->c, 0, ids, BATCH, gradients, &err), &err);
    check(rt_flush(b->c, &err), &err);
}

static void run_window(struct bench *b, enum kind kind) {
    struct window *w = &b->windows[kind];
    struct rt_checkpoint before;
    if (kind == DELTA || kind == DELTA_A_SECOND) { /* a full one, to which deltas are relative */
        save(b, false, &before);
    }
    atomic_store(&b->made, 0);
    atomic_store(&b->bytes, 0);
    atomic_store(&b->kind, kind);
    double begin = now(CLOCK_MONOTONIC), at = begin;
    double server = now(b->server), own = now(CLOCK_PROCESS_CPUTIME_ID);
    while (at - begin < b->seconds) {
        step(b);
        double end = now(CLOCK_MONOTONIC);
        w->longest = end - at > w->longest ? end - at : w->longest;
        w->steps++;
        at = end;
    }
    w->seconds += at - begin;
    w->server += now(b->server) - server;
    w->trainer += now(CLOCK_PROCESS_CPUTIME_ID) - own;
    w->made += atomic_load(&b->made);
    w->bytes += atomic_load(&b->bytes);
    atomic_store(&b->kind, NONE); /* an unfinished checkpoint must not count for the next window */
    do {
        (void)poll(NULL, 0, 50);
    } while (atomic_load(&b->busy));
}

static void fill(struct bench *b) {
    static uint64_t ids[FILL];
    static float g[FILL * DIM];
    struct co_err err = {0};
    for (uint64_t from = 0; from < b->rows; from += FILL) {
        for (uint64_t i = 0; i < FILL; i++) {
            ids[i] = from + i;
        }
        check(rt_push_sparse(b->c, 0, ids, FILL, g, &err), &err);
    }
    check(rt_flush(b->c, &err), &err);
}

static void print(const struct bench *b) {
    const struct window *none = &b->windows[NONE];
    double base = (none->server + none->trainer) / none->steps;
    printf("%-18s %8s %12s %12s %9s %11s %6s %9s %9s\n", "checkpoints", "steps/s", "server us",
        "trainer us", "by CPU", "longest ms", "made", "MB each", "of rows");
    for (int k = 0; k < KINDS; k++) {
        const struct window *w = &b->windows[k];
        double each = (w->server + w->trainer) / w->steps;
        double bytes = w->made ? (double)w->bytes / w->made : 0;
        printf("%-18s %8.1f %12.0f %12.0f %+8.1f%% %11.1f %6u %9.1f %8.1f%%\n", names[k],
            w->steps / w->seconds, w->server / w->steps * 1e6, w->trainer / w->steps * 1e6,
            (base / each - 1) * 100, w->longest * 1e3, w->made, bytes / 1e6,
            bytes / ROW / (double)b->rows * 100);
    }
    double load[3] = {0};
    (void)getloadavg(load, 3);
    printf("load %.1f; by CPU: rate of one core's time, against without\n", load[0]);
}

static void serve(const char *endpoint) {
    struct rt_job *job = NULL;
    struct co_err err = {0};
    (void)setenv("TRAINING_ROLE", "PSERVER", 1);
    (void)setenv("POD_IP", "127.0.0.1", 1);
    (void)setenv("PADDLE_PORT", strrchr(endpoint, ':') + 1, 1);
    check(rt_init(&job, &err), &err);
    check(rt_server_run(job, NULL, &err), &err);
    _exit(0);
}

static int64_t number(char **argv, int argc, int at, int64_t def) {
    int64_t n = def;
    struct co_err err = {0};
    check(argc > at ? co_parse_i64("argument", argv[at], 1, 1 << 30, &n, &err) : 0, &err);
    return n;
}

int main(int argc, char **argv) {
    const int end =
        co_words_check("bench-checkpoint /DIR [ROWS [SECONDS [ROUNDS [ZIPF]]]]", 1, 5, argc, argv);
    if (end >= 0) {
        return end;
    }
    if (argv[1][0] != '/') {
        (void)fprintf(stderr, "bench-checkpoint: DIR is \"%s\", expected /...\n", argv[1]);
        return 2;
    }
    struct bench b = {.dir = argv[1], .seed = 1};
    b.rows = (uint64_t)number(argv, argc, 2, 1000000);
    b.seconds = (double)number(argv, argc, 3, 3);
    int64_t rounds = number(argv, argc, 4, 3), zipf = number(argv, argc, 5, 0);
    char endpoint[1][32];
    find_ports(1, endpoint);
    (void)setenv("PADDLE_PSERVERS_IP_PORT_LIST", endpoint[0], 1);
    (void)setenv("PADDLE_TRAINERS_NUM", "1", 1);
    pid_t server = fork();
    if (server == 0) {
        serve(endpoint[0]);
    }
    struct rt_job *job = NULL;
    struct co_err err = {0};
    pthread_t saver;
    (void)setenv("TRAINING_ROLE", "TRAINER", 1);
    (void)setenv("PADDLE_TRAINER_ID", "0", 1);
    check(rt_init(&job, &err), &err);
    check(rt_client_open(job, NULL, specs, 1, &b.c, &err), &err);
    check(-clock_getcpuclockid(server, &b.server), &err);
    if (zipf > 100) {
        draw(&b, (double)zipf / 100);
    }
    draw_gradients(&b);
    fill(&b);
    check(-pthread_create(&saver, NULL, save_on, &b), &err);
    for (int64_t i = 0; i < rounds; i++) {
        for (int k = 0; k < KINDS; k++) {
            run_window(&b, (enum kind)k);
        }
    }
    atomic_store(&b.over, true);
    pthread_join(saver, NULL);
    print(&b);
    check(rt_finish(b.c, &err), &err);
    rt_done(job);
    free(b.drawn);
    (void)waitpid(server, NULL, 0);
    return 0;
}
