/* The messages ("words") that the monitors of a group send over the control connections:
 *
 *     0 u32 word   4 u32 rank   8 i32 code   12 u32 length of what follows   16 ... */
#pragma once

#include <stdint.h>

enum coll_word {
    COLL_WORD_NONE,
    COLL_WORD_PING, /* rank, code: the sender's time in ms, low and high half.  Nothing follows, or
                     its calls (coll_question_write) */
    COLL_WORD_PONG, /* the answer; rank, code: the number of the sender's call, low and high half.
                     The ping's time follows, u64: an answer to an earlier ping is none to
                     this one */
    COLL_WORD_LOST, /* the group has failed with `code`, because of `rank` (size: of none).  The
                     sender's message follows */
    COLL_WORD_BYE,  /* the sender closes its group; its calls follow */
    COLL_WORD_DEAD, /* vote.h, a vote: which ranks the sender takes for dead, in round `rank`.  A
                     bit for each rank and one more follow */
    COLL_WORD_AGREED, /* vote.h: in round `rank` all live ranks have voted for these dead; as DEAD
                       */
    COLL_WORD_DIFFER, /* agree.h: the group has failed, as two calls differ, which follow */
    COLL_WORD_LIST,   /* sub.c: the sender makes a group of a list with both ranks, which follows */
    COLL_WORD_UNABLE, /* nested.c: the sender could not form a group with this rank; which one, and
                         why, follows */
};

enum { COLL_WORD_HEAD = 16, COLL_WORD_MAX = 640 /* of what follows */, COLL_PONG_BYTES = 8 };

struct rt_group;
/* Sends a word to all live ranks; call under g->m.  Never blocks: if the socket buffer is full, the
 * other rank has stopped reading, and the word is dropped. */
void coll_monitor_send(struct rt_group *g, enum coll_word word, uint32_t rank, int code,
    const unsigned char *more, uint32_t bytes);
/* The same to one rank, without rank and code. */
void coll_monitor_send_one(struct rt_group *g, uint32_t to, enum coll_word word,
    const unsigned char *more, uint32_t bytes);
