/* Whatever a program says last: one of its lines is found, within the text. */
#include "common/cause.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = size ? (const char *)data : "";
    size_t len = 0;
    const char *line = co_cause_line(text, size, &len);
    if (len) {
        assert(line >= text && line + len <= text + size);
        assert(!memchr(line, '\n', len) && !memchr(line, '\r', len));
    }
    return 0;
}
