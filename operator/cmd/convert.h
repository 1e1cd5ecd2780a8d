/* Jobs of relatives as ours: Kubeflow's PaddleJob (kubeflow.org/v1) and PaddleCloud's fields, by
 * tables.  Pure.  What the fields mean there: Kubeflow's training-operator 1.9, PaddleCloud 0.1. */
#pragma once

#include "common/json/json.h"

/* path: of the field in the job that was read, or NULL for the whole. */
typedef void (*opc_convert_note_fn)(void *arg, const char *path, const char *message);

/* A PaddleJob that this knows: of Kubeflow's group, or of our own. */
bool opc_convert_knows(const json_t *obj);

/* The same job as ours, owned by the caller.  What is changed in meaning and what has no place here
 * goes to note, each once. */
json_t *opc_convert(const json_t *obj, opc_convert_note_fn note, void *arg);
