/* Reads a checkpoint of ckpt.h: the manifest first, then table files chunk by chunk. Every length
 * is checked before it is used. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/size.h"
#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/ckpt/format.h"

struct ckpt {
    char *dir;
    uint64_t generation;
    struct ckpt_table tables[CKPT_TABLES_MAX];
    uint32_t n;
};

struct ckpt_file {
    FILE *stream;
    char *name;
    struct ckpt_table table;
    uint64_t items, bytes, hash; /* read so far */
    unsigned char *data;
    size_t cap;
};

/* ---- manifest ---- */

/* "table key=value ..." */
static int parse_table(const char *line, size_t len, struct ckpt_table *t, struct co_err *err) {
    size_t skip = strlen("table ");
    memset(t, 0, sizeof(*t));
    CO_TRY(ckpt_fields_parse(ckpt_fields, CKPT_FIELDS, line + skip, len - skip, t, err));
    CO_TRY(ckpt_table_check(t, err));
    uint64_t values = co_size_add(t->size, t->state);
    if (!t->sparse && t->items != values) {
        return co_err_set(err, CO_DAMAGED,
            "table \"%s\": %" PRIu64 " items, expected %" PRIu64 " values with their state",
            t->name, t->items, values);
    }
    return 0;
}

int ckpt_manifest_parse(const char *text, size_t len, struct ckpt_table *ret_tables,
    uint32_t *ret_n, uint64_t *ret_generation, struct co_err *err) {
    static const char first[] = "paddlert checkpoint 1 generation ";
    struct ckpt_lines lines = {.text = text, .len = len};
    const char *p = NULL;
    size_t l = 0;
    uint32_t n = 0;
    int rc;
    while ((rc = ckpt_lines_next(&lines, &p, &l, err)) == 0) {
        if (lines.number == 1) {
            if (!ckpt_field_begins(p, l, first) ||
                !ckpt_field_number(
                    p + strlen(first), l - strlen(first), 10, UINT64_MAX - 1, ret_generation)) {
                rc = ckpt_lines_refuse(&lines, 1, err);
            }
        } else if (ckpt_field_begins(p, l, "table ") && n < CKPT_TABLES_MAX) {
            rc = parse_table(p, l, &ret_tables[n++], err);
        } else {
            rc = co_err_set(err, CO_DAMAGED, "not a table");
        }
        if (rc < 0) {
            return co_err_wrap(err, "line %u", lines.number);
        }
    }
    CO_TRY(rc);
    if (lines.number < 2) {
        return co_err_set(err, CO_DAMAGED, "line 1: not a checkpoint of version 1");
    }
    *ret_n = n;
    return 0;
}

static int read_manifest(const char *dir, struct ckpt *c, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", dir);
    CO_AUTOBUF struct co_buf text = CO_BUF(CKPT_SAVED_MAX);
    int rc = ckpt_disk_get(path, CKPT_SAVED_MAX, &text, err);
    if (rc < 0) {
        return rc == CO_NOTFOUND ? co_err_set(err, CO_NOTFOUND, "no checkpoint in \"%s\"", dir)
                                 : rc;
    }
    rc = ckpt_manifest_parse(
        text.data ? text.data : "", text.len, c->tables, &c->n, &c->generation, err);
    return rc < 0 ? co_err_wrap(err, "checkpoint \"%s\"", path) : 0;
}

int ckpt_open(const char *dir, struct ckpt **ret, struct co_err *err) {
    CO_CLEANUP(ckpt_closep) struct ckpt *c = co_xcalloc(1, sizeof(*c));
    int rc = read_manifest(dir, c, err);
    if (rc < 0) {
        return rc;
    }
    c->dir = co_xstrdup(dir);
    *ret = co_steal_ptr(c);
    return 0;
}

bool ckpt_is_replaced(const struct ckpt *c) {
    CO_CLEANUP(ckpt_closep) struct ckpt *now = co_xcalloc(1, sizeof(*now));
    return read_manifest(c->dir, now, NULL) == 0 && now->generation != c->generation;
}

void ckpt_close(struct ckpt *c) {
    if (c) {
        free(c->dir);
        free(c);
    }
}

uint32_t ckpt_tables(const struct ckpt *c) {
    return c->n;
}

const struct ckpt_table *ckpt_table(const struct ckpt *c, uint32_t i) {
    return &c->tables[i];
}

