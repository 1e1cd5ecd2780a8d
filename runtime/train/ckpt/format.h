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

#define RT_CKPT_TAIL UINT32_MAX

enum {
    RT_CKPT_VERSION = 1,
    RT_CKPT_HEAD = 48,
    RT_CKPT_CHUNK_HEAD = 24,
    RT_CKPT_SAVED_MAX = 1 << 20, /* bytes of the manifest of a save */
};

/* Fields of a table in a manifest: the first RT_CKPT_SPEC_FIELDS describe the table, the others its
 * file. */
enum { RT_CKPT_SPEC_FIELDS = 11, RT_CKPT_FIELDS = 15 };
extern const struct rt_field rt_ckpt_fields[RT_CKPT_FIELDS];
CO_MUST_CHECK int rt_ckpt_table_check(const struct rt_ckpt_table *t, struct co_err *err);

uint64_t rt_ckpt_hash(const void *data, size_t len);
/* The hash of a sequence of hashes; start with so_far = 0. */
uint64_t rt_ckpt_hash_more(uint64_t so_far, uint64_t next);
void rt_ckpt_head(const struct rt_ckpt_table *t, unsigned char ret_head[RT_CKPT_HEAD]);
void rt_ckpt_chunk_head(
    uint32_t items, uint32_t bytes, uint64_t hash, unsigned char ret_head[RT_CKPT_CHUNK_HEAD]);
/* Bytes of `items` items in a table file. */
uint64_t rt_ckpt_data_bytes(const struct rt_ckpt_table *t, uint32_t items);
