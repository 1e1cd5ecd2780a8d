/* The handshake by which two ranks of a group prove to each other that they know the job's token,
 * before either trusts anything else that the other sends.
 *
 *     from          bytes                                                           to
 *     connecting -- hello: who I am, what for, random number, proof over these ---> listening
 *                <- answer: verdict, who I am, random number, proof over all ------
 *                -- proof over all ----------------------------------------------->
 *                <- welcome: verdict ----------------------------------------------
 *
 * A proof is an HMAC-SHA256 with the job's token as key, over a word for the direction, the hello
 * and the answer.  The token itself is never sent, and the random numbers make a recorded proof
 * useless.  The hello's own proof covers only itself, so whoever has recorded it can send it again:
 * it lets nobody in, but keeps those that know nothing of the job from taking the places of those
 * that do.  Each message has a fixed size.  Little-endian:
 *
 *     hello    0 u32 magic  4 u16 version  6 u8 kind  7 u8 lane  8 u32 rank  12 u32 size
 *              16 u64 job  24 u64 group  32 u8[16] node  48 u8[32] random  80 u8[32] proof = 112
 *     answer   0 u32 magic  4 u16 version  6 u8 verdict  7 u8 0  8 u32 rank  12 u32 0
 *              16 u8[16] node  32 u8[32] random  64 u8[32] proof                         = 96
 *     proof    0 u8[32]                                                                  = 32
 *     welcome  0 u32 magic  4 u32 verdict                                                =  8
 *
 * This file only builds and checks messages; door.c and join.c move them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum {
    COLL_HELLO_VERSION = 2,
    COLL_HELLO_BYTES = 112,
    COLL_ANSWER_BYTES = 96,
    COLL_PROOF_BYTES = 32,
    COLL_WELCOME_BYTES = 8,
    COLL_NODE_BYTES = 16,
    COLL_LANES_MAX = 8,
    COLL_RANKS_MAX = 4096,
};

enum coll_purpose {
    COLL_FOR_CONTROL, /* one for each pair of ranks, as long as the group lives */
    COLL_FOR_LANE,    /* carries data between machines */
    COLL_FOR_MEMORY,  /* passes the descriptor of the shared memory, then closes */
    COLL_PURPOSES,
};

enum coll_answer_code {
    COLL_ANSWER_CODE_OK,
    COLL_ANSWER_CODE_LATER,   /* not forming that group now: try again soon */
    COLL_ANSWER_CODE_VERSION, /* this and all that follow: refused */
    COLL_ANSWER_CODE_JOB,     /* another job, generation, size or list of endpoints */
    COLL_ANSWER_CODE_RANK,    /* not a rank that may connect here */
    COLL_ANSWER_CODE_DOUBLE,  /* the rank is connected already */
    COLL_ANSWER_CODE_TOKEN,   /* the proof is wrong */
    COLL_ANSWER_CODE_USER,    /* on a unix socket: another user */
    COLL_ANSWER_CODE_FORM,    /* the bytes are not of this protocol */
    COLL_ANSWER_CODES,
};
const char *coll_answer_code_text(uint32_t answer_code);

/* Who connects, and for what. */
struct coll_hello {
    enum coll_purpose purpose;
    uint8_t lane;
    uint32_t rank, size;
    uint64_t job, group;
    unsigned char node[COLL_NODE_BYTES];
};

struct coll_answer {
    uint32_t answer_code, rank;
    unsigned char node[COLL_NODE_BYTES];
};

/* CO_INTERNAL: the kernel gave no random numbers. */
CO_MUST_CHECK int coll_hello_write(const struct coll_hello *h, const char *token,
    unsigned char wire[COLL_HELLO_BYTES], struct co_err *err);
/* Accepts any bytes; returns COLL_ANSWER_CODE_OK, _VERSION or _FORM. */
enum coll_answer_code coll_hello_read(
    const unsigned char wire[COLL_HELLO_BYTES], struct coll_hello *ret);
/* Whether its sender knew the token. */
bool coll_hello_check(const char *token, const unsigned char wire[COLL_HELLO_BYTES]);

/* The answer to a hello.  With the verdict COLL_ANSWER_CODE_OK it carries a proof, otherwise none.
 */
CO_MUST_CHECK int coll_answer_write(const struct coll_answer *a, const char *token,
    const unsigned char hello[COLL_HELLO_BYTES], unsigned char wire[COLL_ANSWER_BYTES],
    struct co_err *err);
/* COLL_ANSWER_CODE_OK only if the proof is right.  A refusal has no proof, so anybody can forge
 * one: treat it as a hint. */
enum coll_answer_code coll_answer_read(const unsigned char wire[COLL_ANSWER_BYTES],
    const char *token, const unsigned char hello[COLL_HELLO_BYTES], struct coll_answer *ret);

void coll_proof_write(const char *token, const unsigned char hello[COLL_HELLO_BYTES],
    const unsigned char answer[COLL_ANSWER_BYTES], unsigned char wire[COLL_PROOF_BYTES]);
bool coll_proof_check(const char *token, const unsigned char hello[COLL_HELLO_BYTES],
    const unsigned char answer[COLL_ANSWER_BYTES], const unsigned char wire[COLL_PROOF_BYTES]);

void coll_welcome_write(enum coll_answer_code answer_code, unsigned char wire[COLL_WELCOME_BYTES]);
enum coll_answer_code coll_welcome_read(const unsigned char wire[COLL_WELCOME_BYTES]);
