/* Writes the launcher's own log lines to stderr, in the formats of Paddle's loggers:
 *     LAUNCH INFO 2022-05-18 11:53:09,773 text                      OPTIONS_FORMAT_3,
 * OPTIONS_FORMAT_2_3 INFO 2021-05-06 12:14:26,890 launch_utils.py:472] text OPTIONS_FORMAT_2_0 A
 * blocked stream delays the launcher by at most a second per line; the line is lost then. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "runtime/launch/options/options.h"

enum node_log_level { NODE_LOG_DEBUG, NODE_LOG_INFO, NODE_LOG_WARNING, NODE_LOG_ERROR };

struct node_log {
    enum options_format format;
    enum node_log_level level; /* lines below it are not written */
    int out, err;              /* non-blocking descriptions of stdout and stderr, if possible */
};

void node_log_open(const struct options *o, struct node_log *ret);
void node_log_close(struct node_log *s);

void node_log(const struct node_log *s, enum node_log_level level, const char *fmt, ...)
    CO_PRINTF(3, 4);
/* where: the place in Paddle's source that OPTIONS_FORMAT_2_0 shows, "launch_utils.py:472". */
void node_log_at(const struct node_log *s, enum node_log_level level, const char *where,
    const char *fmt, ...) CO_PRINTF(4, 5);
/* Writes the data unchanged to stdout. */
void node_log_out(const struct node_log *s, const char *data, size_t len);
