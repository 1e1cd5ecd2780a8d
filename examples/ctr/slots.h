/* Parses a line of PaddleRec's slot format: "slot:value" pairs, separated by blanks, in any order:
 *
 *     click:0 dense_feature:0.05 ... (13 of them) 1:737395 2:210498 ... 26:64724
 *
 * Numbers are not scaled; ids are taken modulo the vocabulary.  As in PaddleRec's reader, a missing
 * slot has id 0, and missing numbers are 0.  "click" is required.  Unknown slots are ignored. */
#pragma once

#include "examples/ctr/criteo.h"

/* See ctr_criteo_parse. */
int ctr_slots_parse(const char *line, size_t len, uint64_t vocabulary,
    uint64_t ret_ids[CTR_CRITEO_SLOTS], float ret_dense[CTR_CRITEO_DENSE], float *ret_label,
    char ret_reason[CTR_CRITEO_REASON_MAX]);

/* Parses a line of either format: one in slot format has a colon before any tab. */
int ctr_line_parse(const char *line, size_t len, uint64_t vocabulary,
    uint64_t ret_ids[CTR_CRITEO_SLOTS], float ret_dense[CTR_CRITEO_DENSE], float *ret_label,
    char ret_reason[CTR_CRITEO_REASON_MAX]);
