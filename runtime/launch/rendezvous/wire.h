/* The protocol between our launchers, on top of Paddle's key-value service.  Only formats and
 * parsers; service.c and kv.c send it.
 *
 * A node posts its value under Paddle's key, with a header that Paddle's server ignores:
 *
 *     POST /{job}/info/{name}/{rank}
 *     Paddlerun: 1 {id} {word} {round} {min}:{max} {host}
 *
 * Paddle's server stores the value and answers with an empty body.  Ours answers when there is
 * news, at the latest after some seconds, with a line "paddlerun ..."; the list of nodes by rank
 * follows it, deflated.  A node that leaves deletes its key, with the reason in the body.  The same
 * request with another word asks for a new round, and is answered as a POST is. */
#pragma once

#include "common/buf.h"
#include "common/parse.h"
#include "runtime/launch/rendezvous/group.h"

#define RDZV_WIRE_HEADER "Paddlerun"

enum { RDZV_WIRE_ID = 16, RDZV_WIRE_RAW_MAX = 256 * 1024 * 1024 };

struct rdzv_wire_hello {
    char id[RDZV_WIRE_ID + 1];
    char host[CO_HOST_MAX];
    enum rdzv_node_state state; /* of a POST */
    bool restart; /* of a DELETE: it asks for a new round; false: it leaves with code */
    int round, min, max, code;
};

/* The header's value.  text must hold RDZV_WIRE_TEXT bytes. */
enum { RDZV_WIRE_TEXT = CO_HOST_MAX + 128 };
void rdzv_wire_hello_format(const struct rdzv_wire_hello *h, bool leave, char *ret_text);
CO_MUST_CHECK int rdzv_wire_hello_parse(
    const char *text, bool leave, struct rdzv_wire_hello *ret, struct co_err *err);

/* Parses "{name}/{rank}", the rest of a path after "/{job}/info/". */
CO_MUST_CHECK int rdzv_wire_key_parse(
    const char *key, char ret_name[CO_HOST_MAX], int *ret_rank, struct co_err *err);

enum rdzv_wire_kind {
    RDZV_WIRE_WAIT,    /* no news: ask again; the text says which nodes are missing */
    RDZV_WIRE_MET,     /* the round begins; the list of nodes follows */
    RDZV_WIRE_LATE,    /* the set of late nodes has changed; the text names them */
    RDZV_WIRE_CHANGED, /* the round has ended: stop workers and join again */
    RDZV_WIRE_DONE,    /* the workers of all nodes ended well */
    RDZV_WIRE_OVER,    /* the job has ended; code 0: well */
    RDZV_WIRE_REFUSED  /* this node may not join */
};

struct rdzv_wire_peer {
    const char *name, *value;
};

struct rdzv_wire_answer {
    enum rdzv_wire_kind kind;
    int round; /* with LATE: how many nodes are late */
    int code;  /* of OVER and REFUSED: enum co_code */
    size_t self, n;
    struct rdzv_wire_peer *peers; /* owned, into raw */
    char *raw;                    /* owned */
    char text[640];
};

void rdzv_wire_answer_done(struct rdzv_wire_answer *a);
/* CO_UNSUPPORTED: another program answered. */
CO_MUST_CHECK int rdzv_wire_answer_parse(
    const char *body, size_t len, struct rdzv_wire_answer *ret, struct co_err *err);
void rdzv_wire_format(struct co_buf *ret, enum rdzv_wire_kind kind, int number, const char *text);
/* pack makes the list of nodes once for all nodes of a round; met makes the whole answer to one of
 * them. */
CO_MUST_CHECK int rdzv_wire_pack(const struct rdzv_wire_peer *peers, size_t n, struct co_buf *ret,
    size_t *ret_raw, struct co_err *err);
CO_MUST_CHECK int rdzv_wire_met(int round, size_t self, size_t n, size_t raw,
    const struct co_buf *packed, struct co_buf *ret, struct co_err *err);
