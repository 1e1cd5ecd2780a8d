/* How two ranks of a group prove to each other who they are, before anything else is believed.
 *
 *     from          bytes                                                           to
 *     connecting -- hello: who I am, what for, random number ---------------------> listening
 *                <- answer: verdict, who I am, random number, proof over all ------
 *                -- proof over all ----------------------------------------------->
 *                <- welcome: verdict ----------------------------------------------
 *
 * A proof is HMAC-SHA256 with the job's token as key over a word for the direction, the hello and
 * the answer; the token itself never travels, and a proof is of no use twice.  All messages have
 * one size each.  Little-endian:
 *
 *     hello    0 u32 magic  4 u16 version  6 u8 kind  7 u8 lane  8 u32 rank  12 u32 size
 *              16 u64 job  24 u64 group  32 u8[16] node  48 u8[32] random                = 80
 *     answer   0 u32 magic  4 u16 version  6 u8 verdict  7 u8 0  8 u32 rank  12 u32 0
 *              16 u8[16] node  32 u8[32] random  64 u8[32] proof                         = 96
 *     proof    0 u8[32]                                                                  = 32
 *     welcome  0 u32 magic  4 u32 verdict                                                =  8
 *
 * Pure but for the random numbers; knows no sockets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum {
    RT_HELLO_VERSION = 1,
    RT_HELLO_BYTES = 80,
    RT_ANSWER_BYTES = 96,
    RT_PROOF_BYTES = 32,
    RT_WELCOME_BYTES = 8,
    RT_NODE_BYTES = 16,
    RT_LANES_MAX = 8,
    RT_RANKS_MAX = 4096,
};

enum rt_purpose {
    RT_FOR_CONTROL, /* one a pair, for life */
    RT_FOR_LANE,    /* data between machines */
    RT_FOR_MEMORY,  /* the machine's shared memory travels over it, then it ends */
    RT_PURPOSES,
};

enum rt_verdict {
    RT_VERDICT_OK,
    RT_VERDICT_LATER,   /* not forming that group now */
    RT_VERDICT_VERSION, /* and what follows: refused */
    RT_VERDICT_JOB,
    RT_VERDICT_RANK,
    RT_VERDICT_DOUBLE,
    RT_VERDICT_TOKEN,
    RT_VERDICT_USER,
    RT_VERDICT_FORM,
    RT_VERDICTS,
};
const char *rt_verdict_text(uint32_t verdict);

/* Who speaks. */
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

/* CO_INTERNAL: no random numbers. */
CO_MUST_CHECK int rt_hello_write(
    const struct rt_hello *h, unsigned char wire[RT_HELLO_BYTES], struct co_err *err);
/* Any bytes: RT_VERDICT_OK, _VERSION or _FORM. */
enum rt_verdict rt_hello_read(const unsigned char wire[RT_HELLO_BYTES], struct rt_hello *ret);

/* The answer to a hello that is taken, with the proof; or (verdict) why not, without. */
CO_MUST_CHECK int rt_answer_write(const struct rt_answer *a, const char *token,
    const unsigned char hello[RT_HELLO_BYTES], unsigned char wire[RT_ANSWER_BYTES],
    struct co_err *err);
/* RT_VERDICT_OK only when the proof is right; refusals are not proven. */
enum rt_verdict rt_answer_read(const unsigned char wire[RT_ANSWER_BYTES], const char *token,
    const unsigned char hello[RT_HELLO_BYTES], struct rt_answer *ret);

void rt_proof_write(const char *token, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], unsigned char wire[RT_PROOF_BYTES]);
bool rt_proof_check(const char *token, const unsigned char hello[RT_HELLO_BYTES],
    const unsigned char answer[RT_ANSWER_BYTES], const unsigned char wire[RT_PROOF_BYTES]);

void rt_welcome_write(enum rt_verdict verdict, unsigned char wire[RT_WELCOME_BYTES]);
enum rt_verdict rt_welcome_read(const unsigned char wire[RT_WELCOME_BYTES]);
