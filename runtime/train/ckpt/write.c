/* Writes a checkpoint of ckpt.h: table files of a new generation, then the manifest, then the old
 * files are removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/ckpt/format.h"

struct rt_ckpt_writer {
    char *dir;
    uint64_t generation;
    struct rt_ckpt_table tables[RT_CKPT_TABLES_MAX];
    uint32_t n;
    FILE *file; /* of tables[n - 1]; NULL between tables */
    bool done;
};

static char *path_of(const struct rt_ckpt_writer *w, const char *file) {
    return co_xasprintf("%s/%s", w->dir, file);
}

/* Like mkdir -p. */
static int make_dir(const char *dir, struct co_err *err) {
    CO_AUTOFREE char *path = co_xstrdup(dir);
    for (char *p = path + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            if (mkdir(path, 0777) < 0 && errno != EEXIST) {
                return co_err_errno(err, errno, "cannot make '%s'", path);
            }
            *p = '/';
        }
    }
    if (mkdir(path, 0777) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "cannot make '%s'", path);
    }
    return 0;
}

/* A manifest that cannot be read is replaced like any other. */
static uint64_t next_generation(const char *dir) {
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", dir);
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    CO_AUTOFREE struct rt_ckpt_table *tables = co_xcalloc(RT_CKPT_TABLES_MAX, sizeof(*tables));
    uint32_t n = 0;
    uint64_t generation = 0;
    if (co_file_read(path, 1 << 20, &text, NULL) == 0 &&
        rt_ckpt_manifest_parse(text.data, text.len, tables, &n, &generation, NULL) == 0) {
        return generation + 1;
    }
    return 1;
}

int rt_ckpt_create(const char *dir, struct rt_ckpt_writer **ret, struct co_err *err) {
    if (!dir || !*dir) {
        return co_err_set(err, CO_INVALID, "checkpoint directory '' is empty");
    }
    int rc = make_dir(dir, err);
    if (rc < 0) {
        return rc;
    }
    struct rt_ckpt_writer *w = co_xcalloc(1, sizeof(*w));
    w->dir = co_xstrdup(dir);
    w->generation = next_generation(dir);
    *ret = w;
    return 0;
}

static int write_bytes(struct rt_ckpt_writer *w, const void *data, size_t len, struct co_err *err) {
    struct rt_ckpt_table *t = &w->tables[w->n - 1];
    if (len > 0 && fwrite(data, len, 1, w->file) != 1) {
        return co_err_errno(err, errno, "cannot write '%s/%s'", w->dir, t->file);
    }
    t->bytes += len;
    return 0;
}

int rt_ckpt_begin(struct rt_ckpt_writer *w, const struct rt_ckpt_table *table, struct co_err *err) {
    if (w->n == RT_CKPT_TABLES_MAX || w->file) {
        return co_err_set(err, CO_INTERNAL, "too many tables, or one still open");
    }
    struct rt_ckpt_table *t = &w->tables[w->n];
    *t = *table;
    t->items = t->bytes = t->hash = 0;
    (void)snprintf(
        t->file, sizeof(t->file), "%s.%016llx.rtt", table->name, (unsigned long long)w->generation);
    CO_AUTOFREE char *path = path_of(w, t->file);
    w->file = fopen(path, "we");
    if (!w->file) {
        return co_err_errno(err, errno, "cannot make '%s'", path);
    }
    w->n++;
    unsigned char head[RT_CKPT_HEAD];
    rt_ckpt_head(t, head);
    return write_bytes(w, head, sizeof(head), err);
}

int rt_ckpt_chunk(
    struct rt_ckpt_writer *w, uint32_t items, const void *data, size_t bytes, struct co_err *err) {
    struct rt_ckpt_table *t = &w->tables[w->n - 1];
    if (bytes > RT_CKPT_CHUNK_MAX || bytes != rt_ckpt_data_bytes(t, items)) {
        return co_err_set(err, CO_INTERNAL, "chunk of %u items with %zu bytes", items, bytes);
    }
    unsigned char head[RT_CKPT_CHUNK_HEAD];
    uint64_t hash = rt_ckpt_hash(data, bytes);
    rt_ckpt_chunk_head(items, (uint32_t)bytes, hash, head);
    int rc = write_bytes(w, head, sizeof(head), err);
    rc = rc < 0 ? rc : write_bytes(w, data, bytes, err);
    t->items += items;
    t->hash = rt_ckpt_hash_more(t->hash, hash);
    return rc;
}

int rt_ckpt_end(struct rt_ckpt_writer *w, struct co_err *err) {
    struct rt_ckpt_table *t = &w->tables[w->n - 1];
    unsigned char tail[RT_CKPT_CHUNK_HEAD];
    rt_ckpt_chunk_head(RT_CKPT_TAIL, 0, t->hash, tail);
    int rc = write_bytes(w, tail, sizeof(tail), err);
    FILE *f = co_steal_ptr(w->file);
    bool ok = fflush(f) == 0 && fsync(fileno(f)) == 0;
    int saved = errno;
    ok = fclose(f) == 0 && ok;
    if (rc == 0 && !ok) {
        rc = co_err_errno(err, saved ? saved : errno, "cannot write '%s/%s'", w->dir, t->file);
    }
    return rc;
}

static int manifest_text(const struct rt_ckpt_writer *w, struct co_buf *b, struct co_err *err) {
    int rc = co_buf_addf(
        b, err, "paddlert checkpoint 1 generation %llu\n", (unsigned long long)w->generation);
    for (uint32_t i = 0; i < w->n && rc == 0; i++) {
        rc = rt_fields_print("table", rt_ckpt_fields, RT_CKPT_FIELDS, &w->tables[i], b, err);
    }
    return rc < 0 ? rc : rt_lines_end(b, err);
}

static void sync_dir(const char *dir) {
    CO_AUTOCLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
    }
}

/* Removes table files: those of other generations (the old checkpoint, a killed save), or `mine`.
 */
static void remove_others(const struct rt_ckpt_writer *w, bool mine) {
    DIR *d = opendir(w->dir);
    if (!d) {
        return;
    }
    char suffix[32];
    (void)snprintf(suffix, sizeof(suffix), ".%016llx.rtt", (unsigned long long)w->generation);
    size_t n = strlen(suffix);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        size_t len = strlen(e->d_name);
        bool table = len > n && strcmp(e->d_name + len - 4, ".rtt") == 0;
        bool own = table && strcmp(e->d_name + len - n, suffix) == 0;
        if (table && own == mine) {
            (void)unlinkat(dirfd(d), e->d_name, 0);
        }
    }
    (void)closedir(d);
}

int rt_ckpt_commit(struct rt_ckpt_writer *w_own, struct co_err *err) {
    CO_CLEANUP(rt_ckpt_abortp) struct rt_ckpt_writer *w = w_own;
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 20);
    int rc = manifest_text(w, &b, err);
    if (rc < 0) {
        return rc;
    }
    sync_dir(w->dir);
    CO_AUTOFREE char *path = path_of(w, "MANIFEST");
    rc = co_file_write(path, b.data, b.len, 0666, err);
    if (rc == 0) {
        w->done = true;
        sync_dir(w->dir);
        remove_others(w, false);
    }
    return rc;
}

void rt_ckpt_abort(struct rt_ckpt_writer *w) {
    if (!w) {
        return;
    }
    if (w->file) {
        (void)fclose(w->file);
    }
    if (!w->done) {
        remove_others(w, true);
    }
    free(w->dir);
    free(w);
}
