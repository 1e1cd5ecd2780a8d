/* Saves and loads a training's state; the newest checkpoint that is complete is loaded. */
#include "examples/resnet50/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "runtime/train/ckpt/ckpt.h"

#define PREFIX "step-"

enum { KEEP = 2, NAMES_MAX = 4096, NAME_MAX_ = 32, CHUNK = 4 << 20 /* floats */ };

/* ---- directories ----------------------------------------------------------------------------- */

struct names {
    char (*names)[NAME_MAX_];
    size_t n;
};

static int newest_first(const void *a, const void *b) {
    return -strcmp(a, b);
}

static void names_done(struct names *list) {
    free(list->names);
}

/* All names have the same number of digits, so sorting by name sorts by step.  Only a directory
 * that does not exist is empty: one that cannot be listed may have the newest checkpoint. */
static int names_list(const char *dir, struct names *ret, struct co_err *err) {
    CO_CLEANUP(names_done) struct names list = {.names = co_xcalloc(NAMES_MAX, NAME_MAX_)};
    DIR *d = opendir(dir);
    int failed = d || errno == ENOENT ? 0 : errno;

    while (d && list.n < NAMES_MAX) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e) {
            failed = errno;
            break;
        }
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 && strlen(e->d_name) < NAME_MAX_) {
            (void)snprintf(list.names[list.n++], NAME_MAX_, "%s", e->d_name);
        }
    }
    if (d) {
        (void)closedir(d);
    }
    if (failed) {
        return co_err_errno(err, failed, "cannot list \"%s\"", dir);
    }
    qsort(list.names, list.n, NAME_MAX_, newest_first);
    *ret = list;
    list.names = NULL;
    return 0;
}

/* The manifest goes first: what a kill leaves behind is then no checkpoint. */
static void directory_remove(const char *path) {
    DIR *d = opendir(path);

    if (d) {
        (void)unlinkat(dirfd(d), "MANIFEST", 0);
    }
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (e->d_name[0] != '.') {
            (void)unlinkat(dirfd(d), e->d_name, 0);
        }
    }
    if (d) {
        (void)closedir(d);
    }
    (void)rmdir(path);
}

/* Of those up to the newest one, which was just saved, keeps KEEP.  What cannot be read or is
 * damaged is not counted, and stays. */
static void old_remove(const char *dir, const char *newest) {
    CO_CLEANUP(names_done) struct names list = {NULL};
    size_t kept = 0;

    if (names_list(dir, &list, NULL) < 0) {
        return; /* the next save tries again */
    }
    for (size_t i = 0; i < list.n; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, list.names[i]);
        CO_CLEANUP(ckpt_closep) struct ckpt *one = NULL;

        if (strcmp(list.names[i], newest) > 0) {
            continue;
        }
        int rc = ckpt_open(path, &one, NULL);
        if (rc == 0 && kept < KEEP) {
            kept++;
        } else if (rc == 0 || rc == CO_NOTFOUND) {
            directory_remove(path);
        }
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static int table_write(
    struct ckpt_writer *w, const char *name, const float *values, size_t n, struct co_err *err) {
    struct ckpt_table table = {.size = n, .optimizer = "sgd", .init = "zero"};

    (void)snprintf(table.name, sizeof(table.name), "%s", name);
    CO_TRY(ckpt_begin(w, &table, err));
    for (size_t i = 0; i < n; i += CHUNK) {
        uint32_t part = (uint32_t)(n - i < CHUNK ? n - i : CHUNK);

        CO_TRY(ckpt_chunk(w, part, values + i, part * sizeof(*values), err));
    }
    return ckpt_end(w, err);
}

/* Values of a training that has diverged would take the place of the last good ones. */
static int finite_write(
    struct ckpt_writer *w, const char *name, const float *values, size_t n, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return co_err_set(err, CO_INVALID,
                "no checkpoint of this step: %s has %g at %zu, the training has diverged: lower "
                "--lr, or let it grow by --warmup-epochs",
                name, (double)values[i], i);
        }
    }
    return table_write(w, name, values, n, err);
}

/* Writes all parameters, or an array with their layout, in the table's order. */
static int params_write(struct ckpt_writer *w, const char *name, const struct rn_plan *plan,
    const float *storage, struct co_err *err) {
    const struct rn_net *net = rn_plan_net(plan);
    CO_AUTOFREE float *values = co_xcalloc(net->parameters, sizeof(*values));
    size_t at = 0;
    int rc = 0;

    for (int i = 0; rc == 0 && i < net->n_params; i++) {
        rc = rn_plan_export(plan, i, storage, values + at, err);
        at += net->params[i].count;
    }
    return rc == 0 ? finite_write(w, name, values, net->parameters, err) : rc;
}

static int tables_write(struct ckpt_writer *w, const struct rn_ckpt *c,
    const struct rn_progress *progress, struct co_err *err) {
    const struct rn_net *net = rn_plan_net(c->plan);
    float numbers[sizeof(*progress) / sizeof(float)];
    int rc = params_write(w, "parameters", c->plan, rn_plan_params(c->plan), err);

    memcpy(numbers, progress, sizeof(numbers)); /* integers stored as they are, not converted */
    if (rc == 0) {
        rc = params_write(w, "velocity", c->plan, c->velocity, err);
    }
    if (rc == 0) {
        rc = finite_write(w, "mean", rn_plan_running_mean(c->plan), net->running, err);
    }
    if (rc == 0) {
        rc = finite_write(w, "variance", rn_plan_running_variance(c->plan), net->running, err);
    }
    return rc == 0 ? table_write(w, "progress", numbers, CO_ARRAY_LEN(numbers), err) : rc;
}

