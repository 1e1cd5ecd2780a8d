/* Tables in checkpoints: how one is described there, whether a saved table fits a table of the job,
 * and how its rows are converted.  For servers and trainers. */
#pragma once

#include "runtime/train/ckpt/ckpt.h"
#include "runtime/train/ps/spec.h"

/* Fills *ret with the description of a table for a checkpoint. */
void ps_table_describe(const struct ps_table *t, struct ckpt_table *ret);
/* The spec of a saved table; its strings are those of `saved`. */
struct rt_table_spec ps_table_spec_of(const struct ckpt_table *saved);

/* Whether both have the same optimizer rule.  If not, a load drops the saved state. */
bool ps_fit_same_rule(const struct ps_table *t, const struct ckpt_table *saved);
/* Checks kind, shape, optimizer and size of the state.  CO_INVALID names the table and what
 * differs. */
CO_MUST_CHECK int ps_fit_check(
    const struct ps_table *t, const struct ckpt_table *saved, struct co_err *err);
/* Whether the counts that the table's evict policy keeps of each row are taken from saved rows:
 * they have the same meaning there. */
bool ps_fit_keeps(const struct ps_table *t, const struct ckpt_table *saved);
/* Converts a saved row (little-endian, at any address) to the ps_table_row floats of the table.  If
 * the rules differ, the state is that of a new row; counts that are not taken are 0. */
void ps_fit_row(
    const struct ps_table *t, const struct ckpt_table *saved, const void *row, float *ret_row);
/* Logs that counts are not taken, if so. */
void ps_fit_say(const struct ps_table *t, const struct ckpt_table *saved);
