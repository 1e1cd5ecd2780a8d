/* A server's part of a checkpoint: writing and reading. */
#include "runtime/train/ckpt/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/size.h"
#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ckpt/format.h"

/* WRITE_BYTES: one write. FLUSH_BYTES: through the page cache, the kernel is asked to start writing
 * back after so many, so that little is left for the sync at the end. */
enum { WRITE_BYTES = 512 << 10, FLUSH_BYTES = 8 << 20, HASHED = 40 };

/* ---- bytes ---- */

static const unsigned char magic[8] = {'P', 'D', 'L', 'R', 'T', 'P', 'R', 'T'};

void ckpt_part_head_put(
    const struct ckpt_part_origin *place, unsigned char ret_head[CKPT_PART_HEAD]) {
    memset(ret_head, 0, CKPT_PART_HEAD);
    memcpy(ret_head, magic, sizeof(magic));
    co_put_u32(ret_head + 8, CKPT_PART_VERSION);
    co_put_u32(ret_head + 12, place->server);
    co_put_u32(ret_head + 16, place->servers);
    co_put_u32(ret_head + 20, place->shards);
    co_put_u64(ret_head + 24, place->number);
    co_put_u64(ret_head + HASHED, ckpt_hash(ret_head, HASHED));
}

void ckpt_part_chunk_put(
    const struct ckpt_part_chunk *chunk, uint64_t hash, unsigned char ret_head[CKPT_PART_CHUNK]) {
    co_put_u32(ret_head, chunk->kind);
    co_put_u32(ret_head + 4, chunk->table);
    co_put_u32(ret_head + 8, chunk->shard);
    co_put_u32(ret_head + 12, chunk->items);
    co_put_u64(ret_head + 16, chunk->begin);
    co_put_u32(ret_head + 24, chunk->bytes);
    co_put_u32(ret_head + 28, 0);
    co_put_u64(ret_head + 32, hash);
    co_put_u64(ret_head + HASHED, ckpt_hash(ret_head, HASHED));
}

/* ---- writing ---- */

/* Chunks are gathered in a block and written past the page cache: nobody reads them soon, and
 * copying them there would be most of a checkpoint's processor time. */
struct ckpt_part_writer {
    int fd;
    bool direct;
    char *path;
    void *memory;         /* owned, with: */
    unsigned char *block; /* [WRITE_BYTES], aligned; not written yet: */
    size_t gathered;
    uint64_t bytes, hash;
    uint64_t written, flushed;
};

static int write_block(struct ckpt_part_writer *w, struct co_err *err) {
    struct iovec piece = {w->block, w->gathered};
    int rc = ckpt_disk_write(w->fd, w->path, &piece, 1, err);
    w->written += w->gathered;
    w->gathered = 0;
    if (rc == 0 && !w->direct && w->written - w->flushed >= FLUSH_BYTES) {
        /* Only a hint. If it fails, the sync at the end writes everything. */
        (void)!sync_file_range(
            w->fd, (off_t)w->flushed, (off_t)(w->written - w->flushed), SYNC_FILE_RANGE_WRITE);
        w->flushed = w->written;
    }
    return rc;
}

static int put(struct ckpt_part_writer *w, const void *data, size_t len, struct co_err *err) {
    const unsigned char *from = data;
    while (len > 0) {
        size_t room = WRITE_BYTES - w->gathered, n = len < room ? len : room;
        memcpy(w->block + w->gathered, from, n);
        w->gathered += n;
        w->bytes += n;
        from += n;
        len -= n;
        if (w->gathered == WRITE_BYTES) {
            CO_TRY(write_block(w, err));
        }
    }
    return 0;
}

static int make_block(struct ckpt_part_writer *w, struct co_err *err) {
    CO_TRY(co_try_alloc(
        1, WRITE_BYTES + CKPT_DISK_BLOCK, SIZE_MAX, "what is to be written", &w->memory, err));
    size_t over = (uintptr_t)w->memory % CKPT_DISK_BLOCK;
    w->block = (unsigned char *)w->memory + (over ? CKPT_DISK_BLOCK - over : 0);
    return 0;
}

int ckpt_part_create(const char *path, const struct ckpt_part_origin *place,
    struct ckpt_part_writer **ret, struct co_err *err) {
    unsigned char head[CKPT_PART_HEAD];
    CO_CLEANUP(ckpt_part_closep) struct ckpt_part_writer *w = co_xcalloc(1, sizeof(*w));
    w->fd = -1;
    w->path = co_xstrdup(path);
    CO_TRY(make_block(w, err));
    CO_TRY(ckpt_disk_create(path, true, &w->fd, &w->direct, err));
    ckpt_part_head_put(place, head);
    CO_TRY(put(w, head, sizeof(head), err));
    *ret = co_steal_ptr(w);
    return 0;
}

