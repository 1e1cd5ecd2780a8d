/* Words between the monitors of a group, on the control connections:
 *
 *     0 u32 word   4 u32 rank   8 i32 code   12 u32 bytes of what follows: a bit a rank and one
 * more, or none
 */
#pragma once

#include <stdint.h>

enum rt_word {
    RT_WORD_PING = 1,
    RT_WORD_PONG,   /* rank, code: the number and the sign of the call it is in (gpu.c) */
    RT_WORD_LOST,   /* the group has failed because of rank (size: none), with code */
    RT_WORD_BYE,    /* the sender closes its group */
    RT_WORD_DEAD,   /* shrink.c: whom the sender takes for dead, in round `rank` of a vote */
    RT_WORD_AGREED, /* shrink.c: and in that round all that live have said so */
};

enum { RT_WORD_HEAD = 16 };

struct rt_group;
/* To all that live; under g->m.  What does not fit into a connection is dropped: its reader has
 * stopped. */
void rt_monitor_tell(struct rt_group *g, enum rt_word word, uint32_t rank, int code,
    const unsigned char *bits, uint32_t bytes);
