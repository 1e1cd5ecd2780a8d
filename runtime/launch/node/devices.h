/* What runs on what: the kinds of device that the launcher knows.  Finding them, and
 * docs/hardware.md, are from one table. */
#pragma once

#include "common/buf.h"
#include "runtime/launch/job/job.h"

/* Sets device, device_name and visible.  What variables list goes before what is in the directory
 * dev, which is /dev but in tests. */
void node_devices_find(const char *dev, struct job_node *n);

/* The tables of docs/hardware.md. */
CO_MUST_CHECK int node_devices_markdown(struct co_buf *ret, struct co_err *err);
