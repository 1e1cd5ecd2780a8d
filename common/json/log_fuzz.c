/* Any bytes as message and value: one line comes out, printable, and as JSON it parses. */
#include "common/log.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t logged(const char *text, enum co_log_format format, char *ret, size_t max) {
    static int fd[2];
    if (!fd[1]) {
        if (pipe2(fd, O_CLOEXEC | O_NONBLOCK)) {
            abort();
        }
        co_log_set_fd(fd[1]);
    }
    co_log_setup(CO_LOG_INFO, format);
    co_log_info("fuzz", CO_S("text", text), CO_I("n", 1));
    ssize_t n = read(fd[0], ret, max - 1);
    if (n < 1) {
        abort();
    }
    ret[n] = '\0';
    return (size_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char line[1 << 16];
    CO_AUTOFREE char *text = co_xstrndup((const char *)data, size);
    for (int i = 0; i < 2; i++) {
        size_t n = logged(text, i ? CO_LOG_JSON : CO_LOG_LOGFMT, line, sizeof(line));
        if (strlen(line) != n || line[n - 1] != '\n') {
            abort();
        }
        for (size_t k = 0; k + 1 < n; k++) {
            if ((unsigned char)line[k] < ' ' || line[k] == 0x7f) {
                abort();
            }
        }
        CO_AUTOJSON json_t *parsed = NULL;
        if (i && co_json_parse(line, n, &parsed, NULL)) {
            abort();
        }
    }
    return 0;
}
