/* Reads job files, or those of a directory, and hands each document to a function. */
#include "operator/cmd/files.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/flag.h"
#include "operator/api/job.h"

enum { JOB_FILE_MAX = 16 << 20 };

bool opc_files_is_job(const json_t *obj) {
    const char *api = co_json_str(obj, "apiVersion");
    return co_streq(co_json_str(obj, "kind"), API_KIND) && api &&
           strncmp(api, API_GROUP "/", strlen(API_GROUP "/")) == 0;
}

static int read_stdin(struct co_buf *b, struct co_err *err) {
    for (;;) {
        CO_TRY(co_buf_reserve(b, 4096, err));
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

int opc_position_line(const struct opc_position *at, const char *path) {
    CO_AUTOFREE char *whole = co_xasprintf("%s%s", at->prefix, path);
    return co_yaml_line(at->yaml, whole);
}

/* Items of a PaddleJobList say neither what they are nor of which version. */
static void complete_item(json_t *item, const json_t *list) {
    if (!json_object_get(item, "kind")) {
        const char *version = co_json_str(list, "apiVersion");
        co_json_set(item, "kind", json_string(API_KIND));
        co_json_set(item, "apiVersion", version ? json_string(version) : NULL);
    }
}

static int read_document(
    const struct opc_position *at, json_t *obj, opc_object_fn fn, void *arg, struct co_err *err) {
    const char *kind = co_json_str(obj, "kind");
    json_t *items = json_object_get(obj, "items");
    bool jobs = co_streq(kind, API_KIND "List");
    if (!json_is_array(items) || !(jobs || co_streq(kind, "List"))) {
        return fn(arg, at, obj, err);
    }
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item) {
        CO_AUTOFREE char *prefix = co_xasprintf("items.%zu.", i);
        if (jobs && json_is_object(item)) {
            complete_item(item, obj);
        }
        CO_TRY(fn(arg, &(struct opc_position){at->file, at->yaml, prefix}, item, err));
    }
    return 0;
}

static int read_file(const char *path, opc_object_fn fn, void *arg, struct co_err *err) {
    bool in = strcmp(path, "-") == 0;
    const char *name = in ? "standard input" : path;
    CO_AUTOBUF struct co_buf text = CO_BUF(JOB_FILE_MAX);
    CO_TRY(in ? read_stdin(&text, err) : co_file_read(path, JOB_FILE_MAX, &text, err));
    CO_CLEANUP(co_yaml_closep) struct co_yaml *y = NULL;
    CO_TRY(co_yaml_open(name, text.data, text.len, &y, err));
    for (;;) {
        CO_AUTOJSON json_t *obj = NULL;
        struct co_err why = {0};
        int r = co_yaml_next(y, &obj, &why);
        if (r) {
            return r == CO_NOTFOUND ? 0 : co_err_set(err, r, "%s", why.msg);
        }
        CO_TRY(read_document(&(struct opc_position){name, y, ""}, obj, fn, arg, err));
    }
}

static int is_job_file(const struct dirent *d) {
    return fnmatch("*.yaml", d->d_name, FNM_PERIOD) == 0 ||
           fnmatch("*.yml", d->d_name, FNM_PERIOD) == 0 ||
           fnmatch("*.json", d->d_name, FNM_PERIOD) == 0;
}

static int read_path(const char *path, opc_object_fn fn, void *arg, struct co_err *err) {
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
        if (!r) {
            r = read_file(file, fn, arg, err);
        }
    }
    free(names);
    return r;
}

int opc_files_command(const char *usage, int argc, char *argv[], opc_object_fn fn, void *arg) {
    struct co_err err = {0};
    int rest = argc;
    int r = co_flags_parse(NULL, 0, argc, argv, &rest, &err);
    if (r == CO_CANCELED || (!r && rest == argc)) {
        co_flags_help(r ? stdout : stderr, usage, NULL, 0);
        return r ? 0 : 2;
    }
    for (; !r && rest < argc; rest++) {
        r = read_path(argv[rest], fn, arg, &err);
    }
    if (r) {
        (void)fprintf(stderr, "paddle-operator: %s\n", co_err_text(&err));
        return 1;
    }
    return -1;
}
