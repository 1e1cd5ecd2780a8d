/* The allocator behind rt_group_alloc: first fit in this rank's part of the shared memory.  The
 * free list lives in private memory, where other ranks cannot damage it. */
#pragma once

struct coll_arena;
void coll_arena_free(struct coll_arena *a); /* NULL allowed */
