/* For tests: a job in one process.  Its servers run here, and the test's threads are the trainers.
 * Each server has two shards. */
#pragma once

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/ports_testing.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/job_testing.h"
#include "runtime/train/ps/server/server.h"

enum { SIZE = 1000, DIM = 6, TRAINERS_MAX = 4 };

struct client_world {
    struct pss_server *servers[4];
    uint32_t n_servers, n_trainers;
    char endpoint[4][32];
    const char *endpoints[4];
};

static inline void world_start_as(struct client_world *w, uint32_t servers, uint32_t trainers,
    enum rt_nonfinite nonfinite, uint64_t memory) {
    memset(w, 0, sizeof(*w));
    w->n_servers = servers;
    w->n_trainers = trainers;
    for (uint32_t i = 0; i < servers; i++) {
        char listen[32];
        (void)snprintf(listen, sizeof(listen), "127.0.0.1:%u", co_test_ports(1));
        struct pss_server_config c = {.listen = listen,
            .index = i,
            .servers = servers,
            .trainers = trainers,
            .job = own_job(),
            .token = "secret",
            .lease_ms = 60000,
            .start_timeout_ms = 60000,
            .shards = 2,
            .memory_max = memory,
            .nonfinite = nonfinite,
            .quiet = true};
        assert_int_equal(0, pss_server_start(&c, &w->servers[i], NULL));
        (void)snprintf(w->endpoint[i], 32, "127.0.0.1:%u", pss_server_port(w->servers[i]));
        w->endpoints[i] = w->endpoint[i];
    }
}

static inline void world_start_with(
    struct client_world *w, uint32_t servers, uint32_t trainers, enum rt_nonfinite nonfinite) {
    world_start_as(w, servers, trainers, nonfinite, 1 << 30);
}

static inline void world_start_memory(
    struct client_world *w, uint32_t servers, uint32_t trainers, uint64_t memory) {
    world_start_as(w, servers, trainers, RT_NONFINITE_UNSET, memory);
}

static inline void world_start(struct client_world *w, uint32_t servers, uint32_t trainers) {
    world_start_with(w, servers, trainers, RT_NONFINITE_UNSET);
}

/* Waits until all servers end, which they do once all trainers have finished; then frees them. */
static inline void world_end(struct client_world *w) {
    for (uint32_t i = 0; i < w->n_servers; i++) {
        struct co_err err = {0};
        if (pss_server_wait(w->servers[i], &err) != 0) {
            fail_msg("server %u: %s", i, err.msg);
        }
        pss_server_stop(w->servers[i]);
    }
}

/* Stops the servers at once, whatever they do.  A trainer that looks for its server meets no other
 * test's: the ports are this process's own. */
static inline void world_stop(struct client_world *w) {
    for (uint32_t i = 0; i < w->n_servers; i++) {
        pss_server_stop(w->servers[i]);
    }
}

static const struct rt_table_spec specs[] = {
    {.name = "dense", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=0.1"},
    {.name = "rows",
        .kind = RT_SPARSE,
        .dim = DIM,
        .optimizer = "sgd:lr=0.1",
        .init = "uniform:min=-1,max=1",
        .seed = 3},
};

/* tables NULL: the two above. */
static inline int world_open(struct client_world *w, uint32_t trainer, struct rt_client_options o,
    const struct rt_table_spec *tables, struct rt_client **ret, struct co_err *err) {
    struct psc_client_config c = {.trainer = trainer,
        .trainers = w->n_trainers,
        .servers = w->n_servers,
        .endpoints = w->endpoints,
        .job = own_job(),
        .token = "secret"};
    o.call_timeout_ms = o.call_timeout_ms ? o.call_timeout_ms : 60000;
    o.barrier_timeout_ms = o.barrier_timeout_ms ? o.barrier_timeout_ms : 60000;
    o.start_timeout_ms = 60000;
    return psc_client_connect(&c, &o, tables ? tables : specs, 2, ret, err);
}

static inline struct rt_client *world_enter(
    struct client_world *w, uint32_t trainer, struct rt_client_options o) {
    struct rt_client *c = NULL;
    struct co_err err = {0};
    if (world_open(w, trainer, o, NULL, &c, &err) < 0) {
        fail_msg("trainer %u: %s", trainer, err.msg);
    }
    return c;
}

/* Uses the variable err of the calling function. */
#define must(e)                                                                                    \
    do {                                                                                           \
        if ((e) != 0) {                                                                            \
            fail_msg("%s: %s", #e, err.msg);                                                       \
        }                                                                                          \
    } while (0)

static inline void says(const struct co_err *err, int code, const char *text) {
    if (err->code != code || !strstr(err->msg, text)) {
        fail_msg("%d '%s' is not %d '%s'", err->code, err->msg, code, text);
    }
}

/* A gradient value that depends on trainer, step and index. */
static inline float pseudo(uint32_t trainer, uint32_t step, uint64_t i) {
    return (float)((trainer * 7 + step * 13 + i * 5) % 31) / 31.0F - 0.5F;
}