int ckpt_part_add(struct ckpt_part_writer *w, const struct ckpt_part_chunk *chunk, const void *data,
    struct co_err *err) {
    unsigned char head[CKPT_PART_CHUNK];
    if (chunk->bytes > CKPT_PART_BYTES_MAX) {
        return co_err_set(err, CO_INTERNAL, "\"%s\": a chunk of %u bytes", w->path, chunk->bytes);
    }
    uint64_t hash = ckpt_hash(data, chunk->bytes);
    ckpt_part_chunk_put(chunk, hash, head);
    w->hash = ckpt_hash_more(w->hash, hash);
    CO_TRY(put(w, head, sizeof(head), err));
    return put(w, data, chunk->bytes, err);
}

int ckpt_part_finish(struct ckpt_part_writer *w, struct ckpt_part_sum *ret, struct co_err *err) {
    unsigned char tail[CKPT_PART_CHUNK];
    ckpt_part_chunk_put(&(struct ckpt_part_chunk){.kind = CKPT_PART_TAIL}, w->hash, tail);
    CO_TRY(put(w, tail, sizeof(tail), err));
    ckpt_disk_buffer(w->fd); /* the rest is no whole block */
    if (w->gathered > 0) {
        CO_TRY(write_block(w, err));
    }
    CO_TRY(ckpt_disk_sync(w->fd, w->path, err));
    *ret = (struct ckpt_part_sum){.bytes = w->bytes, .hash = w->hash};
    return 0;
}

void ckpt_part_close(struct ckpt_part_writer *w) {
    if (w) {
        if (w->fd >= 0) {
            co_close(w->fd);
        }
        free(w->memory);
        free(w->path);
        free(w);
    }
}

/* ---- reading ---- */

struct ckpt_part_reader {
    FILE *stream;
    char *name;
    struct ckpt_part_sum want, have;
    uint32_t shards;
    const struct ckpt_table *tables; /* [n_tables]; NULL: chunks are not compared with them */
    uint32_t n_tables;
    struct ckpt_part_chunk chunk; /* its data is still to be read or skipped */
    uint64_t chunk_hash;
    bool pending;
    unsigned char *data;
    size_t cap;
};

static int refuse(const struct ckpt_part_reader *r, const char *what, struct co_err *err) {
    return co_err_set(err, CO_DAMAGED, "checkpoint file \"%s\": %s at byte %" PRIu64, r->name, what,
        r->have.bytes);
}

static int read_bytes(struct ckpt_part_reader *r, void *to, size_t len, struct co_err *err) {
    if (len > 0 && fread(to, len, 1, r->stream) != 1) {
        return ferror(r->stream) ? ckpt_disk_unread(err, errno, r->name)
                                 : refuse(r, "ends too early", err);
    }
    r->have.bytes += len;
    return 0;
}

int ckpt_part_from(FILE *stream_own, const char *name, const struct ckpt_part_origin *place,
    const struct ckpt_part_sum *sum, struct ckpt_part_reader **ret, struct co_err *err) {
    CO_CLEANUP(ckpt_part_reader_closep)
    struct ckpt_part_reader *r = co_xcalloc(1, sizeof(*r));
    unsigned char head[CKPT_PART_HEAD], want[CKPT_PART_HEAD];
    r->stream = stream_own;
    r->name = co_xstrdup(name);
    r->want = *sum;
    r->shards = place->shards;
    CO_TRY(read_bytes(r, head, sizeof(head), err));
    ckpt_part_head_put(place, want);
    if (memcmp(head, want, sizeof(head)) != 0) {
        return co_err_set(err, CO_DAMAGED,
            "checkpoint file \"%s\": its head is corrupt or of another checkpoint", name);
    }
    *ret = co_steal_ptr(r);
    return 0;
}

int ckpt_part_open(const char *path, const struct ckpt_part_origin *place,
    const struct ckpt_part_sum *sum, struct ckpt_part_reader **ret, struct co_err *err) {
    FILE *stream;
    CO_TRY(ckpt_disk_open(path, &stream, err));
    return ckpt_part_from(stream, path, place, sum, ret, err);
}

void ckpt_part_reader_close(struct ckpt_part_reader *r) {
    if (r) {
        (void)fclose(r->stream);
        free(r->name);
        free(r->data);
        free(r);
    }
}

static int pass_over(struct ckpt_part_reader *r, struct co_err *err) {
    if (!r->pending) {
        return 0;
    }
    r->pending = false;
    if (fseeko(r->stream, r->chunk.bytes, SEEK_CUR) < 0) {
        return ckpt_disk_unread(err, errno, r->name);
    }
    r->have.bytes += r->chunk.bytes;
    return 0;
}

static int at_end(struct ckpt_part_reader *r, uint64_t hash, struct co_err *err) {
    if (hash != r->have.hash || r->have.hash != r->want.hash || r->have.bytes != r->want.bytes ||
        fgetc(r->stream) != EOF) {
        return refuse(r, "is not the file that the manifest names: end", err);
    }
    return 1;
}

void ckpt_part_expect(struct ckpt_part_reader *r, const struct ckpt_table *tables, uint32_t n) {
    r->tables = tables;
    r->n_tables = n;
}

