/* Writes the launcher's own log lines to stderr, in the formats of Paddle's loggers:
 *     LAUNCH INFO 2022-05-18 11:53:09,773 text                      RL_FORMAT_3, RL_FORMAT_2_3
 *     INFO 2021-05-06 12:14:26,890 launch_utils.py:472] text        RL_FORMAT_2_0
 * A blocked stream delays the launcher by at most a second per line; the line is lost then. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "runtime/launch/options/options.h"

enum rl_say_level { RL_SAY_DEBUG, RL_SAY_INFO, RL_SAY_WARNING, RL_SAY_ERROR };

struct rl_say {
    enum rl_format format;
    enum rl_say_level level; /* lines below it are not written */
    int out, err;            /* non-blocking descriptions of stdout and stderr, if possible */
};

void rl_say_open(const struct rl_options *o, struct rl_say *ret);
void rl_say_close(struct rl_say *s);

void rl_say(const struct rl_say *s, enum rl_say_level level, const char *fmt, ...) CO_PRINTF(3, 4);
/* where: the place in Paddle's source that RL_FORMAT_2_0 shows, "launch_utils.py:472". */
void rl_say_at(const struct rl_say *s, enum rl_say_level level, const char *where, const char *fmt,
    ...) CO_PRINTF(4, 5);
/* Writes the data unchanged to stdout. */
void rl_say_out(const struct rl_say *s, const char *data, size_t len);
