/* The bytes of table files and manifest, shared by writer and reader.
 *
 * head  (48): "PDLRTCKP" u32 version u32 sparse u64 size u32 dim u32 0 u64 state u64 hash
 * chunk (24): u32 items u32 bytes u64 hash of the data u64 hash of these 16 bytes; data
 * tail  (24): u32 ~0 u32 0 u64 hash of all chunk hashes, in order; u64 hash of these 16 bytes
 */
#pragma once

#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ckpt/ckpt.h"
#include "runtime/train/ckpt/fields.h"

#define CKPT_TAIL UINT32_MAX
/* The first line of the manifest of a checkpoint that servers wrote. */
#define CKPT_POINT_FIRST "paddlert checkpoint 2"

enum {
    CKPT_VERSION = 1,
    CKPT_HEAD = 48,
    CKPT_CHUNK_HEAD = 24,
    CKPT_SAVED_MAX = 1 << 20, /* bytes of the manifest of a save */
};

/* Fields of a table in a manifest: the first CKPT_SPEC_FIELDS describe the table, the others its
 * file. */
enum { CKPT_SPEC_FIELDS = 12, CKPT_FIELDS = 17 };
extern const struct ckpt_field ckpt_fields[CKPT_FIELDS];
CO_MUST_CHECK int ckpt_table_check(const struct ckpt_table *t, struct co_err *err);

uint64_t ckpt_hash(const void *data, size_t len);
/* The hash of a sequence of hashes; start with so_far = 0. */
uint64_t ckpt_hash_more(uint64_t so_far, uint64_t next);
void ckpt_head(const struct ckpt_table *t, unsigned char ret_head[CKPT_HEAD]);
void ckpt_chunk_head(
    uint32_t items, uint32_t bytes, uint64_t hash, unsigned char ret_head[CKPT_CHUNK_HEAD]);
/* Bytes of `items` items in a table file. */
uint64_t ckpt_data_bytes(const struct ckpt_table *t, uint32_t items);
