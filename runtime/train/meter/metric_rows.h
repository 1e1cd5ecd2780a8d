/* The rows, for meter.c. */
#pragma once

#include "runtime/train/meter/meter.h"

/* Names that come while the process runs; end with NULL. */
extern const char *meter_tables[METER_TABLES + 1];
extern const char *meter_names[METER_NAMES + 1];
extern struct co_metric meter_rows[METER_M_COUNT];
