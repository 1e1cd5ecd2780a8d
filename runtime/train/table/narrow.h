/* Converts floats to and from the types of tables and frames: f32, f16 or bf16, little-endian.
 * Pure. */
#pragma once

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/rt.h"

/* "f32", "f16" or "bf16"; NULL or "": f32.  CO_INVALID names `what`. */
CO_MUST_CHECK int table_storage_parse(
    const char *what, const char *text, enum rt_dtype *ret, struct co_err *err);
const char *table_storage_name(enum rt_dtype t);

/* Bytes of a value: 4 or 2. */
static inline size_t table_storage_size(enum rt_dtype t) {
    return t == RT_F32 ? 4 : 2;
}

/* The largest finite value. */
static inline float table_largest(enum rt_dtype t) {
    return t == RT_F16 ? 65504.0F : t == RT_BF16 ? 0x1.fep127F : FLT_MAX;
}

void table_widen(enum rt_dtype from, float *ret, const void *values, size_t n);
/* Rounds to nearest, ties to even.  For f32, ret may be equal to values. */
void table_narrow(enum rt_dtype to, void *ret, const float *values, size_t n);
/* The same for what a table stores: a finite value beyond the range of the type becomes the largest
 * one.  An infinite value would never leave its row, and rt_load refuses it. */
void table_narrow_within(enum rt_dtype to, void *ret, const float *values, size_t n);
/* As table_narrow_within, but rounds up or down at random, so that the expected result is the
 * value.  *random: the state of the generator.  to: not f32. */
void table_narrow_at_random(
    enum rt_dtype to, void *ret, const float *values, size_t n, uint64_t *random);
