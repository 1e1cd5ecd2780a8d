/* Tables in checkpoints: how one is described there, whether a saved table fits a table of the job,
 * and how its rows are converted.  Pure functions, for servers and trainers. */
#pragma once

#include "runtime/train/ckpt/ckpt.h"
#include "runtime/train/ps/spec.h"

/* Fills *ret with the description of a table for a checkpoint. */
void rt_table_describe(const struct rt_table *t, struct rt_ckpt_table *ret);
/* The spec of a saved table; its strings are those of `saved`. */
struct rt_table_spec rt_table_spec_of(const struct rt_ckpt_table *saved);

/* Whether both have the same optimizer rule.  If not, a load drops the saved state. */
bool rt_fit_same_rule(const struct rt_table *t, const struct rt_ckpt_table *saved);
/* Checks kind, shape and size of the state.  CO_INVALID names `where` and what differs. */
CO_MUST_CHECK int rt_fit_check(const struct rt_table *t, const struct rt_ckpt_table *saved,
    const char *where, struct co_err *err);
/* Converts a saved row (little-endian, at any address) to the rt_table_row floats of the table.  If
 * the rules differ, the state is that of a new row.  The evict policy's counts are copied if they
 * have the size that the table's policy needs; otherwise they are 0. */
void rt_fit_row(
    const struct rt_table *t, const struct rt_ckpt_table *saved, const void *row, float *ret_row);
