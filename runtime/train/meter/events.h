/* Writes TensorBoard's event files: named numbers over steps. One file per process and directory.
 * One thread at a time. */
#pragma once

#include <stdint.h>

#include "common/buf.h"

struct meter_events;

/* Creates dir and a new file in it. The error names what could not be created. */
CO_MUST_CHECK int meter_events_open(const char *dir, struct meter_events **ret, struct co_err *err);
/* Writes one number; it is in the file when this returns. */
CO_MUST_CHECK int meter_events_add(
    struct meter_events *e, uint64_t step, const char *name, double value, struct co_err *err);
void meter_events_close(struct meter_events *e); /* NULL allowed */

/* The bytes of a record, for tests. name NULL: the first record, which has the version. */
CO_MUST_CHECK int meter_events_record(double wall, uint64_t step, const char *name, double value,
    struct co_buf *ret, struct co_err *err);
