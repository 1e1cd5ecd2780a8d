/* What a job asks for in vain: it is valid, and carried out, but a part of it never has an effect,
 * or waits for what cannot come.  Pure. */
#pragma once

#include "common/json/json.h"

/* path: of the job; message: one line that begins with it. */
typedef void (*opc_vain_fn)(void *arg, const char *path, const char *message);

/* Calls fn for each rule of failurePolicy that fits no pod, or none that the rules before it leave,
 * and for a gang that is larger than the job; returns how often. */
size_t opc_vain_find(const json_t *spec, opc_vain_fn fn, void *arg);
