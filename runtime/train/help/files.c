/* Finds the files that a worker reads (files.h): those of a directory, of a list (*.list), or one
 * file.
 */
#include "runtime/train/help/files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/parse.h"

enum { LIST_MAX = 64 << 20, DEPTH_MAX = 16 };

void help_files_done(struct help_files *f) {
    for (size_t i = 0; i < f->n; i++) {
        free(f->paths[i]);
    }
    free(f->paths);
    memset(f, 0, sizeof(*f));
}

/* ---- what there is -------------------------------------------------------------------------- */

static int file_add(struct help_files *f, char *path_own, const char *where, struct co_err *err) {
    if (f->n == HELP_FILES_MAX) {
        free(path_own);
        return co_err_set(
            err, CO_NORESOURCE, "\"%s\" holds more than %d files", where, HELP_FILES_MAX);
    }
    f->paths = co_xgrow(f->paths, f->n, sizeof(*f->paths));
    f->paths[f->n++] = path_own;
    return 0;
}

static int is_data(const struct dirent *entry) {
    return entry->d_name[0] != '.' && entry->d_name[0] != '_';
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_fetched(const struct help_files *f, const char *path) {
    return f->fetched && strstr(path, ":/");
}

/* What fetches a path of such a store: docs/data.md has the same table. */
static const struct {
    const char *scheme, *command;
} stores[] = {{"s3://", "aws s3 cp \"$1\" -"}, {"hdfs://", "hadoop fs -cat \"$1\""},
    {"afs://", "hadoop fs -Dhadoop.job.ugi=\"$UGI\" -cat \"$1\""},
    {"bos://", "aws s3 cp --endpoint-url \"$ENDPOINT\" \"s3://${1#*://}\" -"},
    {"cos://", "aws s3 cp --endpoint-url \"$ENDPOINT\" \"s3://${1#*://}\" -"},
    {"obs://", "aws s3 cp --endpoint-url \"$ENDPOINT\" \"s3://${1#*://}\" -"},
    {"oss://", "ossutil cat \"$1\""}, {"gs://", "gcloud storage cat \"$1\""},
    {"http://", "curl -sSf --retry 5 \"$1\""}, {"https://", "curl -sSf --retry 5 \"$1\""}};

/* NULL: the path is not one of a store. */
static const char *store_command(const char *path) {
    for (size_t i = 0; i < CO_ARRAY_LEN(stores); i++) {
        if (strncmp(path, stores[i].scheme, strlen(stores[i].scheme)) == 0) {
            return stores[i].command;
        }
    }
    return strstr(path, "://") ? "COMMAND \"$1\"" : NULL;
}

/* stat has failed with e. */
static int missing(const char *path, int e, struct co_err *err) {
    const char *command = e == ENOENT ? store_command(path) : NULL;

    return command ? co_err_set(err, CO_NOTFOUND,
                         "\"%s\" is no file of this machine, expected a pipe_command "
                         "that fetches it (docs/data.md): %s",
                         path, command)
                   : co_err_errno(err, e, "\"%s\"", path);
}

/* Adds a file, or all files of a folder and of those in it, in the order of their names. */
static int path_add(
    struct help_files *f, char *path_own, unsigned depth, const char *where, struct co_err *err);

static int directory_list(
    struct help_files *f, const char *path, unsigned depth, const char *where, struct co_err *err) {
    struct dirent **entries = NULL;
    int n, rc = 0;

    if (depth > DEPTH_MAX) {
        return co_err_set(err, CO_INVALID,
            "\"%s\": folders in more than %d folders, or a link that leads back", path, DEPTH_MAX);
    }
    n = scandir(path, &entries, is_data, by_name);
    if (n < 0) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    for (int i = 0; i < n; i++) {
        if (rc == 0) {
            rc =
                path_add(f, co_xasprintf("%s/%s", path, entries[i]->d_name), depth + 1, where, err);
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int path_add(
    struct help_files *f, char *path_own, unsigned depth, const char *where, struct co_err *err) {
    CO_AUTOFREE char *path = path_own;
    struct stat st;

    if (is_fetched(f, path)) {
        return file_add(f, co_steal_ptr(path), where, err);
    }
    if (stat(path, &st) < 0) {
        return missing(path, errno, err);
    }
    if (S_ISDIR(st.st_mode)) {
        return directory_list(f, path, depth, where, err);
    }
    /* Of a folder, only files: a pipe or a socket in it is nobody's data. */
    return depth == 0 || S_ISREG(st.st_mode) ? file_add(f, co_steal_ptr(path), where, err) : 0;
}

static bool is_list(const char *path) {
    size_t len = strlen(path);
    struct stat st;

    return len > 5 && strcmp(path + len - 5, ".list") == 0 &&
           !(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* A name in the list at path: used as it is if it is absolute or exists; otherwise relative to the
 * list's directory.  What nobody can look at exists. */
static char *name_resolve(const struct help_files *f, const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    struct stat st;

    if (name[0] == '/' || !slash || is_fetched(f, name) || store_command(name) ||
        stat(name, &st) == 0 || (errno != ENOENT && errno != ENOTDIR)) {
        return co_xstrdup(name);
    }
    return co_xasprintf("%.*s/%s", (int)(slash - path), path, name);
}

static void name_trim(char *name) {
    size_t len = strlen(name);

    while (len > 0 && (name[len - 1] == ' ' || name[len - 1] == '\t')) {
        name[--len] = '\0';
    }
}

static int list_read(struct help_files *f, const char *path, struct co_err *err) {
    CO_AUTOBUF struct co_buf text = CO_BUF(LIST_MAX);
    char *rest = NULL;
    int rc = co_file_read(path, LIST_MAX, &text, err);

    if (rc == 0 && text.data && strlen(text.data) != text.len) {
        return co_err_set(err, CO_INVALID, "\"%s\" is not a list of files: it holds a NUL", path);
    }
    bool marked =
        rc == 0 && text.data && text.len >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0;
    for (char *name = rc == 0 && text.data ? strtok_r(text.data + (marked ? 3 : 0), "\r\n", &rest)
                                           : NULL;
         rc == 0 && name; name = strtok_r(NULL, "\r\n", &rest)) {
        name += strspn(name, " \t");
        name_trim(name);
        if (name[0] != '\0') {
            rc = path_add(f, name_resolve(f, path, name), 0, path, err);
        }
    }
    return rc;
}

/* ---- whose they are ------------------------------------------------------------------------- */

static int suffix_parse(const char *path, uint64_t *ret, struct co_err *err) {
    const char *slash = strrchr(path, '/'), *dash = strchr(slash ? slash : path, '-');
    int64_t n = -1;

    if (!dash || co_parse_i64("", dash + 1, 0, INT64_MAX, &n, NULL) < 0) {
        return co_err_set(err, CO_INVALID,
            "\"%s\": expected a number behind the first \"-\" of its name, as train.txt-00000",
            path);
    }
    *ret = (uint64_t)n;
    return 0;
}

/* Whether file i of n belongs to the worker. */
static int file_own(const struct rt_share *share, const char *path, size_t i, size_t n,
    bool *ret_own, struct co_err *err) {
    uint64_t number = i;
    int rc = 0;

    if (share->by == RT_SHARE_BLOCKS) {
        size_t base = n / share->workers, more = n % share->workers, w = share->worker;
        size_t first = w * base + (w < more ? w : more);

        *ret_own = i >= first && i < first + base + (w < more);
        return 0;
    }
    if (share->by == RT_SHARE_SUFFIX) {
        rc = suffix_parse(path, &number, err);
    }
    *ret_own = number % share->workers == share->worker;
    return rc;
}

static int files_share(struct help_files *f, const struct rt_share *share, struct co_err *err) {
    size_t all = f->n, kept = 0;

    f->by_line = (share->by == RT_SHARE_MIXED && share->workers > 1) ||
                 (share->by != RT_SHARE_SUFFIX && all < share->workers);
    if (f->by_line) {
        (void)snprintf(f->description, sizeof(f->description),
            "1/%" PRIu32 " of the lines of %zu %s", share->workers, all,
            all == 1 ? "file" : "files");
        return 0;
    }
    for (size_t i = 0; i < all; i++) {
        char *path = co_steal_ptr(f->paths[i]);
        bool own = false;
        int rc = file_own(share, path, i, all, &own, err);

        if (rc < 0 || !own) {
            free(path);
        } else {
            f->paths[kept++] = path;
        }
        if (rc < 0) {
            return rc; /* the caller frees the array; entries before i are NULL already */
        }
    }
    f->n = kept;
    (void)snprintf(f->description, sizeof(f->description), "%zu of %zu %s", kept, all,
        all == 1 ? "file" : "files");
    return 0;
}

/* The files of a pattern, in the order of their names. */
static int pattern_add(struct help_files *f, const char *pattern, struct co_err *err) {
    glob_t found = {0};
    int rc = glob(pattern, GLOB_ERR, NULL, &found);

    if (rc == GLOB_NOMATCH) {
        rc = co_err_set(err, CO_NOTFOUND, "\"%s\": no file has a name like that", pattern);
    } else if (rc != 0) {
        rc = co_err_errno(err, rc == GLOB_NOSPACE ? ENOMEM : errno, "\"%s\"", pattern);
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
        rc = path_add(f, co_xstrdup(found.gl_pathv[i]), 0, pattern, err);
    }
    globfree(&found);
    return rc;
}

/* What is there under that name is no pattern, whatever characters it has. */
static bool is_pattern(const struct help_files *f, const char *path) {
    struct stat st;

    return strpbrk(path, "*?[") && !is_fetched(f, path) && lstat(path, &st) < 0;
}

/* Adds what a path of the caller names. */
static int argument_add(struct help_files *f, const char *path, struct co_err *err) {
    size_t before = f->n;
    struct stat st;

    /* Before it is taken for a pattern or a list, which would be looked for here. */
    if (!is_fetched(f, path) && store_command(path) && stat(path, &st) < 0) {
        return missing(path, errno, err);
    }
    if (is_list(path) && !is_fetched(f, path)) {
        CO_TRY(list_read(f, path, err));
    } else if (is_pattern(f, path)) {
        CO_TRY(pattern_add(f, path, err));
    } else {
        CO_TRY(path_add(f, co_xstrdup(path), 0, path, err));
    }
    return f->n > before ? 0 : co_err_set(err, CO_NOTFOUND, "\"%s\" holds no data file", path);
}

int help_files_find(const char *const *paths, size_t n, const struct rt_share *share,
    struct help_files *files, struct co_err *err) {
    static const struct rt_share whole = {.workers = 1};
    CO_CLEANUP(help_files_done) struct help_files f = {.fetched = files->fetched};

    share = share ? share : &whole;
    if (share->worker >= share->workers || share->by >= RT_SHARES) {
        return co_err_set(err, CO_INVALID, "worker %" PRIu32 " of %" PRIu32 ", shared by %d",
            share->worker, share->workers, (int)share->by);
    }
    for (size_t i = 0; i < n; i++) {
        CO_TRY(argument_add(&f, paths[i], err));
    }
    CO_TRY(files_share(&f, share, err));
    *files = f;
    memset(&f, 0, sizeof(f));
    return 0;
}
