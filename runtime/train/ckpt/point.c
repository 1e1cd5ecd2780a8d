/* One checkpoint that servers write: its file names, and its manifest to and from text. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ckpt/fields.h"
#include "runtime/train/ckpt/format.h"

static const char first_line[] = CKPT_POINT_FIRST;

static const struct ckpt_field point_fields[] = {
    CKPT_FIELD(ckpt_point, "number", DECIMAL, number),
    CKPT_FIELD(ckpt_point, "base", DECIMAL, base),
    CKPT_FIELD(ckpt_point, "previous", DECIMAL, previous),
    CKPT_FIELD(ckpt_point, "step", DECIMAL, step),
    CKPT_FIELD_EITHER(ckpt_point, "mode", sync, "async", "sync"),
    CKPT_FIELD_OPTIONAL(ckpt_point, "after", HEX, after),
    CKPT_FIELD_OPTIONAL(ckpt_point, "save", DECIMAL, save),
    CKPT_FIELD_OPTIONAL(ckpt_point, "next", DECIMAL, next),
};

static const struct ckpt_field part_fields[] = {
    CKPT_FIELD(ckpt_part, "server", DECIMAL, server),
    CKPT_FIELD(ckpt_part, "shards", DECIMAL, shards),
    CKPT_FIELD(ckpt_part, "bytes", DECIMAL, bytes),
    CKPT_FIELD(ckpt_part, "hash", HEX, hash),
};

void ckpt_point_done(struct ckpt_point *p) {
    free(p->tables);
    free(p->parts);
    memset(p, 0, sizeof(*p));
}

char *ckpt_point_dir(const char *dir, uint64_t number) {
    return co_xasprintf("%s/ckpt-%012" PRIu64, dir, number);
}

char *ckpt_point_part(const char *dir, uint64_t number, uint32_t server) {
    return co_xasprintf("%s/ckpt-%012" PRIu64 "/part-%05" PRIu32, dir, number, server);
}

/* ---- text ---- */

int ckpt_point_print(const struct ckpt_point *p, struct co_buf *to, struct co_err *err) {
    CO_TRY(co_buf_addf(to, err, "%s\n", first_line));
    CO_TRY(ckpt_fields_print("checkpoint", point_fields, CO_ARRAY_LEN(point_fields), p, to, err));
    for (uint32_t i = 0; i < p->n_tables; i++) {
        CO_TRY(ckpt_fields_print("table", ckpt_fields, CKPT_SPEC_FIELDS, &p->tables[i], to, err));
    }
    for (uint32_t i = 0; i < p->n_parts; i++) {
        CO_TRY(ckpt_fields_print(
            "part", part_fields, CO_ARRAY_LEN(part_fields), &p->parts[i], to, err));
    }
    return ckpt_lines_end(to, err);
}

static int parse_table(struct ckpt_point *p, const char *text, size_t len, struct co_err *err) {
    if (p->n_tables == CKPT_TABLES_MAX || p->n_parts > 0) {
        return co_err_set(
            err, CO_DAMAGED, "more than %d tables, or a table after the parts", CKPT_TABLES_MAX);
    }
    p->tables = co_xrealloc(p->tables, p->n_tables + 1, sizeof(*p->tables));
    struct ckpt_table *t = &p->tables[p->n_tables++];
    memset(t, 0, sizeof(*t));
    CO_TRY(ckpt_fields_parse(ckpt_fields, CKPT_SPEC_FIELDS, text, len, t, err));
    return ckpt_table_check(t, err);
}

static int parse_part(struct ckpt_point *p, const char *text, size_t len, struct co_err *err) {
    if (p->n_parts == CKPT_SERVERS_MAX) {
        return co_err_set(err, CO_DAMAGED, "too many parts");
    }
    p->parts = co_xgrow(p->parts, p->n_parts, sizeof(*p->parts));
    struct ckpt_part *part = &p->parts[p->n_parts];
    int rc = ckpt_fields_parse(part_fields, CO_ARRAY_LEN(part_fields), text, len, part, err);
    if (rc == 0 && (part->server != p->n_parts || part->shards < 1)) {
        rc =
            co_err_set(err, CO_DAMAGED, "part %u is listed as number %u", part->server, p->n_parts);
    }
    p->n_parts++;
    return rc;
}

static int parse_point(struct ckpt_point *p, const char *text, size_t len, struct co_err *err) {
    CO_TRY(ckpt_fields_parse(point_fields, CO_ARRAY_LEN(point_fields), text, len, p, err));
    bool full = p->base == p->number;
    if (p->number < 1 || p->base < 1 || (full ? p->previous != 0 : p->previous < p->base) ||
        p->previous >= p->number) {
        return co_err_set(err, CO_DAMAGED,
            "number %" PRIu64 ", base %" PRIu64 ", previous %" PRIu64 " do not fit together",
            p->number, p->base, p->previous);
    }
    if (p->save >= CKPT_SAVE_MODES) {
        return co_err_set(
            err, CO_DAMAGED, "save=%u, there are modes 0 to %d", p->save, CKPT_SAVE_MODES - 1);
    }
    return 0;
}

