/* Finds the line in a program's output that says why it failed.  Pure. */
#pragma once

#include <stddef.h>

/* Returns the first of these that text has, without blanks at either end:
 *   1. the line that ends the last Python traceback
 *   2. the last line that names an error ("ValueError: ...", "ERROR ...", "FATAL ...", glog's
 *      "F0102 ...")
 *   3. the last line that is neither blank nor a report of progress ("INFO", "level=info", glog's
 *      "I0102 ...", "TRAIN --->")
 * It need not be the very last line, because transports and launchers often print more errors after
 * the cause.  But a last line that repeats the cause and adds to it, such as "worker 0: ValueError:
 * ...", is preferred.  Borrowed from text; *ret_len bytes, 0 when there is none. */
const char *co_cause_line(const char *text, size_t len, size_t *ret_len);