int rn_ckpt_save(const char *dir, const struct rn_ckpt *c, const struct rn_progress *progress,
    struct co_err *err) {
    CO_CLEANUP(ckpt_abortp) struct ckpt_writer *w = NULL;
    CO_AUTOFREE char *name = co_xasprintf(PREFIX "%010" PRIu64, progress->step);
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);

    CO_TRY(ckpt_create(path, &w, err));
    CO_TRY(tables_write(w, c, progress, err));
    CO_TRY(ckpt_commit(co_steal_ptr(w), err));
    old_remove(dir, name);
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int table_read(
    const struct ckpt *from, const char *name, float *values, size_t n, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *file = NULL;
    int i = ckpt_find(from, name);
    const struct ckpt_table *table = i < 0 ? NULL : ckpt_table(from, (uint32_t)i);
    size_t at = 0;

    if (!table || table->sparse || table->size != n) {
        return co_err_set(err, CO_INVALID, "it does not fit: %s is of another network", name);
    }
    CO_TRY(ckpt_file_open(from, (uint32_t)i, &file, err));
    for (;;) {
        uint32_t items;
        const void *data;
        size_t bytes;
        int ends = ckpt_next(file, &items, &data, &bytes, err);

        CO_TRY(ends);
        if (ends) {
            break;
        }
        if (at + items > n) {
            return co_err_set(err, CO_DAMAGED, "%s: more values than it says", name);
        }
        memcpy(values + at, data, bytes);
        at += items;
    }
    if (at < n) {
        return co_err_set(err, CO_DAMAGED, "%s: fewer values than it says", name);
    }
    return 0;
}

/* Holds what has been read, in the table's order, until the whole checkpoint is known to be good.
 */
struct contents {
    float *parameters, *velocity, *mean, *variance;
    struct rn_progress progress;
};

static void contents_done(struct contents *c) {
    free(c->parameters);
    free(c->velocity);
    free(c->mean);
    free(c->variance);
}

static int contents_read(
    const struct ckpt *from, const struct rn_net *net, struct contents *ret, struct co_err *err) {
    float numbers[sizeof(ret->progress) / sizeof(float)];
    const struct {
        const char *name;
        float **values;
        size_t n;
    } tables[] = {
        {"parameters", &ret->parameters, net->parameters},
        {"velocity", &ret->velocity, net->parameters},
        {"mean", &ret->mean, net->running},
        {"variance", &ret->variance, net->running},
    };

    CO_TRY(table_read(from, "progress", numbers, CO_ARRAY_LEN(numbers), err));
    memcpy(&ret->progress, numbers, sizeof(ret->progress));
    for (size_t i = 0; i < CO_ARRAY_LEN(tables); i++) {
        *tables[i].values = co_xcalloc(tables[i].n, sizeof(float));
        CO_TRY(table_read(from, tables[i].name, *tables[i].values, tables[i].n, err));
    }
    return 0;
}

static int contents_apply(
    const struct contents *from, const struct rn_ckpt *c, struct co_err *err) {
    const struct rn_net *net = rn_plan_net(c->plan);
    size_t at = 0;

    for (int i = 0; i < net->n_params; i++) {
        CO_TRY(rn_plan_import(c->plan, i, from->parameters + at, rn_plan_params(c->plan), err));
        CO_TRY(rn_plan_import(c->plan, i, from->velocity + at, c->velocity, err));
        at += net->params[i].count;
    }
    memcpy(rn_plan_running_mean(c->plan), from->mean, net->running * sizeof(float));
    memcpy(rn_plan_running_variance(c->plan), from->variance, net->running * sizeof(float));
    return 0;
}

static int one_load(const char *path, const struct rn_ckpt *c, struct rn_progress *ret_progress,
    struct co_err *err) {
    CO_CLEANUP(contents_done) struct contents contents = {NULL};
    CO_CLEANUP(ckpt_closep) struct ckpt *from = NULL;

    CO_TRY(ckpt_open(path, &from, err));
    CO_TRY(contents_read(from, rn_plan_net(c->plan), &contents, err));
    CO_TRY(contents_apply(&contents, c, err));
    *ret_progress = contents.progress;
    return 0;
}

int rn_ckpt_load(const char *dir, const struct rn_ckpt *c, struct rn_progress *ret_progress,
    struct co_err *err) {
    CO_CLEANUP(names_done) struct names list = {NULL};
    struct co_err cause = {0}; /* of the newest damaged one */
    int rc = names_list(dir, &list, err);

    if (rc < 0) {
        return rc;
    }
    rc = co_err_set(&cause, CO_NOTFOUND, "no checkpoint in \"%s\"", dir);
    for (size_t i = 0; (rc == CO_NOTFOUND || rc == CO_DAMAGED) && i < list.n; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, list.names[i]);
        struct co_err why = {0};

        rc = one_load(path, c, ret_progress, &why);
        bool skipped = rc == CO_NOTFOUND || rc == CO_DAMAGED;
        if (skipped) {
            co_log_warn("checkpoint skipped", CO_S("checkpoint", path), CO_E(&why));
        } else if (rc == 0 && cause.code == CO_DAMAGED) {
            co_log_warn("an older checkpoint is used instead of a damaged one",
                CO_S("checkpoint", path), CO_S("damaged", cause.msg));
        }
        if (rc < 0 && (!skipped || (rc == CO_DAMAGED && cause.code == CO_NOTFOUND))) {
            cause = why;
        }
    }
    return rc < 0 ? co_err_set(err, cause.code, "%s", cause.msg) : 0;
}