static int refuse_chunk(const struct ckpt_part_reader *r, const char *table, const char *what,
    uint64_t least, uint64_t most, struct co_err *err) {
    char expected[64];
    (void)snprintf(expected, sizeof(expected),
        least == most ? "%" PRIu64 : "%" PRIu64 " to %" PRIu64, least, most);
    return co_err_set(err, CO_DAMAGED,
        "checkpoint file \"%s\": a chunk of %" PRIu32 " %s of table \"%s\" has %" PRIu32
        " bytes, expected %s, at byte %" PRIu64,
        r->name, r->chunk.items, what, table, r->chunk.bytes, expected, r->have.bytes);
}

/* Compares the chunk's head with the tables. */
static int check_chunk(const struct ckpt_part_reader *r, struct co_err *err) {
    const struct ckpt_part_chunk *c = &r->chunk;
    bool position = c->kind == CKPT_PART_POSITION;
    if (!r->tables) {
        return 0;
    }
    if (c->shard >= r->shards || (!position && c->table >= r->n_tables)) {
        return refuse(r, "a chunk of a shard or table that the manifest does not have", err);
    }
    if (position) {
        return c->bytes >= 8 && c->bytes <= 8 + CKPT_POSITION_MAX
                   ? 0
                   : refuse_chunk(r, "", "position", 8, 8 + CKPT_POSITION_MAX, err);
    }
    const struct ckpt_table *t = &r->tables[c->table];
    const struct {
        const char *what;
        bool has;
        uint64_t bytes;
    } kinds[CKPT_PART_KINDS] = {
        [CKPT_PART_ROWS] = {"rows", t->sparse, ckpt_rows_bytes(t, c->items)},
        [CKPT_PART_ERASED] = {"erased ids", t->sparse, co_size_mul(c->items, 8)},
        [CKPT_PART_DENSE] = {"values", !t->sparse, ckpt_dense_bytes(t, c->items)},
        [CKPT_PART_RATE] = {"rate", true, CKPT_RATE_BYTES},
    };
    if (!kinds[c->kind].has) {
        return refuse(r, t->sparse ? "values of a sparse table" : "rows of a dense table", err);
    }
    if (c->bytes != kinds[c->kind].bytes) {
        return refuse_chunk(
            r, t->name, kinds[c->kind].what, kinds[c->kind].bytes, kinds[c->kind].bytes, err);
    }
    if (c->kind == CKPT_PART_DENSE && (c->items < 1 || co_size_add(c->begin, c->items) > t->size)) {
        return refuse(r, "no values, or some behind the end of their table,", err);
    }
    return 0;
}

int ckpt_part_next(struct ckpt_part_reader *r, struct ckpt_part_chunk *ret, struct co_err *err) {
    unsigned char head[CKPT_PART_CHUNK];
    CO_TRY(pass_over(r, err));
    CO_TRY(read_bytes(r, head, sizeof(head), err));
    if (ckpt_hash(head, HASHED) != co_get_u64(head + HASHED)) {
        return refuse(r, "the head of a chunk is corrupt", err);
    }
    struct ckpt_part_chunk *c = &r->chunk;
    *c = (struct ckpt_part_chunk){.kind = co_get_u32(head),
        .table = co_get_u32(head + 4),
        .shard = co_get_u32(head + 8),
        .items = co_get_u32(head + 12),
        .begin = co_get_u64(head + 16),
        .bytes = co_get_u32(head + 24)};
    r->chunk_hash = co_get_u64(head + 32);
    if (c->kind == CKPT_PART_TAIL) {
        return at_end(r, r->chunk_hash, err);
    }
    if (c->kind >= CKPT_PART_KINDS || c->bytes > CKPT_PART_BYTES_MAX) {
        return refuse(r, "a chunk of an unknown kind or size", err);
    }
    CO_TRY(check_chunk(r, err));
    r->have.hash = ckpt_hash_more(r->have.hash, r->chunk_hash);
    r->pending = true;
    *ret = *c;
    return 0;
}

int ckpt_part_data(struct ckpt_part_reader *r, const unsigned char **ret_data, struct co_err *err) {
    size_t bytes = r->chunk.bytes;
    if (!r->pending) {
        return co_err_set(err, CO_INTERNAL, "\"%s\": no chunk", r->name);
    }
    if (bytes > r->cap || !r->data) {
        void *p = NULL;
        CO_TRY(co_try_alloc(bytes + 1, 1, CKPT_PART_BYTES_MAX + 1, "checkpoint chunk", &p, err));
        free(r->data);
        r->data = p;
        r->cap = bytes;
    }
    r->pending = false;
    CO_TRY(read_bytes(r, r->data, bytes, err));
    if (ckpt_hash(r->data, bytes) != r->chunk_hash) {
        return refuse(r, "a chunk is corrupt, it ends", err);
    }
    *ret_data = r->data;
    return 0;
}
