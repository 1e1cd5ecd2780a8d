/* Files of a name, the lines of a reader that hold something, for programs that take no other, and
 * answers to them. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "runtime/rt.h"
#include "runtime/train/data/text.h"

/* dir/name, or, where only that is there, the same packed by gzip under its usual name.  The caller
 * frees it. */
char *da_file_find(const char *dir, const char *name);
/* Generated data may be replaced by other generated data, a user's never: a file in its directory
 * distinguishes them.  Whether the directory has that file, as da_file_find, and it is a user's. */
bool da_is_users(const char *dir, const char *name);
CO_MUST_CHECK int da_mark(const char *dir, bool generated, struct co_err *err);
/* The next line that is not blank, without blanks at its ends; at NULL: the end.  Borrowed until
 * the next call.  Errors are rt_input_next's. */
CO_MUST_CHECK int da_line_next(
    struct rt_input *input, struct da_text *ret_line, struct co_err *err);
/* After each answer that is printed on stdout.  An error where it does not arrive: the reader of
 * the answers may have ended, and the questions on stdin do not. */
CO_MUST_CHECK int da_answer_end(struct co_err *err);
