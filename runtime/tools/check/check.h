/* `paddlerun check`: proves in seconds that a machine, or the container it runs in, can train.
 *
 * Every check is a process of its own that gets a deadline: a disk that hangs or a name server that
 * does not answer costs its own line, not the others.  Those that need the training library are
 * made by the program paddle-check, which lies beside paddlerun; where only the launcher is
 * installed they are skipped.  Nothing of the job that the environment describes is touched: ports
 * and addresses are the check's own, on the loopback. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Also exit codes of the processes; paddle-check never skips. */
enum check_result { CHECK_OK, CHECK_FAILED, CHECK_SKIPPED };

enum { CHECK_TEXT_MAX = 1024 };

struct check_outcome {
    const char *name; /* static */
    enum check_result result;
    int64_t ms;
    char text[CHECK_TEXT_MAX]; /* one line: what was done, or what is wrong */
};

/* dir: where files are written; timeout_ms: of each check. */
struct check_options {
    const char *dir;
    int64_t timeout_ms;
};

enum { CHECK_COUNT = 7 };

/* Makes check i of CHECK_COUNT; from the main thread. */
void check_run(size_t i, const struct check_options *options, struct check_outcome *ret);

/* The path of paddle-check; false: it is not beside this program, nor in PATH. */
bool check_helper(char *ret, size_t size);
/* The lines that paddle-check prints for these words (NULL at the end), as struct check_outcome
 * has one; CO_NOTFOUND: it is not here. */
CO_MUST_CHECK int check_helper_output(
    const char *word, int64_t timeout_ms, char **ret_text, struct co_err *err);

/* ---- what a child of check_run does: a text of CHECK_TEXT_MAX bytes, and how it ended ---- */

typedef enum check_result (*check_fn)(const struct check_options *o, char *ret_text);

enum check_result check_clock(const struct check_options *o, char *ret_text);
enum check_result check_memory(const struct check_options *o, char *ret_text);
enum check_result check_disk(const struct check_options *o, char *ret_text);
/* The names of the job that the environment describes. */
enum check_result check_names(const struct check_options *o, char *ret_text);
