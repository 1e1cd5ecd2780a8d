/* The standard streams of a program, at the beginning and at the end of its main.  What a program
 * prints is buffered and its calls are not checked one by one: a full disk, or a reader that has
 * gone, is noticed at the end. */
#pragma once

/* Opens /dev/null for each standard stream that is closed: otherwise the next file or connection
 * would get its number, and what is printed.  Such a stdout refuses writes, so that
 * co_stdio_close notices them.  Call it before anything is opened. */
void co_stdio_open(void);

/* The same for a main.  From then on a write beyond the limit of a file's size (ulimit -f) fails,
 * as on a full disk: SIGXFSZ would end the program without a word.  Who execs another program gives
 * that the signal back. */
void co_stdio_begin(void);

/* Returns the exit code: `code`, but 1 in place of 0 where something that was printed on stdout did
 * not arrive; stderr says so then, whatever the code is.  Nothing may be printed afterwards. */
int co_stdio_close(const char *program, int code);