static int parse_line(
    struct ckpt_point *p, unsigned number, const char *line, size_t len, struct co_err *err) {
    static const struct {
        const char *word;
        int (*parse)(struct ckpt_point *p, const char *text, size_t len, struct co_err *err);
    } words[] = {{"table ", parse_table}, {"part ", parse_part}};
    if (number == 2) {
        const char *word = "checkpoint ";
        return ckpt_field_begins(line, len, word)
                   ? parse_point(p, line + strlen(word), len - strlen(word), err)
                   : co_err_set(err, CO_DAMAGED, "not a checkpoint");
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
        size_t k = strlen(words[i].word);
        if (ckpt_field_begins(line, len, words[i].word)) {
            return words[i].parse(p, line + k, len - k, err);
        }
    }
    return co_err_set(err, CO_DAMAGED, "neither a table nor a part");
}

int ckpt_point_parse(const char *text, size_t len, struct ckpt_point *ret, struct co_err *err) {
    struct ckpt_lines lines = {.text = text, .len = len};
    struct ckpt_point p = {0};
    const char *line = NULL;
    size_t l = 0;
    int rc;
    while ((rc = ckpt_lines_next(&lines, &line, &l, err)) == 0) {
        bool first = lines.number == 1;
        if (first && l == strlen(first_line) && memcmp(line, first_line, l) == 0) {
            continue;
        }
        rc = first ? ckpt_lines_refuse(&lines, 2, err) : parse_line(&p, lines.number, line, l, err);
        if (rc < 0) {
            rc = co_err_wrap(err, "line %u", lines.number);
            break;
        }
    }
    if (rc == 1 && p.n_parts == 0) {
        rc = co_err_set(err, CO_DAMAGED, "it has no parts");
    }
    if (rc < 0) {
        ckpt_point_done(&p);
        return rc;
    }
    *ret = p;
    return 0;
}

/* ---- file ---- */

/* Whatever the manifest needs is durable before it appears: the parts, synced by their servers, and
 * the directory's own name.  If nobody knows whether the manifest is durable, it is removed: a
 * checkpoint that was reported as failed must not be what a restart takes. */
int ckpt_point_commit(const char *dir, const struct ckpt_point *p, struct co_err *err) {
    CO_AUTOFREE char *at = ckpt_point_dir(dir, p->number);
    CO_AUTOBUF struct co_buf text = CO_BUF(CKPT_MANIFEST_MAX);
    CO_TRY(ckpt_point_print(p, &text, err));
    CO_TRY(ckpt_disk_sync_dir(dir, err));
    CO_TRY(ckpt_disk_prepare(at, "MANIFEST", text.data, text.len, err));
    int rc = ckpt_disk_replace(at, "MANIFEST", err);
    if (rc < 0) {
        ckpt_point_revoke(dir, p->number);
    }
    return rc;
}

void ckpt_point_revoke(const char *dir, uint64_t number) {
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    (void)!ckpt_disk_remove(at, "MANIFEST", NULL);
    (void)!ckpt_disk_remove(at, "MANIFEST.new", NULL);
    (void)!ckpt_disk_sync_dir(at, NULL);
}

int ckpt_expect(const char *dir, enum ckpt_kind kind, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", dir);
    CO_AUTOBUF struct co_buf text = CO_BUF(CKPT_MANIFEST_MAX);
    uint64_t last = 0;
    size_t n = strlen(first_line);
    bool manifest = ckpt_disk_get(path, CKPT_MANIFEST_MAX, &text, NULL) == 0 && text.len > n;
    bool point = manifest && memcmp(text.data, first_line, n) == 0 && text.data[n] == '\n';
    bool points = ckpt_last_number(dir, &last, NULL) == 0 && last > 0;
    if (point) {
        return co_err_set(err, CO_INVALID,
            "\"%s\" is one checkpoint that servers wrote, expected the directory that it is in",
            dir);
    }
    if (kind == CKPT_SAVE && points && !manifest) {
        return co_err_set(err, CO_INVALID,
            "\"%s\" has checkpoints that servers wrote, expected a model that rt_save wrote: "
            "rt_restore (in Python: restore) loads them",
            dir);
    }
    if (kind == CKPT_POINTS && manifest && !points) {
        return co_err_set(err, CO_INVALID,
            "\"%s\" has a model that rt_save wrote, expected checkpoints that servers wrote: "
            "rt_load "
            "(in Python: load) loads it",
            dir);
    }
    return 0;
}

static int64_t time_of(const char *dir) {
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", dir);
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec : 0;
}

bool ckpt_has_newer_save(const char *dir, uint64_t number) {
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    return time_of(dir) > time_of(at);
}

int ckpt_point_read(const char *dir, uint64_t number, struct ckpt_point *ret, struct co_err *err) {
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", at);
    CO_AUTOBUF struct co_buf text = CO_BUF(CKPT_MANIFEST_MAX);
    int rc = ckpt_disk_get(path, CKPT_MANIFEST_MAX, &text, err);
    if (rc < 0) {
        return rc == CO_NOTFOUND
                   ? co_err_set(err, CO_NOTFOUND, "checkpoint \"%s\" was not completed", at)
                   : rc;
    }
    struct ckpt_point p = {0};
    rc = ckpt_point_parse(text.data ? text.data : "", text.len, &p, err);
    if (rc < 0) {
        return co_err_wrap(err, "checkpoint \"%s\"", path);
    }
    p.hash = ckpt_hash(text.data, text.len);
    if (p.number != number) {
        rc = co_err_set(err, CO_DAMAGED, "checkpoint \"%s\" is number %" PRIu64, path, p.number);
        ckpt_point_done(&p);
        return rc;
    }
    *ret = p;
    return 0;
}
