/* Chooses between files and generated lines. */
#include "examples/ctr/data.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "examples/ctr/gen.h"
#include "examples/ctr/net.h"

CO_DEFINE_CLEANUP(FILE *, fclose)

/* dir/name if there is such a folder, else NULL.  The caller frees it.  dir may be a file.  Where
 * nobody can look, there may be a folder: with other lines than dir, or with those to test with. */
static int folder_find(const char *dir, const char *name, char **ret_path, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    struct stat st = {0};

    *ret_path = NULL;
    if (dir[0] == '\0') {
        return 0;
    }
    if (stat(path, &st) < 0 && errno != ENOENT && errno != ENOTDIR) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    if (S_ISDIR(st.st_mode)) {
        *ret_path = co_steal_ptr(path);
    }
    return 0;
}

/* Opens files in the format that the options name. */
static int files_open(const struct ctr_options *o, const char *path, struct ctr_share share,
    struct ctr_reader **ret_r, struct co_err *err) {
    const struct ctr_columns columns = {o->csv_label, o->csv_numbers, o->csv_categories};
    const struct ctr_format *format = NULL;
    CO_CLEANUP(ctr_parser_freep) struct ctr_parser *parser = NULL;

    CO_TRY(ctr_format_find(o->format, &format, err));
    CO_TRY(ctr_parser_new(format, &columns, &parser, err));
    CO_TRY(ctr_reader_open(path, &o->net->config, share, ret_r, err));
    ctr_reader_parse(*ret_r, co_steal_ptr(parser));
    return 0;
}

const char *ctr_data_train_path(const struct ctr_options *o) {
    return o->train[0] != '\0' ? o->train : "generated lines";
}

const char *ctr_data_test_path(const struct ctr_options *o) {
    return o->test[0] != '\0' ? o->test : ctr_data_train_path(o);
}

int ctr_data_probe_test(const struct ctr_options *o, struct ctr_reader *r, struct co_err *err) {
    struct stat st;

    if (stat(ctr_data_test_path(o), &st) == 0 && S_ISFIFO(st.st_mode)) {
        return 0;
    }
    int rc = ctr_reader_probe(r, err);
    return rc < 0 ? co_err_wrap(err, "test data") : 0;
}

int ctr_data_open_train(const struct ctr_options *o, struct ctr_share share,
    struct ctr_reader **ret_r, struct co_err *err) {
    if (o->train[0] == '\0') {
        return ctr_reader_open_generated(
            (uint64_t)o->seed, 0, (uint64_t)o->lines, &o->net->config, share, ret_r, err);
    }
    CO_AUTOFREE char *folder = NULL;
    CO_TRY(folder_find(o->train, "train", &folder, err));
    return files_open(o, folder ? folder : o->train, share, ret_r, err);
}

int ctr_data_open_test(const struct ctr_options *o, struct ctr_reader **ret_r, struct co_err *err) {
    const struct ctr_share all = {.index = 0, .count = 1};
    CO_AUTOFREE char *folder = NULL;
    CO_TRY(folder_find(o->test[0] != '\0' ? o->test : o->train, "test", &folder, err));
    if (folder || o->test[0] != '\0') {
        return files_open(o, folder ? folder : o->test, all, ret_r, err);
    }
    if (o->train[0] != '\0') {
        *ret_r = NULL;
        return 0;
    }
    return ctr_reader_open_generated((uint64_t)o->seed, CTR_GEN_TEST_BEGIN, (uint64_t)o->test_lines,
        &o->net->config, all, ret_r, err);
}

static int directory_make(const char *path, struct co_err *err) {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    return 0;
}

static int file_generate(const struct ctr_options *o, const struct ctr_gen *g, const char *path,
    uint64_t first, uint64_t lines, struct co_err *err) {
    CO_CLEANUP(ctr_parser_freep) struct ctr_parser *parser = NULL;
    CO_CLEANUP(fclosep) FILE *out = fopen(path, "we");
    char line[CTR_GEN_LINE_MAX + 1];

    if (!out) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    CO_TRY(ctr_parser_new(&ctr_formats[0], NULL, &parser, err));
    for (uint64_t i = 0; i < lines; i++) {
        size_t len = o->slots ? ctr_gen_slots(g, parser, first + i, o->net->config.vocabulary, line)
                              : ctr_gen_line(g, first + i, line);

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

/* Writes one of the two folders. */
static int folder_generate(const struct ctr_options *o, const char *name, uint64_t first,
    uint64_t lines, uint64_t files, struct co_err *err) {
    CO_AUTOFREE char *folder = co_xasprintf("%s/%s", o->generate, name);
    struct ctr_gen g;
    int rc = directory_make(folder, err);

    ctr_gen_init(&g, (uint64_t)o->seed);
    for (uint64_t i = 0; rc == 0 && i < files; i++) {
        CO_AUTOFREE char *path = co_xasprintf("%s/part-%05u.txt", folder, (unsigned)i);
        uint64_t begin = lines * i / files, end = lines * (i + 1) / files;

        rc = file_generate(o, &g, path, first + begin, end - begin, err);
    }
    return rc;
}

int ctr_data_generate(const struct ctr_options *o, struct co_err *err) {
    CO_TRY(directory_make(o->generate, err));
    CO_TRY(folder_generate(o, "train", 0, (uint64_t)o->lines, (uint64_t)o->files, err));
    return folder_generate(o, "test", CTR_GEN_TEST_BEGIN, (uint64_t)o->test_lines, 1, err);
}
