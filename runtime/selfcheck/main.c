/* paddle-check: the parts of `paddlerun check` and `paddlerun version -v` that need the training
 * library, which a launcher does not link.
 *
 *     paddle-check servers PORT        a server and two workers, synchronous steps
 *     paddle-check shm PORT PORT       an all_reduce of two ranks through shared memory,
 *     paddle-check tcp PORT PORT       through TCP
 *     paddle-check libraries           what the training library has and can load
 *
 * The processes are its children; whoever starts it ends its process group.  The last line on
 * stdout says what was done.  Exit code: 0, or 1 with the cause on stderr. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/flag.h"
#include "common/mem.h"
#include "common/stdio.h"
#include "runtime/rt.h"
#include "runtime/selfcheck/libraries.h"

enum {
    WORKERS = 2,
    STEPS = 10,
    DENSE = 1000,
    IDS = 500,
    DIM = 8,
    FLOATS = 1 << 20,
    PARENT_MS = 1000,
    WAIT_MS = 60000, /* of calls; whoever starts the program waits less */
};

/* What a process of the check is, and where it listens. */
struct part {
    uint32_t index;
    char endpoint[2][32];
    enum rt_transport transport;
};

typedef int (*part_fn)(const struct part *p, struct co_err *err);

static int check_failed(const char *who, uint32_t index, const struct co_err *err) {
    (void)fprintf(stderr, "ERROR: %s %u: %s\n", who, index, co_err_text(err));
    return 1;
}

static int run_part(const char *who, part_fn run, const struct part *p) {
    struct co_err err = {0};
    return run(p, &err) < 0 ? check_failed(who, p->index, &err) : 0;
}

/* Forked before this process has threads.  The child ends with its parent. */
static pid_t start_part(const char *who, part_fn run, const struct part *p) {
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) {
            _exit(1);
        }
        const int rc = run_part(who, run, p);
        if (rc != 0) {
            /* The parent may be who failed first, and ends once it has said why. */
            (void)poll(NULL, 0, PARENT_MS);
            (void)kill(parent, SIGTERM); /* nobody waits for one that is gone */
        }
        _exit(rc);
    }
    return pid;
}

static bool ended_well(pid_t pid) {
    int status = -1;
    /* no deadline: the child's calls have some, and whoever started this program has one */
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- a server and workers ---- */

static int init_job(
    const struct part *p, const char *role, struct rt_job **ret, struct co_err *err) {
    CO_AUTOFREE char *training = co_xasprintf("TRAINING_ROLE=%s", role);
    CO_AUTOFREE char *servers = co_xasprintf("PADDLE_PSERVERS_IP_PORT_LIST=%s", p->endpoint[0]);
    CO_AUTOFREE char *workers = co_xasprintf("PADDLE_TRAINERS_NUM=%d", WORKERS);
    CO_AUTOFREE char *id = co_xasprintf("PADDLE_TRAINER_ID=%u", p->index);
    CO_AUTOFREE char *port = co_xasprintf("PADDLE_PORT=%s", strrchr(p->endpoint[0], ':') + 1);
    const char *const list[] = {training, servers, workers, id, port, "POD_IP=127.0.0.1", NULL};
    return rt_init_list(list, ret, err);
}

static int serve(const struct part *p, struct co_err *err) {
    struct rt_job *job = NULL;
    const struct rt_server_options options = {.shards = 1, .start_timeout_ms = WAIT_MS};
    CO_TRY(init_job(p, "PSERVER", &job, err));
    int rc = rt_server_run(job, &options, err);
    rt_done(job);
    return rc;
}

/* After t steps of rate 1/2 with the gradients 1 and 2 each value is -3/4 t: exact in floats. */
static int compare(const char *what, const float *values, size_t n, int t, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (values[i] != -0.75F * (float)t) {
            return co_err_set(err, CO_INTERNAL, "%s %zu is %g after %d steps, expected %g", what, i,
                (double)values[i], t, -0.75 * t);
        }
    }
    return 0;
}

static int make_step(struct rt_client *c, uint32_t index, int t, float *w, struct co_err *err) {
    static uint64_t ids[IDS];
    static float rows[IDS * DIM], gradients[IDS * DIM], gradient[DENSE];
    for (size_t i = 0; i < IDS * DIM; i++) {
        ids[i / DIM] = i / DIM * 1000003;
        gradients[i] = gradient[i % DENSE] = (float)(index + 1);
    }
    CO_TRY(rt_pull_sparse(c, 1, ids, IDS, rows, err));
    CO_TRY(compare("a row's value", rows, IDS * DIM, t, err));
    CO_TRY(compare("parameter", w, DENSE, t, err));
    CO_TRY(rt_push_sparse(c, 1, ids, IDS, gradients, err));
    CO_TRY(rt_exchange_dense(c, 0, gradient, w, err));
    return rt_step(c, err);
}

