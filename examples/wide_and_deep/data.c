#include "examples/wide_and_deep/data.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "examples/wide_and_deep/gen.h"

CO_DEFINE_CLEANUP(FILE *, fclose)

/* DIR/train or DIR/test when there is such a folder, as --generate makes them; else NULL.  The
 * caller frees. */
static char *folder_find(const char *dir, const char *name) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    struct stat st;

    if (dir[0] == '\0' || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return NULL;
    }
    return co_steal_ptr(path);
}

int wd_data_open_train(const struct wd_options *o, struct wd_share share, struct wd_reader **ret_r,
    struct co_err *err) {
    if (o->train[0] == '\0') {
        return wd_reader_open_generated(
            (uint64_t)o->seed, 0, (uint64_t)o->lines, &wd_config_criteo, share, ret_r, err);
    }
    CO_AUTOFREE char *folder = folder_find(o->train, "train");
    return wd_reader_open(folder ? folder : o->train, &wd_config_criteo, share, ret_r, err);
}

int wd_data_open_test(const struct wd_options *o, struct wd_reader **ret_r, struct co_err *err) {
    const struct wd_share all = {.index = 0, .count = 1};
    CO_AUTOFREE char *folder = folder_find(o->test[0] != '\0' ? o->test : o->train, "test");

    if (folder || o->test[0] != '\0') {
        return wd_reader_open(folder ? folder : o->test, &wd_config_criteo, all, ret_r, err);
    }
    if (o->train[0] != '\0') {
        *ret_r = NULL;
        return 0;
    }
    return wd_reader_open_generated((uint64_t)o->seed, WD_GEN_TEST_BEGIN, (uint64_t)o->test_lines,
        &wd_config_criteo, all, ret_r, err);
}

static int directory_make(const char *path, struct co_err *err) {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    return 0;
}

static int file_generate(
    const struct wd_gen *g, const char *path, uint64_t first, uint64_t lines, struct co_err *err) {
    CO_CLEANUP(fclosep) FILE *out = fopen(path, "we");
    char line[WD_GEN_LINE_MAX + 1];

    if (!out) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    for (uint64_t i = 0; i < lines; i++) {
        size_t len = wd_gen_line(g, first + i, line);

        line[len++] = '\n';
        if (fwrite(line, 1, len, out) != len) {
            return co_err_errno(err, errno, "\"%s\"", path);
        }
    }
    if (fflush(out) != 0) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    return 0;
}

/* One of the two folders. */
static int folder_generate(const struct wd_options *o, const char *name, uint64_t first,
    uint64_t lines, uint64_t files, struct co_err *err) {
    CO_AUTOFREE char *folder = co_xasprintf("%s/%s", o->generate, name);
    struct wd_gen g;
    int rc = directory_make(folder, err);

    wd_gen_init(&g, (uint64_t)o->seed);
    for (uint64_t i = 0; rc == 0 && i < files; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/part-%05u.txt", folder, (unsigned)i);
        uint64_t begin = lines * i / files, end = lines * (i + 1) / files;

        rc = file_generate(&g, path, first + begin, end - begin, err);
    }
    return rc;
}

int wd_data_generate(const struct wd_options *o, struct co_err *err) {
    int rc = directory_make(o->generate, err);

    if (rc == 0) {
        rc = folder_generate(o, "train", 0, (uint64_t)o->lines, (uint64_t)o->files, err);
    }
    if (rc == 0) {
        rc = folder_generate(o, "test", WD_GEN_TEST_BEGIN, (uint64_t)o->test_lines, 1, err);
    }
    return rc;
}