int ckpt_find(const struct ckpt *c, const char *name) {
    for (uint32_t i = 0; i < c->n; i++) {
        if (strcmp(c->tables[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- table files ---- */

static int refuse_torn(const struct ckpt_file *f, const char *what, struct co_err *err) {
    return co_err_set(
        err, CO_DAMAGED, "checkpoint file \"%s\": %s at byte %" PRIu64, f->name, what, f->bytes);
}

static int read_bytes(struct ckpt_file *f, void *to, size_t len, struct co_err *err) {
    if (len > 0 && fread(to, len, 1, f->stream) != 1) {
        return ferror(f->stream) ? ckpt_disk_unread(err, errno, f->name)
                                 : refuse_torn(f, "ends too early: read", err);
    }
    f->bytes += len;
    return 0;
}

int ckpt_file_from(FILE *stream_own, const char *name, const struct ckpt_table *table,
    struct ckpt_file **ret, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = co_xcalloc(1, sizeof(*f));
    f->stream = stream_own;
    f->name = co_xstrdup(name);
    f->table = *table;
    unsigned char head[CKPT_HEAD], want[CKPT_HEAD];
    CO_TRY(read_bytes(f, head, sizeof(head), err));
    ckpt_head(table, want);
    if (memcmp(head, want, sizeof(head)) != 0) {
        return co_err_set(err, CO_DAMAGED,
            "checkpoint file \"%s\": its head is corrupt or of another table", name);
    }
    *ret = co_steal_ptr(f);
    return 0;
}

int ckpt_file_open(
    const struct ckpt *c, uint32_t table, struct ckpt_file **ret, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", c->dir, c->tables[table].file);
    FILE *stream;
    CO_TRY(ckpt_disk_open(path, &stream, err));
    return ckpt_file_from(stream, path, &c->tables[table], ret, err);
}

void ckpt_file_close(struct ckpt_file *f) {
    if (f) {
        (void)fclose(f->stream);
        free(f->name);
        free(f->data);
        free(f);
    }
}

static int at_end(struct ckpt_file *f, uint64_t hash, struct co_err *err) {
    const struct ckpt_table *t = &f->table;
    if (hash != f->hash || f->hash != t->hash || f->items != t->items || f->bytes != t->bytes ||
        fgetc(f->stream) != EOF) {
        return refuse_torn(f, "is not the file that the manifest names: end", err);
    }
    return 1;
}

static int reserve_room(struct ckpt_file *f, size_t bytes, struct co_err *err) {
    if (bytes <= f->cap) {
        return 0;
    }
    void *p = NULL;
    CO_TRY(co_try_alloc(bytes, 1, CKPT_CHUNK_MAX, "checkpoint chunk", &p, err));
    free(f->data);
    f->data = p;
    f->cap = bytes;
    return 0;
}

int ckpt_next(struct ckpt_file *f, uint32_t *ret_items, const void **ret_data, size_t *ret_bytes,
    struct co_err *err) {
    unsigned char head[CKPT_CHUNK_HEAD];
    CO_TRY(read_bytes(f, head, sizeof(head), err));
    uint32_t items = co_get_u32(head), bytes = co_get_u32(head + 4);
    uint64_t hash = co_get_u64(head + 8);
    if (ckpt_hash(head, 16) != co_get_u64(head + 16)) {
        return refuse_torn(f, "chunk head is corrupt", err);
    }
    if (items == CKPT_TAIL) {
        return at_end(f, hash, err);
    }
    if (bytes > CKPT_CHUNK_MAX || bytes != ckpt_data_bytes(&f->table, items)) {
        return co_err_set(err, CO_DAMAGED,
            "checkpoint file \"%s\": a chunk of %" PRIu32 " items has %" PRIu32
            " bytes, expected %" PRIu64 ", at byte %" PRIu64,
            f->name, items, bytes, ckpt_data_bytes(&f->table, items), f->bytes);
    }
    if (items > f->table.items || f->items > f->table.items - items) {
        return refuse_torn(f, "more items than the manifest says", err);
    }
    CO_TRY(reserve_room(f, bytes, err));
    CO_TRY(read_bytes(f, f->data, bytes, err));
    if (ckpt_hash(f->data, bytes) != hash) {
        return refuse_torn(f, "chunk is corrupt, it ends", err);
    }
    f->items += items;
    f->hash = ckpt_hash_more(f->hash, hash);
    *ret_items = items;
    *ret_data = f->data;
    *ret_bytes = bytes;
    return 0;
}

int ckpt_check(const struct ckpt *c, struct co_err *err) {
    for (uint32_t i = 0; i < c->n; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", c->dir, c->tables[i].file);
        CO_TRY(ckpt_disk_check(path, c->tables[i].bytes, err));
    }
    return 0;
}

int ckpt_verify_table(const struct ckpt *c, uint32_t table, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    uint32_t items;
    const void *data;
    size_t bytes;
    int ends = 0;
    CO_TRY(ckpt_file_open(c, table, &f, err));
    while (!ends) {
        ends = ckpt_next(f, &items, &data, &bytes, err);
        CO_TRY(ends);
    }
    return 0;
}

int ckpt_verify(const struct ckpt *c, struct co_err *err) {
    for (uint32_t i = 0; i < c->n; i++) {
        CO_TRY(ckpt_verify_table(c, i, err));
    }
    return 0;
}
