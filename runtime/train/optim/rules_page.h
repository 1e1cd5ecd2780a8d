/* docs/rules.md, printed from the tables of this folder. */
#pragma once

#include "common/buf.h"

CO_MUST_CHECK int optim_markdown(struct co_buf *to, struct co_err *err);
