/* A temporary folder for a test's files. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

struct tk_dir {
    char path[64];
};

static inline void tk_dir_make(struct tk_dir *d, const char *name) {
    (void)snprintf(d->path, sizeof(d->path), "/tmp/%s.XXXXXX", name);
    if (!mkdtemp(d->path)) {
        abort();
    }
}

static inline void tk_dir_remove(const struct tk_dir *d) {
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf %s", d->path);
    if (system(command) != 0) {
        abort();
    }
}
