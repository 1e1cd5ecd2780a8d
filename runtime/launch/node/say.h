/* The launcher's own lines, as Paddle's loggers write them: on stderr
 *     LAUNCH INFO 2022-05-18 11:53:09,773 text                      RT_FORMAT_3, RT_FORMAT_2_3
 *     INFO 2021-05-06 12:14:26,890 launch_utils.py:472] text        RT_FORMAT_2_0
 * A stream that nobody reads holds nobody up for more than a second a line. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "runtime/launch/options/options.h"

enum rt_say_level { RT_SAY_DEBUG, RT_SAY_INFO, RT_SAY_WARNING, RT_SAY_ERROR };

struct rt_say {
    enum rt_format format;
    enum rt_say_level level; /* lines below it are not written */
    int out, err;            /* non-blocking descriptions of stdout and stderr, or those */
};

void rt_say_open(const struct rt_options *o, struct rt_say *ret);
void rt_say_close(struct rt_say *s);

void rt_say(const struct rt_say *s, enum rt_say_level level, const char *fmt, ...) CO_PRINTF(3, 4);
/* where: "launch_utils.py:472", for RT_FORMAT_2_0. */
void rt_say_at(const struct rt_say *s, enum rt_say_level level, const char *where, const char *fmt,
    ...) CO_PRINTF(4, 5);
/* As it is, on stdout. */
void rt_say_out(const struct rt_say *s, const char *data, size_t len);
