/* Finds files, passes over blank lines, and sends answers. */
#include "examples/data/lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/mem.h"

char *da_file_find(const char *dir, const char *name) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);
    CO_AUTOFREE char *packed = co_xasprintf("%s.gz", path);
    bool only = access(path, F_OK) < 0 && errno == ENOENT && access(packed, F_OK) == 0;

    return only ? co_steal_ptr(packed) : co_steal_ptr(path);
}

static const char mark[] = "GENERATED";

bool da_is_users(const char *dir, const char *name) {
    CO_AUTOFREE char *path = da_file_find(dir, name);
    CO_AUTOFREE char *marked = co_xasprintf("%s/%s", dir, mark);

    return access(path, F_OK) == 0 && access(marked, F_OK) < 0;
}

int da_mark(const char *dir, bool generated, struct co_err *err) {
    static const char text[] =
        "What is generated next replaces this data. To keep the data, remove this file.\n";
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, mark);

    if (generated) {
        return co_file_write(path, text, sizeof(text) - 1, 0644, err);
    }
    return unlink(path) < 0 && errno != ENOENT ? co_err_errno(err, errno, "\"%s\"", path) : 0;
}

int da_line_next(struct rt_input *input, struct da_text *ret_line, struct co_err *err) {
    struct da_text line = {NULL, 0};
    int rc;

    do {
        rc = rt_input_next(input, &line.at, &line.len, err);
        line = rc == 0 && line.at ? da_trim(line) : line;
    } while (rc == 0 && line.at && line.len == 0);
    *ret_line = line;
    return rc;
}

int da_answer_end(struct co_err *err) {
    if (fflush(stdout) != 0) {
        return co_err_errno(err, errno, "cannot write to stdout");
    }
    if (ferror(stdout)) { /* an earlier write, whose errno is gone */
        return co_err_set(
            err, CO_NORESOURCE, "cannot write to stdout: a full disk, or its reader has ended");
    }
    return 0;
}
