/* Writes a checkpoint of ckpt.h: table files of a new generation, then the manifest, then the old
 * files are removed.  Of two writers each would remove the other's files, so there is one at a
 * time.  Where no lock can keep a second one out, a save removes only what nobody writes any more:
 * files of the save that it replaces, and those that no save has touched for a day. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/ckpt/format.h"

struct ckpt_writer {
    char *dir;
    uint64_t generation;
    uint64_t replaced; /* generation of the save that was there; 0: none */
    struct ckpt_table tables[CKPT_TABLES_MAX];
    uint32_t n; /* whose files were made */
    FILE *file; /* of tables[n - 1]; NULL between tables */
    struct ckpt_lock lock;
    bool done;
};

enum { LEFT_S = 24 * 3600 };

static const char lock_name[] = "SAVING";

static char *path_of(const struct ckpt_writer *w, const char *file) {
    return co_xasprintf("%s/%s", w->dir, file);
}

/* The generation in the name of a table's file; 0: it is not one. */
static uint64_t generation_of(const char *name) {
    enum { DIGITS = 16 };
    size_t len = strlen(name), tail = 1 + DIGITS + strlen(".rtt");
    uint64_t g = 0;
    return len > tail && name[len - tail] == '.' && strcmp(name + len - 4, ".rtt") == 0 &&
                   ckpt_field_number(name + len - tail + 1, DIGITS, 16, UINT64_MAX / 2, &g)
               ? g
               : 0;
}

/* Calls take for each file of a table in dir. */
static int each_file(struct ckpt_writer *w,
    int (*take)(struct ckpt_writer *w, const char *name, uint64_t generation, struct co_err *err),
    struct co_err *err) {
    DIR *d = opendir(w->dir);
    if (!d) {
        return co_err_errno(err, errno, "cannot list \"%s\"", w->dir);
    }
    int rc = 0;
    for (struct dirent *e = NULL; rc == 0;) {
        errno = 0;
        e = readdir(d);
        if (!e) {
            rc = errno ? co_err_errno(err, errno, "cannot list \"%s\"", w->dir) : 0;
            break;
        }
        uint64_t generation = generation_of(e->d_name);
        rc = generation ? take(w, e->d_name, generation, err) : 0;
    }
    (void)closedir(d);
    return rc;
}

static int pass_generation(
    struct ckpt_writer *w, const char *name, uint64_t generation, struct co_err *err) {
    (void)name;
    (void)err;
    w->generation = generation >= w->generation ? generation + 1 : w->generation;
    return 0;
}

/* Whether a manifest that cannot be parsed is one that a save has left, damaged: then it may be
 * replaced.  Table files, which the highest generation shows, are of saves alone. */
static bool is_own(const struct ckpt_writer *w, const struct co_buf *text) {
    return w->generation > 1 || ckpt_field_begins(text->data, text->len, "paddlert checkpoint 1 ");
}

/* Chooses a generation that no file has, whether a manifest names it or not. A damaged manifest is
 * replaced; one that cannot be read may name a good save.  What is of something else is kept: a
 * checkpoint of servers would no longer be one. */
static int next_generation(struct ckpt_writer *w, struct co_err *err) {
    CO_AUTOFREE char *path = path_of(w, "MANIFEST");
    CO_AUTOBUF struct co_buf text = CO_BUF(CKPT_SAVED_MAX);
    CO_AUTOFREE struct ckpt_table *tables = co_xcalloc(CKPT_TABLES_MAX, sizeof(*tables));
    uint32_t n = 0;
    uint64_t generation = 0;
    struct co_err why = {0};
    int rc = ckpt_disk_get(path, CKPT_SAVED_MAX, &text, &why);
    if (rc < 0 && rc != CO_NOTFOUND && rc != CO_DAMAGED) {
        return co_err_set(err, rc, "%s", why.msg);
    }
    bool any = rc == CO_DAMAGED || text.len > 0;
    if (rc == 0 && any) {
        rc = ckpt_manifest_parse(text.data, text.len, tables, &n, &generation, &why);
    }
    w->generation = 1;
    CO_TRY(each_file(w, pass_generation, err));
    if (any && (rc == CO_UNSUPPORTED || (rc < 0 && !is_own(w, &text)))) {
        return co_err_set(err, CO_INVALID,
            "\"%s\" is not of rt_save, which would replace it: it is %s; expected another "
            "directory",
            path,
            ckpt_field_begins(text.data, text.len, CKPT_POINT_FIRST)
                ? "of a checkpoint that servers wrote"
            : rc == CO_UNSUPPORTED ? "of a later libpaddlert"
                                   : "of another program");
    }
    if (rc == 0 && any && generation < UINT64_MAX / 2) {
        w->replaced = generation;
        w->generation = generation >= w->generation ? generation + 1 : w->generation;
    }
    return 0;
}

int ckpt_create(const char *dir, struct ckpt_writer **ret, struct co_err *err) {
    if (!dir || !*dir) {
        return co_err_set(err, CO_INVALID, "checkpoint directory '' is empty");
    }
    CO_CLEANUP(ckpt_abortp) struct ckpt_writer *w = co_xcalloc(1, sizeof(*w));
    w->dir = co_xstrdup(dir);
    w->lock.fd = -1;
    w->done = true; /* there is nothing to remove */
    CO_TRY(ckpt_disk_mkdir(dir, err));
    CO_TRY(ckpt_disk_lock(dir, lock_name, &w->lock, err));
    CO_TRY(next_generation(w, err));
    w->done = false;
    *ret = co_steal_ptr(w);
    return 0;
}

