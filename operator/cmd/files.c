/* Reads job files, or those of a directory, and hands each document to a function. */
#include "operator/cmd/files.h"

#include "common/buf.h"
#include "operator/api/job.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOB_FILE_MAX = 16 << 20 };

bool op_files_is_job(const json_t *obj) {
    const char *api = co_json_str(obj, "apiVersion");
    return co_streq(co_json_str(obj, "kind"), OP_KIND) && api &&
           strncmp(api, OP_GROUP "/", strlen(OP_GROUP "/")) == 0;
}

static int read_stdin(struct co_buf *b, struct co_err *err) {
    for (;;) {
        int r = co_buf_reserve(b, 4096, err);
        if (r) {
            return r;
        }
        /* no deadline: whoever writes to it decides */
        ssize_t n = read(0, b->data + b->len, 4096);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return co_err_errno(err, errno, "cannot read standard input");
        }
        if (n == 0) {
            return co_buf_add(b, "", 0, err);
        }
        b->len += (size_t)n;
    }
}

static int read_file(const char *path, op_document_fn fn, void *arg, struct co_err *err) {
    bool in = strcmp(path, "-") == 0;
    const char *name = in ? "standard input" : path;
    CO_AUTOBUF struct co_buf text = CO_BUF(JOB_FILE_MAX);
    int r = in ? read_stdin(&text, err) : co_file_read(path, JOB_FILE_MAX, &text, err);
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    r = r ? r : co_yaml_open(name, text.data, text.len, &y, err);
    while (!r) {
        CO_AUTOJSON json_t *obj = NULL;
        struct co_err why = {0};
        r = co_yaml_next(y, &obj, &why);
        if (r == CO_NOTFOUND) {
            return 0;
        }
        r = r ? co_err_set(err, r, "%s", why.msg) : fn(arg, name, y, obj, err);
    }
    return r;
}

static int is_job_file(const struct dirent *d) {
    return fnmatch("*.yaml", d->d_name, FNM_PERIOD) == 0 ||
           fnmatch("*.yml", d->d_name, FNM_PERIOD) == 0 ||
           fnmatch("*.json", d->d_name, FNM_PERIOD) == 0;
}

int op_files_read(const char *path, op_document_fn fn, void *arg, struct co_err *err) {
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) || !S_ISDIR(st.st_mode)) {
        return read_file(path, fn, arg, err);
    }
    struct dirent **names = NULL;
    int n = scandir(path, &names, is_job_file, alphasort);
    if (n < 0) {
        return co_err_errno(err, errno, "cannot read directory %s", path);
    }
    int r = 0;
    for (int i = 0; i < n; i++) {
        CO_AUTOFREE char *file = co_xasprintf("%s/%s", path, names[i]->d_name);
        free(names[i]);
        r = r ? r : read_file(file, fn, arg, err);
    }
    free(names);
    return r;
}
