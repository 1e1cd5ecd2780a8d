/* One word and one sentence: why a job is not running, or why it has failed.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

/* Fills reason, message and blocked of o, where nothing has been said yet. */
void op_reason_find(struct op_outlook *o, const struct op_world *w, const json_t *env);
/* Why a pod failed: the sentence, and the word, which is borrowed. */
const char *op_reason_of_pod(const struct op_pod *pod, char *ret_text, size_t size);
