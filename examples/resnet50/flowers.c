/* Finds the images of the Oxford flowers, their labels and their division into sets. */
#include "examples/resnet50/flowers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "examples/data/lines.h"
#include "examples/resnet50/mat.h"

enum { GROWS_BY = 1024 };

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

static const struct {
    const char *part, *array;
} parts[] = {{"train", "tstid"}, {"test", "trnid"}, {"valid", "valid"}};

void rn_flowers_close(struct rn_flowers *f) {
    if (!f) {
        return;
    }
    for (size_t i = 0; i < f->n; i++) {
        free(f->images[i].path);
    }
    free(f->images);
    free(f);
}

static struct rn_flowers *flowers_new(size_t most) {
    struct rn_flowers *f = co_xcalloc(1, sizeof(*f));

    f->images = co_xcalloc(most + 1, sizeof(*f->images));
    return f;
}

static void image_add(struct rn_flowers *f, char *path_own, uint32_t label) {
    struct rn_flower *image = &f->images[f->n++];

    image->path = path_own;
    image->label = label;
}

/* ---- .mat ------------------------------------------------------------------------------------ */

static int mat_read(const char *dir, const char *file, const char *array, uint32_t **ret_values,
    size_t *ret_n, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, file);

    return rn_mat_read(path, array, ret_values, ret_n, err);
}

static int mats_open(const char *dir, const char *array, uint32_t classes,
    struct rn_flowers **ret_flowers, struct co_err *err) {
    CO_CLEANUP(rn_flowers_closep) struct rn_flowers *f = NULL;
    CO_AUTOFREE uint32_t *labels = NULL, *ids = NULL;
    size_t n_labels = 0, n_ids = 0;

    CO_TRY(mat_read(dir, "imagelabels.mat", "labels", &labels, &n_labels, err));
    CO_TRY(mat_read(dir, "setid.mat", array, &ids, &n_ids, err));
    f = flowers_new(n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] < 1 || ids[i] > n_labels) {
            return co_err_set(err, CO_INVALID,
                "%s/setid.mat: %s has image %u, labels are for 1 to "
                "%zu",
                dir, array, ids[i], n_labels);
        }
        uint32_t label = labels[ids[i] - 1];
        if (label < 1 || label > classes) {
            return co_err_set(err, CO_INVALID,
                "%s/imagelabels.mat: image %u is of class %u, "
                "expected 1 to %u",
                dir, ids[i], label, classes);
        }
        image_add(f, co_xasprintf("%s/jpg/image_%05u.jpg", dir, ids[i]), label - 1);
    }
    *ret_flowers = co_steal_ptr(f);
    return 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Adds the image of a line "path class": the class is the last word. */
static int line_add(struct rn_flowers *f, const char *dir, struct da_text line, uint32_t classes,
    struct co_err *err) {
    struct da_text path = line, class;
    char text[DA_QUOTE_MAX];
    uint64_t label = 0;

    while (path.len > 0 && !da_is_blank(path.at[path.len - 1])) {
        path.len--;
    }
    class = (struct da_text){path.at + path.len, line.len - path.len};
    path = da_trim(path);
    if (path.len == 0) {
        return co_err_set(err, CO_INVALID, "expected a path, a blank and a class");
    }
    if (!da_u64(class, &label) || label >= classes) {
        return co_err_set(
            err, CO_INVALID, "class \"%s\", expected 0 to %u", da_quote(class, text), classes - 1);
    }
    if (f->n % GROWS_BY == 0) {
        f->images = co_xrealloc(f->images, f->n + GROWS_BY, sizeof(*f->images));
    }
    bool whole = path.at[0] == '/';
    image_add(f,
        co_xasprintf("%s%s%.*s", whole ? "" : dir, whole ? "" : "/", (int)path.len, path.at),
        (uint32_t)label);
    return 0;
}

static int list_open(const char *dir, const char *part, uint32_t classes,
    struct rn_flowers **ret_flowers, struct co_err *err) {
    CO_CLEANUP(rn_flowers_closep) struct rn_flowers *f = flowers_new(0);
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    CO_AUTOFREE char *path = co_xasprintf("%s/%s.txt", dir, part);
    struct da_text line;
    int rc = rt_input_open(path, NULL, &input, err);

    if (rc == CO_NOTFOUND) {
        (void)co_err_wrap(err, "expected imagelabels.mat, setid.mat and jpg/ of the Oxford "
                               "flowers, or train.txt and test.txt");
    }
    while (rc == 0 && (rc = da_line_next(input, &line, err)) == 0 && line.at) {
        if (f->n == RN_FLOWERS_MAX) {
            return co_err_set(err, CO_INVALID, "%s: more than %d lines", path, RN_FLOWERS_MAX);
        }
        rc = line_add(f, dir, line, classes, err);
        if (rc < 0) {
            return co_err_wrap(err, "%s", rt_input_where(input));
        }
    }
    if (rc == 0) {
        *ret_flowers = co_steal_ptr(f);
    }
    return rc;
}

static int part_find(const char *part, const char **ret_array, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(parts); i++) {
        if (strcmp(parts[i].part, part) == 0) {
            *ret_array = parts[i].array;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "part \"%s\", expected train, test or valid", part);
}

/* Returns the list unless it is empty, which is an error. */
static int flowers_give(struct rn_flowers *f_own, const char *of, const char *part,
    struct rn_flowers **ret_flowers, struct co_err *err) {
    if (f_own->n == 0) {
        rn_flowers_close(f_own);
        return co_err_set(err, CO_INVALID, "%s: no images for %s", of, part);
    }
    *ret_flowers = f_own;
    return 0;
}

int rn_flowers_open(const char *dir, const char *part, uint32_t classes,
    struct rn_flowers **ret_flowers, struct co_err *err) {
    CO_AUTOFREE char *labels = co_xasprintf("%s/imagelabels.mat", dir);
    struct rn_flowers *f = NULL;
    const char *array = NULL;
    int rc = part_find(part, &array, err);

    if (rc < 0) {
        return rc;
    }
    bool mats = access(labels, F_OK) == 0 || errno != ENOENT;
    rc = mats ? mats_open(dir, array, classes, &f, err) : list_open(dir, part, classes, &f, err);
    return rc == 0 && f ? flowers_give(f, dir, part, ret_flowers, err) : rc;
}

int rn_flowers_generated(const struct rn_gen *gen, const char *part,
    struct rn_flowers **ret_flowers, struct co_err *err) {
    struct rn_flowers *f = flowers_new(gen->images);
    const char *array = NULL;
    uint32_t first, end;
    int rc = part_find(part, &array, err);

    if (rc < 0) {
        rn_flowers_close(f);
        return rc;
    }
    rn_gen_part(gen, array, &first, &end);
    f->gen = *gen;
    for (uint32_t i = first; i < end; i++) {
        f->images[f->n++] = (struct rn_flower){.index = i, .label = i % gen->classes};
    }
    return flowers_give(f, "generated data", part, ret_flowers, err);
}
