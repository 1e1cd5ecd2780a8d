/* rt_group_alloc: first fit in this rank's arena; what is free is kept here, outside of it. */
#pragma once

struct rt_arena;
void rt_arena_free(struct rt_arena *a); /* NULL allowed */
