/* Whether the ranks make the same calls.
 *
 * Each call of all ranks has a number, from 1, and a sign: a hash of the call and of all calls
 * before it.  Ranks compare signs wherever they wait for each other anyway: beside the flags in
 * shared memory, and in the head of each message.  One call may not show a difference, as the root
 * of a broadcast waits for nobody; then the next one does, because its sign covers both.
 *
 * Ranks that make different calls may also wait for each other in different places.  So a rank that
 * has waited for a moment asks the rank that it waits for: it sends its last calls over the control
 * connection, and that rank's monitor compares them with its own.  A rank that finds a difference
 * reports to all ranks which two calls differ. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COLL_CALLS_KEPT = 64,    /* calls that a rank remembers */
    COLL_CALLS_SENT = 16,    /* of these, how many it sends when it asks */
    COLL_CALL_TEXT = 128,    /* bytes of a text about a call */
    COLL_QUESTION_HEAD = 48, /* bytes before the calls, of 24 bytes each */
    COLL_QUESTION_MAX = COLL_QUESTION_HEAD + COLL_CALLS_SENT * 24,
    COLL_DIFFERENCE = 2 * 40, /* bytes */
    /* Rooted calls by messages, one after the other, until all ranks compare.  Ranks that each take
     * themselves for the root would send until their sockets are full. */
    COLL_ROOTED_MAX = 32,
};

/* A call as others see it. */
struct coll_said {
    uint64_t number; /* 0: a send or a receive */
    uint64_t sign;
    uint64_t what; /* kind | dtype << 8 | op << 16 | root << 32; 0 for what the kind does not use */
    uint64_t n;
};

/* The calls that this rank has begun.  Only the thread that makes calls writes; the monitor reads
 * the atomic fields. */
struct coll_calls {
    struct coll_said now;
    _Atomic uint64_t begun, ended; /* numbers of the last call that has */
    _Atomic uint64_t pair, pair_n; /* a blocking send or receive, as in coll_said.what; 0: none */
    _Atomic bool goodbyes;         /* some rank has left */
    uint32_t rooted;               /* calls since the last that all ranks compared; hier.c */
    struct {
        _Atomic uint64_t number, sign, what, n;
    } kept[COLL_CALLS_KEPT]; /* at its number modulo COLL_CALLS_KEPT; number 0: being written */
};

struct rt_group;
struct rt_coll;
struct coll_said coll_call_said(const struct rt_coll *c); /* without number and sign */
/* "all_reduce of 1000 f32, sum" */
const char *coll_call_text(const struct coll_said *s, char ret_text[COLL_CALL_TEXT]);
/* Around each call of all ranks. */
void coll_call_begin(struct rt_group *g, const struct rt_coll *c);
void coll_call_end(struct rt_group *g);
/* Both sides of a send and a receive have the same sign. */
uint64_t coll_pair_sign(const struct rt_coll *c);

/* Writes what this rank says of its calls to `rank`, which it waits for in the call c (NULL: it
 * waits for nobody); returns the number of bytes. */
uint32_t coll_question_write(
    const struct rt_group *g, const struct rt_coll *c, uint32_t rank, unsigned char *ret_bytes);
/* The monitor got that from a rank.  Fails the group if the calls differ. */
void coll_question_receive(
    struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n_bytes);
/* The same for a rank that has left.  It may have made calls that this rank has yet to make:
 * coll_goodbyes_compare is for the end of each of these. */
void coll_goodbye_receive(
    struct rt_group *g, uint32_t from, const unsigned char *bytes, uint32_t n_bytes);
int coll_goodbyes_compare(struct rt_group *g);
/* The monitor received that the calls of two ranks differ. */
void coll_difference_receive(struct rt_group *g, const unsigned char bytes[COLL_DIFFERENCE]);

/* A sign of the rank differs from this rank's.  Asks the rank, which knows its calls, and returns
 * the code with which the group has failed. */
int coll_calls_differ(struct rt_group *g, uint32_t rank);
/* This rank makes the send or receive c with a rank that does something else. */
int coll_pair_differs(
    struct rt_group *g, const struct rt_coll *c, uint32_t rank, const struct coll_said *other);
/* The rank sends or receives while this one makes a call of all ranks. */
int coll_call_differs_from(struct rt_group *g, uint32_t rank, const struct coll_said *other);
