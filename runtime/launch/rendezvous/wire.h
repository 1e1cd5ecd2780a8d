/* What our launchers say to one another on top of Paddle's key-value service.
 *
 * A node posts its value under Paddle's key, with a header that Paddle's server does not look at:
 *
 *     POST /{job}/info/{name}/{rank}
 *     Paddlerun: 1 {id} {word} {round} {min}:{max} {host}
 *
 * Paddle's server stores it and answers nothing; ours answers when there is news, at the latest
 * after some seconds, in a line "paddlerun ..."; the ranks follow deflated.  A node that leaves
 * deletes its key, the reason in the body; the same with another word asks for a new round, and is
 * answered as a POST is. */
#pragma once

#include "common/buf.h"
#include "common/parse.h"
#include "runtime/launch/rendezvous/group.h"

#define RL_WIRE_HEADER "Paddlerun"

enum { RL_WIRE_ID = 16, RL_WIRE_RAW_MAX = 256 * 1024 * 1024 };

struct rl_wire_hello {
    char id[RL_WIRE_ID + 1];
    char host[CO_HOST_MAX];
    enum rl_group_word word; /* of a POST */
    bool restart; /* of a DELETE: the round shall end and another begin; else it leaves with code */
    int round, min, max, code;
};

/* The header's value.  text must hold RL_WIRE_TEXT bytes. */
enum { RL_WIRE_TEXT = CO_HOST_MAX + 128 };
void rl_wire_hello_format(const struct rl_wire_hello *h, bool leave, char *ret_text);
CO_MUST_CHECK int rl_wire_hello_parse(
    const char *text, bool leave, struct rl_wire_hello *ret, struct co_err *err);

/* "{name}/{rank}" behind "/{job}/info/". */
CO_MUST_CHECK int rl_wire_key_parse(
    const char *key, char ret_name[CO_HOST_MAX], int *ret_rank, struct co_err *err);

enum rl_wire_kind {
    RL_WIRE_WAIT,
    RL_WIRE_MET,
    RL_WIRE_MUTE,
    RL_WIRE_CHANGED,
    RL_WIRE_DONE,
    RL_WIRE_OVER,
    RL_WIRE_REFUSED
};

struct rl_wire_peer {
    const char *name, *value;
};

struct rl_wire_answer {
    enum rl_wire_kind kind;
    int round; /* of MUTE: how many nodes are */
    int code;  /* of OVER and REFUSED: enum co_code */
    size_t self, n;
    struct rl_wire_peer *peers; /* owned, into raw */
    char *raw;                  /* owned */
    char text[640];
};

void rl_wire_answer_done(struct rl_wire_answer *a);
/* CO_UNSUPPORTED: no answer of ours. */
CO_MUST_CHECK int rl_wire_answer_parse(
    const char *body, size_t len, struct rl_wire_answer *ret, struct co_err *err);
void rl_wire_say(struct co_buf *ret, enum rl_wire_kind kind, int number, const char *text);
/* What follows "met" for all nodes of a round alike; and the whole answer to one of them. */
CO_MUST_CHECK int rl_wire_pack(const struct rl_wire_peer *peers, size_t n, struct co_buf *ret,
    size_t *ret_raw, struct co_err *err);
CO_MUST_CHECK int rl_wire_met(int round, size_t self, size_t n, size_t raw,
    const struct co_buf *packed, struct co_buf *ret, struct co_err *err);
