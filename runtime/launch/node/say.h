/* Writes the launcher's own log lines to stderr, in the formats of Paddle's loggers:
 *     LAUNCH INFO 2022-05-18 11:53:09,773 text                      OPTIONS_FORMAT_3,
 * OPTIONS_FORMAT_2_3 INFO 2021-05-06 12:14:26,890 launch_utils.py:472] text OPTIONS_FORMAT_2_0 A
 * blocked stream delays the launcher by at most a second per line; the line is lost then. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "runtime/launch/options/options.h"

enum node_say_level { NODE_SAY_DEBUG, NODE_SAY_INFO, NODE_SAY_WARNING, NODE_SAY_ERROR };

struct node_say {
    enum options_format format;
    enum node_say_level level; /* lines below it are not written */
    int out, err;              /* non-blocking descriptions of stdout and stderr, if possible */
};

void node_say_open(const struct options *o, struct node_say *ret);
void node_say_close(struct node_say *s);

void node_say(const struct node_say *s, enum node_say_level level, const char *fmt, ...)
    CO_PRINTF(3, 4);
/* where: the place in Paddle's source that OPTIONS_FORMAT_2_0 shows, "launch_utils.py:472". */
void node_say_at(const struct node_say *s, enum node_say_level level, const char *where,
    const char *fmt, ...) CO_PRINTF(4, 5);
/* Writes the data unchanged to stdout. */
void node_say_out(const struct node_say *s, const char *data, size_t len);
