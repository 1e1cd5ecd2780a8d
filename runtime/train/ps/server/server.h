/* One parameter server in this process: it listens, tracks the trainers and owns the shards.
 *
 * rt_server_run is built on it.  Tests use it directly, and so does a client of a job without
 * servers.  The state of trainers (connected, lost, at a barrier) belongs to the rpc's thread. */
#pragma once

#include "runtime/train/ps/spec.h"

struct pss_server;

struct pss_server_config {
    const char *listen;   /* "host:port"; port 0 takes a free one */
    const char *endpoint; /* as in the job's list; NULL: listen */
    uint32_t index, servers,
        trainers;                 /* servers 0: the first trainer says index, servers and job */
    const char *const *endpoints; /* [servers]; a trainer's list must be the same text; NULL: any */
    const char *job;              /* its name; a trainer must say the same */
    const char *token;            /* "" or NULL: none */
    bool encrypt;                 /* all connections; needs a token */
    int64_t lease_ms, start_timeout_ms;
    int64_t return_ms; /* how long to wait for a lost trainer to return; 0 or less: not at all */
    int64_t hello_ms;  /* limit for the proof of the token, and for the hello after it; 0: 10 s */
    uint32_t shards;
    uint64_t memory_max;         /* bytes of all tables, all shards */
    enum rt_nonfinite nonfinite; /* unset: refuse */
    /* Sparse rows that do not fit in memory go to disk, in this server's own directory below this
     * one.  NULL, "": pushes of such rows are refused. */
    const char *cold_dir;
    const char *checkpoint_dir; /* checkpoints must be at or below it; NULL, "": anywhere */
    /* Tables start from the newest complete checkpoint there, if there is one.  The server looks
     * for it before it answers anyone.  Each shard loads it after the first hello, which brings the
     * tables, and answers requests afterwards.  NULL, "": tables start empty. */
    const char *restore_dir;
    size_t backlog; /* see rpc_options */
    bool quiet;     /* logs only warnings and errors */
};

/* Copies the strings.  The server listens when this returns. */
CO_MUST_CHECK int pss_server_start(
    const struct pss_server_config *config, struct pss_server **ret, struct co_err *err);
/* The checkpoint that its tables started from; NULL: none.  Any thread. */
struct ckpt_point;
const struct ckpt_point *pss_server_restored(const struct pss_server *s);
uint16_t pss_server_port(const struct pss_server *s);

/* Readable once the job is over, for poll.  Owned by s. */
int pss_server_fd(const struct pss_server *s);
/* Waits until the job is over, and returns its result as rt_server_run does. */
CO_MUST_CHECK int pss_server_wait(struct pss_server *s, struct co_err *err);
/* All trainers have finished, though some may not have closed their connections.  Any thread. */
bool pss_server_has_trained(const struct pss_server *s);
/* Stops the server in any state and frees it; NULL allowed. */
void pss_server_stop(struct pss_server *s);
