/* Which hosts a `cluster_train` job runs on, and how they talk to each other: the old conf.py, or
 * the same names in YAML.
 *
 * conf.py is read as data, never executed: NAME = string, number, True, False, or a list of
 * strings; comments and strings that stand alone are skipped; names that are not known, too.
 * Pure, but for cluster_conf_load, which reads the file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json/json.h"

enum { CLUSTER_HOSTS_MAX = 1000 };

struct cluster_host {
    char *user, *name; /* owned; user "": not given; name without brackets */
    uint16_t port;     /* 0: ssh's default */
};

struct cluster_conf {
    struct cluster_host *hosts; /* owned */
    size_t n_hosts;
    char *root_dir, *nic, *ld_library_path; /* owned */
    int64_t port, ports_num, ports_num_for_sparse;
};

/* CO_INVALID names file, line or key, and what was expected. */
CO_MUST_CHECK int cluster_conf_load(const char *path, struct cluster_conf *ret, struct co_err *err);
void cluster_conf_done(struct cluster_conf *c);
CO_MUST_CHECK int cluster_conf_decode(
    const char *name, const json_t *values, struct cluster_conf *ret, struct co_err *err);

/* Assignments of a Python file as an object.  name: for messages. */
CO_MUST_CHECK int cluster_python_read(
    const char *name, const char *text, size_t len, json_t **ret, struct co_err *err);
