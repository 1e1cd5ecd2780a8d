/* The kinds of admission and eviction as the last part of docs/rules.md. */
#pragma once

#include "common/buf.h"

CO_MUST_CHECK int table_policy_markdown(struct co_buf *to, struct co_err *err);
