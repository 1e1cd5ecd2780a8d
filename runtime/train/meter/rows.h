/* The rows, for meter.c. */
#pragma once

#include "runtime/train/meter/meter.h"

/* Names that come while the process runs; end with NULL. */
extern const char *rt_meter_tables[RT_METER_TABLES + 1];
extern const char *rt_meter_names[RT_METER_NAMES + 1];
extern struct co_metric rt_meter_rows[RT_M_COUNT];