static int write_bytes(struct ckpt_writer *w, const void *data, size_t len, struct co_err *err) {
    struct ckpt_table *t = &w->tables[w->n - 1];
    if (len > 0 && fwrite(data, len, 1, w->file) != 1) {
        return co_err_errno(err, errno, "cannot write \"%s/%s\"", w->dir, t->file);
    }
    t->bytes += len;
    return 0;
}

int ckpt_begin(struct ckpt_writer *w, const struct ckpt_table *table, struct co_err *err) {
    if (w->n == CKPT_TABLES_MAX || w->file) {
        return co_err_set(err, CO_INTERNAL, "too many tables, or one still open");
    }
    struct ckpt_table *t = &w->tables[w->n];
    *t = *table;
    t->items = t->bytes = t->hash = 0;
    (void)snprintf(
        t->file, sizeof(t->file), "%s.%016llx.rtt", table->name, (unsigned long long)w->generation);
    CO_AUTOFREE char *path = path_of(w, t->file);
    w->file = fopen(path, "wxe");
    if (!w->file && errno == EEXIST) { /* no file had this generation when this save began */
        return co_err_set(err, CO_EXISTS,
            "another save has made \"%s\" meanwhile: one trainer saves to a directory at a time",
            path);
    }
    if (!w->file) {
        return co_err_errno(err, errno, "cannot make \"%s\"", path);
    }
    w->n++;
    unsigned char head[CKPT_HEAD];
    ckpt_head(t, head);
    return write_bytes(w, head, sizeof(head), err);
}

int ckpt_chunk(
    struct ckpt_writer *w, uint32_t items, const void *data, size_t bytes, struct co_err *err) {
    struct ckpt_table *t = &w->tables[w->n - 1];
    if (bytes > CKPT_CHUNK_MAX || bytes != ckpt_data_bytes(t, items)) {
        return co_err_set(err, CO_INTERNAL, "chunk of %u items with %zu bytes", items, bytes);
    }
    unsigned char head[CKPT_CHUNK_HEAD];
    uint64_t hash = ckpt_hash(data, bytes);
    ckpt_chunk_head(items, (uint32_t)bytes, hash, head);
    CO_TRY(write_bytes(w, head, sizeof(head), err));
    CO_TRY(write_bytes(w, data, bytes, err));
    t->items += items;
    t->hash = ckpt_hash_more(t->hash, hash);
    return 0;
}

int ckpt_end(struct ckpt_writer *w, struct co_err *err) {
    struct ckpt_table *t = &w->tables[w->n - 1];
    unsigned char tail[CKPT_CHUNK_HEAD];
    ckpt_chunk_head(CKPT_TAIL, 0, t->hash, tail);
    int rc = write_bytes(w, tail, sizeof(tail), err);
    FILE *f = co_steal_ptr(w->file);
    bool ok = fflush(f) == 0 && fsync(fileno(f)) == 0;
    int saved = errno;
    ok = fclose(f) == 0 && ok;
    if (rc == 0 && !ok) {
        rc = co_err_errno(err, saved ? saved : errno, "cannot write \"%s/%s\"", w->dir, t->file);
    }
    return rc;
}

static int manifest_text(const struct ckpt_writer *w, struct co_buf *b, struct co_err *err) {
    CO_TRY(co_buf_addf(
        b, err, "paddlert checkpoint 1 generation %llu\n", (unsigned long long)w->generation));
    for (uint32_t i = 0; i < w->n; i++) {
        CO_TRY(ckpt_fields_print("table", ckpt_fields, CKPT_FIELDS, &w->tables[i], b, err));
    }
    return ckpt_lines_end(b, err);
}

/* Whether no save has touched the file for long.  The manifest has the file system's own time. */
static bool is_left(const struct ckpt_writer *w, const char *name) {
    CO_AUTOFREE char *path = path_of(w, name);
    CO_AUTOFREE char *now = path_of(w, "MANIFEST");
    struct stat file, manifest;
    return stat(path, &file) == 0 && stat(now, &manifest) == 0 &&
           file.st_mtim.tv_sec < manifest.st_mtim.tv_sec - LEFT_S;
}

static int remove_other(
    struct ckpt_writer *w, const char *name, uint64_t generation, struct co_err *err) {
    bool goes = generation != w->generation &&
                (w->lock.alone || generation == w->replaced || is_left(w, name));
    return goes ? ckpt_disk_remove(w->dir, name, err) : 0;
}

/* The new files, and their names, are durable before the manifest that names them is; that one is
 * before the old files go: those of the old save, and of saves that were killed.  If these cannot
 * be removed, the next save tries again. */
int ckpt_commit(struct ckpt_writer *w_own, struct co_err *err) {
    CO_CLEANUP(ckpt_abortp) struct ckpt_writer *w = w_own;
    CO_AUTOBUF struct co_buf b = CO_BUF(CKPT_SAVED_MAX);
    CO_TRY(manifest_text(w, &b, err));
    CO_TRY(ckpt_disk_sync_dir(w->dir, err));
    CO_TRY(ckpt_disk_prepare(w->dir, "MANIFEST", b.data, b.len, err));
    w->done = true; /* from now on the manifest may name the new files, even if this fails */
    CO_TRY(ckpt_disk_replace(w->dir, "MANIFEST", err));
    (void)!each_file(w, remove_other, NULL);
    return 0;
}

void ckpt_abort(struct ckpt_writer *w) {
    if (!w) {
        return;
    }
    if (w->file) {
        (void)fclose(w->file);
    }
    if (!w->done) {
        for (uint32_t i = 0; i < w->n; i++) {
            (void)!ckpt_disk_remove(w->dir, w->tables[i].file, NULL);
        }
    }
    ckpt_disk_unlock(w->dir, lock_name, &w->lock);
    free(w->dir);
    free(w);
}
