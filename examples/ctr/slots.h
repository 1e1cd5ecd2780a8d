/* Parses a line of PaddleRec's slot format: "slot:value" pairs, separated by blanks, in any order:
 *
 *     click:0 dense_feature:0.05 ... (13 of them) 1:737395 2:210498 ... 26:64724
 *
 * Numbers are not scaled; ids are whole numbers below 2^64, taken modulo the vocabulary.  As in
 * PaddleRec's reader, a missing slot has id 0, and missing numbers are 0.  A line without "click"
 * has no label.  Unknown slots are ignored, unless a line has no other.  A slot that occurs again
 * has several values, where s->more takes them.
 *
 * runtime/train/data has slots of any names.  These are the numbers 1 to 26, however they are
 * written; what is wrong with a line is said in terms of them and of --format; and the first slot
 * that the model does not have is named. */
#pragma once

#include "examples/ctr/sample.h"

/* As ctr_parser_parse. */
int ctr_slots_parse(struct da_text line, struct ctr_sample *s, struct da_why *why);
