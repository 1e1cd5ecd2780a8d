/* Text of any process. */
#include <stdint.h>

#include "runtime/launch/top/samples.h"
#include "runtime/launch/top/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rl_samples a = {0}, b = {0};
    struct co_err err = {0};
    size_t cut = size / 2;
    if (rl_samples_parse((const char *)data, cut, 1, &a, &err) == 0 &&
        rl_samples_parse((const char *)data + cut, size - cut, 2, &b, &err) == 0) {
        struct rl_target t = {.name = "a:1", .now = &b, .before = &a};
        CO_AUTOBUF struct co_buf text = CO_BUF(1 << 16);
        (void)!rl_table_print(&t, 1, &text, &err);
    }
    rl_samples_done(&a);
    rl_samples_done(&b);
    return 0;
}
