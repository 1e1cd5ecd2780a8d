/* A piece of a part of a checkpoint, reference-counted.  Any thread may hold and drop it. */
#pragma once

#include "runtime/train/ckpt/part.h"

struct shard_save_chunk {
    struct shard_save_chunk *next;
    struct ckpt_part_chunk head; /* head.bytes: how much of data is used */
    uint32_t holders, room;      /* room: bytes of data */
    unsigned char data[];
};
struct shard_save_chunk *shard_save_chunk_new(uint32_t kind, size_t room);
struct shard_save_chunk *shard_save_chunk_hold(struct shard_save_chunk *c);
void shard_save_chunk_drop(struct shard_save_chunk *c); /* NULL allowed */
