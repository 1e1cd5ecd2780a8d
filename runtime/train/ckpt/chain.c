/* Chains of checkpoints: finds the newest complete one, reads what it depends on, removes old ones.
 */
#include "runtime/train/ckpt/chain.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/train/ckpt/disk.h"
#include "runtime/train/ckpt/fields.h"

/* ---- listing a directory ---- */

static int compare_down(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* errno alone distinguishes the end of a directory from an error. */
static struct dirent *next_entry(DIR *d) {
    errno = 0;
    return readdir(d);
}

/* The number of a checkpoint's directory; 0: it is none.  Of the ways to write a number only
 * ckpt_point_dir's counts: another name would be looked for where nothing is. */
static uint64_t number_of(const char *name) {
    static const char prefix[] = "ckpt-";
    const char *digits = name + strlen(prefix);
    uint64_t number = 0;
    if (strncmp(name, prefix, strlen(prefix)) != 0 ||
        !ckpt_field_number(digits, strlen(digits), 10, UINT64_MAX - 1, &number)) {
        return 0;
    }
    CO_AUTOFREE char *path = ckpt_point_dir("", number);
    return strcmp(path + 1, name) == 0 ? number : 0;
}

int ckpt_numbers(const char *dir, struct ckpt_numbers *ret, struct co_err *err) {
    struct ckpt_numbers have = {0};
    DIR *d = opendir(dir);
    int failed = d ? 0 : errno;
    if (failed == ENOENT && !ckpt_disk_is_missing(failed, dir)) {
        return ckpt_disk_unread(err, failed, dir);
    }
    if (failed != 0 && failed != ENOENT) {
        return co_err_errno(err, failed, "cannot list \"%s\"", dir);
    }
    failed = 0;
    for (struct dirent *e = d ? next_entry(d) : NULL; e; e = next_entry(d)) {
        uint64_t number = number_of(e->d_name);
        if (number > 0) {
            have.all = co_xrealloc(have.all, have.n + 1, sizeof(*have.all));
            have.all[have.n++] = number;
        }
    }
    if (d) {
        failed = errno;
        (void)closedir(d);
    }
    if (failed) {
        free(have.all);
        return co_err_errno(err, failed, "cannot list \"%s\"", dir);
    }
    if (have.n > 1) {
        qsort(have.all, have.n, sizeof(*have.all), compare_down);
    }
    *ret = have;
    return 0;
}

int ckpt_last_number(const char *dir, uint64_t *ret, struct co_err *err) {
    struct ckpt_numbers have = {0};
    CO_TRY(ckpt_numbers(dir, &have, err));
    *ret = have.n > 0 ? have.all[0] : 0;
    free(have.all);
    return 0;
}

int ckpt_is_complete(const char *dir, uint64_t number, bool *ret, struct co_err *err) {
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    CO_AUTOFREE char *path = co_xasprintf("%s/MANIFEST", at);
    struct stat st;
    int failed = stat(path, &st) < 0 ? errno : 0;
    if (failed != 0 && !ckpt_disk_is_missing(failed, path)) {
        return ckpt_disk_unread(err, failed, path);
    }
    *ret = failed == 0;
    return 0;
}

/* ---- chains ---- */

int ckpt_point_check(const char *dir, const struct ckpt_point *p, struct co_err *err) {
    for (uint32_t i = 0; i < p->n_parts; i++) {
        CO_AUTOFREE char *path = ckpt_point_part(dir, p->number, i);
        CO_TRY(ckpt_disk_check(path, p->parts[i].bytes, err));
    }
    return 0;
}

static bool same_shape(const struct ckpt_point *a, const struct ckpt_point *b) {
    bool same = a->n_tables == b->n_tables && a->n_parts == b->n_parts;
    for (uint32_t i = 0; i < a->n_parts && same; i++) {
        same = a->parts[i].shards == b->parts[i].shards;
    }
    for (uint32_t i = 0; i < a->n_tables && same; i++) {
        const struct ckpt_table *x = &a->tables[i], *y = &b->tables[i];
        same = strcmp(x->name, y->name) == 0 && x->sparse == y->sparse && x->size == y->size &&
               x->dim == y->dim && x->state == y->state;
    }
    return same;
}

/* Puts the point in front of the chain. It must be the one that the chain's first delta builds on.
 */
static int prepend(struct ckpt_chain *c, uint64_t number, struct co_err *err) {
    CO_CLEANUP(ckpt_point_done) struct ckpt_point p = {0};
    int rc = ckpt_point_read(c->dir, number, &p, err);
    if (rc == CO_NOTFOUND && c->n > 0) {
        return co_err_set(
            err, CO_DAMAGED, "checkpoint %" PRIu64 ", which it builds on, is missing", number);
    }
    CO_TRY(rc);
    CO_TRY(ckpt_point_check(c->dir, &p, err));
    if (c->n > 0 && (p.base != c->points[0].base || !same_shape(&p, c->points))) {
        return co_err_set(err, CO_DAMAGED, "checkpoint %" PRIu64 " cannot be the base of %" PRIu64,
            number, c->points[0].number);
    }
    if (c->n > 0 && c->points[0].after && c->points[0].after != p.hash) {
        return co_err_set(err, CO_DAMAGED,
            "checkpoint %" PRIu64 " is another one than %" PRIu64
            " builds on: was it copied from another job",
            number, c->points[0].number);
    }
    if (c->n > CKPT_CHAIN_MAX) {
        return co_err_set(err, CO_DAMAGED, "more than %d deltas", CKPT_CHAIN_MAX);
    }
    c->points = co_xrealloc(c->points, c->n + 1UL, sizeof(*c->points));
    memmove(c->points + 1, c->points, c->n * sizeof(*c->points));
    c->points[0] = p;
    c->n++;
    p = (struct ckpt_point){0};
    return 0;
}

int ckpt_chain_open(const char *dir, uint64_t number, struct ckpt_chain **ret, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = co_xcalloc(1, sizeof(*c));
    c->dir = co_xstrdup(dir);
    int rc = prepend(c, number, err);
    while (rc == 0 && !ckpt_point_full(&c->points[0])) {
        rc = prepend(c, c->points[0].previous, err);
    }
    if (rc < 0) {
        return rc == CO_NOTFOUND && c->n == 0
                   ? rc
                   : co_err_wrap(err, "checkpoint %" PRIu64 " in \"%s\"", number, dir);
    }
    *ret = co_steal_ptr(c);
    return 0;
}

void ckpt_chain_close(struct ckpt_chain *c) {
    if (c) {
        for (uint32_t i = 0; i < c->n; i++) {
            ckpt_point_done(&c->points[i]);
        }
        free(c->points);
        free(c->dir);
        free(c);
    }
}

static int try_one(
    const struct ckpt_search *s, uint64_t number, struct ckpt_chain **ret, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    CO_TRY(ckpt_chain_open(s->dir, number, &c, err));
    if (s->verify) {
        CO_TRY(ckpt_chain_verify(c, err));
    }
    *ret = co_steal_ptr(c);
    return 0;
}

int ckpt_chain_newest(const struct ckpt_search *s, struct ckpt_chain **ret, struct co_err *err) {
    struct ckpt_numbers have = {0};
    struct co_err why_none = {0}; /* returned if there is none */
    uint64_t damaged = 0;
    CO_TRY(ckpt_numbers(s->dir, &have, err));
    int rc = co_err_set(&why_none, CO_NOTFOUND, "no checkpoint in \"%s\"", s->dir);
    for (size_t i = 0; i < have.n && (rc == CO_NOTFOUND || rc == CO_DAMAGED); i++) {
        struct co_err why = {0};
        if (have.all[i] > s->most) {
            continue;
        }
        rc = try_one(s, have.all[i], ret, &why);
        bool skipped = rc == CO_NOTFOUND || rc == CO_DAMAGED;
        if ((rc == CO_DAMAGED && damaged == 0) || (rc < 0 && !skipped)) {
            damaged = have.all[i];
            why_none = why;
        }
        if (skipped && s->skip) {
            s->skip(s->arg, &why);
        }
    }
    free(have.all);
    if (rc < 0) {
        return co_err_set(err, why_none.code, "%s", why_none.msg);
    }
    (*ret)->damaged = damaged;
    return 0;
}

int ckpt_chain_part(const struct ckpt_chain *c, uint32_t point, uint32_t part,
    struct ckpt_part_reader **ret, struct co_err *err) {
    const struct ckpt_point *p = &c->points[point];
    const struct ckpt_part *pt = &p->parts[part];
    CO_AUTOFREE char *path = ckpt_point_part(c->dir, p->number, part);
    struct ckpt_part_origin place = {
        .number = p->number, .server = part, .servers = p->n_parts, .shards = pt->shards};
    struct ckpt_part_sum sum = {.bytes = pt->bytes, .hash = pt->hash};
    CO_TRY(ckpt_part_open(path, &place, &sum, ret, err));
    ckpt_part_expect(*ret, p->tables, p->n_tables);
    return 0;
}

int ckpt_walk_part(const struct ckpt_walk *w, uint32_t point, uint32_t part, struct co_err *err) {
    CO_CLEANUP(ckpt_part_reader_closep) struct ckpt_part_reader *r = NULL;
    CO_TRY(ckpt_chain_part(w->chain, point, part, &r, err));
    for (;;) {
        struct ckpt_part_chunk c;
        const unsigned char *data = NULL;
        if (w->stop && atomic_load(w->stop)) {
            return co_err_set(err, CO_CANCELED, "the server ends");
        }
        int ends = ckpt_part_next(r, &c, err);
        CO_TRY(ends);
        if (ends) {
            return 0;
        }
        if (!(w->kinds & 1U << c.kind) || (w->one_table && c.table != w->table) ||
            (w->one_shard && c.shard != w->shard) || (w->wants && !w->wants(w->arg, &c))) {
            continue;
        }
        if (!w->heads) {
            CO_TRY(ckpt_part_data(r, &data, err));
        }
        int rc = w->take ? w->take(w->arg, &c, data, err) : 0;
        if (rc != 0) {
            return rc;
        }
    }
}

int ckpt_walk_point(const struct ckpt_walk *w, uint32_t point, struct co_err *err) {
    for (uint32_t i = 0; i < w->chain->points[point].n_parts; i++) {
        if (!w->one_shard || i == w->server) {
            int rc = ckpt_walk_part(w, point, i, err);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

int ckpt_chain_verify_part(
    const struct ckpt_chain *c, uint32_t point, uint32_t part, struct co_err *err) {
    const struct ckpt_walk w = {.chain = c, .kinds = CKPT_WALK_ALL, .stop = c->stop};
    return ckpt_walk_part(&w, point, part, err);
}

int ckpt_chain_verify(const struct ckpt_chain *c, struct co_err *err) {
    const struct ckpt_walk w = {.chain = c, .kinds = CKPT_WALK_ALL, .stop = c->stop};
    for (uint32_t i = 0; i < c->n; i++) {
        CO_TRY(ckpt_walk_point(&w, i, err));
    }
    return 0;
}

/* ---- pruning ---- */

static void end_listing(DIR **d) {
    (void)closedir(*d);
}

static int remove_files(const char *at, struct co_err *err) {
    DIR *opened = opendir(at);
    if (!opened) {
        return ckpt_disk_unread(err, errno, at);
    }
    CO_CLEANUP(end_listing) DIR *d = opened;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (strncmp(e->d_name, "part-", 5) == 0 || strncmp(e->d_name, "MANIFEST.", 9) == 0) {
            CO_TRY(ckpt_disk_remove(at, e->d_name, err));
        }
    }
    return 0;
}

/* Removes the manifest first. Whatever a crash leaves behind is then no checkpoint.  Files behind a
 * link are in somebody's own folder: the link alone is removed. */
static int remove_point(const char *dir, uint64_t number, struct co_err *err) {
    CO_AUTOFREE char *at = ckpt_point_dir(dir, number);
    struct stat st;
    if (lstat(at, &st) == 0 && S_ISLNK(st.st_mode)) {
        CO_TRY(ckpt_disk_remove(dir, strrchr(at, '/') + 1, err));
        return ckpt_disk_sync_dir(dir, err);
    }
    CO_TRY(ckpt_disk_remove(at, "MANIFEST", err));
    CO_TRY(ckpt_disk_sync_dir(at, err));
    CO_TRY(remove_files(at, err));
    return ckpt_disk_remove_dir(at, err);
}

/* Whether a load of `b` could be given to the tables of `a`, and has nothing more. Optimizers may
 * differ: a job may change its own. */
static bool same_tables(const struct ckpt_point *a, const struct ckpt_point *b) {
    bool same = a->n_tables == b->n_tables;
    for (uint32_t i = 0; i < a->n_tables && same; i++) {
        const struct ckpt_table *x = &a->tables[i];
        bool found = false;
        for (uint32_t k = 0; k < b->n_tables && !found; k++) {
            const struct ckpt_table *y = &b->tables[k];
            found = strcmp(x->name, y->name) == 0 && x->sparse == y->sparse && x->size == y->size &&
                    x->dim == y->dim;
        }
        same = found;
    }
    return same;
}

/* What a checkpoint is to a past. */
enum chain_relation { FOREIGN, BEGUN, COMPLETE };

/* One whose manifest cannot be read, or is damaged, is foreign. */
static enum chain_relation place_of(
    const char *dir, uint64_t number, const struct ckpt_past *past, struct ckpt_point *ret) {
    bool ours = number <= past->restored || number >= past->first;
    int rc = number > past->newest->number ? CO_CANCELED : ckpt_point_read(dir, number, ret, NULL);
    return rc == CO_NOTFOUND                                    ? BEGUN
           : rc < 0 || !ours || !same_tables(past->newest, ret) ? FOREIGN
                                                                : COMPLETE;
}

/* The full checkpoint of the chain that the job began with; 0: with none. */
static uint64_t restored_base(const char *dir, const struct ckpt_past *past) {
    struct ckpt_point p = {0};
    bool read = past->restored > 0 && ckpt_point_read(dir, past->restored, &p, NULL) == 0;
    uint64_t base = read ? p.base : 0;
    ckpt_point_done(&p);
    return base;
}

/* Whether all its bytes are known to be right.  This life has written it, or began with it, else it
 * is read, but once only: it may be large. */
static bool is_whole(
    const char *dir, const struct ckpt_point *p, uint64_t base, const struct ckpt_past *past) {
    struct ckpt_read *read = past->read;
    if (ckpt_point_check(dir, p, NULL) < 0) {
        return false;
    }
    if (p->number >= past->first || p->number == base) {
        return true;
    }
    for (size_t i = 0; i < read->n; i++) {
        if (read->all[i].number == p->number) {
            return read->all[i].whole;
        }
    }
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    int rc = ckpt_chain_open(dir, p->number, &c, NULL);
    if (rc == 0) {
        c->stop = past->stop;
        rc = ckpt_chain_verify(c, NULL);
    }
    if (rc == 0 || rc == CO_DAMAGED) { /* what could not be read is tried again */
        read->all = co_xrealloc(read->all, read->n + 1, sizeof(*read->all));
        read->all[read->n++] = (struct ckpt_read_one){p->number, rc == 0};
    }
    return rc == 0;
}

int ckpt_prune(const char *dir, uint32_t keep, const struct ckpt_past *past, struct co_err *err) {
    struct ckpt_numbers have = {0};
    CO_TRY(ckpt_numbers(dir, &have, err));
    int first = 0;
    uint32_t fulls = 0;
    uint64_t base = restored_base(dir, past);
    /* Newest first, so that a delta is removed before the checkpoint it builds on. */
    for (size_t i = 0; i < have.n; i++) {
        struct ckpt_point p = {0};
        enum chain_relation place = place_of(dir, have.all[i], past, &p);
        bool goes = place == BEGUN || (place == COMPLETE && fulls >= keep);
        fulls += place == COMPLETE && !goes && ckpt_point_full(&p) && is_whole(dir, &p, base, past);
        ckpt_point_done(&p);
        if (goes) { /* the first error is returned; the next checkpoint tries again */
            int rc = remove_point(dir, have.all[i], first < 0 ? NULL : err);
            first = first < 0 ? first : rc;
        }
    }
    free(have.all);
    return first;
}
