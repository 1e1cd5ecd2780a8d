/* The first byte chooses: the manifest of a checkpoint, or a server's part.  Their hashes are put
 * right now and then, so that what is behind them is reached. */
#include "runtime/train/ckpt/chain.h"

#include <string.h>

#include "runtime/train/ckpt/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text, size_t len) {
    struct ckpt_point p = {0};
    if (ckpt_point_parse(text, len, &p, NULL) < 0) {
        return;
    }
    /* What was read is written, and read as the same. */
    CO_AUTOBUF struct co_buf again = CO_BUF(CKPT_MANIFEST_MAX);
    struct ckpt_point q = {0};
    if (p.n_parts < 1 || p.n_tables > CKPT_TABLES_MAX || ckpt_point_print(&p, &again, NULL) < 0 ||
        ckpt_point_parse(again.data, again.len, &q, NULL) < 0 || q.n_parts != p.n_parts ||
        q.number != p.number) {
        abort();
    }
    ckpt_point_done(&p);
    ckpt_point_done(&q);
}

static void manifest(const char *text, size_t len) {
    parse(text, len);
    CO_AUTOBUF struct co_buf b = CO_BUF(CKPT_MANIFEST_MAX);
    if (co_buf_add(&b, text, len, NULL) == 0 && ckpt_lines_end(&b, NULL) == 0) {
        parse(b.data, b.len);
    }
}

/* Right hashes for whatever chunks stand there. */
static uint64_t repair(unsigned char *all, size_t len) {
    uint64_t sum = 0;
    for (size_t at = CKPT_PART_HEAD; at + CKPT_PART_CHUNK <= len;) {
        unsigned char *h = all + at;
        struct ckpt_part_chunk c = {.kind = co_get_u32(h) % (CKPT_PART_KINDS + 1),
            .table = co_get_u32(h + 4),
            .items = co_get_u32(h + 12),
            .begin = co_get_u64(h + 16),
            .bytes = co_get_u32(h + 24)};
        size_t left = len - at - CKPT_PART_CHUNK;
        size_t n = c.bytes < left ? c.bytes : left;
        uint64_t hash = ckpt_hash(h + CKPT_PART_CHUNK, n);
        ckpt_part_chunk_put(&c, c.kind == CKPT_PART_TAIL ? sum : hash, h);
        if (c.kind == CKPT_PART_TAIL) {
            break;
        }
        sum = ckpt_hash_more(sum, hash);
        at += CKPT_PART_CHUNK + n;
    }
    return sum;
}

static void part(const uint8_t *data, size_t size, bool repaired) {
    struct ckpt_part_origin place = {.number = 7, .server = 1, .servers = 2, .shards = 1};
    size_t len = CKPT_PART_HEAD + size;
    unsigned char *all = co_xmalloc(len);
    ckpt_part_head_put(&place, all);
    memcpy(all + CKPT_PART_HEAD, data, size);
    struct ckpt_part_sum sum = {.bytes = len, .hash = repaired ? repair(all, len) : 0};
    FILE *stream = fmemopen(all, len, "r");
    CO_CLEANUP(ckpt_part_reader_closep) struct ckpt_part_reader *r = NULL;
    if (stream && ckpt_part_from(stream, "fuzz", &place, &sum, &r, NULL) == 0) {
        struct ckpt_part_chunk c;
        for (unsigned i = 0; ckpt_part_next(r, &c, NULL) == 0; i++) {
            const unsigned char *bytes;
            unsigned x = 0;
            if (i % 3 < 2 && ckpt_part_data(r, &bytes, NULL) == 0) {
                for (size_t k = 0; k < c.bytes; k++) {
                    x += bytes[k];
                }
            }
            if (x == 1U << 31) {
                abort();
            }
        }
    }
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    if (data[0] & 1) {
        manifest((const char *)data + 1, size - 1);
    } else {
        part(data + 1, size - 1, data[0] & 2);
    }
    return 0;
}