static int train(struct rt_client *c, uint32_t index, struct co_err *err) {
    static float w[DENSE];
    CO_TRY(rt_init_dense(c, 0, w, err));
    for (int t = 0; t < STEPS; t++) {
        CO_TRY(make_step(c, index, t, w, err));
    }
    return compare("parameter", w, DENSE, STEPS, err);
}

static int work(const struct part *p, struct co_err *err) {
    static const struct rt_table_spec tables[] = {
        {.name = "dense", .kind = RT_DENSE, .size = DENSE, .optimizer = "sgd:lr=0.5"},
        {.name = "rows", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=0.5", .init = "zero"},
    };
    const struct rt_client_options options = {.mode = RT_SYNC, .start_timeout_ms = WAIT_MS};
    struct rt_job *job = NULL;
    struct rt_client *c = NULL;
    CO_TRY(init_job(p, "TRAINER", &job, err));
    int rc = rt_client_open(job, &options, tables, CO_ARRAY_LEN(tables), &c, err);
    rc = rc < 0 ? rc : train(c, p->index, err);
    if (rc == 0) {
        rc = rt_finish(c, err);
    } else {
        rt_client_close(c);
    }
    rt_done(job);
    return rc;
}

static int check_servers(const struct part *first) {
    struct part second = *first;
    second.index = 1;
    const pid_t server = start_part("server", serve, first);
    const pid_t worker = start_part("worker", work, &second);
    const int64_t begin = co_now_ms();
    /* As it is worker 0, it ends first where something is wrong, and its children with it. */
    if (run_part("worker", work, first) != 0 || !ended_well(worker) || !ended_well(server)) {
        return 1;
    }
    (void)printf("1 server, %d workers: %d synchronous steps of push and pull in %lld ms, "
                 "values as expected\n",
        WORKERS, STEPS, (long long)(co_now_ms() - begin));
    return 0;
}

/* ---- an all_reduce ---- */

static int reduce(const struct part *p, struct co_err *err) {
    const char *const endpoints[] = {p->endpoint[0], p->endpoint[1]};
    const struct rt_group_options options = {.endpoints = endpoints,
        .size = WORKERS,
        .rank = p->index,
        .name = "paddlerun-check",
        .transport = p->transport,
        .form_timeout_ms = WAIT_MS,
        .call_timeout_ms = WAIT_MS};
    CO_CLEANUP(co_freep) float *values = co_xmalloc(FLOATS * sizeof(float));
    struct rt_group *g = NULL;
    for (size_t i = 0; i < FLOATS; i++) {
        values[i] = (float)((p->index + 1) * (i % 4096));
    }
    CO_TRY(rt_group_open(NULL, &options, &g, err));
    int rc = rt_all_reduce(g, values, values, FLOATS, RT_F32, RT_SUM, err);
    rt_group_close(g);
    for (size_t i = 0; i < FLOATS && rc == 0; i++) {
        if (values[i] != (float)(3 * (i % 4096))) {
            rc = co_err_set(err, CO_INTERNAL, "sum %zu of the all_reduce is %g, expected %zu", i,
                (double)values[i], 3 * (i % 4096));
        }
    }
    return rc;
}

static int check_group(const struct part *first) {
    struct part second = *first;
    second.index = 1;
    const pid_t other = start_part("rank", reduce, &second);
    const int64_t begin = co_now_ms();
    if (run_part("rank", reduce, first) != 0 || !ended_well(other)) {
        return 1;
    }
    (void)printf("%d ranks: an all_reduce of %zu MiB in %lld ms, sums as expected\n", WORKERS,
        FLOATS * sizeof(float) >> 20, (long long)(co_now_ms() - begin));
    return 0;
}

/* ---- the command line ---- */

static const struct check_word {
    const char *name;
    int ports;
    enum rt_transport transport;
    int (*run)(const struct part *first);
} check_words[] = {
    {"servers", 1, RT_TRANSPORT_AUTO, check_servers},
    {"shm", 2, RT_TRANSPORT_SHM, check_group},
    {"tcp", 2, RT_TRANSPORT_TCP, check_group},
    {"libraries", 0, RT_TRANSPORT_AUTO, selfcheck_libraries},
};

static int run(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < CO_ARRAY_LEN(check_words); i++) {
        const struct check_word *w = &check_words[i];
        if (strcmp(argv[1], w->name) != 0 || argc != 2 + w->ports) {
            continue;
        }
        struct part first = {.transport = w->transport};
        for (int k = 0; k < w->ports; k++) {
            (void)snprintf(
                first.endpoint[k], sizeof(first.endpoint[k]), "127.0.0.1:%.5s", argv[2 + k]);
        }
        return w->run(&first);
    }
    const bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    (void)fprintf(help ? stdout : stderr, "usage: paddle-check servers PORT | shm PORT PORT | tcp "
                                          "PORT PORT | libraries, as paddlerun "
                                          "check does\n");
    return help ? 0 : 2;
}

int main(int argc, char **argv) {
    co_stdio_begin();
    return co_stdio_close("paddle-check", run(argc, argv));
}
