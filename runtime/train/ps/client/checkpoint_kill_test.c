/* Servers that are killed while they write checkpoints, again and again: there always is a whole
 * one, no older than the last that was completed, and training resumes from it.  Processes; they
 * die by SIGKILL at a step on the disk that a seed chooses. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/server/server.h"

enum { LEARN = 240, EVERY = 3, EXAMPLES = 16, FIELDS = 6, WORDS = 200, LIVES_MIN = 10 };
enum { SERVERS = 2, SIZE = 2000, IDS = 500, DEADLINE_MS = 90000 };
enum { KILLS = 60, KILLS_OF_TWO = 8, MORE = 4 /* times as many with KILLS_ALL, in make nightly */ };

/* All values count the pushes. */
static const struct rt_table_spec counters[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1"},
    {.name = "rows", .kind = RT_SPARSE, .dim = 1, .optimizer = "sgd:lr=1", .init = "zero"},
};

/* What children report. */
struct shared {
    _Atomic uint64_t committed; /* number of the last one that rt_checkpoint returned */
    atomic_uint ports[SERVERS]; /* once they listen */
    atomic_int kill_at;         /* disk steps of the one that is to die; negative: nobody */
    float loss[LEARN];          /* of each step, when it was made last */
};
static struct shared *shared;
static int woken; /* pipe: the trainer waits for ports */

static void die_at_step(void) {
    if (atomic_fetch_sub(&shared->kill_at, 1) == 0) {
        (void)kill(getpid(), SIGKILL);
        (void)pause();
    }
}

static int serve(const char *dir, uint32_t index, uint32_t servers, bool dies,
    struct pss_server **ret, struct co_err *err) {
    struct pss_server_config c = {.listen = "127.0.0.1:0",
        .index = index,
        .servers = servers,
        .trainers = 1,
        .job = "test",
        .lease_ms = 60000,
        .start_timeout_ms = 60000,
        .shards = 2,
        .memory_max = 1 << 30,
        .checkpoint_dir = dir,
        .restore_dir = dir,
        .quiet = true};
    if (dies) {
        ckpt_disk_watch = die_at_step;
    }
    return pss_server_start(&c, ret, err);
}

/* Everything that was restored is of one instant; then pushes and checkpoints without end. */
static int train(const char *dir, uint32_t servers, struct co_err *err) {
    char endpoint[SERVERS][32];
    const char *endpoints[SERVERS];
    for (uint32_t i = 0; i < servers; i++) {
        (void)snprintf(endpoint[i], 32, "127.0.0.1:%u", atomic_load(&shared->ports[i]));
        endpoints[i] = endpoint[i];
    }
    struct psc_client_config c = {
        .trainers = 1, .servers = servers, .endpoints = endpoints, .job = "test"};
    struct rt_client_options o = {.start_timeout_ms = 60000, .lease_ms = 60000};
    struct rt_client *client = NULL;
    static float w[SIZE], rows[IDS], g[SIZE];
    uint64_t ids[IDS];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    CO_TRY(psc_client_connect(&c, &o, counters, 2, &client, err));
    CO_TRY(rt_pull_dense(client, 0, w, err));
    CO_TRY(rt_pull_sparse(client, 1, ids, IDS, rows, err));
    for (size_t i = 0; i < SIZE; i++) {
        g[i] = -1;
        if (w[i] != w[0] || rows[i % IDS] != w[0]) {
            return co_err_set(err, CO_INTERNAL, "torn: %g, %g, %g", (double)w[0], (double)w[i],
                (double)rows[i % IDS]);
        }
    }
    for (;;) {
        struct rt_checkpoint made = {0};
        const struct rt_checkpoint_options often = {.deltas = 3, .keep = 1};
        CO_TRY(rt_push_dense(client, 0, g, err));
        CO_TRY(rt_push_sparse(client, 1, ids, IDS, g, err));
        CO_TRY(rt_checkpoint(client, dir, &often, &made, err));
        atomic_store(&shared->committed, made.number);
    }
}

/* ---- something that is learned ---- */

static const struct rt_table_spec weights[] = {{.name = "weights",
    .kind = RT_SPARSE,
    .dim = 1,
    .optimizer = "adagrad:lr=0.3",
    .init = "zero"}};

static uint64_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

