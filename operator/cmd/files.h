/* Job files for the commands that read them: YAML or JSON, "-" is standard input, a directory
 * means its *.yaml, *.yml and *.json files in order of their names. */
#pragma once

#include "common/yaml/yaml.h"

/* Where an object was read.  All borrowed. */
struct opc_position {
    const char *file;
    const struct co_yaml *yaml;
    const char *prefix; /* of the object in its document: "", or "items.N." in a List */
};
/* The line of a path in the object. */
int opc_position_line(const struct opc_position *at, const char *path);

typedef int (*opc_object_fn)(
    void *arg, const struct opc_position *at, json_t *obj, struct co_err *err);

/* A command whose words are files and directories.  Calls fn for every object, which it may change:
 * each document, or the items of a document that is a List, as kubectl get prints it, or a
 * PaddleJobList.  Stops at the first error, its own or fn's.  Returns -1 when all were read, else
 * the exit code. */
CO_MUST_CHECK int opc_files_command(
    const char *usage, int argc, char *argv[], opc_object_fn fn, void *arg);
/* True for a PaddleJob of our group, by kind and apiVersion. */
bool opc_files_is_job(const json_t *obj);
