/* Text of any process. */
#include "runtime/tools/top/samples.h"

#include <stdint.h>

#include "runtime/tools/top/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct top_samples a = {0}, b = {0};
    struct co_err err = {0};
    size_t cut = size / 2;
    if (top_samples_parse((const char *)data, cut, 1, &a, &err) == 0 &&
        top_samples_parse((const char *)data + cut, size - cut, 2, &b, &err) == 0) {
        struct top_target t = {.name = "a:1", .now = &b, .before = &a};
        CO_AUTOBUF struct co_buf text = CO_BUF(1 << 16);
        (void)!top_table_print(&t, 1, &text, &err);
    }
    top_samples_done(&a);
    top_samples_done(&b);
    return 0;
}