/* Examples are sums of words' weights, others each step; half the mean of squared errors. */
static int learn_step(struct rt_client *c, uint32_t step, float *ret_loss, struct co_err *err) {
    uint64_t ids[EXAMPLES * FIELDS], state = step;
    float w[EXAMPLES * FIELDS], g[EXAMPLES * FIELDS], loss = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(ids); i++) {
        ids[i] = random_next(&state) % WORDS;
    }
    CO_TRY(rt_pull_sparse(c, 0, ids, CO_ARRAY_LEN(ids), w, err));
    for (size_t e = 0; e < EXAMPLES; e++) {
        float wrong = 0;
        for (size_t i = e * FIELDS; i < (e + 1) * FIELDS; i++) {
            wrong += w[i] - ((float)(ids[i] * 37 % 101) / 50 - 1);
        }
        for (size_t i = e * FIELDS; i < (e + 1) * FIELDS; i++) {
            g[i] = wrong / EXAMPLES;
        }
        loss += wrong * wrong / (2 * EXAMPLES);
    }
    *ret_loss = loss;
    return rt_push_sparse(c, 0, ids, CO_ARRAY_LEN(ids), g, err);
}

/* From where the servers say that it stands to the end, with a checkpoint every few steps. */
static int learn(const char *dir, struct co_err *err) {
    char endpoint[32];
    const char *endpoints[] = {endpoint};
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", atomic_load(&shared->ports[0]));
    struct psc_client_config c = {
        .trainers = 1, .servers = 1, .endpoints = endpoints, .job = "test"};
    struct rt_client_options o = {.start_timeout_ms = 60000, .lease_ms = 60000};
    const struct rt_checkpoint_options often = {.deltas = 4, .keep = 1};
    struct rt_client *client = NULL;
    struct rt_place place;
    uint32_t at = 0;
    CO_TRY(psc_client_connect(&c, &o, weights, 1, &client, err));
    CO_TRY(rt_resume(client, &at, sizeof(at), &place, err));
    while (at < LEARN) {
        CO_TRY(learn_step(client, at, &shared->loss[at], err));
        at++;
        CO_TRY(rt_keep(client, &at, sizeof(at), err));
        CO_TRY(rt_step(client, err));
        CO_TRY(at % EVERY ? 0 : rt_checkpoint(client, dir, &often, NULL, err));
    }
    return rt_finish(client, err);
}

static void say(const char *who, const struct co_err *err) {
    (void)fprintf(stderr, "%s: %s\n", who, co_err_text(err));
}

/* A server and its trainer as threads of one process, which dies. */
static void be_both(const char *dir) {
    struct pss_server *s = NULL;
    struct co_err err = {0};
    if (serve(dir, 0, 1, true, &s, &err) == 0) {
        atomic_store(&shared->ports[0], pss_server_port(s));
        (void)train(dir, 1, &err);
    }
    say("both", &err);
    _exit(1);
}

static void be_learner(const char *dir, bool dies) {
    struct pss_server *s = NULL;
    struct co_err err = {0};
    int rc = serve(dir, 0, 1, dies, &s, &err);
    if (rc == 0) {
        atomic_store(&shared->ports[0], pss_server_port(s));
        rc = learn(dir, &err);
    }
    if (rc < 0) {
        say("learner", &err);
    }
    _exit(rc < 0 ? 1 : 0);
}

static void be_server(const char *dir, uint32_t index, bool dies) {
    struct pss_server *s = NULL;
    struct co_err err = {0};
    if (serve(dir, index, SERVERS, dies, &s, &err) == 0) {
        atomic_store(&shared->ports[index], pss_server_port(s));
        (void)!write(woken, "x", 1);
        (void)!pss_server_wait(s, &err);
    }
    say("server", &err);
    _exit(1);
}

/* ---- in the parent ---- */

static uint64_t seed = 7;
static int dice(int sides) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((seed >> 33) % (uint64_t)sides);
}

static void check(const char *dir, uint32_t servers, int round) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    struct co_err err = {0};
    uint64_t committed = atomic_load(&shared->committed);
    const struct ckpt_search search = {.dir = dir, .most = UINT64_MAX};
    int rc = ckpt_chain_newest(&search, &c, &err);
    if (rc == CO_NOTFOUND && committed == 0) {
        return;
    }
    if (rc < 0 || ckpt_chain_verify(c, &err) < 0) {
        fail_msg("round %d: %s", round, err.msg);
    }
    assert_int_equal(servers, c->points[0].n_parts);
    if (c->points[c->n - 1].number < committed) {
        fail_msg("round %d: %llu was completed, %llu is there", round,
            (unsigned long long)committed, (unsigned long long)c->points[c->n - 1].number);
    }
}

