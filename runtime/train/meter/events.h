/* Writes TensorBoard's event files: named numbers over steps. One file per process and directory.
 * One thread at a time. */
#pragma once

#include <stdint.h>

#include "common/buf.h"

struct rt_events;

/* Creates dir and a new file in it. The error names what could not be created. */
CO_MUST_CHECK int rt_events_open(const char *dir, struct rt_events **ret, struct co_err *err);
/* Writes one number; it is in the file when this returns. */
CO_MUST_CHECK int rt_events_add(
    struct rt_events *e, uint64_t step, const char *name, double value, struct co_err *err);
void rt_events_close(struct rt_events *e); /* NULL allowed */

/* The bytes of a record, for tests. name NULL: the first record, which has the version. */
CO_MUST_CHECK int rt_events_record(double wall, uint64_t step, const char *name, double value,
    struct co_buf *ret, struct co_err *err);
