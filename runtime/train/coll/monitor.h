/* The messages ("words") that the monitors of a group send over the control connections:
 *
 *     0 u32 word   4 u32 rank   8 i32 code   12 u32 length of what follows   16 ... */
#pragma once

#include <stdint.h>

enum rt_word {
    RT_WORD_NONE,
    RT_WORD_PING, /* nothing follows, or the sender's calls (rt_question_write) */
    RT_WORD_PONG, /* the answer; rank, code: the number of the sender's call, low and high half */
    RT_WORD_LOST, /* the group has failed with `code`, because of `rank` (size: of none).  The
                     sender's message follows */
    RT_WORD_BYE,  /* the sender closes its group; its calls follow */
    RT_WORD_DEAD, /* vote.h, a vote: which ranks the sender takes for dead, in round `rank`.  A bit
                     for each rank and one more follow */
    RT_WORD_AGREED, /* vote.h: in round `rank` all live ranks have voted for these dead; as DEAD */
    RT_WORD_DIFFER, /* agree.h: the group has failed, as two calls differ, which follow */
};

enum { RT_WORD_HEAD = 16, RT_WORD_MAX = 640 /* of what follows */ };

struct rt_group;
/* Sends a word to all live ranks; call under g->m.  Never blocks: if the socket buffer is full, the
 * other rank has stopped reading, and the word is dropped. */
void rt_monitor_tell(struct rt_group *g, enum rt_word word, uint32_t rank, int code,
    const unsigned char *more, uint32_t bytes);