static int end_of(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int setup(void **state) {
    char *dir = co_xstrdup("/tmp/checkpoint_kill_XXXXXX");
    *state = dir;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared != MAP_FAILED && mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", (char *)*state);
    int rc = system(cmd);
    free(*state);
    (void)munmap(shared, sizeof(*shared));
    return rc;
}

static unsigned more(void) {
    return getenv("KILLS_ALL") ? MORE : 1;
}

static void a_server_killed_at_any_step_continues(void **state) {
    const char *dir = *state;
    unsigned kills = KILLS * more();
    for (unsigned i = 0; i < kills; i++) {
        atomic_store(&shared->kill_at, dice(40));
        pid_t pid = fork();
        if (pid == 0) {
            be_both(dir);
        }
        assert_int_equal(128 + SIGKILL, end_of(pid));
        check(dir, 1, (int)i);
    }
    assert_true(atomic_load(&shared->committed) > kills / 2);
}

/* One of two; the trainer and the other one end by themselves, or are ended. */
static void one_of_two_servers_killed_at_any_step(void **state) {
    const char *dir = *state;
    unsigned kills = KILLS_OF_TWO * more();
    for (unsigned i = 0; i < kills; i++) {
        int fds[2];
        pid_t pids[SERVERS], trainer;
        uint32_t victim = (uint32_t)dice(SERVERS);
        assert_int_equal(0, pipe(fds));
        woken = fds[1];
        atomic_store(&shared->kill_at, dice(80));
        for (uint32_t k = 0; k < SERVERS; k++) {
            pids[k] = fork();
            if (pids[k] == 0) {
                be_server(dir, k, k == victim);
            }
        }
        for (uint32_t k = 0; k < SERVERS; k++) {
            struct pollfd p = {.fd = fds[0], .events = POLLIN};
            char byte;
            assert_int_equal(1, poll(&p, 1, DEADLINE_MS));
            assert_int_equal(1, read(fds[0], &byte, 1));
        }
        trainer = fork();
        if (trainer == 0) {
            struct co_err err = {0};
            _exit(train(dir, SERVERS, &err) == CO_INTERNAL ? 2 : 1);
        }
        assert_int_equal(128 + SIGKILL, end_of(pids[victim]));
        (void)kill(trainer, SIGTERM);
        (void)kill(pids[!victim], SIGKILL);
        assert_int_not_equal(2, end_of(trainer));
        (void)end_of(pids[!victim]);
        (void)close(fds[0]);
        (void)close(fds[1]);
        check(dir, SERVERS, (int)i);
    }
    assert_true(atomic_load(&shared->committed) > kills / 2);
}

static int live(const char *dir, bool dies) {
    pid_t pid = fork();
    if (pid == 0) {
        be_learner(dir, dies);
    }
    return end_of(pid);
}

static float mean_loss(const float *loss, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += loss[i] / (float)n;
    }
    return sum;
}

/* Of one trainer, that takes up its place with the tables that belong there: the same curve. */
static void the_loss_comes_down_as_if_nobody_had_been_killed(void **state) {
    static float calm[LEARN];
    CO_AUTOFREE char *first = co_xasprintf("%s/calm", (char *)*state);
    CO_AUTOFREE char *second = co_xasprintf("%s/killed", (char *)*state);
    assert_int_equal(0, live(first, false));
    memcpy(calm, shared->loss, sizeof(calm));
    assert_true(mean_loss(calm + LEARN - 20, 20) < mean_loss(calm, 20) / 10);
    int lives = 1, end;
    do {
        assert_true(++lives < LEARN);
        atomic_store(&shared->kill_at, dice(120));
        end = live(second, true);
        assert_true(end == 0 || end == 128 + SIGKILL);
    } while (end != 0);
    assert_true(lives > LIVES_MIN);
    for (size_t i = 0; i < LEARN; i++) {
        if (fabsf(calm[i] - shared->loss[i]) > 1e-4F * calm[0]) {
            fail_msg("step %zu after %d lives: loss %g, without kills %g", i, lives,
                (double)shared->loss[i], (double)calm[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_server_killed_at_any_step_continues, setup, teardown),
        cmocka_unit_test_setup_teardown(one_of_two_servers_killed_at_any_step, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_loss_comes_down_as_if_nobody_had_been_killed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
