/* What the training library was built with and can load on this machine, for `paddlerun version
 * -v`. */
#pragma once

struct part;

/* Prints a line for each library: its name, a tab, its version or why it cannot be loaded.  Returns
 * an exit code.  The argument is not used. */
int selfcheck_libraries(const struct part *unused);
