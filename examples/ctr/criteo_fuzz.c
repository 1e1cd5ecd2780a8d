/* Parses any bytes as a line of both formats: no crash, and accepted values are in range. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/ctr/slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t ids[CTR_CRITEO_SLOTS];
    float dense[CTR_CRITEO_DENSE], label;
    char reason[CTR_CRITEO_REASON_MAX] = "";

    if (ctr_line_parse((const char *)data, size, 1000001, ids, dense, &label, reason) < 0) {
        if (reason[0] == '\0' || strlen(reason) >= sizeof(reason)) {
            abort();
        }
        return 0;
    }
    for (size_t i = 0; i < CTR_CRITEO_SLOTS; i++) {
        if (ids[i] >= 1000001) {
            abort();
        }
    }
    for (size_t i = 0; i < CTR_CRITEO_DENSE; i++) {
        if (!isfinite(dense[i])) {
            abort();
        }
    }
    if (!(label >= 0.0F && label <= 1.0F)) {
        abort();
    }
    return 0;
}
