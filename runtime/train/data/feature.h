/* What a network gets for the fields of click data.  Pure.
 *
 *     number i      (x - min_i) / range_i with the fixed tables in feature.c
 *     category c    FNV-1a (64 bits) over the decimal column number and the value, modulo the
 *                   vocabulary
 *
 * The hash must never change: a feature needs the same id in every process, on every machine, and
 * when a saved model is loaded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DA_CRITEO_NUMBERS = 13, DA_CRITEO_CATEGORIES = 26, DA_CRITEO_CATEGORY = 14 };

/* The id of a value (len bytes) in a column (1 to 9999); vocabulary 0: any 64 bits. */
uint64_t da_feature_id(unsigned column, const char *value, size_t len, uint64_t vocabulary);
/* What the network gets for x as number i of Criteo's. */
float da_feature_scale(size_t i, double x);
