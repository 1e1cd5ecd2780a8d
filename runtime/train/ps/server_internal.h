/* What server.c (life), session.c (conversation with trainers) and watch.c (who is still here,
 * when it is over) share. */
#pragma once

#include "runtime/train/ps/members.h"
#include "runtime/train/ps/server.h"
#include "runtime/train/ps/shard.h"

/* A connection; it becomes a trainer's by its hello. */
struct rt_session {
    struct rt_server *server;
    struct rt_stream *stream; /* borrowed: the session ends with it */
    int64_t since_ms;
    uint32_t trainer; /* RT_NOBODY before hello */
    bool refused;
    struct rt_session *next, *prev;
};

#define RT_NOBODY UINT32_MAX

struct rt_server {
    struct rt_server_config config; /* strings owned */
    char **list;                    /* owned, [config.servers]: the job's servers; NULL: not told */
    struct rt_rpc *rpc;
    uint16_t port;
    int fd; /* eventfd: the job is over */

    /* the rpc's thread, once it listens; anyone after rt_rpc_close */
    struct rt_members members;
    struct rt_session *sessions;
    enum rt_mode mode;
    struct rt_table *tables;
    uint32_t n_tables;
    struct rt_budget budget;  /* config.memory_max, of all shards */
    struct rt_shard **shards; /* [config.shards], NULL before the first hello */
    int64_t ticked_ms;
    int64_t said_ms;   /* when it was said last who is missing */
    int64_t first_ms;  /* first hello; 0: none yet */
    int64_t orphan_ms; /* async: only lost trainers are left since; 0: no */
    bool over;         /* result is decided */
    int64_t over_ms;
    bool told; /* fd was written */
    /* peers that were refused: all of them, those not yet told of, when that was done last */
    uint64_t refused, refused_unsaid;
    int64_t refused_ms;
    struct co_err result;
};

/* The callbacks of the rpc; all below is for its thread. */
extern const struct rt_rpc_ops rt_session_ops;

/* server.c: copies config.servers entries. */
void rt_server_set_list(struct rt_server *s, const char *const *list);

/* session.c: lets the barrier go when it is full. */
void rt_server_barrier(struct rt_server *s);

/* watch.c */
void rt_server_tick(void *arg); /* leases, missing trainers */
/* The trainer is not here any more.  Sync cannot go on without it; async does. */
void rt_server_lose(struct rt_server *s, uint32_t trainer, const char *cause);
/* Is everybody done, or only lost ones missing? */
void rt_server_check_end(struct rt_server *s);
/* Decides the result (code 0: success), tells all trainers of a failure, lets the streams end. */
void rt_server_over(struct rt_server *s, const struct co_err *result);
/* Counts a peer that was refused; says so at once, but once in 10 s, then how many there were. */
void rt_server_say_refused(struct rt_server *s, const char *peer, const struct co_err *why);
/* Wakes rt_server_wait once it is over and trainers have closed. */
void rt_server_tell(struct rt_server *s);

#define rt_server_say(s, ...)                                                                      \
    do {                                                                                           \
        if (!(s)->config.quiet) {                                                                  \
            rt_say_info(__VA_ARGS__);                                                              \
        }                                                                                          \
    } while (0)
