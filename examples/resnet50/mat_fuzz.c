/* Parses any bytes as a MATLAB file: no crash, and the result is within its bounds. */
#include "examples/resnet50/mat.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"labels", "tstid"};

    for (size_t i = 0; i < 2; i++) {
        uint32_t *values = NULL;
        struct co_err err = {0};
        size_t n = 0;

        if (rn_mat_parse(data, size, names[i], &values, &n, &err) < 0) {
            if (values || err.msg[0] == '\0') {
                abort();
            }
            continue;
        }
        if (n > RN_MAT_VALUES_MAX) {
            abort();
        }
        free(values);
    }
    return 0;
}
