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
    RT_HELLO_VERSION = 2,
    RT_HELLO_BYTES = 112,
    RT_ANSWER_BYTES = 96,
    RT_PROOF_BYTES = 32,
    RT_WELCOME_BYTES = 8,
    RT_NODE_BYTES = 16,
    RT_LANES_MAX = 8,
    RT_RANKS_MAX = 4096,
};

enum rt_purpose {
    RT_FOR_CONTROL, /* one for each pair of ranks, as long as the group lives */
    RT_FOR_LANE,    /* carries data between machines */
    RT_FOR_MEMORY,  /* passes the descriptor of the shared memory, then closes */
    RT_PURPOSES,
};

enum rt_verdict {
    RT_VERDICT_OK,
    RT_VERDICT_LATER,   /* not forming that group now: try again soon */
    RT_VERDICT_VERSION, /* this and all that follow: refused */
    RT_VERDICT_JOB,     /* another job, generation, size or list of endpoints */
    RT_VERDICT_RANK,    /* not a rank that may connect here */
    RT_VERDICT_DOUBLE,  /* the rank is connected already */
    RT_VERDICT_TOKEN,   /* the proof is wrong */
    RT_VERDICT_USER,    /* on a unix socket: another user */
    RT_VERDICT_FORM,    /* the bytes are not of this protocol */
    RT_VERDICTS,
};
const char *rt_verdict_text(uint32_t verdict);

/* Who connects, and for what. */
struct rt_hello {
    enum rt_purpose purpose;
    uint8_t lane;
    uint32_t rank, size;
    uint64_t job, group;
    unsigned char node[RT_NODE_BYTES];
};

struct rt_answer {
    uint32_t verdict, rank;
    unsigned char node[RT_NODE_BYTES];
};

/* CO_INTERNAL: the kernel gave no random numbers. */
CO_MUST_CHECK int rt_hello_write(const struct rt_hello *h, const char *token,
    unsigned char wire[RT_HELLO_BYTES], struct co_err *err);
/* Accepts any bytes; returns RT_VERDICT_OK, _VERSION or _FORM. */
enum rt_verdict rt_hello_read(const unsigned char wire[RT_HELLO_BYTES], struct rt_hello *ret);
/* Whether its sender knew the token. */
bool rt_hello_check(const char *token, const unsigned char wire[RT_HELLO_BYTES]);

/* The answer to a hello.  With the verdict RT_VERDICT_OK it carries a proof, otherwise none. */
CO_MUST_CHECK int rt_answer_write(const struct rt_answer *a, const char *token,
    const unsigned char hello[RT_HELLO_BYTES], unsigned char wire[RT_ANSWER_BYTES],
    struct co_err *err);
/* RT_VERDICT_OK only if the proof is right.  A refusal has no proof, so anybody can forge one:
 * treat it as a hint. */
enum rt_verdict rt_answer_read(const unsigned char wire[RT_ANSWER_BYTES], const char *token,
    const unsigned char hello[RT_HELLO_BYTES], struct rt_answer *ret);

void rt_proof_write(const char *token, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], unsigned char wire[RT_PROOF_BYTES]);
bool rt_proof_check(const char *token, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], const unsigned char wire[RT_PROOF_BYTES]);

void rt_welcome_write(enum rt_verdict verdict, unsigned char wire[RT_WELCOME_BYTES]);
enum rt_verdict rt_welcome_read(const unsigned char wire[RT_WELCOME_BYTES]);
