/* The allocator behind rt_group_alloc: first fit in this rank's part of the shared memory.  The
 * free list lives in private memory, where other ranks cannot damage it. */
#pragma once

struct rt_arena;
void rt_arena_free(struct rt_arena *a); /* NULL allowed */
