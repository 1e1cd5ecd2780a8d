/* Job files for the commands that read them: YAML or JSON, "-" is standard input, a directory
 * means its *.yaml, *.yml and *.json files in order of their names. */
#pragma once

#include "common/yaml.h"

/* One document.  y tells lines; it and obj are borrowed. */
typedef int (*op_document_fn)(
    void *arg, const char *file, const struct co_yaml *y, json_t *obj, struct co_err *err);

/* Calls fn for every document; stops at the first error, its own or fn's. */
CO_MUST_CHECK int op_files_read(const char *path, op_document_fn fn, void *arg, struct co_err *err);
/* True for a PaddleJob of our group, by kind and apiVersion. */
bool op_files_is_job(const json_t *obj);
