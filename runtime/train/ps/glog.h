/* Log lines in the format of Paddle's log (glog), since its users search for them.  Each is written
 * to stderr with one write(2): "I1121 08:01:02.123456 12345 server.c:33] text".  Any thread. */
#pragma once

#include "common/err.h"

#define ps_log_info(...) ps_log('I', __FILE_NAME__, __LINE__, __VA_ARGS__)
#define ps_log_warn(...) ps_log('W', __FILE_NAME__, __LINE__, __VA_ARGS__)
#define ps_log_error(...) ps_log('E', __FILE_NAME__, __LINE__, __VA_ARGS__)

void ps_log(char level, const char *file, int line, const char *fmt, ...) CO_PRINTF(4, 5);
