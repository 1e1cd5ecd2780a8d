/* One parameter server in this process: listens, keeps the list of trainers, owns the shards.
 *
 * Everything about trainers (who is here, who was lost, barriers) belongs to the rpc's thread.
 * Behind rt_server_run; used directly by tests and for jobs without servers. */
#pragma once

#include "runtime/train/ps/spec.h"

struct rt_server;

struct rt_server_config {
    const char *listen;   /* "host:port"; port 0 takes a free one */
    const char *endpoint; /* as in the job's list; NULL: what was listened on */
    uint32_t index, servers,
        trainers;                 /* servers 0: place and job are what the first trainer tells */
    const char *const *endpoints; /* [servers], compared as text; NULL: any */
    const char *job;              /* its name, compared as text */
    const char *token;            /* "" or NULL: none */
    int64_t lease_ms, start_timeout_ms;
    int64_t hello_ms; /* for the proof of the token, and for a hello after it; 0: 10 s each */
    uint32_t shards;
    uint64_t memory_max;         /* bytes of all tables, all shards */
    enum rt_nonfinite nonfinite; /* unset: refuse */
    size_t backlog;              /* see rt_rpc_options */
    bool quiet;                  /* prints nothing that is no error */
};

/* Strings are copied.  Listens when it returns. */
CO_MUST_CHECK int rt_server_start(
    const struct rt_server_config *config, struct rt_server **ret, struct co_err *err);
uint16_t rt_server_port(const struct rt_server *s);

/* Readable once the job is over, for poll.  Owned by s. */
int rt_server_fd(const struct rt_server *s);
/* Waits for that; the result of the job as for rt_server_run. */
CO_MUST_CHECK int rt_server_wait(struct rt_server *s, struct co_err *err);
/* Ends it in any state; NULL allowed. */
void rt_server_stop(struct rt_server *s);
