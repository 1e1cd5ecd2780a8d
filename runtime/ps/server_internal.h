/* What server.c (life) and session.c (conversation with trainers) share. */
#pragma once

#include "runtime/ps/members.h"
#include "runtime/ps/server.h"
#include "runtime/ps/shard.h"

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
    struct rt_rpc *rpc;
    uint16_t port;
    int fd; /* eventfd: the job is over */

    /* the rpc's thread, once it listens; anyone after rt_rpc_close */
    struct rt_members members;
    struct rt_session *sessions;
    enum rt_mode mode;
    struct rt_table *tables;
    uint32_t n_tables;
    struct rt_shard **shards; /* [config.shards], NULL before the first hello */
    int64_t ticked_ms;
    int64_t first_ms;  /* first hello; 0: none yet */
    int64_t orphan_ms; /* async: only lost trainers are left since; 0: no */
    bool over;         /* result is decided */
    int64_t over_ms;
    bool told; /* fd was written */
    struct co_err result;
};

/* The callbacks of the rpc. */
extern const struct rt_rpc_ops rt_session_ops;

/* Decides the result (code 0: success), tells all trainers of a failure, lets the streams end. */
void rt_server_over(struct rt_server *s, const struct co_err *result);
